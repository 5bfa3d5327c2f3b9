"""The cluster as a whole: up, down, and failures on demand."""

from __future__ import annotations

import os
import signal as signals
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from tests.cluster.testbed import archive, cache, images, keys, machine, programs, workers
from tests.cluster.testbed.client import Client
from tests.cluster.testbed.errors import ClusterError
from tests.cluster.testbed.layout import Options, State, checked, default_folder, nodes, write
from tests.cluster.testbed.sandbox import Sandbox
from tests.cluster.testbed.shell import until
from tests.cluster.testbed.startup import Startup


class Testbed:
    """A Kubernetes cluster in ``folder``: two real nodes and, where asked for, fake ones.

    Args:
        folder: its own folder, made and removed by it; each checkout has one by default.
        cpu: what each real node offers to pods, as Kubernetes writes it (3 by default, also on fewer cores).
        memory: likewise (3Gi by default).
        fake_nodes: how many nodes only kwok plays (0 by default).
        grace: seconds after which a silent node is not Ready (40 by default).
    """

    __test__ = False  # pytest: no class of tests

    def __init__(
        self,
        folder: Path | None = None,
        *,
        cpu: str | None = None,
        memory: str | None = None,
        fake_nodes: int | None = None,
        grace: int | None = None,
    ) -> None:
        self.folder = checked(folder or default_folder())
        self.sandbox = Sandbox(self.folder)
        asked = {"cpu": cpu, "memory": memory, "fake_nodes": fake_nodes, "grace": grace}
        self.asked = {name: value for name, value in asked.items() if value is not None}

    @property
    def kubeconfig(self) -> Path:
        """The administrator's way in."""
        return self.folder / "kubeconfig"

    @property
    def alive(self) -> bool:
        """Whether its namespaces are there; components may have died all the same."""
        return self.sandbox.alive(State.load(self.folder))

    def program(self, name: str) -> Path:
        """Return the path of a built program, such as ``kubectl`` or ``helm``."""
        return programs.program(name)

    def up(self) -> Path:
        """Start the cluster, or what of it has died; return its kubeconfig when all is well."""
        modules = programs.needed(self._fake_nodes())
        machine.require(programs=not programs.built(*modules), images=not images.built())
        found, store = programs.build(*modules), images.build()
        with self._locked():
            state = State.load(self.folder)
            if state is None or not self.sandbox.alive(state) or not self.kubeconfig.exists():
                state = self._begin(store)
            self._compare(state.options)
            Startup(self.folder, self.sandbox, state, found).run()
        return self.kubeconfig

    def down(self) -> None:
        """End the cluster and leave nothing of it."""
        machine.require_root()
        with self._locked():
            self.sandbox.end(State.load(self.folder))

    def components(self) -> dict[str, int | None]:
        """Return the process of each component, None for one that does not run."""
        state = self._running()
        return {name: self.sandbox.find(state, argv) for name, argv in state.commands.items()}

    def kill(self, name: str, signal: str = "KILL") -> None:
        """Send a component such as ``kube-apiserver`` or ``kubelet-a`` a signal; wait for its end if it is KILL."""
        with self._locked():
            state = self._running()
            argv = self._command(state, name)
            pid = self.sandbox.find(state, argv)
            if pid is None:
                return
            os.kill(pid, _signal(signal))
            if _signal(signal) is signals.SIGKILL:
                until(f"{name} has ended", lambda: self.sandbox.find(state, argv) != pid)

    def start(self, name: str) -> None:
        """Start a component that was killed, with the command line it had; does not wait until it serves."""
        with self._locked():
            state = self._running()
            Startup(self.folder, self.sandbox, state, {}).launch(name, self._command(state, name))

    def image(self, name: str, rootfs: Path) -> str:
        """Give both nodes the image ``name:tag`` made of a root file system's tar file; return its full name."""
        full = archive.full_name(name)
        with self._locked(), tempfile.TemporaryDirectory(prefix="optimus-image-") as scratch:
            self._running()
            file = Path(scratch, "image.tar")
            archive.write(file, name, rootfs)
            for node in nodes(self.folder):
                images.load(node.socket, file)
        return full

    def status(self) -> list[str]:
        """Return lines that tell of components and nodes, and whether all is well in the last one."""
        if not self.alive:
            return ["down"]
        state, components = self._running(), self.components()
        lines = [f"{name:26} {pid or 'DOES NOT RUN'}" for name, pid in components.items()]
        client = Client(state.address, self.folder / "pki")
        found, ready, wanted = client.nodes(), client.count_ready(), 2 + state.options.fake_nodes
        for name, (is_ready, size) in found.items():
            if not name.startswith("fake-"):
                amounts = f"cpu {size.get('cpu')}, memory {size.get('memory')}"
                lines.append(f"{name:26} {'Ready' if is_ready else 'NotReady'}, {amounts}")
        well = "up" if all(components.values()) and ready == wanted else "NOT WELL"
        return [*lines, f"{well}: {ready} of {wanted} nodes are Ready; kubeconfig {self.kubeconfig}"]

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with cache.locked(cache.root() / f"{self.sandbox.id}.lock", f"it works on {self.folder}"):
            yield

    def _running(self) -> State:
        state = State.load(self.folder)
        if state is None or not self.sandbox.alive(state):
            raise ClusterError(f"no cluster is up in {self.folder}; start it with: python -m tests.cluster.testbed up")
        return state

    def _fake_nodes(self) -> int:
        state = State.load(self.folder)
        return int(self.asked.get("fake_nodes", state.options.fake_nodes if state else 0))

    def _command(self, state: State, name: str) -> list[str]:
        if name not in state.commands:
            raise ClusterError(f'"{name}" is no component; there are {", ".join(sorted(state.commands))}')
        return state.commands[name]

    def _compare(self, running: Options) -> None:
        """Refuse other options than those that the cluster was made with."""
        for name, value in self.asked.items():
            if getattr(running, name) != value:
                raise ClusterError(
                    f"the cluster is up with {name.replace('_', '-')} {getattr(running, name)}, not {value}; "
                    "take it down first: python -m tests.cluster.testbed down"
                )

    def _begin(self, store: Path) -> State:
        """Make a new cluster's folder, namespaces and keys."""
        self.sandbox.end(State.load(self.folder))
        options = Options(**{**asdict(Options()), **self.asked})
        workers.check(options)
        (self.folder / "logs").mkdir(parents=True)
        for node in nodes(self.folder):
            node.folder.mkdir()
            images.clone(store, node.folder / "containerd")
        names = "".join(f"{node.gateway} {node.name}\n" for node in nodes(self.folder))
        write(self.folder / "hosts", f"127.0.0.1 localhost\n{names}")
        write(self.folder / "resolv.conf", f"nameserver {nodes(self.folder)[0].gateway}\n")
        workers.pretend_cores(self.folder, options)
        with cache.locked(cache.root() / "network.lock", "it takes addresses for a cluster"):
            state = self.sandbox.begin(options)
        keys.make(self.folder / "pki", state.address)
        keys.write_kubeconfig(self.kubeconfig, self.folder / "pki", state.address, self.sandbox.id)  # last: it is whole
        return state


def _signal(name: str) -> signals.Signals:
    try:
        return signals.Signals[f"SIG{name.upper().removeprefix('SIG')}"]
    except KeyError:
        raise ClusterError(f'"{name}" is no signal; write one such as KILL, TERM or STOP') from None
