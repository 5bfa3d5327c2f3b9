"""Checkpoints that are either complete or absent.

    <OPTIMUS_CHECKPOINTS>/g000007/step-000000000120/optimus.json and what the script wrote

Each generation writes into a folder of its own, so that one that is late to die can spoil nothing, and resumes
from the newest complete checkpoint of an earlier one. Its own do not count: no generation starts twice, and
whoever starts a little later than the others must not resume from what they have saved meanwhile. A checkpoint
is written under a temporary name, forced to disk and then renamed; its `optimus.json` is written last.
"""

from __future__ import annotations

import contextlib
import json
import operator
import os
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import Iterator, List, Optional, Tuple, Union

from optimus_train.environment import (
    ContractError,
    by_hand,
    checkpoint_root,
    confirmed_step,
    generation,
    rank,
    role,
)
from optimus_train.output import checkpoint_missing, checkpoint_saved, last_metrics

MARKER = "optimus.json"
_GENERATION = re.compile(r"g([0-9]{6,})")
PATIENCE = 30.0
"""Seconds in which a checkpoint that is known to exist must be seen: network file systems show new folders late."""
_STEP = re.compile(r"step-([0-9]{12,})")


class CheckpointMissing(RuntimeError):
    """What an earlier generation has saved is not here. To begin anew would lose it, so the job ends instead."""


@contextlib.contextmanager
def checkpoint(step: int, keep: int = 2) -> Iterator[Path]:
    """Gives an empty folder to write into; it becomes the checkpoint of `step` when the block ends well.

        with optimus_train.checkpoint(step) as folder:
            model.save(folder / "model")

    If the block raises, nothing is left of it. Of this generation the newest `keep` checkpoints stay. Worker 0
    saves for all, since it is the one that Optimus listens to; any other replica gets a ContractError.
    """
    step = operator.index(step)
    if step < 0 or keep < 1:
        raise ValueError("checkpoint(step=%d, keep=%d): step must be at least 0 and keep at least 1." % (step, keep))
    if role() != "worker" or rank() != 0:
        raise ContractError(
            'checkpoint(%d): this is %s %d, but worker 0 saves for all. Write: if optimus_train.role() == "worker" '
            "and optimus_train.rank() == 0:" % (step, role(), rank())
        )
    folder = checkpoint_root() / ("g%06d" % generation())
    folder.mkdir(parents=True, exist_ok=True)
    final = folder / ("step-%012d" % step)
    temporary = Path(tempfile.mkdtemp(prefix=".saving-", dir=str(folder)))
    try:
        os.chmod(str(temporary), 0o755)  # mkdtemp's own is for one user; the next generation may be another
        yield temporary
        _write_marker(temporary, step)
        _force_to_disk(temporary)
        _rename(temporary, final)
    except BaseException:
        shutil.rmtree(str(temporary), ignore_errors=True)
        raise
    checkpoint_saved(step, str(final))
    for _, old in _complete_in(folder)[:-keep]:
        shutil.rmtree(str(old), ignore_errors=True)


def latest_checkpoint() -> Optional[Path]:
    """Where to resume: the last complete checkpoint of the newest earlier generation that has one, else None.

    All replicas of a generation get the same answer, however late they start. By hand, where there are no
    generations, it is the last of all.

    Raises CheckpointMissing if all that is found is older than what Optimus knows to be saved.
    """
    confirmed, end = confirmed_step(), time.monotonic() + PATIENCE
    while True:
        found = _latest()
        step = checkpoint_step(found) if found is not None else None
        if confirmed is None or (step is not None and step >= confirmed):
            return found
        if time.monotonic() >= end:
            break
        time.sleep(min(1.0, PATIENCE / 10))
    root = str(checkpoint_root())
    checkpoint_missing(confirmed, step, root)
    raise CheckpointMissing(
        "a checkpoint of step %d was saved and confirmed, but the newest in %s is %s. If nobody deleted it, this is "
        "another volume than that of the replica that saved it: each node must see the same one."
        % (confirmed, root, "none" if step is None else "of step %d" % step)
    )


def _latest() -> Optional[Path]:
    newest = generation() if by_hand() else generation() - 1
    try:
        entries = list(checkpoint_root().iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return None
    found = ((_GENERATION.fullmatch(entry.name), entry) for entry in entries)
    numbered = ((int(match.group(1)), entry) for match, entry in found if match)
    for _, folder in sorted((pair for pair in numbered if pair[0] <= newest), reverse=True):
        complete = _complete_in(folder)
        if complete:
            return complete[-1][1]
    return None


def checkpoint_step(path: Union[str, Path]) -> int:
    """The step after which this checkpoint was taken."""
    step = _step_of(Path(path))
    if step is None:
        raise ValueError(
            "%s is no complete checkpoint: it needs the name step-<12 digits> and a valid %s." % (path, MARKER)
        )
    return step


def _complete_in(folder: Path) -> List[Tuple[int, Path]]:
    """The folder's complete checkpoints, oldest first."""
    try:
        entries = list(folder.iterdir())
    except OSError:
        return []
    steps = ((_step_of(entry), entry) for entry in entries)
    return sorted((step, entry) for step, entry in steps if step is not None)


def _step_of(path: Path) -> Optional[int]:
    match = _STEP.fullmatch(path.name)
    if not match:
        return None
    try:
        marker = json.loads((path / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    step = int(match.group(1))
    return step if isinstance(marker, dict) and marker.get("step") == step else None


def _write_marker(folder: Path, step: int) -> None:
    marker = {
        "step": step,
        "generation": generation(),
        "time": round(time.time(), 6),
        "metrics": last_metrics(),
    }
    (folder / MARKER).write_text(json.dumps(marker, sort_keys=True) + "\n", encoding="utf-8")


def _rename(temporary: Path, final: Path) -> None:
    """Puts the new checkpoint in its place; one of the same step makes way for it."""
    if final.exists():
        aside = Path(tempfile.mkdtemp(prefix=".old-", dir=str(final.parent)))
        os.replace(str(final), str(aside))
        os.replace(str(temporary), str(final))
        shutil.rmtree(str(aside), ignore_errors=True)
    else:
        os.replace(str(temporary), str(final))
    _sync(final.parent)


def _force_to_disk(folder: Path) -> None:
    for parent, _, files in os.walk(str(folder)):
        for name in files:
            _sync(Path(parent, name))
        _sync(Path(parent))


def _sync(path: Path) -> None:
    handle = os.open(str(path), os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
