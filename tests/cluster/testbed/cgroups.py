"""The cluster's cgroups, in each hierarchy of the kernel's first or second version."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from tests.cluster.testbed.shell import until

ROOT = Path("/sys/fs/cgroup")


def make(name: str) -> None:
    """Make the cgroup ``name`` (may be several levels), ready for kubelet to make its own below."""
    for hierarchy in _hierarchies():
        level = hierarchy
        for part in Path(name).parts:
            _open(level)
            parent, level = level, level / part
            level.mkdir(exist_ok=True)
            for file in ("cpuset.cpus", "cpuset.mems"):
                if (hierarchy / "cgroup.controllers").exists() or not (level / file).exists():
                    continue
                (level / file).write_text((parent / file).read_text())
        _open(level)


def remove(name: str) -> None:
    """Remove the cgroup ``name`` and all below it; no process is in them any more."""
    for hierarchy in _hierarchies():
        for folder, _, _ in os.walk(hierarchy / name, topdown=False):
            procs = Path(folder, "cgroup.procs")
            until(f"{folder} is empty", partial(_empty, procs), 10)
            Path(folder).rmdir()


def _empty(file: Path) -> bool:
    return not file.read_text()


def _hierarchies() -> list[Path]:
    """The one of version 2, or each controller's of version 1 (and 2 beside them)."""
    if (ROOT / "cgroup.controllers").exists():
        return [ROOT]
    return [entry for entry in ROOT.iterdir() if entry.is_dir() and not entry.is_symlink()]


def _open(level: Path) -> None:
    """Let cgroups below ``level`` have every controller (version 2 only)."""
    if (level / "cgroup.controllers").exists():
        wanted = " ".join(f"+{name}" for name in (level / "cgroup.controllers").read_text().split())
        (level / "cgroup.subtree_control").write_text(wanted)
