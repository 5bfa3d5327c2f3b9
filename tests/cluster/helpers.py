"""Real replicas, and the waiting that tests of them need."""

import json
import os
import signal
import sys
import time

import psutil

from optimus_core.cluster.base import NodeInfo, ReplicaSpec, Role
from optimus_core.cluster.local import LocalCluster
from optimus_core.names import replica_name
from optimus_core.resources import Resources


def until(condition, seconds=15.0):
    """Poll until ``condition()`` is true and return it."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.01)
    return value


def spec(*command, job="job", index=0, generation=1, env=None, grace=5.0, role=Role.WORKER, **more):
    """A replica that runs ``command``; one argument with spaces in it is a shell's."""
    line = ("sh", "-c", command[0]) if len(command) == 1 and " " in command[0] else command
    return ReplicaSpec(
        name=replica_name(job, role, index, generation), job=job, generation=generation, role=role, index=index,
        node="node-1", resources=Resources.of(cpu="1"), command=line, env=env or {}, grace_seconds=grace, **more,
    )  # fmt: skip


def python(code, **more):
    """A replica that runs ``code``."""
    return spec(sys.executable, "-u", "-c", code, **more)


class Driver:
    """A cluster, and the waiting that tests need."""

    def __init__(self, root, **more):
        self.cluster = LocalCluster("here", root, [NodeInfo("node-1", Resources.of("4", "8Gi"))], **more)

    def start(self, *specs):
        self.cluster.create("job-g1", specs)
        return self.running(len(specs))[0]

    def running(self, count=1):
        return until(lambda: (found := [r for r in self.cluster.list() if r.ready]) and len(found) == count and found)

    def one(self):
        (replica,) = self.cluster.list()
        return replica

    def ended(self):
        return until(lambda: (replica := self.one()).phase.ended and replica)

    def run(self, specification):
        self.cluster.create("job-g1", [specification])
        return self.ended()

    def text(self, replica=None):
        return b"\n".join(line.data for line in self.cluster.output(replica or self.one(), None).lines)

    def printed(self, word):
        return until(lambda: word in self.text() and self.text())


def processes_of(uid):
    """All live processes with the replica's uid in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("OPTIMUS_REPLICA_UID") == uid and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            pass
    return found


def supervisor_of(driver, replica):
    status = json.loads((driver.cluster.root / "replicas" / replica.name / "status.json").read_text())
    return status["pid"]


def kill(pid):
    os.kill(pid, signal.SIGKILL)
