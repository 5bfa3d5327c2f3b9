"""The closed list of reasons, and the one place where they become sentences.

A reason is a code with its numbers; page, command line, XCom and log print what :func:`render` makes of it. Numbers
are plain (seconds, pieces, texts); units are added here. A part of a sentence in ``[...]`` is left out when one of
its numbers is not known, so that older rows and partial knowledge render too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict

Number = int | float | str


class ReasonCode(StrEnum):
    """Every reason that Optimus gives."""

    STARTED_AT_MINIMUM = "started_at_minimum"
    STARTED = "started"
    GROWN = "grown"
    SHRUNK = "shrunk"
    RESHAPED = "reshaped"
    MOVED = "moved"
    RESIZE = "resize"
    KEPT = "kept"
    KEPT_CHANGE_NOT_WORTH_COST = "kept_change_not_worth_cost"
    KEPT_NO_ROOM = "kept_no_room"
    KEPT_AT_MAXIMUM = "kept_at_maximum"
    KEPT_AT_CEILING = "kept_at_ceiling"
    NODE_NOT_READY = "node_not_ready"
    WAITS_FOR_ROOM = "waits_for_room"
    WAITS_FOR_ROOM_TO_BE_FREED = "waits_for_room_to_be_freed"
    WAITS_FOR_POOL = "waits_for_pool"
    WAITS_FOR_GATE = "waits_for_gate"
    WAITS_FOR_NAMESAKE = "waits_for_namesake"
    CLUSTER_UNAVAILABLE = "cluster_unavailable"
    CAN_NOT_BE_PLANNED = "can_not_be_planned"
    NODE_TAKEN = "node_taken"
    REFUSED_FOR_NOW = "refused_for_now"
    CAN_NEVER_FIT = "can_never_fit"
    PINNED = "pinned"
    BARRED_SIZE = "barred_size"
    BACKING_OFF = "backing_off"
    PAUSED = "paused"
    NOT_RESIZABLE = "not_resizable"
    UNKNOWN_REMAINING = "unknown_remaining"
    UNKNOWN_SPEED = "unknown_speed"
    ROLLED_BACK = "rolled_back"
    SUPERSEDED = "superseded"
    STOP_REQUESTED = "stop_requested"
    CRITERION_MET = "criterion_met"
    FINISHED = "finished"
    RESUMED_FROM_CHECKPOINT = "resumed_from_checkpoint"
    NO_CHECKPOINT = "no_checkpoint"
    CHECKPOINT_MISSING = "checkpoint_missing"
    RETRIED = "retried"
    REFUSED = "refused"
    LOST = "lost"
    NODE_LOST = "node_lost"
    EVICTED = "evicted"
    OOM = "oom"
    KILLED = "killed"
    USER_ERROR = "user_error"
    HUNG = "hung"
    START_TIMEOUT = "start_timeout"
    MEMORY_GROWN = "memory_grown"
    TIMEOUT = "timeout"
    ORPHANED = "orphaned"
    STRAGGLER = "straggler"
    STRAGGLER_FOUND = "straggler_found"
    STRAGGLER_REPLACED = "straggler_replaced"
    STRAGGLER_RECOVERED = "straggler_recovered"

    @classmethod
    def _missing_(cls, value: object) -> ReasonCode | None:
        return cls.OOM if value == "out_of_memory" else None


class Reason(BaseModel):
    """Why something is as it is: a code of the closed list with its numbers."""

    model_config = ConfigDict(frozen=True)
    code: ReasonCode
    numbers: dict[str, Number] = {}

    def __str__(self) -> str:
        return render(self.code, self.numbers)


_SAVES = "[; {saved_seconds:this}, a restart costs {restart_seconds:time}]"
_FAILED = "[, exit code {exit_code}][ on node {node}][ ({cluster_reason})][: {message}]"
_COUNTED = "[ (generation {generation})][; {retries_used:retries} used]"
_LIMITS = "[, is guaranteed {pool_guaranteed}][, may have at most {pool_ceiling}]"
_POOL = "[; pool {pool} holds {pool_held}]" + _LIMITS
_POOL_CHANGED = "[; pool {pool} held {pool_before} and holds {pool_held}]" + _LIMITS
_LATE = "[; predicted to end {late_seconds:time} after its deadline]"
_QUEUED = "[; number {position} of {waiting} in the queue][; predicted to start in {start_seconds:time}]"
_REPLICA = "[: replica {replica}]"
_SLOW = "[ {slow}| a slow worker][: {replica}][ on {node}][, at {ratio:percent} of the median speed]"

TEMPLATES: Mapping[ReasonCode, str] = {
    ReasonCode.STARTED_AT_MINIMUM: "Starts at its minimum[ of {size}][; predicted to take {predicted_seconds:time}]"
    + _POOL
    + _LATE,
    ReasonCode.STARTED: "Starts[ with {size}][ (minimum {minimum})][; predicted to take {predicted_seconds:time}]"
    + _POOL
    + _LATE,
    ReasonCode.GROWN: f"Grown[ from {{present}}][ to {{size}}]{_SAVES}" + _POOL_CHANGED + _LATE,
    ReasonCode.SHRUNK: "Shrunk[ from {present}][ to {size}][: {jobs_fed:gainers} from the room]"
    "[; {lost_seconds:costs}]" + _POOL_CHANGED + _LATE,
    ReasonCode.RESHAPED: f"Changed[ from {{present}}][ to {{size}}]{_SAVES}" + _LATE,
    ReasonCode.MOVED: "Moved to other nodes at the same size[ ({size})]",
    ReasonCode.RESIZE: "Stopped to go on at another size[: {size}]",
    ReasonCode.KEPT: "Keeps[ its {size}]: no change would make the jobs faster[; {saved_seconds:one_more}]" + _LATE,
    ReasonCode.KEPT_CHANGE_NOT_WORTH_COST: "Keeps[ its {size}]: a change[ to {other}] would not be worth its cost"
    "[; it would save {saved_seconds:time}][, a restart costs {restart_seconds:time}][ and a margin of {margin:percent}"
    " is asked for]" + _LATE,
    ReasonCode.KEPT_NO_ROOM: "Keeps[ its {size}]: there is no room for more"
    "[; {saved_seconds:one_more}]" + _POOL + _LATE,
    ReasonCode.KEPT_AT_CEILING: "Keeps[ its {size}]: its pool has all that it may have"
    "[; {saved_seconds:one_more}]" + _POOL + _LATE,
    ReasonCode.KEPT_AT_MAXIMUM: "Keeps[ its {size}]: this is its maximum" + _LATE,
    ReasonCode.NODE_NOT_READY: "Keeps[ its {size}] while[ node {node}|a node] is not ready",
    ReasonCode.WAITS_FOR_ROOM: "Waits for room[ for {size}][: needs {needed}][, free are {free}]"
    "[; {kept} are kept for pool {kept_for}]" + _POOL + _QUEUED,
    ReasonCode.WAITS_FOR_POOL: "Waits for its pool, which has all that it may have[: {size} need {needed}]"
    + _POOL
    + _QUEUED,
    ReasonCode.WAITS_FOR_ROOM_TO_BE_FREED: "Waits until room is freed[ on node {node}]"
    "[: needs {needed}][, free are {free}]",
    ReasonCode.CAN_NEVER_FIT: "Can never run here[: its minimum of {size}][ needs {needed}]"
    "[; the largest node has {largest}][, the cluster {cluster}]",
    ReasonCode.PINNED: "Has the size that was pinned[: {size}][; {saved_seconds:one_more}]",
    ReasonCode.BARRED_SIZE: "Keeps[ its {size}]: the size[ {other}] is barred for now[ after {failure}]",
    ReasonCode.BACKING_OFF: "Backs off[ after {failure}][ (retry {retry})][: starts again in {seconds:time}]",
    ReasonCode.PAUSED: "Paused[ with its checkpoint at step {step:count}][ by {by}][ for {other}]"
    "[; {lost_steps:steps} done again][; was paused for {paused_seconds:time} before this plan]"
    "[; is back in {back_seconds:time} at the latest][, by {back_by}][; {left_seconds:time} are left at its minimum]"
    + _POOL,
    ReasonCode.NOT_RESIZABLE: "Keeps[ its {size}]: it does not allow to be resized while it runs",
    ReasonCode.UNKNOWN_REMAINING: "Keeps[ its {size}]: how much is left is not known yet"
    "[; {assumed:time}, the median of others, is assumed]",
    ReasonCode.UNKNOWN_SPEED: "Keeps[ its {size}]: its speed is not known yet",
    ReasonCode.ROLLED_BACK: "Rolled back[ to {size}]: the new size[ {other}] did not run[ within {seconds:time}]"
    "[ because of {failure}]",
    ReasonCode.SUPERSEDED: "Superseded by a newer wish[ (generation {generation})]",
    ReasonCode.STOP_REQUESTED: "Stopped as asked[ by {by}]",
    ReasonCode.CRITERION_MET: "Stop criterion met[ at step {step:count}][ with loss {loss:short}]"
    "[ (threshold {threshold:short})]",
    ReasonCode.FINISHED: "Finished[ at step {step:count}][ after {seconds:time}]",
    ReasonCode.RESUMED_FROM_CHECKPOINT: "Resumed from the checkpoint[ of step {step:count}]"
    "[; {lost_steps:steps} done again]",
    ReasonCode.NO_CHECKPOINT: "Stopped, but no complete checkpoint[ after step {step:count}] confirms it",
    ReasonCode.CHECKPOINT_MISSING: "A checkpoint that was confirmed[, of step {confirmed:count},] is missing"
    f"{_REPLICA}[ on node {{node}}][: the newest in {{folder}} is {{newest}}]. If nobody "
    "deleted it, each node sees another volume: use a claim that is ReadWriteMany, or keep the job on one node with "
    f"colocate=True and a node_selector{_COUNTED}",
    ReasonCode.RETRIED: "Retried[ after {failure}][ (retry {retry})][ in {seconds:time}]",
    ReasonCode.WAITS_FOR_GATE: "Waits[ for {by}|to be let in][: {gate}]",
    ReasonCode.WAITS_FOR_NAMESAKE: "Waits until what is left of an earlier job of its name has ended"
    "[: replica {replica}][: {message}]",
    ReasonCode.CLUSTER_UNAVAILABLE: "Nothing can be done for it now, since the cluster can't be used[: {message}]",
    ReasonCode.CAN_NOT_BE_PLANNED: "Left out of the plan, since what is stored of it can't be understood[: {error}]",
    ReasonCode.NODE_TAKEN: "Others took its place[ on node {node}] before it could start[: needs {needed}]"
    "[, free are {free}][ ({message})]",
    ReasonCode.REFUSED_FOR_NOW: "Waits, since the cluster has no place for it now[: {message}]",
    ReasonCode.REFUSED: "Refused by the cluster[: {message}]"
    "[; its memory had grown to {grown:short} times what was asked for, after it ran out]",
    ReasonCode.LOST: f"Lost{_REPLICA}[ on node {{node}}][: {{message}}]{_COUNTED}",
    ReasonCode.NODE_LOST: "Node[ {node}] is lost[ for {seconds:time}]" + _COUNTED,
    ReasonCode.EVICTED: f"Evicted{_REPLICA}[ from node {{node}}][ ({{cluster_reason}})][: {{message}}]{_COUNTED}",
    ReasonCode.OOM: f"Out of memory{_REPLICA}[ with {{memory}}][ on node {{node}}]{_COUNTED}",
    ReasonCode.KILLED: f"Killed{_REPLICA}{_FAILED}{_COUNTED}",
    ReasonCode.USER_ERROR: f"The script failed{_REPLICA}{_FAILED}{_COUNTED}",
    ReasonCode.HUNG: f"Hung: no step[ for {{seconds:time}}][ since step {{step:count}}]"
    f"[, usually one is told each {{usual:time}}][; {{allowed:time}} are allowed]{_COUNTED}",
    ReasonCode.START_TIMEOUT: f"Did not start[ within {{seconds:time}}]{_REPLICA}[: {{message}}]{_COUNTED}",
    ReasonCode.MEMORY_GROWN: "Gets more memory[: {factor:short} times what was asked for]",
    ReasonCode.TIMEOUT: "Took longer than it may[: {seconds:time}]",
    ReasonCode.ORPHANED: "Stopped since its task is gone[ for {seconds:time}]",
    ReasonCode.STRAGGLER: f"Goes on without{_SLOW}{_SAVES}",
    ReasonCode.STRAGGLER_FOUND: f"Found{_SLOW}{_SAVES}[; it stays, since {{kept}}]",
    ReasonCode.STRAGGLER_REPLACED: f"Replaced{_SLOW}[: from {{speed_before:short}}][ to {{speed_after:short}} steps/s]"
    "[, {times:short} times as fast]",
    ReasonCode.STRAGGLER_RECOVERED: f"As fast as the others again:{_SLOW}",
}
"""Code -> sentence; ``{name:time}``, ``:count`` and the others of ``_STYLES`` say how a number is written."""

_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
_FIELD = re.compile(r"\{(\w+)(?::(\w+))?\}")


def render(code: str, numbers: Mapping[str, Any] | None = None) -> str:
    """Return the sentence of a reason, with units. A code of a newer Optimus renders as itself with its numbers."""
    known = {name: value for name, value in (numbers or {}).items() if value is not None}
    try:
        template = TEMPLATES[ReasonCode(code)]
    except ValueError:
        return _plain(code, known)
    text = _FIELD.sub(lambda field: _fill(field, known), _OPTIONAL.sub(lambda part: _optional(part, known), template))
    return re.sub(r"\s+([:;,.]|$)", r"\1", re.sub(r" {2,}", " ", text)).rstrip(".") + "."


def _optional(part: re.Match[str], known: Mapping[str, Any]) -> str:
    first, _, otherwise = part[1].partition("|")
    names = [name for name, _ in _FIELD.findall(first)]
    if names and all(name in known for name in names):
        return first
    return f" {otherwise}" if otherwise else ""


def _fill(field: re.Match[str], known: Mapping[str, Any]) -> str:
    value = known[field[1]]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return _STYLES[field[2] or "short"](value)


def _plain(code: str, known: Mapping[str, Any]) -> str:
    words = str(code).replace("_", " ").capitalize()
    given = ", ".join(f"{name} {value}" for name, value in known.items())
    return f"{words}: {given}." if given else f"{words}."


def duration(seconds: float) -> str:
    """Return a time for people, such as ``12 s``, ``3 min 20 s``, ``5 h 10 min`` or ``2 d 4 h``."""
    sign, whole = ("-" if seconds < 0 else ""), round(abs(seconds))
    if whole < 60:
        return f"{sign}{abs(seconds):.2g} s" if whole < 10 else f"{sign}{whole} s"
    if whole < 3600:
        return sign + _two(whole, 60, "min", 1, "s")
    if whole < 86400 - 30:
        return sign + _two(whole, 3600, "h", 60, "min")
    return sign + _two(whole, 86400, "d", 3600, "h")


def _two(seconds: int, large: int, large_name: str, small: int, small_name: str) -> str:
    count, rest = divmod(round(seconds / small), large // small)
    return f"{count} {large_name} {rest} {small_name}" if rest else f"{count} {large_name}"


def _told(saved: str, lost: str) -> Callable[[float], str]:
    """Return what tells of seconds that are won, or lost where the number is negative."""
    return lambda seconds: f"{saved if seconds >= 0 else lost} {duration(abs(seconds))}"


_STYLES: Mapping[str, Callable[[float], str]] = {
    "time": duration,
    "this": _told("this saves", "this costs"),
    "one_more": _told("one more worker would save", "one more worker would cost"),
    "costs": _told("costs it", "saves it"),
    "count": lambda value: f"{value:,.0f}",
    "percent": lambda value: f"{value:.0%}",
    "steps": lambda value: "1 step is" if value == 1 else f"{value:,.0f} steps are",
    "retries": lambda value: "1 retry" if value == 1 else f"{value:,.0f} retries",
    "gainers": lambda value: "1 other job gains" if value == 1 else f"{value:,.0f} other jobs gain",
    "short": lambda value: f"{value:.4g}" if isinstance(value, float) else str(value),
}
