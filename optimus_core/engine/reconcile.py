"""Driving: one short step of one job towards what is wanted.

It looks first, acts, and returns the phase and when to look again. It may be called at any time, twice, by two at
once, or die in the middle: each change of the store is a compare-and-set on what was looked at, each act on the
cluster is idempotent.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from optimus_core.at_once import at_once
from optimus_core.checks import passable
from optimus_core.cluster.base import HELD, Cluster, Phase, Replica
from optimus_core.engine import collect, endings, pausing, places, stragglers, watchdog
from optimus_core.engine.context import Context
from optimus_core.engine.launch import demand_by_node, is_stranger, job_of, replica_specs
from optimus_core.engine.ledger import granted, missing, observed, room_for
from optimus_core.engine.verdict import ALIVE, Outcome, judge
from optimus_core.errors import ClusterRefusesNow, ClusterUnavailable, NameTaken, OptimusError
from optimus_core.frameworks import deciders, roles
from optimus_core.reasons import ReasonCode
from optimus_core.store import ACTIVE, CONFLICTS, FINAL, GenerationRow, JobRow, is_of_the_store

_log = logging.getLogger(__name__)
_OUTPUT_SECONDS = 60.0
"""How long the end of a job is put off while the last output of a replica can't be read, such as on a lost node."""
NAMESAKE = ReasonCode.WAITS_FOR_NAMESAKE.value
"""Reason of a job whose names are still in use, such as by replicas of a job that was deleted while it ran."""


@dataclass(frozen=True)
class Step:
    """What a step found: the phase, seconds until the next look, and whether the job has ended."""

    phase: str
    look_again: float
    final: bool = False


@dataclass
class View:
    """What one step looks at: a job, its generations and its replicas, all of one moment."""

    ctx: Context
    cluster: Cluster
    job: JobRow
    generations: list[GenerationRow]
    replicas: list[Replica]
    strangers: list[Replica]
    """Replicas of the job's name that another row asked for: not looked at, and in the way of ours."""
    unreadable: ClusterUnavailable | None = None
    """Why the output of some replicas can't be read now."""

    def alive(self, number: int | None = None) -> list[Replica]:
        """Return the replicas that may still do something, of one generation or of all."""
        return [r for r in self.replicas if r.phase in ALIVE and number in (None, r.generation)]

    @property
    def live_strangers(self) -> list[Replica]:
        """The strangers that may still do something."""
        return [r for r in self.strangers if r.phase in ALIVE]

    def of(self, number: int) -> list[Replica]:
        """Return the replicas of generation ``number``."""
        return [r for r in self.replicas if r.generation == number]

    def active(self, *states: str) -> list[GenerationRow]:
        """Return the generations in one of ``states``."""
        return [g for g in self.generations if g.state in (states or ACTIVE)]

    @property
    def wanted(self) -> GenerationRow | None:
        """The generation that the newest round asked for, if it has not begun."""
        return next((g for g in self.generations if g.number == self.job.wanted and g.state == "wanted"), None)


def reconcile(ctx: Context, job_id: int) -> Step:
    """Take one step with the job ``job_id``; a job that has ended, or is unknown, needs none."""
    poll = ctx.settings.poll_seconds
    try:
        view = _look(ctx, job_id)
        if view is None:
            return Step("ended", poll, final=True)
        if isinstance(view, Step):
            return view
        _collect(view)
        step = _act(view)
        if view.unreadable is not None:
            endings.note_unavailable(ctx, job_id, view.unreadable)
        else:
            endings.note_available(ctx, view.job)
        return step
    except ClusterUnavailable as error:
        endings.note_unavailable(ctx, job_id, error)
        return Step("unknown", max(poll, 5.0))
    except CONFLICTS:
        return Step("overtaken", poll)


def _collect(view: View) -> None:
    """Read outputs; whatever a script prints, its job can still be judged and stopped."""
    try:
        view.unreadable = collect.collect(view.ctx, view.job, view.replicas, view.cluster)
        if view.unreadable is not None:
            collect.give_up(view.ctx, view.job, [r for r in _unread(view) if _is_long_gone(view, r.generation)])
    except Exception as error:
        if is_of_the_store(error):
            raise
        _log.exception("the output of job %s can't be taken in", view.job.name)


def _unread(view: View) -> list[Replica]:
    """Return the ended replicas that must not be removed yet, since there is more to be read of them."""
    return collect.unread(view.ctx, view.job, view.replicas)


def _is_long_gone(view: View, number: int) -> bool:
    """Say whether a generation has been gone for so long that its output is waited for no more."""
    gone = next((g.gone_at for g in view.generations if g.number == number), None)
    return view.ctx.has_passed(gone, _OUTPUT_SECONDS)


def _look(ctx: Context, job_id: int) -> View | Step | None:
    """Look at store and cluster of one moment: what changed in the store while the cluster was asked is looked at anew.

    Without that a slow driver would take replicas that another has just started for unwanted or lost.
    """
    with ctx.store.transaction() as tx:
        job = tx.peek_job(job_id)
        if job is None or job.state in FINAL:
            return None
        before = _standing(job, tx.generations(job_id))
        tx.touch(job_id)
    cluster = ctx.cluster(job.cluster)
    replicas = cluster.list(job.name)
    with ctx.store.transaction() as tx:
        job = tx.peek_job(job_id)
        if job is None or job.state in FINAL:
            return None
        generations = tx.generations(job_id)
    if _standing(job, generations) != before:
        return Step("overtaken", 0.0)
    own = [replica for replica in replicas if not is_stranger(replica, job)]
    strangers = [replica for replica in replicas if is_stranger(replica, job)]
    return View(ctx, cluster, job, generations, own, strangers)


def _standing(job: JobRow, generations: Sequence[GenerationRow]) -> tuple[object, ...]:
    return (job.state, job.attempt, job.wanted, [(g.number, g.state) for g in generations])


def _act(view: View) -> Step:
    """Stop what is not wanted, settle what is gone, judge what runs, start what is wanted: the first that applies."""
    poll = view.ctx.settings.poll_seconds
    _stop_unwanted(view)
    gone = [g for g in view.active("draining") if not view.alive(g.number)]
    if gone:
        for generation in gone:
            endings.settle(view.ctx, view.job, generation)
        return Step("drained", 0.0)
    if view.job.state == "stopping":
        return _stop(view)
    if view.active("draining"):
        return Step("draining", min(poll, 1.0))
    running = view.active("starting", "running")
    if running:
        return _watch(view, running[-1])
    if view.wanted is not None:
        return _start(view, view.wanted)
    return _wait(view)


def _stop_unwanted(view: View) -> None:
    """Ask everything to stop that belongs to no started generation: drained, superseded, come late, or strange."""
    kept = {g.number for g in view.active("starting", "running")} if view.job.state != "stopping" else set()
    unwanted = [r for r in view.alive() if r.generation not in kept] + view.live_strangers
    unwanted = [r for r in unwanted if not r.terminating]
    if unwanted:
        view.cluster.delete(unwanted)


def _stop(view: View) -> Step:
    for generation in view.active("starting", "running"):
        endings.drain(view.ctx, view.job, generation, "stop_requested")
    with view.ctx.store.transaction() as tx:
        owner = tx.job(view.job.id)
        if owner is None or (owner.state, owner.attempt) != ("stopping", view.job.attempt):
            return Step("overtaken", 0.0)  # a new attempt has begun: what it wants is not ours to give up
        for generation in tx.generations(view.job.id):
            if generation.state == "wanted":
                generation.state, generation.gone_at = "superseded", tx.now
    if view.alive() or view.active():
        return Step("stopping", 0.0 if view.active("starting", "running") else min(view.ctx.settings.poll_seconds, 1.0))
    if _unread(view):
        return Step("reading output", 1.0)
    if not endings.finish(view.ctx, view.job, view.cluster):
        return Step("overtaken", 0.0)
    return Step(view.job.verdict or "stopped", 0.0, final=True)


def _watch(view: View, generation: GenerationRow) -> Step:
    """Look after a generation that has started: finish its start, judge it, or resize it."""
    job, paused = job_of(view.job), view.job.state == "paused"
    if paused and generation.state == "starting":
        return _pause(view, generation)
    expected = len(roles(job.framework, generation.servers, generation.workers))
    present = view.of(generation.number)
    if generation.state == "starting" and len(present) < expected:
        return _create(view, generation)
    verdict = judge(present, expected, deciders(job.framework))
    if verdict.outcome is Outcome.SUCCEEDED:
        endings.succeed(view.ctx, view.job, generation)
        return Step("succeeded", 0.0)
    if verdict.outcome is Outcome.FAILED:
        endings.fail(view.ctx, view.job, generation, verdict)
        return Step("failed", 0.0)
    if paused:
        return _pause(view, generation)
    if generation.state == "starting":
        return _await_start(view, generation, present)
    met_at = collect.criterion_met(view.ctx, view.job)
    if met_at is not None:
        endings.drain(view.ctx, view.job, generation, "criterion_met", step=met_at)
        return Step("criterion met", 0.0)
    hang = watchdog.hang(view.ctx, view.job, generation) if view.unreadable is None else None
    if hang is not None:
        endings.fail_as(view.ctx, view.job, generation, "hung", hang)
        return Step("hung", 0.0)
    if view.wanted is not None:
        return _resize(view, generation, view.wanted)
    stragglers.watch(view.ctx, view.job, generation, present, view.cluster)
    return Step("running", view.ctx.settings.poll_seconds)


def _pause(view: View, generation: GenerationRow) -> Step:
    pausing.drain(view.ctx, view.job, generation)
    return Step("pausing", 0.0)


def _await_start(view: View, generation: GenerationRow, present: Sequence[Replica]) -> Step:
    if all(r.phase is Phase.RUNNING or r.exit_code == 0 for r in present):
        with view.ctx.store.transaction() as tx:
            row, job = tx.generation(view.job.id, generation.number), tx.job(view.job.id)
            if row is not None and job is not None and row.state == "starting":
                row.state, row.running_at, row.cause = "running", tx.now, None
                job.reason = row.reason  # whatever it was that it waited for
                job.started_at = job.started_at or tx.now
                tx.record(job, "running", row.number, servers=row.servers, workers=row.workers)
        if not _unread(view):
            view.cluster.forget(view.job.name, before=generation.number)
        return Step("running", min(view.ctx.settings.poll_seconds, 1.0))
    waiting = next((r for r in sorted(present, key=lambda r: r.name) if r.phase is Phase.PENDING and r.reason), None)
    if waiting is not None and waiting.reason == HELD:
        endings.note_held(view.ctx, view.job, generation, waiting.message or "")
        return Step("held", view.ctx.settings.poll_seconds)
    homeless = next((r for r in present if r.reason == places.UNSCHEDULABLE), None)
    if homeless is not None and _is_place_taken(view, generation, homeless):
        return Step("place taken", 0.0)
    if _is_late(view, generation):
        running = sum(r.phase is Phase.RUNNING for r in present)
        numbers: dict[str, str | int] = {"running": running, "expected": len(present)}
        if waiting is not None:
            numbers |= {"replica": waiting.name, "message": f"{waiting.reason}: {waiting.message or ''}"}
        endings.fail_as(view.ctx, view.job, generation, "start_timeout", numbers)
        return Step("start timeout", 0.0)
    return Step("starting", min(view.ctx.settings.poll_seconds, 1.0))


def _is_place_taken(view: View, generation: GenerationRow, replica: Replica) -> bool:
    """Roll a generation back that can't start, since others have filled its place; no retry is used up."""
    if not places.is_settled(view.ctx, endings.held_until(generation) or generation.starting_at):
        return False
    lacking = places.taken(view.cluster, view.job, generation)
    if lacking is None:
        return False
    told = {"replica": replica.name, "message": replica.message or ""}
    endings.roll_back(view.ctx, view.job, generation, places.TAKEN, lacking | told)
    return True


def _is_late(view: View, generation: GenerationRow) -> bool:
    """Say whether a generation that was to start has had all the time that it has for that."""
    since = endings.held_until(generation) or generation.starting_at
    return view.ctx.has_passed(since, job_of(view.job).start_timeout)


def _start(view: View, generation: GenerationRow) -> Step:
    """Start the wanted generation: nothing older of the job is left."""
    waits = _backing_off(view) or _behind_strangers(view) or _without_room(view, generation)
    if waits is not None:
        return waits
    with view.ctx.store.transaction() as tx:
        job, row = tx.job(view.job.id), tx.generation(view.job.id, generation.number)
        if job is None or row is None or (job.wanted, job.state, row.state) != (row.number, "running", "wanted"):
            return Step("overtaken", 0.0)
        row.state, row.starting_at = "starting", tx.now
        job.reason = row.reason  # it waits no more
        tx.record(job, "starting", row.number, servers=row.servers, workers=row.workers, placement=row.placement)
    return _create(view, generation)


def _behind_strangers(view: View) -> Step | None:
    """Return a waiting step while replicas of a job that had the same name have not ended."""
    if not view.live_strangers:
        return None
    left = sorted(replica.name for replica in view.live_strangers)
    endings.note_waiting(view.ctx, view.job, {"code": NAMESAKE, "numbers": {"replica": left[0]}})
    return Step("waiting for a namesake", min(view.ctx.settings.poll_seconds, 1.0))


def _create(view: View, generation: GenerationRow) -> Step:
    try:
        if view.strangers and not view.live_strangers and not view.of(generation.number):
            view.cluster.forget(view.job.name)  # what has ended of them still has the names
        specs = replica_specs(view.ctx, view.job, generation, view.cluster)
        view.cluster.create(specs[0].job + f"-g{generation.number}", specs)
    except (ClusterUnavailable, NameTaken) as error:
        if not _is_late(view, generation):
            if isinstance(error, ClusterUnavailable):
                raise
            endings.note_waiting(view.ctx, view.job, {"code": NAMESAKE, "numbers": {"message": str(error)}})
            return Step("waiting for a name", min(view.ctx.settings.poll_seconds, 1.0))
        endings.fail_as(view.ctx, view.job, generation, "start_timeout", {"message": passable(str(error))[:500]})
        return Step("start timeout", 0.0)
    except ClusterRefusesNow as error:
        endings.roll_back(view.ctx, view.job, generation, "refused_for_now", {"message": str(error)})
        return Step("rolled back", 0.0)
    except OptimusError as error:
        endings.fail_as(view.ctx, view.job, generation, "refused", {"message": str(error)})
        return Step("refused", 0.0)
    return Step("starting", min(view.ctx.settings.poll_seconds, 0.5))


def _resize(view: View, present: GenerationRow, wanted: GenerationRow) -> Step:
    """Stop the present size only once the new one would start: room reserved, seen free, dry run passed."""
    waits = _without_room(view, wanted)
    if waits is not None:
        return waits
    try:
        view.cluster.check(replica_specs(view.ctx, view.job, wanted, view.cluster))
    except ClusterUnavailable:
        raise
    except OptimusError as error:
        code = "refused_for_now" if isinstance(error, ClusterRefusesNow) else "refused"
        endings.supersede(view.ctx, view.job, wanted, {"code": code, "numbers": {"message": str(error)}})
        return Step("running", view.ctx.settings.poll_seconds)
    endings.drain(view.ctx, view.job, present, "resize", to=wanted.number)
    return Step("resizing", 0.0)


def _without_room(view: View, generation: GenerationRow) -> Step | None:
    """Return a waiting step unless all that the generation asks for is free now, and tell why in the store."""
    need = demand_by_node(view.job, generation)
    all_nodes, replicas = at_once(view.cluster.nodes, view.cluster.list)
    nodes = [node for node in all_nodes if node.name in need]
    seen = observed(replica for replica in replicas if replica.node in need)
    with view.ctx.store.transaction() as tx:
        given = granted((job, other) for job, other in tx.holding(view.job.cluster) if need.keys() & other.placement)
    lacking = missing(need, room_for(view.job.name, nodes, seen, given))
    if lacking is None:
        return None
    lost = places.taken(view.cluster, view.job, generation)
    if lost is not None and places.is_settled(view.ctx, generation.wanted_at):
        places.give_up(view.ctx, view.job, generation, lost)
        return Step("place taken", 0.0)
    endings.note_waiting(view.ctx, view.job, {"code": "waits_for_room_to_be_freed", "numbers": lacking})
    return Step("waiting for room", min(view.ctx.settings.poll_seconds, 1.0))


def _backing_off(view: View) -> Step | None:
    if view.job.not_before is None:
        return None
    with view.ctx.store.transaction() as tx:
        left = (view.job.not_before - tx.now).total_seconds()
    return Step("backing off", min(max(left, 0.1), view.ctx.settings.poll_seconds)) if left > 0 else None


def _wait(view: View) -> Step:
    """Nothing runs and nothing is wanted: a round decides. Ask for one when a back-off has just ended."""
    waits = _backing_off(view)
    if waits is None and view.job.not_before is not None:
        endings.end_back_off(view.ctx, view.job)
    return waits or Step(view.job.state, view.ctx.settings.poll_seconds)
