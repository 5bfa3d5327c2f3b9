"""The time without a step while a job of 3 workers gets a 4th, beside doing the same by hand.

By hand: delete the pods, wait until they are gone, create the new ones. All pods run the same script, which prints the
time of each step; the gap is between the last step before and the first one after.

    PYTHONPATH=. .venv/bin/python benchmarks/kubernetes/resize_gap.py
"""

from __future__ import annotations

import statistics
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import kubernetes.client
from _bed import cluster, engine, finish, until

from optimus_core.engine.engine import Engine
from optimus_core.engine.identity import Identity
from optimus_core.job import AllReduce, Replicas, TrainingJob
from optimus_core.pod_rules import Checkpoints
from tests.cluster.testbed import PYTHON_IMAGE

REPEATS = 5
GOAL = 1.2
SCRIPT = textwrap.dedent("""
    import os, signal, sys, time
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    step = 0
    while not stop:
        step += 1
        print('{"optimus": "report", "step": %d, "loss": 1.0, "time": %f}' % (step, time.time()), flush=True)
        time.sleep(0.05)
""")
COMMAND = ["python3", "-u", "-c", SCRIPT]


def by_hand(core: kubernetes.client.CoreV1Api, namespace: str, repeat: int) -> float:
    """Return the gap in seconds of a resize with nothing but calls of the API."""
    names = [f"hand-{repeat}-{index}" for index in range(4)]
    for name in names[:3]:
        _create(core, namespace, name)
    until(lambda: _step_times(core, namespace, names[0]))
    time.sleep(1)
    followed = _follow(core, namespace, names[0])
    for name in names[:3]:
        core.delete_namespaced_pod(name, namespace)
    until(lambda: not core.list_namespaced_pod(namespace, label_selector=f"run=r{repeat}").items)
    for name in names:
        _create(core, namespace, name)
    after = until(lambda: _step_times(core, namespace, names[0]))[0]
    for name in names:
        core.delete_namespaced_pod(name, namespace, grace_period_seconds=0)
    return after - max(_times(followed.data))


def _create(core: kubernetes.client.CoreV1Api, namespace: str, name: str) -> None:
    resources = {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"memory": "32Mi"}}
    container = {"name": "base", "image": PYTHON_IMAGE, "command": COMMAND, "resources": resources}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 30, "containers": [container]}
    labels = {"run": f"r{name.split('-')[1]}"}
    core.create_namespaced_pod(namespace, {"metadata": {"name": name, "labels": labels}, "spec": spec})


def _follow(core: kubernetes.client.CoreV1Api, namespace: str, name: str) -> Any:
    return core.read_namespaced_pod_log(name, namespace, _preload_content=False, follow=True)


def _step_times(core: kubernetes.client.CoreV1Api, namespace: str, name: str) -> list[float]:
    try:
        return _times(core.read_namespaced_pod_log(name, namespace, _preload_content=False).data)
    except kubernetes.client.ApiException:
        return []


def _times(log: bytes) -> list[float]:
    return [float(line.rpartition(b" ")[2].strip(b"}")) for line in log.splitlines() if line.endswith(b"}")]


def by_optimus(made: Engine, core: kubernetes.client.CoreV1Api, namespace: str, repeat: int) -> float:
    """Return the gap in seconds of the same resize by Optimus."""
    size = Replicas(cpu="100m", memory="32Mi", min=3, max=4)
    job = TrainingJob(name=f"gap-{repeat}", command=COMMAND, image=PYTHON_IMAGE, strategy=AllReduce(), workers=size)
    job_id = made.submit(job, Identity.of_name("bench", job.name)).job_id
    made.pin(str(job_id), "bench", workers=3)
    _drive(made, job_id, lambda: (made.job_by_id(job_id).step or 0) > 10 and made.job_by_id(job_id).workers == 3)
    made.pin(str(job_id), "bench", workers=4)
    _drive(made, job_id, lambda: made.job_by_id(job_id).workers == 4 and made.job_by_id(job_id).phase == "running")
    before, after = [g for g in made.history(job_id)["generations"] if g["starting_at"]][-2:]
    logs = made.ctx.cluster("kube").list()
    newest = next(r for r in logs if r.generation == after["number"] and r.index == 0)
    first = until(lambda: _step_times(core, namespace, newest.name))[0]
    last = max(
        _times("\n".join(o["tail"] for o in made.outputs(job_id) if o["generation"] == before["number"]).encode())
    )
    made.request_stop(job_id, by="bench")
    _drive(made, job_id, lambda: made.job_by_id(job_id).final)
    return first - last


def _drive(made: Engine, job_id: int, to: Any) -> None:
    end = time.monotonic() + 120
    while not to():
        if time.monotonic() > end:
            raise TimeoutError(f"job {job_id}: {made.job_by_id(job_id)}")
        step = made.step(job_id)
        time.sleep(0 if to() else step.look_again)


def main() -> int:
    """Run it; return 0 if the goal is met."""
    with cluster() as (_, client, namespace), engine(client, namespace) as made:
        made.ctx.cluster("kube").checkpoints = Checkpoints(url="none://")  # type: ignore[attr-defined]
        core = kubernetes.client.CoreV1Api(client)
        hand, ours = [], []
        for repeat in range(REPEATS):
            hand.append(by_hand(core, namespace, repeat))
            ours.append(by_optimus(made, core, namespace, repeat))
            print(f"gap {repeat}: by hand {hand[-1]:.2f} s, by Optimus {ours[-1]:.2f} s", flush=True)
        value = statistics.median(ours) / statistics.median(hand)
        print(f"median by hand {statistics.median(hand):.2f} s, by Optimus {statistics.median(ours):.2f} s")
    return finish("resize_gap", value, GOAL)


if __name__ == "__main__":
    sys.exit(main())
