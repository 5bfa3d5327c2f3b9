"""A real Kubernetes cluster on one Linux machine, for tests.

Two real nodes (node-a, node-b) in namespaces of their own; all that it is made of is built from source or from Debian
packages, once, and kept in ~/.cache/optimus-testbed. `up` is idempotent: it starts what has died. `down` leaves
nothing behind but that cache.

Exit codes: 0 done, 1 it failed or is not well, 2 this machine can't run it (the message says what it lacks).
With OPTIMUS_TEST_KUBECONFIG=/path/to/kubeconfig tests use a cluster of your own; up and down then do nothing.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.cluster.testbed import images, programs, session
from tests.cluster.testbed.bed import Testbed
from tests.cluster.testbed.errors import ClusterError, MissingError
from tests.cluster.testbed.layout import default_folder
from tests.cluster.testbed.machine import EXTERNAL, external, require
from tests.cluster.testbed.shell import say


def main() -> int:
    """Carry out a command; return the exit code."""
    given = _parser().parse_args()
    try:
        own = external()
        return _do_external(own, given) if own else _do(given)
    except MissingError as error:
        say(str(error))
        return 2
    except ClusterError as error:
        say(f"it failed: {error}")
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.cluster.testbed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="start the cluster, or what of it has died, and print its kubeconfig's path")
    up.add_argument("--cpu", help="what each real node offers to pods (default 3)")
    up.add_argument("--memory", help="likewise (default 3Gi)")
    up.add_argument("--fake-nodes", type=int, metavar="N", help="nodes that only kwok plays (default 0)")
    up.add_argument("--grace", type=int, metavar="S", help="seconds until a silent node is not Ready (default 40)")
    commands.add_parser("check", help="say what this machine lacks to run it; exit 2 if anything")
    commands.add_parser("build", help="make the programs and images that it needs, if they are not kept already")
    commands.add_parser("down", help="end the cluster and leave nothing of it")
    commands.add_parser("status", help="list components and nodes; exit 0 if all is well")
    commands.add_parser("kubeconfig", help="print the path of the kubeconfig")
    image = commands.add_parser("image", help="give both nodes an image made of a root file system's tar file")
    image.add_argument("name", metavar="NAME:TAG")
    image.add_argument("rootfs", type=Path, metavar="ROOTFS.tar")
    kill = commands.add_parser("kill", help="send a component a signal, such as kube-apiserver, etcd, kubelet-a")
    kill.add_argument("name", metavar="COMPONENT")
    kill.add_argument("signal", nargs="?", default="KILL")
    start = commands.add_parser("start", help="start a component that was killed")
    start.add_argument("name", metavar="COMPONENT")
    for command in commands.choices.values():
        command.add_argument("--dir", type=Path, help=f"the cluster's folder (default {default_folder()})")
    return parser


def _do_external(own: Path, given: argparse.Namespace) -> int:
    """Leave a cluster of the user's own alone."""
    if given.command not in ("up", "check", "down", "kubeconfig", "status"):
        raise ClusterError(f"{EXTERNAL} names a cluster that is not ours; {given.command} is not done to it")
    say(f"{EXTERNAL} is set: that cluster is used, and nothing is done to it")
    if given.command not in ("check", "down"):
        print(own)
    return 0


def _do(given: argparse.Namespace) -> int:
    match given.command:
        case "up":
            return _up(given)
        case "check":
            require(programs=True, images=True)
        case "build":
            programs.build(*(module.name for module in programs.MODULES))
            images.build()
        case "down":
            Testbed(given.dir).down()
        case "status":
            return _status(Testbed(given.dir))
        case "kubeconfig":
            return _kubeconfig(Testbed(given.dir))
        case "image":
            print(Testbed(given.dir).image(given.name, given.rootfs))
        case "kill":
            Testbed(given.dir).kill(given.name, given.signal)
        case "start":
            Testbed(given.dir).start(given.name)
    return 0


def _up(given: argparse.Namespace) -> int:
    began = time.monotonic()
    asked = {name: getattr(given, name) for name in ("cpu", "memory", "fake_nodes", "grace")}
    bed = Testbed(given.dir, **asked)
    kubeconfig = bed.up()
    session.adopt(bed)
    say(f"the cluster is up after {time.monotonic() - began:.1f} s; its kubeconfig:")
    print(kubeconfig)
    return 0


def _status(bed: Testbed) -> int:
    lines = bed.status()
    print("\n".join(lines))
    return 0 if lines[-1].startswith("up") else 1


def _kubeconfig(bed: Testbed) -> int:
    if not bed.alive:
        raise ClusterError(f"no cluster is up in {bed.folder}; start it with: python -m tests.cluster.testbed up")
    print(bed.kubeconfig)
    return 0


if __name__ == "__main__":
    sys.exit(main())
