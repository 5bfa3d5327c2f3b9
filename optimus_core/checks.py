"""Checks that say what was given, why it can't be, and what to write instead."""

from __future__ import annotations

import difflib
import json
import math
import reprlib
from collections.abc import Collection, Hashable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from optimus_core.errors import SpecificationError

if TYPE_CHECKING:
    import yaml

MOST = 2**31 - 1
"""The largest count, either way: every database and array holds it."""
MOST_SECONDS = 1e9
"""The largest duration, about 32 years: every clock can add it to the present time."""


def nearest(word: object, known: Collection[str]) -> str:
    """Return a hint: the known word that is most like ``word``, or all that are known."""
    if not known:
        return "There is none."
    spelling = {name.casefold().replace("_", ""): name for name in known}
    given = word if isinstance(word, str) else shown(word)
    near = difflib.get_close_matches(given.casefold().replace("_", ""), list(spelling), n=1, cutoff=0.6)
    return f'Did you mean "{spelling[near[0]]}"?' if near else f"Known: {', '.join(known)}."


def keys(given: Mapping[Any, object], known: Collection[str], of: str) -> None:
    """Refuse a key that ``of`` does not have, such as ``of="a job"``."""
    for key in given:
        if key not in known:
            raise SpecificationError(f'"{key}" is no key of {of}. {nearest(key, known)}')


def one_of(value: object, known: Collection[str], where: str) -> None:
    """Refuse what is none of the ``known`` words."""
    if not isinstance(value, str) or value not in known:
        raise SpecificationError(f"{where} is {shown(value)}, which Optimus does not know. {nearest(value, known)}")


def whole(value: object, where: str, least: int | None = None, example: int | None = None, *, most: int = MOST) -> int:
    """Return ``value`` if it is a whole number of at least ``least`` and at most ``most``, either way."""
    example = example if example is not None else 1 if least is None else max(least, 1)
    if isinstance(value, bool) or not isinstance(value, int):
        raise SpecificationError(f"{where} is {shown(value)}; it is a whole number. Write such as {example}.")
    if least is not None and value < least:
        raise SpecificationError(f"{where} is {shown(value)}; it is at least {least}. Write such as {example}.")
    if abs(value) > most:
        bound = f"at most {most}" if value > 0 else f"at least {-most}"
        raise SpecificationError(f"{where} is {shown(value)}; it is {bound}. Write such as {example}.")
    return value


def number(
    value: object,
    where: str,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float = MOST_SECONDS,
    example: float | None = None,
) -> float:
    """Return ``value`` if it is a finite number above ``above``, of at least ``least`` and at most ``most``."""
    write = (above or least or 0) + 1 if example is None else example
    low = _is_number(value) and ((above is not None and value <= above) or (least is not None and value < least))
    if not _is_number(value) or (isinstance(value, float) and not math.isfinite(value)) or low:
        bound = f" above {above:g}" if above is not None else f" of at least {least:g}" if least is not None else ""
        raise SpecificationError(f"{where} is {shown(value)}; it is a number{bound}. Write such as {write:g}.")
    if abs(value) > most:
        bound = f"at most {most:g}" if value > 0 else f"at least {-most:g}"
        raise SpecificationError(f"{where} is {shown(value)}; it is {bound}. Write such as {write:g}.")
    return value


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def text(value: object, where: str, example: str, *, longest: int = 4096) -> str:
    """Return ``value`` if it is a text with something in it that can be printed on one line."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise SpecificationError(f'{where} is {shown(value)}; it is a text on one line. Write such as "{example}".')
    if len(value) > longest:
        raise SpecificationError(
            f"{where} is {shown(value)}, of {len(value)} letters; it has at most {longest}. "
            f'Write a shorter one, such as "{example}".'
        )
    return value


def mapping(value: object, where: str, example: str) -> Mapping[str, Any]:
    """Return ``value`` if it is a mapping whose keys are texts."""
    if not isinstance(value, Mapping):
        raise SpecificationError(f"{where} is {shown(value)}; it maps names to values. Write such as {example}.")
    for key in value:
        if not isinstance(key, str):
            kind = type(key).__name__
            raise SpecificationError(
                f"{where} has the key {shown(key)}, of type {kind}; a name is a text. Write it in quotes."
            )
    return value


def texts(values: Mapping[str, Any], where: str, *, secret: bool = False) -> None:
    """Refuse a value that no program can be given as a text; one that may be ``secret`` is not shown."""
    for name, value in values.items():
        if not isinstance(value, str):
            write = "its value in quotes" if secret else f'"{shown(value)}"'
            raise SpecificationError(
                f'{where}["{name}"] is of type {type(value).__name__}; it is a text. Write {write}.'
            )
        if passable(value) != value:
            raise SpecificationError(
                f'{where}["{name}"] has a NUL or half a character in it, which no text here may. Leave that out.'
            )


def passable(value: str) -> str:
    """Return ``value`` without what no program can be given: NUL, and halves of characters (surrogates)."""
    return value.encode("utf-8", "ignore").decode("utf-8").replace("\0", "")


def shown(value: object) -> str:
    """Return ``value`` as an error quotes it: texts in double quotes, never longer than a line."""
    if isinstance(value, str):
        quoted = json.dumps(value[:100], ensure_ascii=not value.isprintable())
    else:
        quoted = _SHORT.repr(value)
    return quoted if len(quoted) <= 80 else f"{quoted[:77]}..."


class _Short(reprlib.Repr):
    """Writes the begin of any value, however deep, long or large it is."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxlist, self.maxtuple, self.maxdict, self.maxset = 4, 40, 40, 40, 40
        self.maxstring = self.maxother = 80

    def repr_int(self, x: int, level: int) -> str:
        return repr(x) if x.bit_length() < 1000 else f"a number of about {int(x.bit_length() * 0.30103)} digits"


_SHORT = _Short()


def read_file(path: str | Path, what: str, example: str) -> Mapping[str, Any]:
    """Return what a YAML or JSON file holds.

    Args:
        path: a file; one that ends in ``.json`` is read as JSON, every other as YAML.
        what: names the file's kind in errors, such as ``"job file"``.
        example: a right content, shown if the file holds no mapping.

    Raises:
        SpecificationError: the file can't be read, is broken (the error names the line), gives a key twice, or holds
            no mapping.
    """
    try:
        content = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise SpecificationError(f'{what} "{path}" can\'t be read: {reason}. Give the path of a YAML file.') from error
    read = _read_json if Path(path).suffix == ".json" else _read_yaml
    data = read(content, path) if content.strip() else None
    if data is None:
        raise SpecificationError(f"{what} {path} is empty. Write such as {example}.")
    try:
        return mapping(data, "its content", example)
    except SpecificationError as error:
        raise SpecificationError(f"{what} {path}: {error}") from None


def _read_json(content: str, path: str | Path) -> object:
    try:
        return json.loads(content, object_pairs_hook=lambda pairs: _without_repeats(pairs, path))
    except SpecificationError:
        raise
    except json.JSONDecodeError as error:
        raise SpecificationError(
            f"{path}, line {error.lineno}: this is no JSON: {error.msg} at column {error.colno}. Correct that line."
        ) from error
    except (ValueError, RecursionError) as error:
        raise SpecificationError(f"{path}: this is no JSON that can be read: {error}. Correct it.") from error


def _without_repeats(pairs: list[tuple[str, object]], path: str | Path) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in found if names.count(name) > 1)
        raise SpecificationError(f"{path}: the key {shown(twice)} is given twice. Leave one of them out.")
    return found


def _read_yaml(content: str, path: str | Path) -> object:
    import yaml

    fastest: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(fastest):  # type: ignore[misc,valid-type]
        """Refuses a key that is given twice, of which YAML would take the last."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
            seen = set()
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode) or key.value == "<<":
                    continue
                if key.value in seen:
                    problem = f'"{key.value}" is given twice'
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                seen.add(key.value)
            made: dict[Hashable, Any] = super().construct_mapping(node, deep)
            return made

    try:
        return yaml.load(content, Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise SpecificationError(
            f"{path}, line {line}: this is no YAML: {error.problem}. Correct that line."
        ) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SpecificationError(f"{path}: this is no YAML: {error}. Correct it.") from error
