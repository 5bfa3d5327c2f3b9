"""The DAGs of these tests; copied into the DAGs folder of the Airflow under test."""

import os
import textwrap
from datetime import timedelta

from airflow.sdk import DAG
from optimus_airflow.operators import AllReduce, OptimusTrainingOperator, Replicas

IMAGE = os.environ["OPTIMUS_TEST_IMAGE"]
CODE = textwrap.dedent("""
    import os, pathlib, signal, sys, time
    import optimus_train

    seconds, patience = float(sys.argv[1]), float(sys.argv[2])
    optimus_train.stop_requested()  # from now on
    latest = optimus_train.latest_checkpoint()
    step = optimus_train.checkpoint_step(latest) if latest else 0

    def save():
        if optimus_train.rank() == 0:
            with optimus_train.checkpoint(step) as folder:
                (folder / "model").write_text(str(step))

    while step < seconds * 10 and not optimus_train.stop_requested():
        time.sleep(0.1)
        step += 1
        if optimus_train.rank() == 0:
            optimus_train.report(step, 1 / step)
        if step == 10 and latest is None and "fails" in sys.argv:
            save()
            sys.exit("the data is broken")
    save()
    time.sleep(patience if optimus_train.stop_requested() else 0)
""")


def train(
    dag_id: str, seconds: float, workers: tuple[int, int] = (1, 1), patience: float = 0, word: str = "", **more: object
) -> None:
    """A DAG of one training; where it is asked to stop it saves, and takes ``patience`` seconds more.

    With the word "fails" it saves at step 10 and fails, if it began from scratch.
    """
    with DAG(dag_id, schedule=None):
        OptimusTrainingOperator(
            task_id="train",
            image=IMAGE,
            command=["python3", "-u", "-c", CODE, str(seconds), str(patience), word],
            strategy=AllReduce(),
            workers=Replicas(cpu=more.pop("cpu", "100m"), memory="64Mi", min=workers[0], max=workers[1]),
            grace_seconds=20,
            **({"retries": 0} | more),
        )


SLEEP = {"name": "late", "image": IMAGE, "command": ["sleep", "600"]}
train("short", 2)
train("queued", 600, cpu="2")
train("starting", 600, init_containers=[SLEEP])
train("running", 600, workers=(2, 2))
train("resizing", 600, workers=(1, 2), patience=6)
train("stopping", 600, patience=6)
train("retried", 2, word="fails", failure_retries=0, retries=1, retry_delay=timedelta(seconds=1))
