"""Starts the real processes of an example, as the engine does: one for each replica, told by OPTIMUS_*."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 30  # seconds; far more than anything here takes


class Replica:
    """One process, and what it has printed so far."""

    def __init__(self, role, rank, script, args, env, folder):
        self.role, self.rank = role, rank
        self.out, self.err = (folder / f"{role}-{rank}.{name}" for name in ("out", "err"))
        env = dict(env, OPTIMUS_ROLE=role, OPTIMUS_RANK=str(rank))
        addresses = env["OPTIMUS_WORKER_ADDRESSES" if role == "worker" else "OPTIMUS_SERVER_ADDRESSES"]
        env["OPTIMUS_ADDRESS"] = addresses.split(",")[rank]
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, ROOT / "examples" / script, *map(str, args)],
                env=env,
                cwd=folder,
                stdout=out,
                stderr=err,
            )

    def traps_sigterm(self):
        """Whether the script has come as far as to ask whether it should stop."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
        return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)

    def lines(self, kind):
        """The lines of this kind that are whole."""
        whole = self.out.read_text().rpartition("\n")[0].splitlines()
        return [line for line in map(json.loads, whole) if line["optimus"] == kind]

    def losses(self):
        return {line["step"]: line["loss"] for line in self.lines("report")}


class Generation:
    """All replicas of one allocation."""

    def __init__(self, replicas):
        self.replicas = replicas

    def __getitem__(self, name):
        role, _, rank = name.partition(" ")
        return next(r for r in self.replicas if (r.role, r.rank) == (role, int(rank)))

    @property
    def leader(self):
        return self["worker 0"]

    def stop(self):
        """Asks all replicas to stop, once each has come as far as to notice."""
        wait_until(lambda: all(replica.traps_sigterm() for replica in self.replicas))
        for replica in self.replicas:
            replica.process.send_signal(signal.SIGTERM)

    def wait(self):
        """The exit code of each replica."""
        end = time.monotonic() + PATIENCE
        return {f"{r.role} {r.rank}": r.process.wait(max(end - time.monotonic(), 0.1)) for r in self.replicas}

    def until_step(self, step):
        """Waits until rank 0 has reported this step."""

        def reached():
            return any(line["step"] >= step for line in self.leader.lines("report"))

        wait_until(lambda: reached() or self.leader.process.poll() is not None)
        assert reached(), self.leader.err.read_text()

    def kill(self):
        for replica in self.replicas:
            replica.process.kill()
            replica.process.wait()


def wait_until(true):
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


@pytest.fixture
def start(tmp_path):
    """start(script, *args, workers=, servers=, ...) -> Generation; each call is the job's next generation."""
    generations = []

    def starts(script, *args, workers=1, servers=0, batch=32, per="job", env=(), job="digits"):
        number = len(generations) + 1
        folder = tmp_path / f"run-{number}"
        folder.mkdir()
        ports = free_ports(workers + servers)
        addresses = [f"127.0.0.1:{port}" for port in ports]
        common = {
            **{name: value for name, value in os.environ.items() if not name.startswith("OPTIMUS_")},
            "PYTHONPATH": str(ROOT),
            "OPTIMUS_JOB": job,
            "OPTIMUS_GENERATION": str(number),
            "OPTIMUS_ATTEMPT": "1",
            "OPTIMUS_WORKERS": str(workers),
            "OPTIMUS_SERVERS": str(servers),
            "OPTIMUS_WORKER_ADDRESSES": ",".join(addresses[:workers]),
            "OPTIMUS_SERVER_ADDRESSES": ",".join(addresses[workers:]),
            "OPTIMUS_BATCH_SIZE": str(batch),
            "OPTIMUS_BATCH_PER": per,
            "OPTIMUS_CHECKPOINTS": str(tmp_path / "checkpoints" / job),
            "OPTIMUS_GRACE_SECONDS": "10",
            **dict(env),
        }
        generation = Generation(
            [
                Replica(role, rank, script, args, common, folder)
                for role, count in (("worker", workers), ("server", servers))
                for rank in range(count)
            ]
        )
        generations.append(generation)
        return generation

    yield starts
    for generation in generations:
        generation.kill()


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports
