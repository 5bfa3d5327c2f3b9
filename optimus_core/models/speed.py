"""How fast a job trains with p parameter servers and w workers (Optimus, EuroSys'18, section 3.2).

    asynchronous   w/f = t0 + t1*w/p + t2*w + t3*p
    synchronous    1/f = t0*M/w + t1 + t2*w/p + t3*w + t4*p
    all-reduce     1/f = t0*M/w + t1 + t2*w                   (p = 0; not in the paper)

f is in steps a second, M is the batch of the job; with a batch fixed per worker the first term is a constant. Beyond
the paper: if it is told how many nodes a size was on, c0 + c1*log2(w + p) is added on more than one; and computation
A (the first terms) may overlap with communication B (the others): (A^g + B^g)^(1/g) instead of A + B, g >= 1 chosen by
the samples. Errors are relative, since a slow size is as important as a fast one. All t stay positive, and start from
the usual shape: few samples move the level first, and each t only as far as they tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from optimus_core.models.arrays import Floats
from optimus_core.models.sizes import Form, SpeedKind

_OVERLAPS = (1.0, 1.5, 2.5)
"""Exponents of overlap that are tried."""
_DOUBTED = 1.0
"""What an exponent other than 1 must gain in log-likelihood to be taken."""
_SHAPE_SPREAD = 0.8
"""Standard deviation of the logarithm of each t around the usual shape, from job to job."""
_NOISE = 0.05
"""Relative standard deviation that a speed sample is believed to have at least, misfit of the formula included."""
_HUBER = 2.0
"""Errors beyond so many of these count linearly: one step beside a busy neighbour says little."""
_SATURATES = 10.0
"""Any number of samples at one size tells at most as much as so many: the formula's misfit does not average out."""
_ROUNDS, _LONGEST, _EXACT = 12, 2.0, 1e-4
"""Gauss-Newton steps at most, the longest change of a logarithm in one, and the change that ends them."""


class SpeedModel:
    """Fits steps a second by numbers of servers and workers.

    Args:
        kind: which of the three formulas.
        batch_per: what stays the same when the size changes: the batch of the ``job`` or of each ``worker``.
        batch_size: samples of that batch; only scales t0.

    Attributes:
        coefficients_: the t of the formula, in seconds (t0: seconds times worker a sample).
        crossing_: what more than one node adds (c0, c1), in seconds; empty if no sample told its nodes.
        overlap_: the exponent of overlap; 1 is none.
        sigma_: relative standard deviation of the samples around the fit.
        is_default_: nothing was seen yet: speeds are relative to that of one worker and one server.
    """

    def __init__(self, kind: SpeedKind, *, batch_per: str = "job", batch_size: int | None = None) -> None:
        self.kind = kind
        self.batch_per = batch_per
        self.batch_size = batch_size
        self.crossing_: tuple[float, ...] = ()
        self.overlap_ = 1.0

    @property
    def form(self) -> Form:
        """The formula."""
        return Form(self.kind, self.batch_per, float(self.batch_size or 1))

    @classmethod
    def default(cls, kind: SpeedKind, *, batch_per: str = "job", batch_size: int | None = None) -> SpeedModel:
        """Return the model of a job of which nothing was seen: the usual shape, speed 1 at one and one."""
        model = cls(kind, batch_per=batch_per, batch_size=batch_size)
        model._set(model.form.usual(crossing=False))
        model.sigma_, model.is_default_ = 0.5, True
        model._precision = shape_precision(model.form.terms)
        return model

    def fit(
        self,
        servers: npt.ArrayLike,
        workers: npt.ArrayLike,
        speeds: npt.ArrayLike,
        weights: npt.ArrayLike | None = None,
        *,
        nodes: npt.ArrayLike | None = None,
    ) -> SpeedModel:
        """Fit to measured ``speeds`` in steps a second; few samples are completed by the usual shape.

        Args:
            servers: parameter servers of each sample.
            workers: workers of each sample.
            speeds: steps a second.
            weights: of the samples, such as less for older ones.
            nodes: on how many nodes each sample's replicas were, if that is known of all.

        Raises:
            ValueError: no sample with a positive, finite speed is left.
        """
        p, w, f = (np.asarray(column, dtype=float).ravel() for column in (servers, workers, speeds))
        mass = np.ones_like(f) if weights is None else np.asarray(weights, dtype=float).ravel()
        usable = np.isfinite(f) & (f > 0) & (w > 0) & (mass > 0)
        if not usable.any():
            raise ValueError("a speed model needs one sample with a positive speed; use SpeedModel.default until then")
        p, w, f, mass = p[usable], w[usable], f[usable], mass[usable]
        n = None if nodes is None else np.asarray(nodes, dtype=float).ravel()[usable]
        seconds = np.log(w / f if self.kind is SpeedKind.PS_ASYNC else 1.0 / f)
        rows = self.form.features(np.maximum(p, 1) if self.kind is not SpeedKind.ALL_REDUCE else p, w, n)
        start, mass = np.log(self.form.usual(crossing=n is not None)), _saturated(rows, mass)
        fits = [self._fitted(rows, seconds, mass, start, overlap) for overlap in _OVERLAPS]
        costs = [cost + (_DOUBTED if overlap > 1 else 0.0) for overlap, (_, cost) in zip(_OVERLAPS, fits, strict=True)]
        best = int(np.argmin(costs))
        self.overlap_ = _OVERLAPS[best]
        self._set(np.exp(fits[best][0]))
        level, slopes = self._logs(rows, fits[best][0], self.overlap_)
        self.sigma_ = max(float(np.sqrt(mass @ np.minimum((level - seconds) ** 2, 1.0) / mass.sum())), _NOISE)
        self.is_default_ = False
        self._precision = slopes.T @ (slopes * mass[:, None]) / self.sigma_**2 + shape_precision(len(start))
        return self

    def predict(self, servers: npt.ArrayLike, workers: npt.ArrayLike, nodes: npt.ArrayLike | None = None) -> Floats:
        """Return steps a second at each size; 0 where there is no worker (or no server of a job that needs one)."""
        p, w, rows = self._rows(servers, workers, nodes)
        runs = (w > 0) & ((p > 0) | (self.kind is SpeedKind.ALL_REDUCE))
        t = np.array([*self.coefficients_, *self.crossing_])[: rows.shape[1]]
        compute = self.form.computes(len(t))
        seconds = _joined(rows @ (t * compute), rows @ (t * (1 - compute)), self.overlap_)
        per = w if self.kind is SpeedKind.PS_ASYNC else np.ones_like(w)
        return np.where(runs, per / np.maximum(seconds, 1e-12), 0.0).reshape(np.broadcast(servers, workers).shape)

    @property
    def tells_deviation(self) -> bool:
        """Whether it knows how sure it is of its coefficients: a model that was written by hand may not."""
        return self._precision.ndim == 2

    def uncertainty(self, servers: npt.ArrayLike, workers: npt.ArrayLike, nodes: npt.ArrayLike | None = None) -> Floats:
        """Return the relative standard deviation of what :meth:`predict` gives: larger far from what was seen."""
        _, _, rows = self._rows(servers, workers, nodes)
        slopes = np.zeros((len(rows), len(self._precision)))
        logs = np.log(np.maximum([*self.coefficients_, *self.crossing_], 1e-300))[: rows.shape[1]]
        slopes[:, : rows.shape[1]] = self._logs(rows, logs, self.overlap_)[1]
        variance = np.einsum("ij,jk,ik->i", slopes, np.linalg.pinv(self._precision, hermitian=True), slopes)
        width = np.hypot(self.sigma_, np.sqrt(np.clip(variance, 0.0, 4.0)))
        return np.asarray(np.minimum(width, 2.0)).reshape(np.broadcast(servers, workers).shape)

    def predict_interval(
        self, servers: npt.ArrayLike, workers: npt.ArrayLike, level: float = 0.8
    ) -> tuple[Floats, Floats]:
        """Return (low, high) steps a second between which the speed lies with probability of about ``level``."""
        width = NormalDist().inv_cdf(0.5 + level / 2) * self.uncertainty(servers, workers)
        middle = self.predict(servers, workers)
        return middle / (1 + width), middle * (1 + width)

    def slopes(self, sizes: Sequence[tuple[int, int]]) -> Floats:
        """Return what the logarithm of a step's seconds changes with that of each coefficient: (sizes, terms)."""
        pairs = np.asarray(sizes, dtype=float)
        rows = self._rows(pairs[:, 0], pairs[:, 1], None)[2]
        return self._logs(rows, np.log(np.maximum(self.coefficients_, 1e-300)), self.overlap_)[1]

    def shape_precision(self) -> Floats:
        """Return the precision of the logarithms of the coefficients before any sample."""
        return shape_precision(self.form.terms)

    def to_dict(self) -> dict[str, Any]:
        """Return the fitted model as plain data."""
        return {
            "kind": self.kind.value,
            "batch_per": self.batch_per,
            "batch_size": self.batch_size,
            "batch": self.form.batch,
            "coefficients": list(self.coefficients_),
            "crossing": list(self.crossing_),
            "overlap": self.overlap_,
            "sigma": self.sigma_,
            "is_default": self.is_default_,
            "precision": self._precision.tolist(),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> SpeedModel:
        """Return the model that :meth:`to_dict` wrote."""
        model = cls(SpeedKind(data["kind"]), batch_per=data["batch_per"], batch_size=data["batch_size"])
        model.coefficients_, model.sigma_ = tuple(data["coefficients"]), data["sigma"]
        model.crossing_, model.overlap_ = tuple(data.get("crossing", ())), data.get("overlap", 1.0)
        model.is_default_ = data["is_default"]
        model._precision = np.asarray(data["precision"], dtype=float)
        return model

    def _set(self, t: Floats) -> None:
        terms = self.form.terms
        if self.kind is not SpeedKind.PS_ASYNC and self.batch_per == "worker":
            t = np.append(0.0, t[1:])
        self.coefficients_ = tuple(float(x) for x in t[:terms])
        self.crossing_ = tuple(float(x) for x in t[terms:])

    def _rows(
        self, servers: npt.ArrayLike, workers: npt.ArrayLike, nodes: npt.ArrayLike | None
    ) -> tuple[Floats, Floats, Floats]:
        p, w = np.broadcast_arrays(np.asarray(servers, dtype=float), np.asarray(workers, dtype=float))
        p, w = p.ravel(), w.ravel()
        n = None
        if nodes is not None and self.crossing_:
            n = np.broadcast_to(np.asarray(nodes, dtype=float), np.broadcast(servers, workers).shape).ravel()
        least = p if self.kind is SpeedKind.ALL_REDUCE else np.maximum(p, 1)
        return p, w, self.form.features(least, np.maximum(w, 1), n)

    def _logs(self, rows: Floats, logs: Floats, overlap: float) -> tuple[Floats, Floats]:
        """Return the logarithm of the seconds at each row, and its slopes by the logarithms of the coefficients."""
        parts = rows * np.exp(logs)
        mask = self.form.computes(rows.shape[1])
        a, b = np.maximum(parts @ mask, 1e-300), np.maximum(parts @ (1 - mask), 1e-300)
        whole = _joined(a, b, overlap)
        slopes = parts * (
            mask * (((a / whole) ** overlap / a)[:, None]) + (1 - mask) * ((b / whole) ** overlap / b)[:, None]
        )
        return np.log(whole), slopes

    def _fitted(
        self, rows: Floats, seconds: Floats, mass: Floats, usual: Floats, overlap: float
    ) -> tuple[Floats, float]:
        """Return the logarithms of the coefficients that are likeliest, and minus the logarithm of how likely."""
        shape = shape_precision(len(usual))
        usual = usual + np.average(seconds - self._logs(rows, usual, overlap)[0], weights=mass)
        logs = usual
        for _ in range(_ROUNDS):
            level, slopes = self._logs(rows, logs, overlap)
            error = (seconds - level) / _NOISE
            pull = mass * np.minimum(1.0, _HUBER / np.maximum(np.abs(error), 1e-12))
            weighted = slopes.T * (pull / _NOISE**2)
            step = np.linalg.solve(weighted @ slopes + shape, weighted @ (seconds - level) - shape @ (logs - usual))
            logs = logs + np.clip(step, -_LONGEST, _LONGEST)
            if np.abs(step).max() < _EXACT:
                break
        size = np.abs(seconds - self._logs(rows, logs, overlap)[0]) / _NOISE
        capped = np.minimum(size, _HUBER)
        away = logs - usual
        return logs, float(mass @ (capped * (2 * size - capped)) + away @ shape @ away) / 2


def shape_precision(terms: int) -> Floats:
    """Return the precision of the logarithms of coefficients before any sample: their common level is free."""
    return np.asarray((np.eye(terms) - 1 / terms) / _SHAPE_SPREAD**2 + 1e-6 * np.eye(terms))


def _joined(compute: Floats, communicate: Floats, overlap: float) -> Floats:
    if overlap == 1.0:
        return compute + communicate
    return np.asarray((compute**overlap + communicate**overlap) ** (1 / overlap))


def _saturated(rows: Floats, mass: Floats) -> Floats:
    """Return the weights of samples with those at one size bounded together."""
    _, where = np.unique(rows, axis=0, return_inverse=True)
    where = where.ravel()
    together = np.bincount(where, mass)[where]
    return np.asarray(mass / (1 + together / _SATURATES))
