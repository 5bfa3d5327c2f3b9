"""Metrics, by way of Airflow's own statistics: StatsD, Datadog or OpenTelemetry, whatever ``[metrics]`` turns on.

What is emitted, and what a receiver must be told, stands in docs/metrics.md. The engine of Airflow's processes emits;
with metrics off it is the plain one. Nothing here may break a task: an error is one line in the log.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from airflow.sdk.configuration import conf

from optimus_core.engine.engine import Engine
from optimus_core.engine.metrics import direction, gauges, prediction_error
from optimus_core.engine.reconcile import Step
from optimus_core.engine.rounds import RoundReport
from optimus_core.store import FINAL

log = logging.getLogger(__name__)

GAUGE_SECONDS = 30.0
"""A process that drives jobs tells the gauges this often, and when a job has ended: OpenTelemetry repeats the last
value of each process, which must not be an old one for long."""


@dataclass(frozen=True)
class Metric:
    """One metric; its labels have few values, so no job is among them."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    labels: tuple[str, ...]


JOBS = Metric("optimus_jobs", "gauge", "jobs", ("cluster", "phase"))
REPLICAS = Metric("optimus_allocated_replicas", "gauge", "replicas", ("cluster", "role"))
CPU = Metric("optimus_allocated_cpu_cores", "gauge", "cores", ("cluster",))
MEMORY = Metric("optimus_allocated_memory_bytes", "gauge", "bytes", ("cluster",))
DEVICES = Metric("optimus_allocated_devices", "gauge", "devices", ("cluster", "resource"))
ROUNDS = Metric("optimus_scheduling_round_duration_seconds", "histogram", "seconds", ("cluster",))
RESIZES = Metric("optimus_resizes_total", "counter", "changes", ("cluster", "direction", "reason"))
FIT_FAILURES = Metric("optimus_model_fit_failures_total", "counter", "fits", ("cluster", "model"))
ENDED = Metric("optimus_jobs_ended_total", "counter", "jobs", ("cluster", "state", "reason"))
PREDICTION_ERROR = Metric("optimus_prediction_error_ratio", "histogram", "ratio", ("cluster",))
METRICS = (JOBS, REPLICAS, CPU, MEMORY, DEVICES, ROUNDS, RESIZES, FIT_FAILURES, ENDED, PREDICTION_ERROR)


def engine_type() -> type[Engine]:
    """Return the engine of this process: one that emits if Airflow's metrics are on, else the plain one."""
    return MeasuredEngine if any(_is_on(key) for key in ("statsd_on", "statsd_datadog_enabled", "otel_on")) else Engine


class MeasuredEngine(Engine):
    """An engine that tells what it does; for its callers it is the same as one that does not."""

    _told_at = float("-inf")
    _devices: frozenset[tuple[str, str]] = frozenset()
    """(cluster, resource) of all devices that were allocated once: their gauges must come down again."""

    def round(self, cluster: str = "") -> RoundReport | None:
        """Plan now, see :meth:`Engine.round`; tell how long it took and what it has changed."""
        began = time.monotonic()
        report = super().round(cluster)
        if report is not None:
            with _harmless():
                self._tell_round(report, time.monotonic() - began)
        return report

    def step(self, job_id: int) -> Step:
        """Drive a job, see :meth:`Engine.step`; tell of its end, and now and then how the clusters stand."""
        step = super().step(job_id)
        with _harmless():
            if step.final and step.phase in FINAL:  # the step that ended it; later ones only find it so
                self._tell_end(job_id)
            elif time.monotonic() - self._told_at > GAUGE_SECONDS:
                self._told_at = time.monotonic()
                with self.store.transaction() as tx:
                    clusters = tx.live_clusters()
                self._tell_gauges({self.settings.cluster, *clusters})
        return step

    def upkeep(self, cluster: str = "") -> dict[str, Step]:
        """Look after what nobody drives, see :meth:`Engine.upkeep`; tell which of these jobs have ended by that."""
        steps = super().upkeep(cluster)
        with _harmless():
            for name, step in steps.items():
                if step.final and step.phase in FINAL:
                    self._tell_end(self.job(name).id)
        return steps

    def _tell_round(self, report: RoundReport, seconds: float) -> None:
        _observe(ROUNDS, seconds, report.cluster)
        for change in report.changes:
            how = direction(change.before, change.after)
            if how is not None:
                _count(RESIZES, 1, report.cluster, how, change.reason["code"])
        self._tell_gauges([report.cluster], fitted=True)

    def _tell_end(self, job_id: int) -> None:
        with self.store.transaction() as tx:
            row = tx.peek_job(job_id)
        if row is None or row.state not in FINAL:
            return
        _count(ENDED, 1, row.cluster, row.state, (row.cause or {}).get("code", "unknown"))
        error = prediction_error(row)
        if error is not None:
            _observe(PREDICTION_ERROR, error, row.cluster)
        self._tell_gauges([row.cluster])

    def _tell_gauges(self, clusters: Iterable[str], *, fitted: bool = False) -> None:
        """Tell how clusters stand; ``fitted``: the models were fitted just now, so failures count."""
        for cluster in clusters:
            now = gauges(self.store, cluster)
            for phase, jobs in now.jobs.items():
                _set(JOBS, jobs, cluster, phase)
            for role, replicas in now.replicas.items():
                _set(REPLICAS, replicas, cluster, role)
            _set(CPU, now.allocated.get("cpu", 0) / 1000, cluster)
            _set(MEMORY, now.allocated.get("memory", 0), cluster)
            self._devices |= {(cluster, name) for name in now.allocated if name not in ("cpu", "memory")}
            for where, name in sorted(self._devices):
                if where == cluster:
                    _set(DEVICES, now.allocated.get(name, 0), cluster, name)
            for model, fits in now.failed_fits.items() if fitted else ():
                _count(FIT_FAILURES, fits, cluster, model)


@contextmanager
def _harmless() -> Iterator[None]:
    """Make of any error of what is emitted one line in the log."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - a metric is worth less than the job that it tells of
        log.warning("A metric can't be emitted (%s: %s)", type(error).__name__, error)


def _set(metric: Metric, value: float, *labels: str) -> None:
    _emit("gauge", metric, value, labels)


def _count(metric: Metric, amount: int, *labels: str) -> None:
    _emit("incr", metric, amount, labels)


def _observe(metric: Metric, value: float, *labels: str) -> None:
    """Give a histogram a value. StatsD times in milliseconds, of which its exporters make seconds again."""
    is_statsd = _is_on("statsd_on") or _is_on("statsd_datadog_enabled")
    _emit("timing", metric, value * 1000 if is_statsd else value, labels)


def _emit(how: str, metric: Metric, value: float, labels: tuple[str, ...]) -> None:
    tags = dict(zip(metric.labels, map(_word, labels), strict=True))
    emit: Callable[..., None] = getattr(_stats(), how)
    if _carries_tags():
        emit(metric.name, value, tags=tags)
    else:
        emit(".".join([metric.name, *tags.values()]), value)


def _word(value: str) -> str:
    """Return what every receiver takes as a label's value: ``nvidia_com_gpu``, as others name it too."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", value) or "_"


def _carries_tags() -> bool:
    """Say whether labels go beside the name. Plain StatsD has none: there they follow it, in their order."""
    return _is_on("statsd_datadog_enabled") or not _is_on("statsd_on") or _is_on("statsd_influxdb_enabled")


def _is_on(key: str) -> bool:
    return bool(conf.getboolean("metrics", key, fallback=False))


def _stats() -> Any:
    """Return Airflow's statistics. Tasks find them ready; the triggerer readies only its own copy of them."""
    from airflow.sdk.observability import stats
    from airflow.sdk.observability.metrics import stats_utils

    home = sys.modules[stats.initialize.__module__]
    if getattr(home, "_factory", stats_utils) is None:  # made anew it would forget what it has not sent yet
        legacy = conf.getboolean("metrics", "legacy_names_on", fallback=True)
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=legacy)
    return stats
