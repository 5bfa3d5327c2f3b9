"""Output that is written faster than the kubelet keeps it: whole while it is followed, its gaps counted while not."""

from __future__ import annotations

import textwrap
import time
from itertools import pairwise

from optimus_core.cluster.kubernetes import KubernetesCluster
from optimus_core.cluster.kubernetes.api import Api
from optimus_core.engine.context import clusters_from
from optimus_core.engine.engine import Engine
from optimus_core.pod_rules import Checkpoints
from tests.cluster.claims import CLAIM
from tests.conftest import Driver, until

COUNT = 40_000
CHATTER = textwrap.dedent(f"""
    import sys, time
    for number in range({COUNT}):
        print(number, "x" * 100, flush=True)
        if number % 50 == 0:
            time.sleep(0.01)
""")
LOSSES = textwrap.dedent("""
    import os, time, optimus_train
    for step in range(1, int(os.environ["STEPS"]) + 1):
        optimus_train.report(step, 1 / step, filler="x" * 100)
        if step % 20 == 0:
            time.sleep(0.01)
""")
"""About 200 kB a second: files of 1 MiB that are looked at each 3 s are rotated again and again."""


def numbers(output):
    return [int(line.data.split()[0]) for line in output.lines]


def cluster_of(api, namespace):
    return KubernetesCluster("kube", Api("kube", api), [namespace], Checkpoints(claim=CLAIM))


def one(cluster):
    (replica,) = cluster.list()
    return replica


def read_to_end(cluster, cursor=None, seconds=90):
    """Read as a job's driver does; return the numbers, and how often some were missed."""
    got, gaps, end = [], 0, time.monotonic() + seconds
    while time.monotonic() < end:
        output = cluster.output(one(cluster), cursor)
        got, gaps, cursor = got + numbers(output), gaps + output.missed, output.cursor
        if output.ended:
            return got, gaps
        time.sleep(0 if output.lines else 0.2)
    raise AssertionError("it never ended")


def test_a_reader_that_keeps_on_gets_each_line_once_over_rotations(driver, make_job, cluster):
    driver.submit(make_job(command=["python3", "-u", "-c", CHATTER]))
    driver.drive(1, to=lambda: cluster.list() and one(cluster).phase.value == "running")
    got, gaps = read_to_end(cluster)
    assert (len(got), gaps) == (COUNT, 0)
    assert got == list(range(COUNT))


def test_a_reader_that_dies_and_one_that_comes_late_read_nothing_twice_and_know_what_is_lost(
    driver, make_job, cluster, api, namespace
):
    driver.submit(make_job(command=["python3", "-u", "-c", CHATTER]))
    driver.drive(1, to=lambda: cluster.list() and one(cluster).phase.value == "running")
    got, cursor = [], None

    def read_some():
        nonlocal got, cursor
        output = cluster.output(one(cluster), cursor)
        got, cursor = got + numbers(output), output.cursor
        return len(got) > COUNT / 8

    until(read_some, 60)
    time.sleep(8)  # its lines since then are rotated away, twice
    rest, gaps = read_to_end(cluster_of(api, namespace), cursor)
    assert gaps == 1
    assert all(a < b for a, b in pairwise(got + rest)), "a line came twice, or out of order"
    jumps = [b - a for a, b in pairwise(got + rest) if b - a != 1]
    assert len(jumps) == gaps
    assert rest[-1] == COUNT - 1


def test_a_loss_series_is_complete_while_it_is_followed(driver, make_job):
    steps = 20_000
    made = driver.submit(make_job(command=["python3", "-u", "-c", LOSSES], STEPS=steps, resumable=False))
    report = driver.to_end(made.job_id)
    assert (report.state, report.step) == ("succeeded", steps)
    with driver.ctx.store.transaction() as tx:
        series, (output,) = tx.series(made.job_id, "loss"), tx.outputs(made.job_id)
        assert (series.points, output.gaps, output.ended) == (steps, 0, True)
    assert not driver.events(made.job_id, "output_missed")


def test_what_nobody_reads_for_a_while_is_a_gap_in_the_jobs_history(driver, make_job, settings, api, namespace):
    steps = 25_000
    made = driver.submit(make_job(command=["python3", "-u", "-c", LOSSES], STEPS=steps, resumable=False))
    driver.to_step(made.job_id, 500)
    time.sleep(13)  # its driver has died with all that it held; another goes on from what is left
    cluster = cluster_of(api, namespace)
    later = Driver(Engine(settings, clusters_from({"kube": cluster})), cluster)
    report = later.to_end(made.job_id)
    assert (report.state, report.step) == ("succeeded", steps)
    with later.ctx.store.transaction() as tx:
        series, (output,) = tx.series(made.job_id, "loss"), tx.outputs(made.job_id)
        assert series.points < steps
        assert output.gaps >= 1
    assert len(later.events(made.job_id, "output_missed")) == output.gaps
