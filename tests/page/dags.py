"""A DAG whose job's texts try to be markup, and one whose job never has room beside it."""

import os
import sys

from airflow.sdk import DAG
from optimus_airflow.operators import AllReduce, OptimusTrainingOperator, Replicas

SCRIPT = """
import time
print("<img src=x onerror=alert(1)> \\u202eevil", flush=True)
for step in range(1, 4000):
    print(f"step={step} loss={2.0 / step ** 0.5 + 0.1:.5f}", flush=True)
    time.sleep(0.2)
"""

with DAG("paged", schedule=None):
    OptimusTrainingOperator(
        task_id="train",
        command=[sys.executable, "-c", SCRIPT],
        strategy=AllReduce(),
        workers=Replicas(cpu="100m", memory="64Mi", min=1, max=2),
        grace_seconds=2,
    )

with DAG("crowded", schedule=None):
    OptimusTrainingOperator(
        task_id="train",
        command=[sys.executable, "-c", SCRIPT],
        strategy=AllReduce(),
        workers=Replicas(cpu=str(os.cpu_count()), memory="64Mi"),
        grace_seconds=2,
    )
