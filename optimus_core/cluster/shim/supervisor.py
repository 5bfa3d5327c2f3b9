"""The life of one command: started, listened to, asked to stop, killed, judged."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from typing import Any

from .child import become
from .files import SPEC, STATUS, STOP, message_in, read_json, write_json
from .log import Log
from .processes import SET_CHILD_SUBREAPER, descendants, here, prctl, send, stat_of

_LOOK_SECONDS = 1.0
"""How often a request to stop is looked for that came without a signal, such as from another container."""
_KILL_PATIENCE = 5.0


class Supervisor:
    """Runs the command of one record to its end."""

    def __init__(self, folder: str, spec: dict[str, Any]) -> None:
        self.folder, self.spec = folder, spec
        self.log = Log(folder, spec["output_limit"])
        self.status: dict[str, Any] = {}
        self.child, self.pipe, self.wake = 0, -1, -1
        self.exit_code: int | None = None
        self.signalled = self.disrupted = False
        self.request: dict[str, Any] | None = None
        self.deadline: float | None = None
        self.next_look = 0.0

    def run(self) -> None:
        """Start the command and stay with it until nothing of it is left."""
        self.wake = self._catch_signals()
        prctl(SET_CHILD_SUBREAPER, 1)  # descendants that lose their parent become ours, not init's
        if read_json(self._path(STOP)) is not None:
            return self._end(None, "Deleted", "It was asked to stop before it had started.")
        error = self._start()
        if error:
            return self._end(127, "StartError", error)
        stat = stat_of(os.getpid())
        self._record(phase="running", pid=os.getpid(), start=stat and stat[2], started_at=time.time(), **here())
        while not self._reap():
            self._heed_stop()
            self._wait()
        self._kill_all()
        self._drain()
        return self._end(*self._judge())

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _record(self, **fields: Any) -> None:
        """Write the status; a full disk is waited for, since what isn't written counts as lost."""
        self.status.update(fields)
        while True:
            try:
                return write_json(self._path(STATUS), self.status)
            except FileNotFoundError:
                raise
            except OSError:
                time.sleep(_LOOK_SECONDS)

    def _catch_signals(self) -> int:
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        return reader

    def _on_term(self, *_: object) -> None:
        self.signalled, self.next_look = True, 0.0

    def _start(self) -> str | None:
        """Start the command; return why that failed."""
        self.pipe, output = os.pipe2(os.O_CLOEXEC)
        answer, tell = os.pipe2(os.O_CLOEXEC)
        parent = os.getpid()
        self.child = os.fork()
        if self.child == 0:
            become(self.spec, parent, output, tell)
        os.close(output)
        os.close(tell)
        with open(answer, "rb") as file:
            error = file.read().decode("utf-8", "replace")
        os.set_blocking(self.pipe, False)
        return error or None

    def _reap(self) -> bool:
        """Reap whatever has ended; say whether the command is among it."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == self.child:
                    code = os.waitstatus_to_exitcode(status)
                    self.exit_code = 128 - code if code < 0 else code
        return self.exit_code is not None

    def _wait(self) -> None:
        """Wait for output, a signal, or the time to look again."""
        limit = _LOOK_SECONDS if self.deadline is None else min(_LOOK_SECONDS, self.deadline - time.monotonic())
        watched = [descriptor for descriptor in (self.pipe, self.wake) if descriptor >= 0]
        readable, _, _ = select.select(watched, [], [], max(0.0, limit))
        if self.wake in readable:
            with contextlib.suppress(BlockingIOError):
                os.read(self.wake, 4096)
        if self.pipe in readable:
            self._read()

    def _read(self) -> bool:
        """Read a piece of output; say whether there was any."""
        try:
            data = os.read(self.pipe, 1 << 16)
        except BlockingIOError:
            return False
        if not data:
            os.close(self.pipe)
            self.pipe = -1
            return False
        self.log.feed(data)
        return True

    def _drain(self) -> None:
        end = time.monotonic() + _KILL_PATIENCE
        while self.pipe >= 0 and self._read() and time.monotonic() < end:
            pass
        self.log.close()

    def _heed_stop(self) -> None:
        """Pass a request to stop on, once; kill when its grace is over."""
        now = time.monotonic()
        if now >= self.next_look:
            self.next_look = now + _LOOK_SECONDS
            self._look_for_request(now)
            if not os.path.exists(self._path(SPEC)):  # somebody removed the record: nothing may outlive it
                self._kill_all()
        if self.deadline is not None and now >= self.deadline:
            self._kill_all()

    def _look_for_request(self, now: float) -> None:
        request = read_json(self._path(STOP))
        if request is None and self.signalled and self.request is None:
            grace = self.spec["grace_seconds"]  # a stranger's signal, such as of a shutdown
            request = {"grace_seconds": grace, "deadline": time.time() + grace, "disrupted": True}
            with contextlib.suppress(OSError):  # such as of a full disk: the command is asked all the same
                write_json(self._path(STOP), request)
            self.disrupted = True
        if request is None or request == self.request:
            return
        grace = min(request["grace_seconds"], max(0.0, request["deadline"] - time.time()))
        if self.request is None and grace > 0:
            send(-self.child, signal.SIGTERM)
        self.request = request
        self.deadline = min(now + grace, now + grace if self.deadline is None else self.deadline)

    def _kill_all(self) -> None:
        """Kill the command and all that came of it."""
        end = time.monotonic() + _KILL_PATIENCE
        while (rest := descendants(os.getpid())) and time.monotonic() < end:
            for pid in rest:
                send(pid, signal.SIGKILL)
            time.sleep(0.002)
            self._reap()
        self._reap()

    def _judge(self) -> tuple[int | None, str, str | None]:
        code, message = self.exit_code, None
        if code is not None and code > 128:
            message = f"Ended by signal {code - 128}."
        if self.deadline is not None and time.monotonic() >= self.deadline:
            message = "Killed: it had not ended when its grace period was over."
        reason = "Completed" if code == 0 else "Error"
        return code, "Disrupted" if self.disrupted else reason, message

    def _end(self, code: int | None, reason: str, message: str | None) -> None:
        text = message_in(self.folder) or message
        phase = "succeeded" if code == 0 else "failed"
        self._record(phase=phase, ended_at=time.time(), exit_code=code, reason=reason, message=text)
