"""Starting what does not run, in the order in which one needs the other, until all is well."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.cluster.testbed import control, fakes, workers
from tests.cluster.testbed.client import Client, healthy
from tests.cluster.testbed.errors import ClusterError
from tests.cluster.testbed.images import listening
from tests.cluster.testbed.layout import State, nodes
from tests.cluster.testbed.sandbox import Sandbox
from tests.cluster.testbed.shell import say, until

_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"
"""No pod can be created before it is there."""


class Startup:
    """One start of the cluster in ``folder``; ``programs`` says where each program is."""

    def __init__(self, folder: Path, sandbox: Sandbox, state: State, programs: dict[str, Path]) -> None:
        self.folder = folder
        self.sandbox = sandbox
        self.state = state
        self.programs = programs
        self.watched: set[str] = set()

    def run(self) -> None:
        """Start all that does not run, and wait until all is well."""
        client = Client(self.state.address, self.folder / "pki")
        self._begin(client)
        for name, argv in self._others():
            self.launch(name, argv)
        for node in nodes(self.folder):
            self._wait(f"{node.name}'s containerd listens", partial(listening, node.socket))
            argv = workers.kubelet(node, self.programs["kubelet"], self.sandbox.id, self.state)
            self.launch(f"kubelet-{node.letter}", argv)
        fakes.create(client, self.state.options.fake_nodes)
        self._settle(client)

    def launch(self, name: str, argv: list[str]) -> None:
        """Start a component if it does not run, and write down how."""
        self.watched.add(name)
        known = self.state.commands.get(name)
        if known and self.sandbox.find(self.state, known):
            return
        self.state.commands[name] = argv
        self.state.save(self.folder)
        self.sandbox.launch(self.state, name, argv)
        until(f"{name} has started (see {self._log(name)})", partial(self.sandbox.find, self.state, argv), 10, 0.01)

    def _begin(self, client: Client) -> None:
        for node in nodes(self.folder):
            self.launch(f"containerd-{node.letter}", workers.containerd(node))
        for name, argv in control.store_and_api(self.folder, self.programs, self.state.address).items():
            self.launch(name, argv)
        self._wait("the API server is ready", client.ready)

    def _others(self) -> list[tuple[str, list[str]]]:
        return list(control.others(self.folder, self.programs, self.state.address, self.state.options).items())

    def _settle(self, client: Client) -> None:
        """Wait until all is well."""
        for name, url in control.health(self.folder, self.state.address).items():
            self._wait(f"{name} is well", partial(healthy, url))
        self._wait("pods can be created", lambda: client.request(_ACCOUNT)[0] == 200)
        fake = self.state.options.fake_nodes
        self._wait(f"{2 + fake} nodes are Ready", lambda: client.count_ready() >= 2 + fake, 60 + fake / 5)
        offered = client.nodes()["node-a"][1].get("cpu")
        if offered != self.state.options.cpu:
            say(f"node-a offers cpu {offered}; {self.state.options.cpu} was asked for")

    def _wait(self, what: str, condition: Callable[[], bool], seconds: float = 60) -> None:
        """Wait until ``condition()``; give up at once when a component ends."""

        def so_or_dead() -> bool:
            for name in self.watched:
                if not self.sandbox.find(self.state, self.state.commands[name]):
                    raise ClusterError(f"{name} has ended; {self._log(name)} ends with:\n{self._said(name)}")
            return condition()

        until(f"{what} (logs are in {self.folder}/logs)", so_or_dead, seconds)

    def _log(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.log"

    def _said(self, name: str) -> str:
        return "\n".join(self._log(name).read_text(errors="replace").splitlines()[-15:])
