"""From a fork of the supervisor to the command."""

from __future__ import annotations

import os
import signal
from typing import Any, NoReturn

from .processes import SET_PDEATHSIG, prctl


def become(spec: dict[str, Any], parent: int, output: int, tell: int) -> NoReturn:
    """Turn this process, a fork of the supervisor, into the command; never returns."""
    try:
        os.setpgid(0, 0)
        prctl(SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(127)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        _enter(spec["working_dir"] or _home(spec["environment"]))
        os.execvpe(spec["command"][0], spec["command"], spec["environment"])
    except Exception as error:  # noqa: BLE001  the supervisor is told, whatever it was
        text = str(error) if isinstance(error, _NoFolder) else f"{spec['command'][0]} can't be started: {_why(error)}"
        os.write(tell, text.encode("utf-8", "replace"))
    finally:
        os._exit(127)


def _why(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


class _NoFolder(Exception):
    """The working directory can't be entered."""


def _home(environment: dict[str, str]) -> str:
    home = environment.get("HOME", "")
    return home if os.path.isdir(home) else "/"


def _enter(folder: str) -> None:
    try:
        os.chdir(folder)
    except OSError as error:
        raise _NoFolder(f"The working directory can't be entered: {error}") from error
