"""Resource vectors and Kubernetes quantities, exact.

A :class:`Resources` holds whole numbers: millicores of ``cpu``, bytes of ``memory``, pieces of any device. The
grammar of a quantity is that of the Kubernetes API (``1500m``, ``2Gi``, ``1e3``), read strictly.
"""

from __future__ import annotations

import difflib
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from math import ceil, isfinite

from optimus_core.errors import SpecificationError

_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9),
    "T": Fraction(10**12), "P": Fraction(10**15), "E": Fraction(10**18),
}  # fmt: skip
_SUFFIXES = {**_DECIMAL, **{name: Fraction(value) for name, value in _BINARY.items()}}
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d{1,3})|([A-Za-z]*))", re.ASCII)
_LONGEST = 100
"""Letters of a quantity; no amount needs more, and Python reads only so many digits."""
_MOST = 2**53
"""What a person may ask for of one kind: sums of it stay far below what 64 bits hold."""
_DEVICE = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)


def parse_quantity(value: object, where: str = "quantity") -> Fraction:
    """Return the exact value of a Kubernetes quantity given as text or int.

    Args:
        value: such as ``"500m"``, ``"1.5Gi"``, ``"1e3"`` or ``2``. Floats and booleans are refused.
        where: named in the error, such as ``"workers.memory"``.

    Raises:
        SpecificationError: the text is not a quantity; the error suggests what to write.
    """
    if isinstance(value, bool) or not isinstance(value, int | str):
        is_amount = isinstance(value, float) and isfinite(value) and value > 0
        write = f'it as "{value}"' if is_amount else 'such as "2", "500m" or "4Gi"'
        raise SpecificationError(
            f"{where} is {reprlib.repr(value)}, of type {type(value).__name__}; a quantity is text. Write {write}."
        )
    return Fraction(value) if isinstance(value, int) else _read(value, where)


@lru_cache(maxsize=4096)
def _read(value: str, where: str) -> Fraction:
    """Read each text once: the pods and nodes of a cluster write few different ones, and those very often."""
    match = _QUANTITY.fullmatch(value) if len(value) <= _LONGEST else None
    if match is None:
        raise SpecificationError(
            f'{where} is "{value[:_LONGEST]}", which is not a quantity. Write such as "2", "500m" or "4Gi".'
        )
    number, exponent, suffix = Fraction(match[1]), match[2], match[3]
    if exponent is not None:
        return number * Fraction(10) ** int(exponent)
    if suffix not in _SUFFIXES:
        raise SpecificationError(f'{where} is "{value}"; {_suggest_suffix(match[1], suffix)}')
    return number * _SUFFIXES[suffix]


def _suggest_suffix(number: str, suffix: str) -> str:
    if suffix == "K":
        return f'Kubernetes knows "k" and "Ki", not "K". Write "{number}Ki" (1024 each) or "{number}k" (1000 each).'
    near = difflib.get_close_matches(suffix, list(_SUFFIXES), n=1, cutoff=0.3)
    hint = f' Did you mean "{number}{near[0]}"?' if near and near[0] else ""
    return f'"{suffix}" is no unit that Kubernetes knows (m, k, M, G, T, Ki, Mi, Gi, Ti).{hint}'


class Resources(Mapping[str, int]):
    """An immutable vector of whole amounts: ``cpu`` in millicores, ``memory`` in bytes, devices in pieces.

    A name that is missing is zero; zeros are not stored, so equal vectors compare and hash equal.
    """

    __slots__ = ("_amounts",)

    def __init__(self, amounts: Mapping[str, int] | None = None) -> None:
        given = amounts or {}
        self._amounts = {name: int(given[name]) for name in sorted(given) if given[name]}

    @classmethod
    def of(
        cls,
        cpu: str | int = 0,
        memory: str | int = 0,
        devices: Mapping[str, int | str] | None = None,
        where: str = "",
    ) -> Resources:
        """Read quantities as a user writes them; fractions are rounded up to what can be counted.

        Args:
            cpu: a quantity of processors.
            memory: a quantity of bytes.
            devices: whole devices by name.
            where: names in errors what a person wrote; such amounts must be sane. What a cluster says of itself
                has no name here and may be any.

        Raises:
            SpecificationError: an amount that is not a quantity, is negative, absurdly large, or a part of a device.
        """
        return cls._read(cpu, memory, devices or {}, where, f"{where}.devices" if where else "devices")

    @classmethod
    def _read(
        cls, cpu: str | int, memory: str | int, devices: Mapping[str, int | str], where: str, holder: str
    ) -> Resources:
        """Read amounts; errors about devices name ``holder``, the field that holds them."""
        prefix = f"{where}." if where else ""
        amounts = {
            "cpu": ceil(parse_quantity(cpu, f"{prefix}cpu") * 1000),
            "memory": ceil(parse_quantity(memory, f"{prefix}memory")),
        }
        for name, count in devices.items():
            amounts[name] = _device_count(name, count, holder)
        for name, amount in amounts.items():
            if amount < 0:
                raise SpecificationError(f"{prefix}{name} is negative. Write how much there is of it, or leave it out.")
            if where and amount > _MOST:
                given = {"cpu": cpu, "memory": memory, **devices}[name]
                text = given if isinstance(given, str) else f"{min(given, 10**99):.3g}"
                raise SpecificationError(
                    f'{prefix}{name} is "{text}", more than any cluster has. Write what one replica or node has of it.'
                )
        return cls(amounts)

    @classmethod
    def from_quantities(cls, quantities: Mapping[str, str | int], where: str = "") -> Resources:
        """Read a flat mapping as Kubernetes gives it: ``{"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "1"}``."""
        devices = {name: value for name, value in quantities.items() if name not in ("cpu", "memory")}
        return cls._read(quantities.get("cpu", 0), quantities.get("memory", 0), devices, where, where or "quantities")

    def to_quantities(self) -> dict[str, str]:
        """Return the amounts as Kubernetes quantities, e.g. ``{"cpu": "1500m", "memory": "512Mi"}``."""
        return {name: format_amount(name, amount) for name, amount in self._amounts.items()}

    def __getitem__(self, name: str) -> int:
        return self._amounts.get(name, 0)

    def __contains__(self, name: object) -> bool:
        return name in self._amounts

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)

    def __hash__(self) -> int:
        return hash(tuple(self._amounts.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Resources) and self._amounts == other._amounts

    def __add__(self, other: Resources) -> Resources:
        return Resources({name: self[name] + other[name] for name in {*self, *other}})

    def __sub__(self, other: Resources) -> Resources:
        """Subtract; amounts may become negative (more is asked for than there is)."""
        return Resources({name: self[name] - other[name] for name in {*self, *other}})

    def __mul__(self, count: int) -> Resources:
        return Resources({name: amount * count for name, amount in self._amounts.items()})

    def fits_in(self, room: Resources) -> bool:
        """Say whether every amount is at most that of ``room``."""
        return all(amount <= room[name] for name, amount in self._amounts.items())

    def clamped(self) -> Resources:
        """Return the same with negative amounts as zero."""
        return Resources({name: max(0, amount) for name, amount in self._amounts.items()})

    def __repr__(self) -> str:
        return f"Resources({self.to_quantities()})"

    def describe(self) -> str:
        """Return a text for people: ``1500m cpu, 512Mi memory``; memory that is no whole Mi is rounded down."""
        return ", ".join(f"{_readable(name, amount)} {name}" for name, amount in self._amounts.items()) or "nothing"


def is_device(name: str) -> bool:
    """Say whether a resource is a device, named ``vendor/name`` as Kubernetes names extended resources."""
    return _DEVICE.fullmatch(name) is not None


def largest(one: Resources, other: Resources) -> Resources:
    """Return the larger amount of each resource."""
    return Resources({name: max(one[name], other[name]) for name in {*one, *other}})


def total(vectors: Iterable[Resources]) -> Resources:
    """Return the sum of ``vectors``."""
    amounts: dict[str, int] = {}
    for vector in vectors:
        for name, amount in vector.items():
            amounts[name] = amounts.get(name, 0) + amount
    return Resources(amounts)


def format_amount(name: str, amount: int) -> str:
    """Return the Kubernetes quantity of a whole amount, in the largest unit that keeps it exact."""
    if name == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if name == "memory":
        for unit in ("Ti", "Gi", "Mi", "Ki"):
            if amount and amount % _BINARY[unit] == 0:
                return f"{amount // _BINARY[unit]}{unit}"
    return str(amount)


def _readable(name: str, amount: int) -> str:
    """Return :func:`format_amount`, of odd amounts of memory with at most two decimals: they are no more to ask for."""
    if name == "memory" and amount % _BINARY["Mi"]:
        for unit in ("Ti", "Gi", "Mi"):
            if abs(amount) >= _BINARY[unit]:
                return f"{amount * 100 // _BINARY[unit] / 100:g}{unit}"
    return format_amount(name, amount)


def _device_count(name: str, count: int | str, holder: str) -> int:
    if not _DEVICE.fullmatch(name) and name not in ("pods", "ephemeral-storage") and not name.startswith("hugepages-"):
        raise SpecificationError(
            f'{holder} names "{name}"; a device is "vendor/name". Write such as "nvidia.com/gpu" or "amd.com/gpu".'
        )
    amount = parse_quantity(count, f'{holder}["{name}"]')
    if amount.denominator != 1:
        raise SpecificationError(f'{holder}["{name}"] is {count}; devices come whole. Write 1, 2, ...')
    return int(amount)
