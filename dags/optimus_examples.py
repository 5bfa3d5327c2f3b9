"""Training jobs of several shapes that arrive one after another and share what a cluster has.

Each trains a small reader of hand-written digits for about a minute. Watch them with `optimus jobs`, or in Airflow.
On a Kubernetes cluster the environment variable OPTIMUS_EXAMPLES says, as JSON, what is different in a pod: `python`,
and arguments of the operator under `arguments`, such as `image`, `working_dir`, `volumes`, `volume_mounts`.
"""

import json
import os
import sys
import time
from datetime import timedelta

from airflow.sdk import DAG, task
from optimus_airflow.bundle import folder
from optimus_airflow.operators import (
    AllReduce,
    Converged,
    Epochs,
    OptimusTrainingOperator,
    ParameterServer,
    Replicas,
)
from optimus_airflow.sensors import OptimusJobSensor, Progress

ELSEWHERE = json.loads(os.environ.get("OPTIMUS_EXAMPLES", "{}"))
PLACE = {"working_dir": str(folder("examples"))} | ELSEWHERE.get("arguments", {})
SMALL = {"cpu": "500m", "memory": "192Mi"}
PYTHON = ELSEWHERE.get("python", sys.executable)
TRAIN_PS = [PYTHON, "train_ps.py"]
TRAIN_ALLREDUCE = [PYTHON, "train_allreduce.py"]


@task(retries=1)
def arrives_after(seconds: float) -> None:
    """Lets the next job come a little later than the ones before."""
    time.sleep(seconds)


with DAG(
    "optimus_examples",
    description="Four kinds of training jobs share one cluster",
    schedule=None,
    catchup=False,
    tags=["optimus", "example"],
    doc_md=__doc__,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=5), "execution_timeout": timedelta(minutes=20)},
):
    OptimusTrainingOperator(
        task_id="train_digits",
        command=[*TRAIN_PS, "--steps", "900", "--read-ms", "5"],
        **PLACE,
        strategy=ParameterServer(sync=True),
        workers=Replicas(**SMALL, min=1, max=4),
        servers=Replicas(**SMALL, min=1, max=2),
        batch_size=64,
        stop=Converged(0.01),
    )

    asynchronous = OptimusTrainingOperator(
        task_id="train_async",
        command=[*TRAIN_PS, "--mode", "async", "--steps", "900", "--read-ms", "6"],
        **PLACE,
        strategy=ParameterServer(sync=False),
        workers=Replicas(**SMALL, min=1, max=3),
        servers=Replicas(**SMALL, min=1, max=1),
        batch_size=32,
        batch_per="worker",
    )

    all_reduce = OptimusTrainingOperator(
        task_id="train_allreduce",
        command=[*TRAIN_ALLREDUCE, "--epochs", "20", "--read-ms", "3"],
        **PLACE,
        strategy=AllReduce(),
        workers=Replicas(**SMALL, min=1, max=4),
        batch_size=64,
        stop=Epochs(20),
    )

    widths = OptimusTrainingOperator.partial(
        task_id="train_widths",
        **PLACE,
        strategy=ParameterServer(sync=True),
        workers=Replicas(**SMALL, min=1, max=4),
        servers=Replicas(**SMALL, min=1, max=1),
        batch_size=64,
    ).expand(
        command=[[*TRAIN_PS, "--steps", "700", "--read-ms", "5", "--hidden", hidden] for hidden in ("32", "128")],
    )

    OptimusJobSensor(task_id="half_of_digits", job_task_id="train_digits", until=Progress(0.5), timeout=1200)

    second = arrives_after.override(task_id="after_10_s")(10)
    third = arrives_after.override(task_id="after_20_s")(20)
    fourth = arrives_after.override(task_id="after_30_s")(30)

    second >> asynchronous
    third >> all_reduce
    fourth >> widths
