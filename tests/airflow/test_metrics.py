"""What a real receiver of StatsD or OpenTelemetry is sent by the engine of Airflow's processes."""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml
from optimus_airflow import metrics, settings

from optimus_core.engine.engine import Engine
from optimus_core.engine.identity import Identity
from optimus_core.job import Steps

ROOT = Path(__file__).parents[2]


class Receiver:
    """A StatsD server: remembers each value that comes by UDP."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**21)
        self.socket.setblocking(False)
        self.port = self.socket.getsockname()[1]

    def take(self):
        """Return what came of ours since the last time: name with labels -> its values, such as ``1|c``."""
        found = defaultdict(list)
        while True:
            try:
                name, value = self.socket.recv(2**16).decode().rsplit(":", 1)
            except BlockingIOError:
                return found
            if name.startswith("airflow.optimus_"):
                found[name.removeprefix("airflow.")].append(value)


@pytest.fixture
def receiver(home, monkeypatch):
    """A receiver, and an Airflow that sends to it labels as its configuration has them."""
    made = Receiver()
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_HOST", "127.0.0.1")
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_PORT", str(made.port))
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED", "True")
    initialize()
    yield made
    monkeypatch.undo()
    initialize()
    made.socket.close()


def initialize():
    """What Airflow does at the begin of each task."""
    from airflow.sdk._shared.observability.metrics.statsd_logger import SafeStatsdLogger
    from airflow.sdk.observability import stats
    from airflow.sdk.observability.metrics import stats_utils

    backend = sys.modules[stats.initialize.__module__]._backend
    if isinstance(backend, SafeStatsdLogger):
        backend.statsd.close()
    stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=True)


def submit(engine, job):
    return engine.submit(job, Identity.of_task("default", "digits", "run1", job.name)).job_id


def drive(engine, job_id, to="ended"):
    while not (step := engine.step(job_id)).final and step.phase != to:
        pass
    return step


def test_a_job_is_told_from_its_start_to_its_end(receiver, make_job):
    engine = settings.engine()
    job_id = submit(engine, make_job(workers=(2, 2), cpu="500m", STEPS=3))
    begun = receiver.take()
    assert begun["optimus_jobs,cluster=local,phase=blocked"] == ["1|g"]
    assert begun["optimus_jobs,cluster=local,phase=backing_off"] == ["0|g"]
    (took,) = begun["optimus_scheduling_round_duration_seconds,cluster=local"]
    assert re.fullmatch(r"\d+\.\d+\|ms", took)
    drive(engine, job_id, to="running")
    engine.round()
    runs = receiver.take()
    assert runs["optimus_jobs,cluster=local,phase=running"][-1] == "1|g"
    assert runs["optimus_allocated_replicas,cluster=local,role=worker"][-1] == "2|g"
    assert runs["optimus_allocated_cpu_cores,cluster=local"][-1] == "1.0|g"
    assert runs["optimus_allocated_memory_bytes,cluster=local"][-1] == f"{2 * 64 * 2**20}|g"
    drive(engine, job_id)
    engine.step(job_id)
    over = receiver.take()
    assert over["optimus_jobs_ended_total,cluster=local,state=succeeded,reason=finished"] == ["1|c"]
    assert over["optimus_jobs,cluster=local,phase=running"][-1] == "0|g"
    assert over["optimus_allocated_cpu_cores,cluster=local"][-1] == "0.0|g"
    assert not any(name.startswith("optimus_resizes_total") for name in {**begun, **runs, **over})


def test_a_change_of_size_is_told_with_its_direction_and_reason(receiver, make_job):
    engine = settings.engine()
    job_id = submit(engine, make_job(workers=(1, 3), STEPS=100_000))
    for workers in (3, 1, 2):
        report = runs_with(engine, job_id)
        receiver.take()
        engine.pin(report.name, "ann", workers=workers)
        if report.workers != workers:
            direction = "grow" if workers > report.workers else "shrink"
            told = {name: values for name, values in receiver.take().items() if "resizes" in name}
            assert told == {f"optimus_resizes_total,cluster=local,direction={direction},reason=pinned": ["1|c"]}
        runs_with(engine, job_id, workers)


def runs_with(engine, job_id, workers=None):
    """Drive a job until it runs, with so many workers if that is given."""
    while (report := engine.job_by_id(job_id)).phase != "running" or workers not in (None, report.workers):
        time.sleep(engine.step(job_id).look_again)
    return report


def test_how_far_off_the_prediction_was_is_told_at_the_end(receiver, make_job, monkeypatch):
    for key, value in (("YOUNG_STEPS", "0"), ("YOUNG_SECONDS", "0"), ("SPEED_WINDOW_SECONDS", "0.3")):
        monkeypatch.setenv(f"AIRFLOW__OPTIMUS__{key}", value)
    engine = settings.engine()
    job_id = submit(engine, make_job(STEPS=80, PAUSE=0.03, stop=Steps(80)))
    while not engine.step(job_id).final:
        engine.round()
    (error,) = receiver.take()["optimus_prediction_error_ratio,cluster=local"]
    assert re.fullmatch(r"\d+\.\d+\|ms", error)


def test_without_labels_their_values_follow_the_name(receiver, make_job, monkeypatch):
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED", "False")
    initialize()
    submit(settings.engine(), make_job())
    assert receiver.take()["optimus_jobs.local.blocked"] == ["1|g"]


def test_a_device_that_nobody_holds_any_more_comes_down(receiver, monkeypatch):
    from optimus_core.engine.metrics import Gauges

    engine, held = settings.engine(), [{"nvidia.com/gpu": 4}, {}]
    monkeypatch.setattr(metrics, "gauges", lambda *_: Gauges({}, {}, held.pop(0), {"convergence": 2}))
    engine.round()
    told = receiver.take()
    assert told["optimus_allocated_devices,cluster=local,resource=nvidia_com_gpu"] == ["4|g"]
    assert told["optimus_model_fit_failures_total,cluster=local,model=convergence"] == ["2|c"]
    engine.round()
    assert receiver.take()["optimus_allocated_devices,cluster=local,resource=nvidia_com_gpu"] == ["0|g"]


def test_who_drives_tells_the_gauges_now_and_then(receiver, make_job, monkeypatch):
    engine = settings.engine()
    job_id = submit(engine, make_job(STEPS=100_000))
    drive(engine, job_id, to="running")
    receiver.take()
    engine.step(job_id)
    assert receiver.take() == {}
    monkeypatch.setattr(metrics, "GAUGE_SECONDS", 0.0)
    engine.step(job_id)
    assert receiver.take()["optimus_jobs,cluster=local,phase=running"] == ["1|g"]


def test_an_end_that_only_the_beat_sees_is_told(receiver, make_job, monkeypatch):
    monkeypatch.setenv("AIRFLOW__OPTIMUS__HEARTBEAT_STALE_SECONDS", "0.01")
    engine = settings.engine()
    engine.request_stop(submit(engine, make_job()), by="ann")
    while engine.jobs(live=True):
        engine.upkeep()
    assert receiver.take()["optimus_jobs_ended_total,cluster=local,state=stopped,reason=stop_requested"] == ["1|c"]


@pytest.mark.parametrize(
    "broken", [pytest.param("gauges", id="the store"), pytest.param("_stats", id="Airflow's statistics")]
)
def test_an_error_is_one_line_in_the_log_and_breaks_nothing(receiver, make_job, monkeypatch, caplog, broken):
    def fail(*_):
        raise RuntimeError("it is down")

    engine = settings.engine()
    monkeypatch.setattr(metrics, broken, fail)
    with caplog.at_level(logging.WARNING, "optimus_airflow.metrics"):
        job_id = submit(engine, make_job(STEPS=1))
    assert [record.getMessage() for record in caplog.records] == [
        "A metric can't be emitted (RuntimeError: it is down)"
    ]
    assert drive(engine, job_id).phase == "succeeded"


def test_with_metrics_off_the_engine_is_the_plain_one(engine):
    assert type(engine) is Engine


OTLP = """
from airflow.observability.metrics import stats_utils
from airflow.observability import stats
stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=True)  # as a triggerer does
from optimus_airflow import settings
settings.engine().round()
"""


def test_opentelemetry_gets_them_from_a_process_that_has_readied_only_its_own_statistics(home):
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    got = {}

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                got.update({m.name: m for scope in resource.scope_metrics for m in scope.metrics})
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        environ = os.environ | {
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__METRICS__OTEL_ON": "True",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        }
        subprocess.run([sys.executable, "-c", OTLP], env=environ, check=True, timeout=120)
        server.shutdown()
    (jobs,) = [p for p in got["airflow.optimus_jobs"].gauge.data_points if labels(p)["phase"] == "queued"]
    assert (labels(jobs), jobs.as_double) == ({"cluster": "local", "phase": "queued"}, 0.0)
    (took,) = got["airflow.optimus_scheduling_round_duration_seconds"].exponential_histogram.data_points
    assert (took.count, 0 < took.sum < 60) == (1, True)


def labels(point):
    return {each.key: each.value.string_value for each in point.attributes}


PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")


def test_the_page_says_each_metric_as_it_is_emitted():
    rows = re.findall(r"^\| `(optimus_\w+)` \| (\w+) \| (\w+) \| (.*?) \|", PAGE, re.MULTILINE)
    said = [metrics.Metric(name, kind, unit, tuple(re.findall(r"`(\w+)`", tags))) for name, kind, unit, tags in rows]
    assert said == list(metrics.METRICS)


def test_the_mapping_of_the_page_gives_plain_names_their_labels():
    mappings = yaml.safe_load(re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1])["mappings"]
    assert mappings == [
        {
            "match": f"airflow.{metric.name}" + ".*" * len(metric.labels),
            "name": f"airflow_{metric.name}",
            "labels": {label: f"${place}" for place, label in enumerate(metric.labels, start=1)},
        }
        for metric in metrics.METRICS
    ]


def test_the_dashboard_shows_each_metric_by_labels_that_it_has():
    board = json.loads((ROOT / "helm" / "optimus" / "dashboards" / "optimus.json").read_text(encoding="utf-8"))
    labels_of = {f"airflow_{metric.name}": set(metric.labels) for metric in metrics.METRICS}
    histograms = {f"airflow_{metric.name}" for metric in metrics.METRICS if metric.kind == "histogram"}
    shown = set()
    for target in [target for panel in board["panels"] for target in panel["targets"]]:
        names = re.findall(r"airflow_optimus_\w+", target["expr"])
        base = {re.sub("_(sum|count)$", "", name) if name not in labels_of else name for name in names}
        assert not histograms & set(names), "Prometheus has a sum and a count of it"
        grouped = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", target["expr"]))))
        assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) == grouped
        assert all(grouped <= labels_of[name] for name in base)
        shown |= base
    assert shown == set(labels_of)
