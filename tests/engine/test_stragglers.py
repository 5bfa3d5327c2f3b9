"""Slow workers of running jobs: found, told, and replaced where that pays and is wanted."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus_core.cluster.base import Output, OutputLine, Phase, Replica, Role
from optimus_core.engine.collect import rows_of
from optimus_core.engine.context import clusters_from
from optimus_core.engine.engine import Engine
from optimus_core.engine.own_times import KEPT, OwnTimes
from optimus_core.engine.slow import slow_nodes
from optimus_core.engine.snapshot import take
from optimus_core.engine.straggler_gain import MOST_REPLACEMENTS, Stake, lost_share, why_kept
from optimus_core.engine.stragglers import find, watch
from optimus_core.errors import ClusterUnavailable
from optimus_core.resources import Resources
from optimus_core.scheduling.stragglers import Straggler
from optimus_core.store import GenerationRow, JobRow, SpeedRow
from optimus_core.telemetry import Point
from tests.conftest import Driver

EXAMPLES = Path(__file__).parents[2] / "examples"
SLOW_AT_FIRST = f"""
import os, sys
sys.path.insert(0, {str(EXAMPLES)!r})
from _trainer import run
from train_allreduce import main

slow = os.environ["OPTIMUS_GENERATION"] == "1" and os.environ["OPTIMUS_RANK"] == "2"
sys.argv = ["train_allreduce.py", "--read-ms", "12" if slow else "1.5", "--hidden", "8", "--steps", "100000",
            "--report-every", "1", "--checkpoint-every", "5"]
run(main)
"""
"""The all-reduce example, whose worker 2 reads its samples eight times as slowly in the first generation."""


def replicas(nodes):
    """A running worker on each of these nodes."""
    return [
        Replica(f"w{i}", f"u{i}", "digits", 1, Role.WORKER, i, node, Resources(), Phase.RUNNING)
        for i, node in enumerate(nodes)
    ]


# -- on real processes ----------------------------------------------------------------------------------------


def test_a_job_leaves_the_node_of_its_slow_worker_and_goes_on_faster(settings, cluster, make_job, script):
    settings = dataclasses.replace(settings, stragglers="replace", speed_window_seconds=0.4)
    engine = Engine(settings, clusters_from({"local": cluster}))
    driver = Driver(engine, cluster)
    job = driver.submit(make_job(workers=(3, 3), command=script(SLOW_AT_FIRST))).job_id
    driver.to_size(job, 3)
    (node,) = driver.generations(job)[0]["placement"]
    (told,) = driver.drive(job, to=lambda: driver.events(job, "straggler_replaced"))
    before, after = (g for g in driver.generations(job) if g["state"] in ("gone", "running"))

    found = driver.events(job, "straggler")[-1]["cause"]
    assert (found["slow"], found["node"], found["action"]) == ("a slow worker", node, "replace")
    assert found["replica"].endswith("-worker-2-g1")
    assert found["ratio"] < 0.5
    assert min(found["saved_seconds"], found["lost_seconds"]) > found["restart_seconds"] > 0
    assert node not in after["placement"]
    assert after["workers"] == before["workers"] == 3
    assert after["first_step"] > before["first_step"]
    assert after["first_step"] >= before["last_step"]  # all were asked to stop, and rank 0 saved
    assert told["cause"]["times"] > 1.1
    assert told["cause"]["speed_after"] > told["cause"]["speed_before"]
    assert "steps/s" in told["text"]
    assert after["why"].startswith("Goes on without a slow worker")
    driver.engine.request_stop(job, by="ann")
    driver.to_end(job)


# -- on both databases, with workers whose logs say what a test wants -----------------------------------------


class Logs:
    """A cluster of which only the logs are asked."""

    def __init__(self):
        self.asked, self.missed, self.broken = [], False, False

    def output(self, replica, cursor, limit_bytes=1 << 20):
        self.asked.append(replica.index)
        if self.broken:
            raise ClusterUnavailable("the node does not answer")
        lines = (OutputLine(1.0, b"nothing to read"),) if self.missed else ()
        return Output(lines, cursor or "", ended=False, missed=self.missed)


class Watched:
    """A job with a running generation of four workers, two on each of two nodes."""

    def __init__(self, engine, cluster, make_job):
        self.engine, self.ctx, self.logs = engine, engine.ctx, Logs()
        self.driver = Driver(engine, cluster)
        self.id = self.driver.submit(make_job(workers=(4, 4))).job_id
        self.workers = replicas("aabb")
        with self.ctx.store.transaction() as tx:
            job, row = tx.job(self.id), tx.generation(self.id, 1)
            row.state, row.starting_at, row.running_at = "running", tx.now, tx.now
            row.placement = {node: {"servers": 0, "workers": 2} for node in "ab"}
            job.checkpoint_step, job.started_at = 5, tx.now
            for _ in range(3):
                tx.add_speed(
                    SpeedRow(job_id=job.id, workload=job.workload, specification_hash="h", generation=1, servers=0,
                             workers=4, steps=7, seconds=14.0, time=tx.now)
                )  # fmt: skip
        self.read(*self.workers)

    def read(self, *workers):
        """Keep that workers have been read before."""
        with self.ctx.store.transaction() as tx:
            for worker in workers:
                rows_of(tx, tx.peek_job(self.id), worker, None)

    def look(self, *seconds):
        """Let the workers take so long for a step, watch them, and return what was told of slow ones by now."""
        with self.ctx.store.transaction() as tx:
            job, row = tx.peek_job(self.id), tx.generation(self.id, 1)
            for output in tx.outputs(self.id):
                number = int(output.replica[1:])
                output.reader = {"own": {"times": [seconds[number]] * 3}, "read_at": 0.0}
        watch(self.ctx, job, row, self.workers, self.logs)
        return self.told("straggler")

    def told(self, kind):
        return [event["cause"] for event in self.driver.events(self.id, kind)]

    @property
    def revision(self):
        with self.ctx.store.transaction() as tx:
            return tx.cluster("local").revision

    def view(self):
        (job,) = take(self.ctx, "local").jobs
        return job


@pytest.fixture
def watched(store, database_url, settings, cluster, make_job):
    """Makes one; a restart costs nothing, so that all that is lost is more."""

    def make(stragglers="replace"):
        own = dataclasses.replace(
            settings, database_url=database_url, stragglers=stragglers, restart_cost_seconds=0, min_gain_ratio=0
        )
        return Watched(Engine(own, clusters_from({"local": cluster})), cluster, make_job)

    return make


EVEN, SLOW = (1.0, 1.0, 1.0, 1.0), (1.0, 1.0, 1.0, 4.0)


def test_a_slow_worker_is_told_at_once_and_replaced_when_it_has_cost_a_restart(watched):
    job = watched()
    revision = job.revision
    (first,) = job.look(*SLOW)
    assert (first["replica"], first["node"], first["ratio"]) == ("w3", "b", 0.25)
    assert (first["action"], first["kept"]) == ("report", "it has cost less than a restart so far")
    assert (job.revision, job.view().avoid, job.view().straggler) == (revision, [], {})
    _, second = job.look(*SLOW)
    assert (second["action"], second["since"]) == ("replace", first["since"])
    assert second["lost_seconds"] > second["restart_seconds"] == 0
    assert job.revision == revision + 1
    view = job.view()
    assert (view.avoid, view.straggler["replica"]) == (["b"], "w3")
    assert len(job.look(*SLOW)) == 2  # it is no news
    assert job.revision == revision + 1


def test_what_a_slow_worker_costs_a_synchronous_job_is_in_its_own_part_of_a_step_only(watched):
    job = watched()
    job.look(0.1, 0.1, 0.1, 0.4)  # of 2 s a step
    (found,) = job.told("straggler")
    with job.ctx.store.transaction() as tx:
        age = (tx.now - tx.peek_job(job.id).started_at).total_seconds()
    assert 0 < found["saved_seconds"] <= (0.4 / 2) * 0.75 * age + 0.001


def test_one_that_is_fast_again_takes_the_move_back(watched):
    job = watched()
    job.look(*SLOW), job.look(*SLOW)
    revision = job.revision
    job.look(*EVEN)
    assert job.told("straggler_recovered") == [
        {"code": "straggler_recovered", "slow": "a slow worker", "replica": "w3", "node": "b"}
    ]
    assert job.revision == revision + 1
    assert (job.view().avoid, job.view().straggler) == ([], {})
    job.look(*EVEN)
    assert job.revision == revision + 1


def test_one_that_is_slow_again_is_judged_anew(watched):
    job = watched()
    job.look(*SLOW), job.look(*SLOW), job.look(*EVEN), job.look(*SLOW)
    *_, last = job.told("straggler")
    assert last["action"] == "report"
    assert last["since"] > job.told("straggler")[0]["since"]


def test_one_that_is_slow_now_and_then_does_not_fill_the_history(watched):
    job = watched("report")
    for _ in range(8):
        job.look(*SLOW), job.look(*EVEN)
    assert len(job.told("straggler")) == len(job.told("straggler_recovered")) == 5


def test_report_tells_once_and_changes_no_plan(watched):
    job = watched("report")
    revision = job.revision
    job.look(*SLOW)
    (found,) = job.look(*SLOW)
    assert (found["action"], found["kept"]) == ("report", 'the setting stragglers is "report"')
    assert (job.revision, job.view().avoid, job.view().straggler) == (revision, [], {})
    assert "at 25% of the median speed" in job.driver.events(job.id, "straggler")[0]["text"]


def test_what_was_to_be_replaced_stays_if_that_is_no_longer_wanted(watched):
    job = watched()
    job.look(*SLOW), job.look(*SLOW)
    job.ctx = dataclasses.replace(job.ctx, settings=dataclasses.replace(job.ctx.settings, stragglers="off"))
    assert job.view().straggler == {}
    asked = len(job.logs.asked)
    job.look(*SLOW)
    assert len(job.logs.asked) == asked


def test_workers_on_two_nodes_are_left_together(watched):
    job = watched()
    job.workers = replicas("aabbc")
    job.read(job.workers[4])
    (found,) = job.look(1.0, 4.0, 1.0, 5.0, 1.0)
    assert (found["slow"], found["replica"], found["node"]) == ("slow workers", "w1, w3", "a, b")
    assert found["ratio"] == 0.2


def test_workers_are_read_in_turn_and_rank_0_is_not(watched):
    job = watched()
    with job.ctx.store.transaction() as tx:
        row, generation = tx.peek_job(job.id), tx.generation(job.id, 1)
    for _ in range(5):
        watch(job.ctx, row, generation, job.workers, job.logs)
    assert job.logs.asked == [1, 2, 3]  # and then nobody for a window


def test_a_log_that_can_not_be_read_or_has_gaps_is_no_news(watched):
    job = watched()
    job.logs.broken = True
    assert job.look(*SLOW) == []
    job.logs.broken, job.logs.missed = False, True
    assert [found["replica"] for found in job.look(*SLOW)] == ["w3"]
    assert job.told("output_missed") == []


@pytest.mark.parametrize("workers", [pytest.param(2, id="two"), pytest.param(1, id="one")])
def test_fewer_than_three_workers_are_not_compared(watched, workers):
    job = watched()
    del job.workers[workers:]
    assert job.look(4.0, 1.0, 1.0, 1.0) == []
    assert job.logs.asked == []


def test_the_newest_speeds_of_one_generation_are_read(store, watched):
    job = watched()
    with job.ctx.store.transaction() as tx:
        owner = tx.peek_job(job.id)
        for generation, steps, seconds in ((1, 10**12, 8.0), (2, 5, 2.0)):
            tx.add_speed(
                SpeedRow(job_id=job.id, workload=owner.workload, specification_hash="h", generation=generation,
                         servers=0, workers=4, steps=steps, seconds=seconds, time=tx.now)
            )  # fmt: skip
    with job.ctx.store.transaction() as tx:
        assert tx.speeds_of(job.id, 1, 2) == [1.25e11, 0.5]
        assert tx.speeds_of(job.id, 2, 5) == [2.5]
        assert tx.speeds_of(job.id, 3, 5) == []


# -- the pure parts -------------------------------------------------------------------------------------------

STAKE = Stake(lost=100.0, saved=100.0, cost=10.0, used=0, helped=True)


@pytest.mark.parametrize(
    ("change", "job", "why"),
    [
        pytest.param({}, {}, None, id="it-pays"),
        pytest.param({"lost": 12.0}, {}, "it has cost less than a restart so far", id="not-slow-for-long-enough"),
        pytest.param({"lost": 12.1, "saved": 12.1}, {}, None, id="just-more-than-cost-and-margin"),
        pytest.param({"saved": 12.0}, {}, "that would save less than it costs", id="too-little-is-left"),
        pytest.param(
            {"used": 1, "lost": 22.0}, {}, "it has cost less than a restart so far", id="the-second-is-dearer"
        ),
        pytest.param({"used": MOST_REPLACEMENTS}, {}, "3 replacements were made already", id="as-often-as-may-be"),
        pytest.param({"helped": False}, {}, "the last replacement made the job no faster", id="it-did-not-help"),
        pytest.param({}, {"checkpoint": None}, "no checkpoint of the job is confirmed yet", id="no-checkpoint"),
        pytest.param({}, {"resumable": False}, "the job can't go on from a checkpoint", id="not-resumable"),
        pytest.param({}, {"setting": "report"}, 'the setting stragglers is "report"', id="not-wanted"),
    ],
)
def test_why_a_straggler_stays(engine, make_job, change, job, why):
    setting = job.get("setting", "replace")
    ctx = dataclasses.replace(engine.ctx, settings=dataclasses.replace(engine.settings, stragglers=setting))
    specification = make_job(resumable=job.get("resumable", True)).to_dict()
    owner = JobRow(name="j", specification=specification, checkpoint_step=job.get("checkpoint", 1))
    assert why_kept(ctx, owner, dataclasses.replace(STAKE, **change)) == why


def straggler(ratio, *workers, kind="worker"):
    return Straggler(kind, workers[0], workers, ratio)


@pytest.mark.parametrize(
    ("found", "part", "want"),
    [
        pytest.param([straggler(0.4, "a")], 1.0, 0.6, id="all-wait-for-it"),
        pytest.param([straggler(0.4, "a")], 0.5, 0.3, id="half-of-a-step-is-exchange"),
        pytest.param([straggler(0.4, "a"), straggler(0.1, "b")], 1.0, 0.9, id="all-wait-for-the-slowest"),
        pytest.param([straggler(0.4, "a")], None, 0.15, id="its-own-share"),
        pytest.param([straggler(0.4, "a"), straggler(0.0, "b")], None, 0.4, id="the-shares-of-both"),
        pytest.param([straggler(0.4, "a", "b", kind="node")], None, 0.3, id="the-share-of-a-node"),
    ],
)
def test_what_part_of_its_speed_a_job_of_four_workers_lacks(found, part, want):
    assert lost_share(found, 4, part) == pytest.approx(want)


@given(st.lists(st.floats(0, 0.5), min_size=1, max_size=3), st.one_of(st.none(), st.floats(0, 1)))
def test_no_more_than_all_of_a_speed_is_lacking(ratios, part):
    found = [straggler(ratio, f"w{number}") for number, ratio in enumerate(ratios)]
    assert 0 <= lost_share(found, 8, part) <= 1


TIMES = {f"w{i}": {"own": {"times": [4.0 if i == 2 else 1.0] * 3, "speeds": [1.0] * 3}} for i in range(4)}
SPEEDS = {f"w{i}": {"own": {"times": [], "speeds": [0.2 if i == 2 else 1.0] * 3}} for i in range(4)}


@pytest.mark.parametrize(
    ("readers", "synchronous", "names"),
    [
        pytest.param(TIMES, True, ["w2"], id="synchronous-by-times"),
        pytest.param(SPEEDS, True, [], id="synchronous-speeds-tell-nothing"),
        pytest.param(TIMES, False, ["w2"], id="asynchronous-by-times"),
        pytest.param(SPEEDS, False, ["w2"], id="asynchronous-by-speeds"),
        pytest.param(SPEEDS | {"w0": TIMES["w0"]}, False, ["w2"], id="times-of-one-are-not-enough"),
        pytest.param({}, True, [], id="nothing-was-read"),
    ],
)
def test_who_is_found_by_what_the_readers_know(readers, synchronous, names):
    found = find(readers, replicas("abcd"), synchronous=synchronous)
    assert [name for each in found for name in each.workers] == names


OWN = st.lists(st.floats(0.01, 100), min_size=3, max_size=5)


@given(st.lists(st.tuples(OWN, st.sampled_from("abc")), min_size=1, max_size=8))
def test_a_node_is_only_called_slow_if_most_workers_on_it_are_slow_against_the_job(rows):
    readers = {f"w{i}": {"own": {"times": times}} for i, (times, _) in enumerate(rows)}
    nodes = {f"w{i}": node for i, (_, node) in enumerate(rows)}
    speed = {name: sorted(1 / t for t in own["own"]["times"]) for name, own in readers.items()}
    middle = {name: (s[(len(s) - 1) // 2] + s[len(s) // 2]) / 2 for name, s in speed.items()}
    ordered = sorted(middle.values())
    usual = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    for each in find(readers, replicas(nodes.values()), synchronous=True):
        assert len(rows) >= 3
        assert all(middle[name] < 0.5 * usual for name in each.workers)
        if each.kind == "node":
            here = [name for name, node in nodes.items() if node == each.name]
            assert 2 <= len(each.workers) > len(here) / 2
            assert len(set(nodes.values())) > 1


def points(times, name="batch_seconds"):
    return [Point(0, name, value, step, None, time) for step, (time, value) in enumerate(times)]


@pytest.mark.parametrize(
    ("given_points", "want"),
    [
        pytest.param(points([(0, 9.0), (5, 1.0), (10, 3.0)]), [2.0], id="a-window-without-the-start"),
        pytest.param(points([(0, 9.0), (5, 1.0)]), [], id="half-a-window"),
        pytest.param(points([(t, 1.0) for t in range(0, 100, 10)]), [1.0] * KEPT, id="the-latest-windows"),
        pytest.param(points([(0, 1.0), (5, -1.0), (6, float("nan")), (10, 2.0)]), [2.0], id="what-is-no-time"),
        pytest.param(points([(0, 1.0), (20, 2.0)], "loss"), [], id="another-metric"),
        pytest.param(points([(50, 1.0), (0, 1.0), (10, 3.0)]), [3.0], id="a-clock-that-went-back"),
    ],
)
def test_own_times_are_means_of_windows(given_points, want):
    state = None
    for point in given_points:  # the state is kept between two reads
        own = OwnTimes(10.0, state)
        own.add(point)
        state = own.state()
    assert OwnTimes(10.0, state).times == want


def generation(number, attempt=1, avoids="", cause=None):
    return GenerationRow(number=number, attempt=attempt, reason={"numbers": {"avoids": avoids}}, cause=cause)


def test_nodes_to_avoid_are_those_of_the_attempt_that_were_avoided_or_are_to_be_left():
    def found(node, action):
        return {"code": "straggler_found", "numbers": {"node": node, "action": action}}

    rows = [
        generation(1, attempt=1, avoids="old"),
        generation(2, attempt=2, avoids="b, c"),
        generation(3, attempt=2, cause=found("d, e", "replace")),
        generation(4, attempt=2, cause=found("f", "report")),
        generation(5, attempt=2, cause={"code": "lost", "numbers": {"node": "g"}}),
    ]
    assert slow_nodes(JobRow(attempt=2), rows) == ["b", "c", "d", "e"]
