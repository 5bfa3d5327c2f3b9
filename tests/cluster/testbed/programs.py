"""The cluster's programs, built from pinned Go modules (folder ``modules``)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.testbed import cache
from tests.cluster.testbed.shell import run, say

HERE = Path(__file__).parent / "modules"
KUBERNETES = "v1.34.4"
_KUBE = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kubectl",
    "kube-proxy",
)
_STAGES = (
    "node/fast/node-initialize",
    "node/heartbeat-with-lease/node-heartbeat-with-lease",
    "pod/fast/pod-ready",
    "pod/fast/pod-complete",
    "pod/fast/pod-delete",
)
"""How kwok plays a node and its pods; they come with its module."""


@dataclass(frozen=True)
class Module:
    """A Go module of ours that pins programs: their names and Go packages."""

    name: str
    packages: dict[str, str]
    link: str = "-s -w"

    @property
    def folder(self) -> Path:
        """Where its go.mod and go.sum are."""
        return HERE / self.name

    @property
    def key(self) -> str:
        """A hash of all that makes its programs."""
        files = [file.read_bytes() for file in sorted(self.folder.iterdir())]
        return cache.digest(*files, repr(sorted(self.packages.items())), self.link, repr(_STAGES))

    @property
    def ready(self) -> bool:
        """Whether it is built."""
        return cache.path(self.name, self.key).exists()

    def build(self) -> Path:
        """Return the folder of its programs, built if they are not there."""
        return cache.made(self.name, self.key, self._build)

    def _build(self, draft: Path) -> None:
        for number, (program, package) in enumerate(self.packages.items(), 1):
            say(f"building {program} from {package} ({number} of {len(self.packages)} of modules/{self.name})")
            began = time.monotonic()
            self._go("build", "-trimpath", f"-ldflags={self.link}", "-o", str(draft / program), package)
            say(f"built {program} in {time.monotonic() - began:.0f} s")
        if self.name == "kwok":
            (draft / "stages.yaml").write_text(self._stages())

    def _go(self, *words: str) -> str:
        environ = {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"}
        return run("nice", "-n", "15", "go", *words, env=environ, cwd=self.folder)

    def _stages(self) -> str:
        source = Path(self._go("list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok").strip(), "kustomize", "stage")
        return "\n---\n".join((source / f"{stage}.yaml").read_text() for stage in _STAGES)


MODULES = (
    Module(
        "kubernetes",
        {name: f"k8s.io/kubernetes/cmd/{name}" for name in _KUBE} | {"etcd": "go.etcd.io/etcd/server/v3"},
        # without a version the kubelet calls itself v0.0.0-master+$Format:%H$
        f"-s -w -X k8s.io/component-base/version.gitVersion={KUBERNETES}",
    ),
    Module("kwok", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"}),
    Module("coredns", {"coredns": "."}),
    Module("helm", {"helm": "helm.sh/helm/v3/cmd/helm"}),
)


def needed(fake_nodes: int) -> tuple[str, ...]:
    """Return the names of the modules that a cluster starts from."""
    return ("kubernetes", "coredns", "kwok") if fake_nodes else ("kubernetes", "coredns")


def built(*names: str) -> bool:
    """Return whether the programs of these modules are there, so that Go is not needed."""
    return all(module.ready for module in MODULES if module.name in names)


def build(*names: str) -> dict[str, Path]:
    """Return where each program of these modules is, and kwok's ``stages.yaml``; build what is not there."""
    modules = [module for module in MODULES if module.name in names]
    return {file.name: file for module in modules for file in module.build().iterdir()}


def program(name: str) -> Path:
    """Return where a program is; build its module if it is not there."""
    (module,) = [module for module in MODULES if name in module.packages]
    return module.build() / name
