"""Every setting with its type, unit, default and reason.

A value is taken from the first of: the caller, ``AIRFLOW__OPTIMUS__<KEY>``, ``<home>/config.toml``, the default.
"""

from __future__ import annotations

import ast
import inspect
import os
import textwrap
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

from optimus_core import checks
from optimus_core.declarations import load_clusters
from optimus_core.errors import SpecificationError

__all__ = ["Settings", "default_home", "hide_password", "load_clusters"]

PREFIX = "AIRFLOW__OPTIMUS__"
"""Begins the environment variables by which Airflow, and Optimus without it, take settings."""

_KINDS = {"str": "string", "Path": "string", "Path | None": "string", "int": "integer", "float": "float"}


def _setting(
    default: Any = MISSING,
    *,
    unit: str = "",
    reason: str,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    choices: tuple[str, ...] = (),
    example: str = "",
    derived: bool = False,
    secret: bool = False,
) -> Any:
    """Return a field that tests, documentation and Airflow's configuration can read."""
    metadata = {
        "unit": unit,
        "reason": reason,
        "least": least,
        "above": above,
        "most": most,
        "choices": choices,
        "example": example,
        "derived": derived,
        "secret": secret,
        "default": None if derived else default,
    }
    if derived:
        default = None
    return field(default=default, repr=not secret, metadata=metadata)


def default_home(environ: Mapping[str, str]) -> Path:
    """Return ``$OPTIMUS_HOME``, else ``$AIRFLOW_HOME/optimus``, else ``~/.optimus``."""
    if environ.get("OPTIMUS_HOME"):
        return Path(environ["OPTIMUS_HOME"])
    if environ.get("AIRFLOW_HOME"):
        return Path(environ["AIRFLOW_HOME"]) / "optimus"
    return Path("~/.optimus")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings; checked at construction. Make them with :meth:`load`."""

    home: Path = _setting(
        derived=True,
        example="/srv/optimus",
        reason="Beside Airflow's own files by default, so that one backup holds both.",
    )
    """Where Optimus keeps its files. Default: $OPTIMUS_HOME, else $AIRFLOW_HOME/optimus, else ~/.optimus."""
    database_url: str = _setting(
        derived=True,
        secret=True,
        example="postgresql://optimus:password@db/optimus",
        reason="A file needs no server; several machines need PostgreSQL.",
    )
    """The database of the store. Default: optimus.db in home, with SQLite."""
    cluster: str = _setting("local", reason="Needs no Kubernetes to try Optimus.")
    """The declared cluster of jobs that name none."""
    clusters_file: Path | None = _setting(
        derived=True, example="/srv/optimus/clusters.yaml", reason="One place for all jobs and processes."
    )
    """Declares the clusters. Default: clusters.yaml in home, if there is one."""
    deployment: str = _setting("default", reason="One Airflow is the usual case.")
    """Tells this Airflow's jobs from those of others that share the store or a cluster."""
    checkpoint_root: Path = _setting(
        derived=True,
        example="/mnt/checkpoints",
        reason="Right on one machine; nodes of Kubernetes need a shared volume.",
    )
    """Where checkpoints lie; every replica must reach it. Default: checkpoints in home."""
    checkpoint_keep_days: float = _setting(
        7, unit="days", least=0, most=10_000, reason="A week leaves time to clear and resume a task after a weekend."
    )
    """How long checkpoints of ended jobs are kept."""
    interval_seconds: float = _setting(
        600, unit="seconds", above=0, reason="The interval of the Optimus paper; events cause rounds between."
    )
    """Time between two regular rounds of decisions."""
    poll_seconds: float = _setting(
        2.0, unit="seconds", above=0, reason="Short beside the start of a pod, long beside a look at the cluster."
    )
    """Time between two steps with a live job."""
    round_delay_seconds: float = _setting(
        2, unit="seconds", least=0, reason="Makes one round of a burst, such as mapped tasks that arrive together."
    )
    """Time from an event to the round that it causes."""
    lease_seconds: float = _setting(
        60, unit="seconds", above=0, reason="Far more than a round takes, so that only a dead holder loses it."
    )
    """How long one process may decide before another may take over."""
    heartbeat_stale_seconds: float = _setting(60, unit="seconds", above=0, reason="Thirty missed steps are no hiccup.")
    """A job that nobody has stepped for this time has lost its driver."""
    first_event_seconds: float = _setting(
        10, unit="seconds", least=0, reason="Airflow 3.3 can fail a task whose trigger fires soon after the defer."
    )
    """A trigger gives no event sooner than this after its start."""
    restart_cost_seconds: float = _setting(
        15, unit="seconds", least=0, reason="A pod's start and the load of a small checkpoint."
    )
    """What a change of size is taken to cost a job of which none has been measured."""
    min_gain_ratio: float = _setting(0.2, least=0, reason="Above 0, so that jobs that are equal do not take turns.")
    """A change must save more than its cost times (1 + this)."""
    young_steps: int = _setting(50, unit="steps", least=0, reason="Enough for a curve with three parameters.")
    """A job with fewer steps is young: its estimates are not fully trusted."""
    young_seconds: float = _setting(
        60, unit="seconds", least=0, reason="Caches, compilation and data loading have settled by then."
    )
    """A job that has run for less than this is young too."""
    young_factor: float = _setting(0.95, above=0, most=1, reason="The value of the Optimus paper, section 4.")
    """Factor on the predicted gain of a young job."""
    pausing: str = _setting("never", choices=("auto", "never"), reason="What runs keeps at least its minimum.")
    """Whether jobs may be paused, or wait, for shorter ones."""
    max_paused: float = _setting(
        3600, unit="seconds", above=0, most=31_536_000, reason="Longer than most short jobs, short beside a night."
    )
    """With pausing = auto: how long a job may be paused in all before it holds its minimum again."""
    stragglers: str = _setting(
        "report",
        choices=("replace", "report", "off"),
        reason="A restart rests on what the script says of its own times; being told costs nothing.",
    )
    """What is done about workers of less than half of the median speed."""
    speed_window_seconds: float = _setting(
        10, unit="seconds", above=0, reason="Averages out single steps and still shows a change within a minute."
    )
    """Over how long a speed sample is taken."""
    hung_factor: float = _setting(20, unit="usual times", above=1, reason="No step varies that much.")
    """A job that tells of no step for this many of its usual times between two hangs."""
    hung_min_seconds: float = _setting(
        600, unit="seconds", least=0, reason="Nobody could foresee the pause for a first evaluation."
    )
    """A job never counts as hung before this time without a step."""
    retry_backoff_seconds: float = _setting(
        5, unit="seconds", least=0, reason="What fails by chance is tried soon; each further wait is doubled."
    )
    """Wait before the first retry."""
    retry_backoff_max_seconds: float = _setting(
        300, unit="seconds", least=0, reason="The longest wait between restarts in Kubernetes."
    )
    """Longest wait before a retry."""
    barred_seconds: float = _setting(
        300, unit="seconds", least=0, reason="Long enough for a cluster to change, short beside a training."
    )
    """How long a size that did not start is not tried again."""
    points_limit: int = _setting(2000, unit="points", least=10, reason="More than a page is wide.")
    """Points of one metric that are kept of a job; older ones are thinned out."""
    memory_growth: float = _setting(
        1.5, above=1, most=1000, reason="Three steps from 1 to more than 3 times the memory."
    )
    """Factor on a replica's memory after it ran out."""
    memory_cap_factor: float = _setting(4, least=1, most=1000, reason="More is a leak, not a wrong guess.")
    """A replica never gets more than this many times the memory that was asked for."""
    log_tail_bytes: int = _setting(65536, unit="bytes", least=1024, reason="Holds a traceback of every framework.")
    """What is kept of a replica's output for people to read."""
    sources: Mapping[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Where each value that is no default came from."""

    def __post_init__(self) -> None:
        home: Path | None = self.home
        object.__setattr__(self, "home", _path(default_home(os.environ) if home is None else home, "home"))
        derived = {
            "database_url": f"sqlite:///{self.home / 'optimus.db'}",
            "checkpoint_root": self.home / "checkpoints",
            "clusters_file": declared if os.path.lexists(declared := self.home / "clusters.yaml") else None,
        }
        for name, value in derived.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        for each in _fields():
            object.__setattr__(self, each.name, _read(each, getattr(self, each.name), each.name))
        if self.retry_backoff_max_seconds < self.retry_backoff_seconds:
            raise SpecificationError(
                f"retry_backoff_max_seconds is {self.retry_backoff_max_seconds:g}, less than retry_backoff_seconds, "
                f"which is {self.retry_backoff_seconds:g}. Write at least {self.retry_backoff_seconds:g}."
            )

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None, overrides: Mapping[str, object] | None = None) -> Settings:
        """Collect the settings.

        Args:
            environ: environment variables; by default those of this process.
            overrides: values that stand above all others; empty ones and None are as if not given.

        Raises:
            SpecificationError: a value can't be, or a key is misspelt; names where it came from.
        """
        environ = os.environ if environ is None else environ
        given = {key: value for key, value in (overrides or {}).items() if value not in (None, "")}
        checks.keys(given, _names(), "the settings given by the caller")
        found = {key: (value, "the caller") for key, value in given.items()}
        found = _from_environment(environ, found) | found
        if "home" not in found:
            source = next((name for name in ("OPTIMUS_HOME", "AIRFLOW_HOME") if environ.get(name)), "default")
            found["home"] = (default_home(environ), source)
        found = _from_file(_folder(*found["home"]) / "config.toml") | found
        known = {each.name: each for each in _fields()}
        values = {key: _read(known[key], value, f"{key} ({source})") for key, (value, source) in found.items()}
        settings = cls(**values)
        object.__setattr__(settings, "sources", {k: source for k, (_, source) in found.items() if source != "default"})
        return settings

    def public_dict(self) -> dict[str, Any]:
        """Return all settings as JSON holds them, secrets hidden: for people, logs and pages."""
        shown = {each.name: getattr(self, each.name) for each in _fields()}
        shown["database_url"] = hide_password(self.database_url)
        return {key: str(value) if isinstance(value, Path) else value for key, value in shown.items()}

    @classmethod
    def options(cls) -> dict[str, dict[str, Any]]:
        """Return the description of each setting in the form of a provider's configuration section."""
        texts = _docstrings()
        return {each.name: _option(each, texts[each.name]) for each in _fields()}


def _option(each: Field[Any], text: str) -> dict[str, Any]:
    about, default = each.metadata, each.metadata["default"]
    unit = f" In {about['unit']}." if about["unit"] else ""
    choices = f" One of: {', '.join(about['choices'])}." if about["choices"] else ""
    option = {
        "description": f"{text}{unit}{choices}\n{about['reason']}\n",
        "version_added": "0.1.0",
        "type": _KINDS[str(each.type)],
        "example": about["example"] or None,
        "default": None if default is None else str(default),
    }
    return option | ({"sensitive": True} if about["secret"] else {})


def hide_password(url: str) -> str:
    """Return a database URL with ``***`` for its password."""
    scheme, separator, rest = url.partition("://")
    login, at, host = rest.rpartition("@")
    user, colon, _ = login.partition(":")
    return f"{scheme}{separator}{user}:***@{host}" if at and colon else url


def _from_environment(
    environ: Mapping[str, str], given: Mapping[str, tuple[object, str]]
) -> dict[str, tuple[object, str]]:
    found: dict[str, tuple[object, str]] = {}
    for variable, value in environ.items():
        key = variable.removeprefix(PREFIX).lower()
        if not variable.startswith(PREFIX):
            continue
        if key in _names():
            if value != "":
                found[key] = (value, variable)
            continue
        base = key.removesuffix("_cmd").removesuffix("_secret")
        if base in given:
            continue  # Airflow has read the command or the secret, and given us what it found
        if base in _names():
            raise SpecificationError(
                f"{variable} is read inside Airflow only. Set {PREFIX}{base.upper()} here as well, to the same value."
            )
        checks.keys({variable: value}, [PREFIX + name.upper() for name in _names()], "the settings")
    return found


def _from_file(path: Path) -> dict[str, tuple[object, str]]:
    try:
        content = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise SpecificationError(f"{path} can't be read: {error}. Make it readable, or remove it.") from error
    try:
        data = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise SpecificationError(f"{path} is no TOML: {error}. Correct that line.") from error
    table = data.pop("optimus", {})
    values = {**data, **checks.mapping(table, f"{path}: optimus", "[optimus]")}
    try:
        checks.keys(values, [*_names()], "the settings")
    except SpecificationError as error:
        raise SpecificationError(f"{path}: {error}") from None
    if "home" in values:
        raise SpecificationError(f"{path}: home can't stand in a file that lies in it. Set OPTIMUS_HOME instead.")
    return {key: (value, str(path)) for key, value in values.items()}


def _read(each: Field[Any], value: object, where: str) -> Any:
    kind, about = str(each.type), each.metadata
    if kind == "Path | None" and value is None:
        return None
    if kind.startswith("Path"):
        return _path(value, where)
    if kind == "str":
        if about["secret"]:
            if isinstance(value, str) and value.strip() and value.isprintable():
                return value
            raise SpecificationError(f'{where} is no text on one line. Write such as "{about["example"]}".')
        text = checks.text(value, where, about["example"] or about["default"], longest=128)
        if about["choices"]:
            checks.one_of(text, about["choices"], where)
        return text
    return _number(each, value, where)


def _number(each: Field[Any], value: object, where: str) -> float:
    about, kind = each.metadata, str(each.type)
    if isinstance(value, str):
        try:
            value = int(value) if kind == "int" else float(value)
        except ValueError:
            pass  # the check below says what it is instead
    if kind == "int":
        checks.whole(value, where, None if about["least"] is None else int(about["least"]), about["default"])
    bounds = {name: about[name] for name in ("above", "least", "most") if about[name] is not None}
    return checks.number(value, where, example=about["default"], **bounds)


def _path(value: object, where: str) -> Path:
    if not isinstance(value, Path):
        value = Path(checks.text(value, where, "/srv/optimus"))
    return value.expanduser().absolute()


def _folder(home: object, source: str) -> Path:
    path = _path(home, f"home ({source})")
    if os.path.lexists(path) and not os.path.isdir(path):
        raise SpecificationError(f"home ({source}) is {path}, which is no folder. Give a folder, or one to be made.")
    return path


@cache
def _fields() -> tuple[Field[Any], ...]:
    return tuple(each for each in fields(Settings) if each.metadata)


@cache
def _names() -> tuple[str, ...]:
    return tuple(each.name for each in _fields())


@cache
def _docstrings() -> dict[str, str]:
    """Return the text under each field, which says what the setting is."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(Settings))).body[0]
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for before, after in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name) and isinstance(after, ast.Expr):
            assert isinstance(after.value, ast.Constant)
            found[before.target.id] = str(after.value.value)
    return found
