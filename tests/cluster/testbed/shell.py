"""Commands, and waiting for what they bring about."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from tests.cluster.testbed.errors import ClusterError

T = TypeVar("T")
PATH = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"
"""Where commands are looked for; a user's PATH often lacks the folders of the administrator's."""


def say(text: str) -> None:
    """Print a line of progress; standard output is for answers."""
    print(text, file=sys.stderr, flush=True)


def which(command: str) -> str | None:
    """Return the path of a command, None if there is none."""
    return shutil.which(command, path=PATH)


def run(
    *argv: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None, stdin: str | None = None
) -> str:
    """Run a command and return what it printed.

    Raises:
        ClusterError: it failed; the text is its own.
    """
    words = [str(word) for word in argv]
    environ = {**os.environ, "PATH": PATH, **(env or {})}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environ, cwd=cwd, input=stdin)
    if done.returncode:
        said = f"{done.stdout}{done.stderr}".strip()[-4000:]
        raise ClusterError(f"{' '.join(words)[:300]}: exit code {done.returncode}\n{said}")
    return done.stdout


def until(what: str, condition: Callable[[], T], seconds: float = 60.0, pause: float = 0.05) -> T:
    """Ask ``condition`` until it is true and return what it gave.

    Raises:
        ClusterError: it never was in ``seconds``; the text is ``what``.
    """
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise ClusterError(f"{what}: not so after {seconds:.0f} s")
        time.sleep(pause)
    return value
