"""Who am I, and who else is there: the OPTIMUS_* variables, read and checked.

The engine sets them on every replica. A script that is started by hand has none of them, and is then the
only worker of a job that keeps its checkpoints in ./checkpoints.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import List, NamedTuple, Optional

ROLES = ("worker", "server", "scheduler")


class ContractError(ValueError):
    """A variable has a value that it cannot have, or a replica does what is another's; says what to write instead."""


class Address(NamedTuple):
    """Where a replica can be reached. As a tuple it is what sockets take, as text it is host:port."""

    host: str
    port: int

    def __str__(self) -> str:
        return "%s:%d" % ("[%s]" % self.host if ":" in self.host else self.host, self.port)


def job() -> str:
    """The job's name."""
    return text("OPTIMUS_JOB", "by-hand")


def generation() -> int:
    """Counts the allocations that this job has had: each has its own checkpoint folder."""
    return integer("OPTIMUS_GENERATION", 0)


def by_hand() -> bool:
    """Whether this script was started without Optimus: it is then the only generation of its job."""
    return not text("OPTIMUS_GENERATION", "")


def attempt() -> int:
    """Which try of the task this is."""
    return integer("OPTIMUS_ATTEMPT", 1)


def role() -> str:
    """`worker`, `server` or `scheduler`."""
    value = text("OPTIMUS_ROLE", "worker")
    if value not in ROLES:
        raise ContractError("OPTIMUS_ROLE is %r; it can be %s." % (value, ", ".join(ROLES)))
    return value


def rank() -> int:
    """This replica's number within its role, from 0."""
    value = integer("OPTIMUS_RANK", 0)
    known = role()
    count = workers() if known == "worker" else servers() if known == "server" else 1
    if value >= count:
        raise ContractError(
            "OPTIMUS_RANK is %d, but there are only %d of role %s: the highest rank is %d."
            % (value, count, known, count - 1)
        )
    return value


def workers() -> int:
    """How many workers this generation has."""
    return integer("OPTIMUS_WORKERS", 1, least=1)


def servers() -> int:
    """How many parameter servers this generation has; 0 with all-reduce."""
    return integer("OPTIMUS_SERVERS", 0)


def address() -> Address:
    """Where this replica may listen. By hand: any free port of this machine."""
    return _address("OPTIMUS_ADDRESS", text("OPTIMUS_ADDRESS", "127.0.0.1:0"))


def worker_addresses() -> List[Address]:
    """Where the workers are, in the order of their ranks."""
    return _addresses("OPTIMUS_WORKER_ADDRESSES", "OPTIMUS_WORKERS", workers())


def server_addresses() -> List[Address]:
    """Where the parameter servers are, in the order of their ranks."""
    return _addresses("OPTIMUS_SERVER_ADDRESSES", "OPTIMUS_SERVERS", servers())


def checkpoint_root() -> Path:
    """The job's checkpoint folder, with one folder in it for each generation."""
    return Path(text("OPTIMUS_CHECKPOINTS", "checkpoints"))


def confirmed_step() -> Optional[int]:
    """The step of the newest checkpoint that Optimus knows to be complete, None if it knows of none."""
    return integer("OPTIMUS_CONFIRMED_STEP", 0) if text("OPTIMUS_CONFIRMED_STEP", "") else None


def grace_seconds() -> float:
    """Seconds between the request to stop (SIGTERM) and the kill."""
    value = text("OPTIMUS_GRACE_SECONDS", "30")
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise ContractError("OPTIMUS_GRACE_SECONDS is %r; write a number of seconds such as 30." % value)
    return seconds


def termination_message() -> Optional[Path]:
    """The file whose text outlives this replica, if there is one."""
    value = text("OPTIMUS_TERMINATION_MESSAGE", "")
    return Path(value) if value else None


def text(name: str, default: str) -> str:
    """The variable's value; one that is empty counts as not set."""
    return os.environ.get(name, "").strip() or default


def integer(name: str, default: int, least: int = 0) -> int:
    """The variable's value as a whole number that is not below `least`."""
    value = text(name, str(default))
    try:
        number = int(value)
    except ValueError:
        raise ContractError("%s is %r; write a whole number such as %d." % (name, value, default)) from None
    if number < least:
        raise ContractError("%s is %d; it must be at least %d." % (name, number, least))
    return number


def _addresses(name: str, count_name: str, count: int) -> List[Address]:
    listed = [_address(name, part.strip()) for part in text(name, "").split(",") if part.strip()]
    if not listed and name == "OPTIMUS_WORKER_ADDRESSES" and count == 1:
        return [address()]  # alone: nobody else needs to find us
    if len(listed) != count:
        raise ContractError(
            "%s names %d addresses, but %s is %d: there must be one for each." % (name, len(listed), count_name, count)
        )
    return listed


def _address(name: str, value: str) -> Address:
    host, colon, port = value.rpartition(":")
    if not (colon and host and port.isdigit() and int(port) < 65536):
        raise ContractError("%s has %r in it; write host:port, for example 10.0.0.7:4000." % (name, value))
    return Address(host.strip("[]"), int(port))
