"""Where things are: the cluster's folder, its nodes, and what was asked for."""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.cluster.testbed.errors import ClusterError

CHECKOUT = Path(__file__).resolve().parents[3]
LETTERS = "ab"
DOMAIN = "cluster.local"
SERVICES = "10.96.0.0/16"
FIRST_SERVICE = "10.96.0.1"
PODS = "10.88.0.0/13"
_HIDDEN = re.compile(r"/(run|var/run|var/lib|var/log|proc|sys|dev)(/|$)")
_LONGEST = 60
"""Letters of the folder: the paths of sockets in it must not pass 107."""


def default_folder() -> Path:
    """Return the folder of this checkout's cluster."""
    return Path(f"/var/tmp/optimus-testbed-{hashlib.sha256(str(CHECKOUT).encode()).hexdigest()[:8]}")


@dataclass(frozen=True)
class Node:
    """A real node: a containerd and a kubelet with folders, a bridge and ports of their own."""

    letter: str
    bed: Path

    @property
    def name(self) -> str:
        """Its name in Kubernetes."""
        return f"node-{self.letter}"

    @property
    def folder(self) -> Path:
        """Where everything of it is."""
        return self.bed / self.name

    @property
    def socket(self) -> Path:
        """Where its containerd listens."""
        return self.folder / "containerd.sock"

    @property
    def bridge(self) -> str:
        """The network device that its pods hang on."""
        return f"br-{self.letter}"

    @property
    def index(self) -> int:
        """Its number, from 0."""
        return LETTERS.index(self.letter)

    @property
    def subnet(self) -> str:
        """The addresses of its pods."""
        return f"10.{88 + self.index}.0.0/16"

    @property
    def gateway(self) -> str:
        """Its own address, at which its pods ask for names as well."""
        return f"10.{88 + self.index}.0.1"

    @property
    def port(self) -> int:
        """Where its kubelet listens; the nodes share one network namespace."""
        return 10250 + 100 * self.index


def nodes(bed: Path) -> list[Node]:
    """Return the real nodes of the cluster in the folder ``bed``."""
    return [Node(letter, bed) for letter in LETTERS]


@dataclass(frozen=True)
class Options:
    """What was asked for: quantities as Kubernetes writes them, seconds for ``grace``."""

    cpu: str = "3"
    memory: str = "3Gi"
    fake_nodes: int = 0
    grace: int = 40


@dataclass
class State:
    """What must be known of a running cluster, kept in ``state.json``."""

    init: int
    """Process 1 of its namespaces, as the machine numbers it."""
    started: int
    """When that process started, in ticks: with its number it means one process for good."""
    net: str
    """First three numbers of the addresses between the machine (.1) and the cluster (.2)."""
    options: Options = field(default_factory=Options)
    commands: dict[str, list[str]] = field(default_factory=dict)
    """The command of each component that was ever started."""

    @property
    def address(self) -> str:
        """Where the machine reaches the cluster."""
        return f"{self.net}.2"

    def save(self, folder: Path) -> None:
        """Write it down, whole or not at all."""
        draft = folder / "state.json.draft"
        draft.write_text(json.dumps(asdict(self), indent=1))
        draft.rename(folder / "state.json")

    @classmethod
    def load(cls, folder: Path) -> State | None:
        """Return what is written down, None if nothing is."""
        file = folder / "state.json"
        if not file.exists():
            return None
        read = json.loads(file.read_text())
        return cls(**{**read, "options": Options(**read["options"])})


def checked(folder: Path) -> Path:
    """Return ``folder`` if a cluster can be in it."""
    folder = Path(os.path.abspath(folder))
    if len(str(folder)) > _LONGEST or _HIDDEN.match(str(folder)):
        raise ClusterError(
            f"{folder} can't hold a cluster; take one of at most {_LONGEST} letters that is not under /run, /var/lib, "
            "/var/log, /proc, /sys or /dev (those are hidden inside it)"
        )
    return folder


def write(file: Path, text: str) -> None:
    """Write a file where it differs: kube-proxy ends itself when its own is written to, even unchanged."""
    if not file.exists() or file.read_text() != text:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
