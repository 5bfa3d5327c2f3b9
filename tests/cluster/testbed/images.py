"""The cluster's images, made from Debian packages and kept unpacked, as a containerd store that nodes copy."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.testbed import archive, cache
from tests.cluster.testbed.shell import PATH, run, say, until

PAUSE_IMAGE = "optimus-pause:1"
PYTHON_IMAGE = "optimus-python:1"
"""Python 3 and numpy on Debian."""
_PAUSE = Path(__file__).with_name("pause.c")
_SUITE = "trixie"
_PACKAGES = ("python3", "python3-numpy")
_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*")
_UNUSED = ("aufs", "btrfs", "devmapper", "zfs")
"""Ways to keep layers that we don't use; containerd would complain that it can't."""


def _key() -> str:
    recipe = repr((PAUSE_IMAGE, PYTHON_IMAGE, _SUITE, _PACKAGES, _LEFT_OUT, platform.machine()))
    return cache.digest(_PAUSE.read_bytes(), recipe)


def built() -> bool:
    """Return whether the images are there, so that nothing must be downloaded or compiled."""
    return cache.path("images", _key()).exists()


def build() -> Path:
    """Return the containerd store with every image, made if it is not there."""
    return cache.made("images", _key(), _build) / "containerd"


def clone(store: Path, target: Path) -> None:
    """Copy a store. Files of layers are never written to, so they are shared; databases are not."""
    if store.stat().st_dev != target.parent.stat().st_dev:
        run("cp", "-a", store, target)
        return
    run("cp", "-al", store, target)
    for database in target.glob("*/*.db"):
        own = database.with_suffix(".own")
        shutil.copy2(database, own)
        own.replace(database)


def load(path: Path, file: Path) -> None:
    """Import an image archive into the containerd that listens at ``path``."""
    run("ctr", "-a", path, "-n", "k8s.io", "images", "import", file)


def listening(path: Path) -> bool:
    """Return whether a containerd listens at ``path``; a killed one leaves its socket behind."""
    with socket.socket(socket.AF_UNIX) as tried:
        try:
            tried.connect(str(path))
        except OSError:
            return False
    return True


def config(root: Path, state: Path, listen: Path, cni: Path) -> str:
    """Return a configuration of containerd."""
    unused = ", ".join(f'"io.containerd.snapshotter.v1.{name}"' for name in _UNUSED)
    return f"""version = 2
root = "{root}"
state = "{state}"
disabled_plugins = [{unused}]
[grpc]
address = "{listen}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{archive.full_name(PAUSE_IMAGE)}"
disable_hugetlb_controller = true
restrict_oom_score_adj = true  # without CAP_SYS_RESOURCE every pod would fail
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{cni}"
"""


def _build(draft: Path) -> None:
    began = time.monotonic()
    say(f"making the images {PAUSE_IMAGE} (C) and {PYTHON_IMAGE} (Debian {_SUITE}: {' '.join(_PACKAGES)})")
    with tempfile.TemporaryDirectory(prefix="optimus-images-") as scratch:
        work = Path(scratch)
        _pause(work)
        _python(work)
        with _containerd(draft / "containerd", work) as path:
            for name in ("pause", "python"):
                load(path, work / f"{name}.tar")
    say(f"made the images in {time.monotonic() - began:.0f} s")


def _pause(work: Path) -> None:
    run("gcc", "-static", "-Os", "-s", "-o", work / "pause", _PAUSE)
    with tarfile.open(work / "pause.root.tar", "w") as tar:
        tar.add(work / "pause", "pause")
    archive.write(work / "pause.tar", PAUSE_IMAGE, work / "pause.root.tar", ["/pause"])


def _python(work: Path) -> None:
    root = work / "python.root.tar"
    options = [f"--include={','.join(_PACKAGES)}", *(f"--dpkgopt=path-exclude={each}" for each in _LEFT_OUT)]
    run("nice", "-n", "15", "mmdebstrap", "--quiet", "--variant=essential", *options, _SUITE, root)
    archive.write(work / "python.tar", PYTHON_IMAGE, root)


@contextmanager
def _containerd(root: Path, work: Path) -> Iterator[Path]:
    """Run a containerd on the store ``root`` for a while, in namespaces that end with it."""
    path = work / "containerd.sock"
    file = work / "containerd.toml"
    file.write_text(config(root, work / "state", path, work / "cni"))
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "containerd", "-c", str(file)]
    environ = {**os.environ, "PATH": PATH}
    with (work / "containerd.log").open("wb") as log:
        running = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ)
        try:
            until("containerd answers", lambda: listening(path), 30)
            yield path
        finally:
            _end(running)


def _end(running: subprocess.Popen[bytes]) -> None:
    """End the process that a launcher waits for, and the launcher with it, databases closed."""
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
    for child in children.read_text().split() if children.exists() else ():
        os.kill(int(child), 15)
    try:
        running.wait(10)
    except subprocess.TimeoutExpired:
        running.kill()
        running.wait()
