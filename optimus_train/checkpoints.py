"""Checkpoints that are either complete or absent.

    <OPTIMUS_CHECKPOINTS>/g000007/step-000000000120/optimus.json and what the script wrote

Each generation writes into a folder of its own, so that one that is late to die can spoil nothing, and resumes
from the newest complete checkpoint of an earlier one. Its own do not count: no generation starts twice, and
whoever starts a little later than the others must not resume from what they have saved meanwhile. A checkpoint
is written under a temporary name, forced to disk and then renamed; its `optimus.json` is written last.

    <OPTIMUS_CHECKPOINTS>/resumed-g000008/from.json

tells what a generation went on from: from then on nothing counts that an earlier one still saves, as it may on a
node that nobody reaches. One that notices this saves no more.
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
from typing import Iterator, List, Optional, Set, Tuple, Union

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
_GENERATION = re.compile(r"(?:resumed-)?g([0-9]{6,})")
_FOLDER, _RESUMED, _FROM = "g%06d", "resumed-g%06d", "from.json"
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
    _refuse_if_over(step)
    folder = checkpoint_root() / (_FOLDER % generation())
    folder.mkdir(parents=True, exist_ok=True)
    final = folder / ("step-%012d" % step)
    temporary = Path(tempfile.mkdtemp(prefix=".saving-", dir=str(folder)))
    try:
        os.chmod(str(temporary), 0o755)  # mkdtemp's own is for one user; the next generation may be another
        yield temporary
        _write_marker(temporary, step)
        _force_to_disk(temporary)
        _refuse_if_over(step)
        _rename(temporary, final)
    except BaseException:
        shutil.rmtree(str(temporary), ignore_errors=True)
        raise
    checkpoint_saved(step, str(final))
    for _, old in _complete_in(folder)[:-keep]:
        shutil.rmtree(str(old), ignore_errors=True)


def latest_checkpoint() -> Optional[Path]:
    """Where to resume: the last complete checkpoint of the newest earlier generation that has one, else None.

    All replicas of a generation get the same answer, however late they start and whatever an earlier generation
    still saves: the first answer is kept. By hand, where there are no generations, it is the last of all.

    Raises CheckpointMissing if all that is found is older than what Optimus knows to be saved.
    """
    root = checkpoint_root()
    if by_hand():
        return _newest_confirmed(root, generation())
    known = _resumed(root, generation())
    if known is None:
        known = _keep_resumed(root, _newest_confirmed(root, generation() - 1))
    return known[0]


def _newest_confirmed(root: Path, newest: int) -> Optional[Path]:
    """The checkpoint that counts after the generation `newest`, once it is as new as Optimus knows it to be."""
    confirmed, end = confirmed_step(), time.monotonic() + PATIENCE
    while True:
        found = _newest_up_to(root, newest)
        step = checkpoint_step(found) if found is not None else None
        if confirmed is None or (step is not None and step >= confirmed):
            return found
        if time.monotonic() >= end:
            break
        time.sleep(min(1.0, PATIENCE / 10))
    checkpoint_missing(confirmed, step, str(root))
    raise CheckpointMissing(
        "a checkpoint of step %d was saved and confirmed, but the newest in %s is %s. If nobody deleted it, this is "
        "another volume than that of the replica that saved it: each node must see the same one."
        % (confirmed, root, "none" if step is None else "of step %d" % step)
    )


def checkpoint_step(path: Union[str, Path]) -> int:
    """The step after which this checkpoint was taken."""
    step = _step_of(Path(path))
    if step is None:
        raise ValueError(
            "%s is no complete checkpoint: it needs the name step-<12 digits> and a valid %s." % (path, MARKER)
        )
    return step


def _newest_up_to(root: Path, newest: int) -> Optional[Path]:
    """The checkpoint that counts after the generation `newest`: its own, else what it went on from."""
    for number in sorted(_generations(root), reverse=True):
        if number > newest:
            continue
        complete = _complete_in(root / (_FOLDER % number))
        if complete:
            return complete[-1][1]
        resumed = _resumed(root, number)
        if resumed is not None:
            return resumed[0]
    return None


def _generations(root: Path) -> Set[int]:
    """The generations that have left something."""
    try:
        names = [entry.name for entry in root.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return set()
    return {int(match.group(1)) for match in map(_GENERATION.fullmatch, names) if match}


def _resumed(root: Path, number: int) -> Optional[Tuple[Optional[Path]]]:
    """What a generation went on from, in brackets; None if that is not known, or not there any more."""
    try:
        told = json.loads((root / (_RESUMED % number) / _FROM).read_text(encoding="utf-8"))["checkpoint"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    if told is None:
        return (None,)
    path = root / str(told)
    return (path,) if _step_of(path) is not None else None


def _keep_resumed(root: Path, chosen: Optional[Path]) -> Tuple[Optional[Path]]:
    """Keeps what this generation goes on from, unless another replica was faster: its choice counts then.

    A folder that nobody may write to keeps nothing; nobody can save there either.
    """
    if not root.is_dir() and (role() != "worker" or rank() != 0):
        return (chosen,)  # the folder is made by who saves in it
    told = None if chosen is None else str(chosen.relative_to(root).as_posix())
    try:
        root.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".resumed-", dir=str(root)))
    except OSError:
        return (chosen,)
    try:
        os.chmod(str(temporary), 0o755)
        (temporary / _FROM).write_text(json.dumps({"checkpoint": told}) + "\n", encoding="utf-8")
        _force_to_disk(temporary)
        os.rename(str(temporary), str(root / (_RESUMED % generation())))  # fails if it is there: it is not empty
    except OSError:
        shutil.rmtree(str(temporary), ignore_errors=True)
        return _resumed(root, generation()) or (chosen,)
    return (chosen,)


def _refuse_if_over(step: int) -> None:
    """Saves nothing once a newer generation of this job has begun."""
    newest = max(_generations(checkpoint_root()), default=0)
    if not by_hand() and newest > generation():
        raise ContractError(
            "checkpoint(%d): generation %d of this job is over, since generation %d has begun; nothing counts that it "
            "still saves. Let the script end." % (step, generation(), newest)
        )


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
