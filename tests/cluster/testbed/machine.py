"""What the machine must have; Debian packages are installed where that is possible."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

from tests.cluster.testbed.errors import MissingError
from tests.cluster.testbed.shell import PATH, run, say, which

EXTERNAL = "OPTIMUS_TEST_KUBECONFIG"
INSTEAD = f"Or point the same tests at a cluster of your own: {EXTERNAL}=/path/to/kubeconfig"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_TO_RUN = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "ip": "iproute2",
    "nft": "nftables",
    "conntrack": "conntrack",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "mount": "mount",
}
"""Each command, and the Debian package that brings it."""
_FOR_IMAGES = {"gcc": "gcc", "/usr/include/stdlib.h": "libc6-dev", "mmdebstrap": "mmdebstrap"}


def external() -> Path | None:
    """Return the kubeconfig of a cluster of the user's own, None if ours is to be used.

    Raises:
        MissingError: the variable names no file.
    """
    given = os.environ.get(EXTERNAL)
    if not given:
        return None
    if not Path(given).is_file():
        raise MissingError(f'{EXTERNAL} is "{given}", which is no file; name a kubeconfig, or unset it')
    return Path(given)


def require(*, programs: bool, images: bool) -> None:
    """Make sure that the cluster can run here; ``programs`` and ``images`` say whether those must be made first.

    Raises:
        MissingError: it can't.
    """
    lacks = _kernel()
    if programs and not which("go"):
        lacks.append("Go 1.26 or newer, to build the cluster's programs (https://go.dev/dl)")
    packages = _packages(_TO_RUN | (_FOR_IMAGES if images else {}))
    if packages and not lacks and which("apt-get"):
        _install(packages)
        packages = _packages(_TO_RUN | (_FOR_IMAGES if images else {}))
    if packages:
        lacks.append(f"the Debian packages {' '.join(packages)} (as root: apt-get install {' '.join(packages)})")
    if lacks:
        raise MissingError("\n  - ".join(["The test cluster can't run here. It lacks:", *lacks]) + f"\n{INSTEAD}")


def require_root() -> None:
    """Make sure that what is there can be looked at and changed."""
    if lacks := _kernel():
        raise MissingError("\n  - ".join(["The test cluster can't run here. It lacks:", *lacks]) + f"\n{INSTEAD}")


def _kernel() -> list[str]:
    """Return what of the system itself is missing."""
    if sys.platform != "linux":
        return [f"Linux (this is {platform.system()})"]
    if platform.machine() not in ARCHITECTURES:
        return [f"a processor of {' or '.join(ARCHITECTURES)} (this is {platform.machine()})"]
    if os.geteuid():
        return ["root, for namespaces, mounts and cgroups (run it with sudo)"]
    if which("unshare") and _refused("unshare", "--mount", "--net", "--pid", "--fork", "true"):
        return ["leave to make namespaces (in a container, run it privileged)"]
    if not os.access("/sys/fs/cgroup", os.W_OK):
        return ["a writable /sys/fs/cgroup (in a container, run it privileged)"]
    return []


def _refused(*argv: str) -> bool:
    return bool(subprocess.run(argv, capture_output=True, env={"PATH": PATH}, check=False).returncode)


def _packages(needs: dict[str, str]) -> list[str]:
    """Return the packages of the commands and files that are not there."""
    return sorted({package for need, package in needs.items() if not (which(need) or Path(need).exists())})


def _install(packages: list[str]) -> None:
    say(f"installing Debian packages: {' '.join(packages)}")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    run("apt-get", "-qq", "update", env=quiet)
    run("apt-get", "-qq", "-y", "--no-install-recommends", "install", *packages, env=quiet)
