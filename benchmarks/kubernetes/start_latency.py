"""From the start of a task to its container running: this operator beside KubernetesPodOperator, in one run.

Both run by `airflow dags test` in a fresh Airflow, without deferring; the container prints when it begins. Also: the
time from a job's submission until all of 30 replicas run.

    PYTHONPATH=.:plugins .venv/bin/python benchmarks/kubernetes/start_latency.py
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import kubernetes.client
from _bed import cluster, engine, finish

from optimus_core.engine.engine import Engine
from optimus_core.engine.identity import Identity
from optimus_core.job import AllReduce, Replicas, TrainingJob
from optimus_core.settings import Settings
from tests.cluster.testbed import PYTHON_IMAGE

REPEATS = 5
MANY = 30
GOAL = 0.8
CODE = "import time; print('began', time.time(), flush=True)"


DAG = """
import time
from pathlib import Path
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk import DAG
from airflow.sdk.bases.operator import chain
from optimus_airflow.operators import AllReduce, OptimusTrainingOperator, Replicas

COMMAND = ["python3", "-c", {code!r}]

def note(context):
    with Path({notes!r}).open("a") as notes:
        print(context["ti"].task_id, time.time(), file=notes)

def pod(number):
    return KubernetesPodOperator(
        task_id=f"pod_{{number}}", config_file={kubeconfig!r}, in_cluster=False, namespace={namespace!r},
        image={image!r}, cmds=COMMAND, do_xcom_push=False, on_finish_action="keep_pod", on_execute_callback=note,
    )

def job(number):
    return OptimusTrainingOperator(
        task_id=f"job_{{number}}", command=COMMAND, image={image!r}, strategy=AllReduce(), resumable=False,
        workers=Replicas(cpu="100m", memory="64Mi"), deferrable=False, on_execute_callback=note,
    )

with DAG("latency", schedule=None):
    chain(*(make(number) for number in range({repeats}) for make in (pod, job)))
"""


def run_dag(home: Path, kubeconfig: Path, namespace: str) -> dict[str, float]:
    """Run the DAG in a fresh Airflow whose Optimus knows the test cluster; return when each task started."""
    (home / "dags").mkdir()
    (home / "optimus").mkdir()
    (home / "optimus" / "clusters.yaml").write_text(
        f"kube: {{kind: kubernetes, config_file: {kubeconfig}, namespaces: [{namespace}]}}\n"
    )
    notes = home / "notes"
    text = DAG.format(
        code=CODE,
        notes=str(notes),
        kubeconfig=str(kubeconfig),
        namespace=namespace,
        image=PYTHON_IMAGE,
        repeats=REPEATS,
    )
    (home / "dags" / "latency.py").write_text(text)
    environ = os.environ | {
        "AIRFLOW_HOME": str(home),
        "OPTIMUS_HOME": str(home / "optimus"),
        "AIRFLOW__OPTIMUS__CLUSTER": "kube",
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    }
    for words in (["db", "migrate"], ["dags", "reserialize"], ["dags", "test", "latency"]):
        with (home / "airflow.log").open("wb") as log:
            command = [sys.executable, "-m", "airflow", *words]
            if subprocess.run(command, env=environ, stdout=log, stderr=log).returncode:
                sys.exit((home / "airflow.log").read_text()[-3000:])
    return {line.split()[0]: float(line.split()[1]) for line in notes.read_text().splitlines()}


def latencies(home: Path, client: Any, kubeconfig: Path, namespace: str) -> dict[str, list[float]]:
    """Return seconds from task start to container start, by kind of task."""
    started = run_dag(home, kubeconfig, namespace)
    core = kubernetes.client.CoreV1Api(client)
    jobs = Engine(Settings(home=home / "optimus", cluster="kube"))
    found: dict[str, list[float]] = {"pod": [], "job": []}
    for number in range(REPEATS):
        (pod,) = core.list_namespaced_pod(namespace, label_selector=f"task_id=pod_{number}").items
        log = core.read_namespaced_pod_log(pod.metadata.name, namespace, container="base", _preload_content=False)
        found["pod"].append(_time(log.data.decode()) - started[f"pod_{number}"])
        job = next(report for report in jobs.jobs() if report.task_id == f"job_{number}")
        found["job"].append(_time(jobs.outputs(job.id)[-1]["tail"]) - started[f"job_{number}"])
        print(f"pod {found['pod'][-1]:.2f} s, job {found['job'][-1]:.2f} s", flush=True)
    return found


def _time(log: str) -> float:
    return float(log.split("began ")[-1].split()[0])


def many(client: Any, namespace: str) -> float:
    """Return seconds from submission until all of many replicas run."""
    with engine(client, namespace) as made:
        size = Replicas(cpu="10m", memory="16Mi", min=MANY, max=MANY)
        command = ["python3", "-c", "import time; time.sleep(600)"]
        job = TrainingJob(
            name="many", command=command, image=PYTHON_IMAGE, strategy=AllReduce(), workers=size, resumable=False,
            grace_seconds=1,
        )  # fmt: skip
        began = time.monotonic()
        job_id = made.submit(job, Identity.of_name("bench", job.name)).job_id
        while made.job_by_id(job_id).phase != "running":
            time.sleep(made.step(job_id).look_again)
        seconds = time.monotonic() - began
        made.request_stop(job_id, by="bench")
        while not (step := made.step(job_id)).final:
            time.sleep(step.look_again)
    return seconds


def main() -> int:
    """Run it; return 0 if the goal is met."""
    with cluster() as (kubeconfig, client, namespace), tempfile.TemporaryDirectory() as home:
        found = latencies(Path(home), client, kubeconfig, namespace)
        theirs, ours = (statistics.median(found[name]) for name in ("pod", "job"))
        print(f"median: KubernetesPodOperator {theirs:.2f} s, OptimusTrainingOperator {ours:.2f} s")
        print(f"{MANY} replicas run {many(client, namespace):.2f} s after the job is submitted")
    return finish("start_latency", ours / theirs, GOAL)


if __name__ == "__main__":
    sys.exit(main())
