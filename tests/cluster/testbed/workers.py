"""The real nodes: a containerd and a kubelet each, and how much they offer."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

from optimus_core.errors import SpecificationError
from optimus_core.resources import parse_quantity
from tests.cluster.testbed import cgroups, images
from tests.cluster.testbed.errors import ClusterError
from tests.cluster.testbed.layout import DOMAIN, Node, Options, State, write
from tests.cluster.testbed.shell import which

_KEPT_FREE = 100 * 2**20
"""Bytes of memory below which kubelet evicts; they count as not allocatable."""


def containerd(node: Node) -> list[str]:
    """Return how a node's containerd is started, and write what it reads."""
    folder = node.folder
    write(folder / "cni" / "10-bridge.conflist", json.dumps(_network(node), indent=1))
    write(
        folder / "containerd.toml",
        images.config(folder / "containerd", folder / "containerd-run", node.socket, folder / "cni"),
    )
    return [which("containerd") or "containerd", "-c", str(folder / "containerd.toml")]


def kubelet(node: Node, program: Path, sandbox: str, state: State) -> list[str]:
    """Return how a node's kubelet is started; write what it reads and make its cgroup."""
    cgroups.make(f"{sandbox}/{node.name}")
    file = node.folder / "kubelet.json"
    write(file, json.dumps(_settings(node, f"/{sandbox}/{node.name}", state), indent=1))
    return [
        str(program),
        f"--config={file}",
        f"--kubeconfig={node.bed}/kubeconfig",
        f"--root-dir={node.folder}/kubelet",
        f"--cert-dir={node.folder}/pki",
        f"--hostname-override={node.name}",
        f"--node-ip={node.gateway}",
    ]


def check(options: Options) -> None:
    """Refuse what no node of this machine can offer."""
    try:
        cpu, memory = parse_quantity(options.cpu, "cpu"), parse_quantity(options.memory, "memory")
    except SpecificationError as error:
        raise ClusterError(str(error)) from None
    if cpu <= 0 or memory <= 0:
        raise ClusterError(f"cpu is {options.cpu} and memory {options.memory}; both must be more than 0")
    if memory + _KEPT_FREE > _machine_memory():
        most = (_machine_memory() - _KEPT_FREE) // 2**20
        raise ClusterError(f"memory is {options.memory}; a node of this machine can offer at most {most}Mi")


def pretend_cores(folder: Path, options: Options) -> None:
    """Write what kubelet shall see of processors, where more are asked for than there are.

    Kubelet counts folders in /sys/devices/system/node, where the sandbox shows it ours. It also binds pods to the
    processors of that number, which must exist: so the third of two is the first again, by the name ``cpu00``.
    Containers have a /sys of their own, which tells the truth.
    """
    real = sorted(os.sched_getaffinity(0))
    if _cores(options) == len(real):
        return
    for core in range(_cores(options)):
        again, number = divmod(core, len(real))
        topology = folder / "cpus" / "node0" / f"cpu{'0' * again}{real[number]}" / "topology"
        write(topology / "core_id", f"{core}\n")
        write(topology / "physical_package_id", "0\n")


def _cores(options: Options) -> int:
    return max(len(os.sched_getaffinity(0)), math.ceil(parse_quantity(options.cpu)))


def _machine_memory() -> int:
    """Bytes, as kubelet counts them."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal:"))


def _reserved(options: Options) -> dict[str, str]:
    """What is left of the machine when the node has what it offers; kubelet takes it off."""
    cpu = math.ceil(1000 * (_cores(options) - parse_quantity(options.cpu)))
    memory = _machine_memory() - _KEPT_FREE - math.floor(parse_quantity(options.memory))
    return {"cpu": f"{cpu}m", "memory": str(memory)}


def _network(node: Node) -> dict[str, Any]:
    addresses = {
        "type": "host-local",
        "dataDir": f"{node.folder}/addresses",
        "ranges": [[{"subnet": node.subnet}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": node.bridge, "isGateway": True, "hairpinMode": True, "ipam": addresses}
    return {"cniVersion": "1.0.0", "name": node.name, "plugins": [bridge]}


def _settings(node: Node, cgroup: str, state: State) -> dict[str, Any]:
    lease = max(1, state.options.grace // 2)
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{node.bed}/pki/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "port": node.port,
        "healthzPort": node.port - 2,
        "healthzBindAddress": state.address,
        "readOnlyPort": 0,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup,
        "containerRuntimeEndpoint": f"unix://{node.socket}",
        "clusterDNS": [node.gateway],
        "clusterDomain": DOMAIN,
        "resolvConf": "",
        "podLogsDir": f"{node.folder}/logs",  # two kubelets in one folder would remove each other's
        "containerLogMaxSize": "1Mi",  # small, so that tests see logs that are rotated
        "containerLogMonitorInterval": "3s",
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "evictionHard": {"memory.available": str(_KEPT_FREE), "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "systemReserved": _reserved(state.options),
        "nodeLeaseDurationSeconds": lease,
        "nodeStatusUpdateFrequency": f"{max(1, lease // 2)}s",
    }
