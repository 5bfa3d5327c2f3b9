"""How fast a job trains with p parameter servers and w workers (Optimus, EuroSys'18, section 3.2).

    asynchronous   w/f = t0 + t1*w/p + t2*w + t3*p
    synchronous    1/f = t0*M/w + t1 + t2*w/p + t3*w + t4*p
    all-reduce     1/f = t0*M/w + t1 + t2*w                   (p = 0; not in the paper)

f is in steps a second, M is the batch of the job; with a batch fixed per worker the first term is a constant. All t
are non-negative and linear after inversion, so one solve fits them; errors are relative, since a slow size is as
important as a fast one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls
from scipy.special import ndtri

from optimus_core.models.arrays import Floats as Array

_PRIOR_WEIGHT = 1.0
"""What the usual shape counts beside samples, all its points together, in samples."""
_GRID = [(p, w) for p in (1, 2, 4, 8) for w in (1, 2, 4, 8)]
_NOISE = 0.05
"""Least relative standard deviation that a speed sample is believed to have."""


class SpeedKind(StrEnum):
    """How the replicas of a job exchange what they have learned."""

    PS_ASYNC = "ps_async"
    PS_SYNC = "ps_sync"
    ALL_REDUCE = "allreduce"


_USUAL = {
    SpeedKind.PS_ASYNC: (0.8, 0.12, 0.02, 0.02),
    SpeedKind.PS_SYNC: (0.85, 0.05, 0.06, 0.015, 0.01),
    SpeedKind.ALL_REDUCE: (0.8, 0.15, 0.02),
}
"""Shares of a step's time at one worker and one server in a job that scales as most do."""


class SpeedModel:
    """Fits steps a second by numbers of servers and workers.

    Args:
        kind: which of the three formulas.
        batch_per: what stays the same when the size changes: the batch of the ``job`` or of each ``worker``.
        batch_size: samples of that batch; only scales t0.

    Attributes:
        coefficients_: the t of the formula, in seconds (t0: seconds times worker a sample).
        sigma_: relative standard deviation of the samples around the fit.
        is_default_: nothing was seen yet: speeds are relative to that of one worker and one server.
    """

    def __init__(self, kind: SpeedKind, *, batch_per: str = "job", batch_size: int | None = None) -> None:
        self.kind = kind
        self.batch_per = batch_per
        self.batch_size = batch_size

    @classmethod
    def default(cls, kind: SpeedKind, *, batch_per: str = "job", batch_size: int | None = None) -> SpeedModel:
        """Return the model of a job of which nothing was seen: the usual shape, speed 1 at one and one."""
        model = cls(kind, batch_per=batch_per, batch_size=batch_size)
        model.coefficients_ = model._usual()
        model.sigma_, model.is_default_ = 0.5, True
        model._precision = np.zeros((len(model.coefficients_), len(model.coefficients_)))
        return model

    def fit(
        self,
        servers: npt.ArrayLike,
        workers: npt.ArrayLike,
        speeds: npt.ArrayLike,
        weights: npt.ArrayLike | None = None,
    ) -> SpeedModel:
        """Fit to measured ``speeds`` in steps a second; few samples are completed by the usual shape.

        Raises:
            ValueError: no sample with a positive, finite speed is left.
        """
        p, w, f = (np.asarray(column, dtype=float).ravel() for column in (servers, workers, speeds))
        mass = np.ones_like(f) if weights is None else np.asarray(weights, dtype=float).ravel()
        usable = np.isfinite(f) & (f > 0) & (w > 0) & (mass > 0)
        if not usable.any():
            raise ValueError("a speed model needs one sample with a positive speed; use SpeedModel.default until then")
        p, w, f, mass = p[usable], w[usable], f[usable], mass[usable]
        rows = self._features(p, w) / self._inverse(w, f)[:, None]
        prior, pull = self._usual_rows(p, w, f)
        root = np.sqrt(np.concatenate([mass, np.full(len(prior), pull)]))
        matrix = np.concatenate([rows, prior]) * root[:, None]
        solved, _ = nnls(matrix, root)
        residuals = rows @ solved - 1
        seen = mass.sum()
        spread = float(np.sqrt((mass * residuals**2).sum() / seen))
        self.coefficients_ = tuple(float(t) for t in solved)
        self.sigma_ = float(np.hypot(max(spread, _NOISE), 0.2 / np.sqrt(len(np.unique(np.stack([p, w]), axis=1).T))))
        self.is_default_ = False
        self._precision = matrix.T @ matrix
        return self

    def predict(self, servers: npt.ArrayLike, workers: npt.ArrayLike) -> Array:
        """Return steps a second at each size; 0 where there is no worker (or no server of a job that needs one)."""
        p, w = np.broadcast_arrays(np.asarray(servers, dtype=float), np.asarray(workers, dtype=float))
        shape, p, w = p.shape, p.ravel(), w.ravel()
        runs = (w > 0) & ((p > 0) | (self.kind is SpeedKind.ALL_REDUCE))
        seconds = self._features(np.maximum(p, 1), np.maximum(w, 1)) @ np.asarray(self.coefficients_)
        per = w if self.kind is SpeedKind.PS_ASYNC else np.ones_like(w)
        return np.where(runs, per / np.maximum(seconds, 1e-12), 0.0).reshape(shape)

    def uncertainty(self, servers: npt.ArrayLike, workers: npt.ArrayLike) -> Array:
        """Return the relative standard deviation of what :meth:`predict` gives: larger far from what was seen."""
        p, w = np.broadcast_arrays(np.asarray(servers, dtype=float), np.asarray(workers, dtype=float))
        features = self._features(np.maximum(p.ravel(), 1), np.maximum(w.ravel(), 1))
        seconds = np.maximum(features @ np.asarray(self.coefficients_), 1e-12)
        rows = features / seconds[:, None]
        inverse = np.linalg.pinv(self._precision + 1e-9 * np.eye(len(self._precision)), hermitian=True)
        leverage = np.einsum("ij,jk,ik->i", rows, inverse, rows)
        return np.asarray(np.minimum(self.sigma_ * np.sqrt(1 + np.clip(leverage, 0, 24)), 2.0)).reshape(p.shape)

    def predict_interval(
        self, servers: npt.ArrayLike, workers: npt.ArrayLike, level: float = 0.8
    ) -> tuple[Array, Array]:
        """Return (low, high) steps a second between which the speed lies with probability of about ``level``."""
        middle, width = (
            self.predict(servers, workers),
            float(ndtri(0.5 + level / 2)) * self.uncertainty(servers, workers),
        )
        return middle / (1 + width), middle * (1 + width)

    def to_dict(self) -> dict[str, Any]:
        """Return the fitted model as plain data."""
        return {
            "kind": self.kind.value,
            "batch_per": self.batch_per,
            "batch_size": self.batch_size,
            "batch": self._batch,
            "coefficients": list(self.coefficients_),
            "sigma": self.sigma_,
            "is_default": self.is_default_,
            "precision": self._precision.tolist(),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> SpeedModel:
        """Return the model that :meth:`to_dict` wrote."""
        model = cls(SpeedKind(data["kind"]), batch_per=data["batch_per"], batch_size=data["batch_size"])
        model.coefficients_, model.sigma_ = tuple(data["coefficients"]), data["sigma"]
        model.is_default_ = data["is_default"]
        model._precision = np.asarray(data["precision"], dtype=float)
        return model

    @property
    def _batch(self) -> float:
        return float(self.batch_size or 1)

    def _features(self, p: Array, w: Array) -> Array:
        """One row a size: the factors of the t."""
        one = np.ones_like(w)
        if self.kind is SpeedKind.PS_ASYNC:
            return np.stack([one, w / p, w, p], axis=1)
        share = self._batch / w if self.batch_per == "job" else np.zeros_like(w)
        if self.kind is SpeedKind.PS_SYNC:
            return np.stack([share, one, w / p, w, p], axis=1)
        return np.stack([share, one, w], axis=1)

    def _inverse(self, w: Array, f: Array) -> Array:
        """What the formula is linear in: w/f or 1/f, in seconds."""
        return w / f if self.kind is SpeedKind.PS_ASYNC else 1.0 / f

    def _usual(self) -> tuple[float, ...]:
        first, *others = _USUAL[self.kind]
        if self.kind is SpeedKind.PS_ASYNC:
            shares = [first, *others]
        elif self.batch_per == "job":
            shares = [first / self._batch, *others]
        else:
            shares = [0.0, first + others[0], *others[1:]]
        ones = self._features(np.ones(1), np.ones(1))[0]
        whole = float(ones @ np.asarray(shares))
        return tuple(share / whole for share in shares)

    def _usual_rows(self, p: Array, w: Array, f: Array) -> tuple[Array, float]:
        """Points of the usual shape, at the level of the samples, and the weight of each."""
        usual = np.asarray(self._usual())
        level = np.exp(np.mean(np.log(self._inverse(w, f) / (self._features(np.maximum(p, 1), w) @ usual))))
        grid = np.asarray(_GRID, dtype=float)
        features = self._features(grid[:, 0], grid[:, 1])
        return features / (level * (features @ usual))[:, None], _PRIOR_WEIGHT / len(grid)
