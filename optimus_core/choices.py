"""The values that a job holds: what its replicas ask for, how they work together, and when it has had enough."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeVar

from optimus_core import checks
from optimus_core.errors import SpecificationError
from optimus_core.resources import Resources

MOST_REPLICAS = 10_000
"""Of one role: a plan looks at sizes one by one."""


@dataclass(frozen=True)
class ParameterServer:
    """Workers push gradients to parameter servers and pull parameters back."""

    key: ClassVar[str] = "parameter_server"

    sync: bool = True
    """True: every step waits for all workers. False: each worker goes at its own pace."""

    @property
    def kind(self) -> str:
        """``ps_sync`` or ``ps_async``."""
        return "ps_sync" if self.sync else "ps_async"

    def check(self) -> None:
        """Refuse what is neither."""
        if not isinstance(self.sync, bool):
            raise SpecificationError(
                f"strategy.parameter_server.sync is {checks.shown(self.sync)}; it is a choice. Write true or false."
            )


@dataclass(frozen=True)
class AllReduce:
    """Workers average their gradients among themselves in each step; there are no servers."""

    key: ClassVar[str] = "all_reduce"
    kind: ClassVar[str] = "allreduce"

    def check(self) -> None:
        """Nothing can be wrong with it."""


@dataclass(frozen=True)
class Converged:
    """The loss has come to rest."""

    key: ClassVar[str] = "converged"

    threshold: float
    """An epoch counts as at rest if the loss changed by less than this part of the change of the first."""
    patience: int = 3
    """How many epochs in a row."""

    def check(self) -> None:
        """Refuse what no loss can meet."""
        checks.number(self.threshold, "stop.converged.threshold")
        if not 0 < self.threshold < 1:
            raise SpecificationError(
                f"stop.converged.threshold is {self.threshold}; it is a part of the loss, above 0 and below 1. "
                "Write such as 0.01."
            )
        checks.whole(self.patience, "stop.converged.patience", 1)


@dataclass(frozen=True)
class Steps:
    """A number of steps has been made."""

    key: ClassVar[str] = "steps"

    n: int

    def check(self) -> None:
        """Refuse none or less."""
        checks.whole(self.n, "stop.steps", 1)


@dataclass(frozen=True)
class Epochs:
    """The data has been seen a number of times."""

    key: ClassVar[str] = "epochs"

    n: int

    def check(self) -> None:
        """Refuse none or less."""
        checks.whole(self.n, "stop.epochs", 1)


@dataclass(frozen=True)
class Loss:
    """The loss is below a value."""

    key: ClassVar[str] = "loss"

    below: float

    def check(self) -> None:
        """Refuse what no loss can be below of, and what every loss is."""
        checks.number(self.below, "stop.loss.below", most=sys.float_info.max)


@dataclass(frozen=True, kw_only=True)
class Replicas:
    """What one replica of a role asks for, and how many there may be."""

    cpu: str | int
    """A Kubernetes quantity, such as ``"2"`` or ``"500m"``."""
    memory: str | int
    """A Kubernetes quantity, such as ``"4Gi"``."""
    devices: Mapping[str, int | str] = field(default_factory=dict)
    """Whole devices by name, such as ``{"nvidia.com/gpu": 1}``."""
    min: int = 1
    """The job never runs with fewer."""
    max: int = 1
    """The job never runs with more."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    """Labels that a node must have."""

    @property
    def demand(self) -> Resources:
        """What one replica asks for."""
        return Resources.of(self.cpu, self.memory, self.devices)

    def to_dict(self) -> dict[str, Any]:
        """Return the replicas as JSON and YAML hold them."""
        return {
            "cpu": self.cpu,
            "memory": self.memory,
            "devices": dict(self.devices),
            "min": self.min,
            "max": self.max,
            "node_selector": dict(self.node_selector),
        }

    def check(self, where: str) -> None:
        """Refuse what can't be; ``where`` is the role's field in the job.

        Raises:
            SpecificationError: says what to write instead.
        """
        checks.mapping(self.devices, f"{where}.devices", '{"nvidia.com/gpu": 1}')
        demand = Resources.of(self.cpu, self.memory, self.devices, where)
        for name, example in (("cpu", "500m"), ("memory", "1Gi")):
            if demand[name] == 0:
                raise SpecificationError(
                    f"{where}.{name} is {checks.shown(getattr(self, name))}; a replica needs some. "
                    f'Write such as "{example}".'
                )
        checks.whole(self.min, f"{where}.min", 1, most=MOST_REPLICAS)
        checks.whole(self.max, f"{where}.max", 1, most=MOST_REPLICAS)
        if self.min > self.max:
            raise SpecificationError(
                f"{where}.min is {self.min}, more than {where}.max, which is {self.max}. "
                f"Write a max of at least {self.min}, or a min of at most {self.max}."
            )
        selector = checks.mapping(self.node_selector, f"{where}.node_selector", '{"zone": "a"}')
        checks.texts(selector, f"{where}.node_selector")


Strategy = ParameterServer | AllReduce
Stop = Converged | Steps | Epochs | Loss

STRATEGIES: tuple[type[Strategy], ...] = (ParameterServer, AllReduce)
STOPS: tuple[type[Stop], ...] = (Converged, Steps, Epochs, Loss)
_SUCH_AS = {"converged": 0.01, "steps": 500, "epochs": 10, "loss": 0.1}
_Choice = TypeVar("_Choice", bound=ParameterServer | AllReduce | Converged | Steps | Epochs | Loss)


def to_data(choice: Strategy | Stop) -> dict[str, Any]:
    """Return a choice as JSON and YAML hold it: ``{"steps": 500}``, ``{"parameter_server": {"sync": True}}``."""
    if isinstance(choice, Steps | Epochs):
        return {choice.key: choice.n}
    return {choice.key: {each.name: getattr(choice, each.name) for each in fields(choice)}}


def strategy_from(data: object) -> Strategy:
    """Read what :func:`to_data` wrote; a strategy without anything to set may be its name alone."""
    kind, values = _read(data, {choice.key: choice for choice in STRATEGIES}, "strategy", "{all_reduce: {}}")
    return kind(**values)


def stop_from(data: object) -> Stop:
    """Read what :func:`to_data` wrote; the first value of a criterion may stand alone, as in ``{"loss": 0.1}``."""
    kind, values = _read(data, {choice.key: choice for choice in STOPS}, "stop", "{steps: 500}")
    return kind(**values)


def _read(
    data: object, known: Mapping[str, type[_Choice]], where: str, example: str
) -> tuple[type[_Choice], dict[str, Any]]:
    if isinstance(data, str):
        data = {data: {}}
    given = checks.mapping(data, where, example)
    if len(given) != 1:
        raise SpecificationError(f"{where} names {len(given)} things, {', '.join(given)}; it is one. Write {example}.")
    name, values = next(iter(given.items()))
    checks.one_of(name, known, where)
    names = [each.name for each in fields(known[name])]
    if not isinstance(values, Mapping):
        if not names:
            raise SpecificationError(f"{where}.{name} has nothing to set, but is {checks.shown(values)}. Write {{}}.")
        values = {} if values is None else {names[0]: values}
    checks.keys(values, names, f"{where}.{name}")
    if where == "stop" and names[0] not in values:
        raise SpecificationError(f'{where}.{name} has no "{names[0]}". Write such as {{{name}: {_SUCH_AS[name]}}}.')
    return known[name], dict(values)
