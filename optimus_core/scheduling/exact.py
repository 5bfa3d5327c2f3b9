"""The exact choice of sizes, by integer programming: for problems small enough."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optimus_core.scheduling.prices import Flat
from optimus_core.scheduling.space import EPSILON as _EPSILON
from optimus_core.scheduling.space import Space
from optimus_core.scheduling.worths import Table


def solved(tables: Sequence[Table], flat: Flat, space: Space) -> list[int] | None:
    """Return the optimum by integer programming; None if the solver gives none.

    Variables: each size of each job, and what each pool borrows beyond what is kept for it.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # a second to import: only where jobs lack room
    from scipy.sparse import csr_array

    names, count = list(space.pools), len(flat.worth)
    pool = np.array([table.request.pool for table in tables])[flat.job]
    inside = {name: np.where(pool == name, flat.share.T, 0.0) for name in names}
    free = np.where(np.isin(pool, names), 0.0, flat.share.T)
    width, one = len(space.left), np.eye(len(space.left))
    rows = [np.hstack([free, *[one] * len(names)])]
    most = [space.left + _EPSILON]
    for number, (name, limits) in enumerate(space.pools.items()):
        lent = np.zeros((width, width * len(names)))
        lent[:, number * width : (number + 1) * width] = -one
        rows += [np.hstack([inside[name], lent]), np.hstack([inside[name], np.zeros_like(lent)])]
        most += [np.maximum(limits.kept - limits.used, 0.0), np.maximum(limits.ceiling - limits.used, 0.0) + _EPSILON]
    once = np.hstack([flat.job == np.arange(len(tables))[:, None], np.zeros((len(tables), width * len(names)))])
    found = milp(
        np.append(-flat.worth / max(float(flat.worth.max()), _EPSILON), np.zeros(width * len(names))),
        integrality=np.append(np.ones(count), np.zeros(width * len(names))),
        bounds=Bounds(0, np.append(np.ones(count), np.full(width * len(names), np.inf))),
        constraints=[
            LinearConstraint(csr_array(once.astype(float)), 1, 1),
            LinearConstraint(csr_array(np.vstack(rows)), -np.inf, np.concatenate(most)),
        ],
        options={"mip_rel_gap": 1e-9},
    )
    if found.x is None:
        return None
    chosen = np.flatnonzero(np.round(found.x[:count]) > 0)
    return (chosen - flat.starts).tolist() if len(chosen) == len(flat.starts) else None
