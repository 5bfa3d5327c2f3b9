"""The DAGs of these tests; copied into the DAGs folder of the Airflow under test."""

import os
import sys
from datetime import timedelta

from airflow.sdk import DAG
from optimus_airflow.operators import AllReduce, OptimusTrainingOperator, Replicas

MARK = f"OPTIMUS_E2E_MARK:{os.environ['AIRFLOW_HOME']}:"
NOTE = "import os, sys, time; open(os.environ['NOTES'], 'a').write(sys.argv[1] + '\\n'); "


def train(dag_id: str, seconds: float, workers: int = 1, **more: object) -> None:
    with DAG(dag_id, schedule=None):
        OptimusTrainingOperator(
            task_id="train",
            command=[sys.executable, "-c", NOTE + f"time.sleep({seconds})", MARK + dag_id],
            env={"NOTES": "{{ var.value.get('notes', '/dev/null') }}"},
            strategy=AllReduce(),
            workers=Replicas(cpu="100m", memory="64Mi", min=workers, max=workers),
            grace_seconds=2,
            **more,
        )


train("short", 3)
train("long", 600, workers=2)
train("again", 600)
train("survives", 75)
train("timed", 600, execution_timeout=timedelta(seconds=15), retries=0)
train("in_worker", 600, deferrable=False)
