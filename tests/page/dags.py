"""DAGs whose jobs write markup, never have room beside others, and try everything; one that never ran."""

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
        quota="teaching",
        command=[sys.executable, "-c", SCRIPT],
        strategy=AllReduce(),
        workers=Replicas(cpu="100m", memory="64Mi", min=1, max=2),
        grace_seconds=2,
    )

with DAG("unused", schedule=None):
    OptimusTrainingOperator(
        task_id="train", command=["true"], strategy=AllReduce(), workers=Replicas(cpu="100m", memory="64Mi")
    )

with DAG("crowded", schedule=None):
    OptimusTrainingOperator(
        task_id="train",
        command=[sys.executable, "-c", SCRIPT],
        strategy=AllReduce(),
        workers=Replicas(cpu=str(os.cpu_count()), memory="64Mi"),
        grace_seconds=2,
    )

with DAG("stopped", schedule=None):
    OptimusTrainingOperator(
        task_id="train",
        command=[sys.executable, "-c", SCRIPT],
        strategy=AllReduce(),
        workers=Replicas(cpu="100m", memory="64Mi"),
        grace_seconds=2,
        retries=0,
    )

HOSTILE = r"""
import json, sys, time
import optimus_train

if optimus_train.rank():
    print("x" * 10_000, flush=True)
    time.sleep(600)
for step in range(1, 200):
    loss = float("nan" if step % 50 == 0 else "inf" if step % 70 == 0 else 2.0 / step**0.5 + 0.1)
    print(json.dumps({"step": step, "loss": loss, "<b onclick=alert(1)>\u202e": step}), flush=True)
for text in (
    "</pre></style><script>alert(1)</script>", "\u202egnp.exe \u0627\u0644", "\U0001f600 e\u0301",
    "\x1b[31mred \x07\x00\x7f", "javascript:alert(1) ${7*7} %s", "NaN Infinity undefined",
):
    print(text, flush=True)
time.sleep(5)
sys.exit("<img src=x onerror=alert(1)>")
"""

with DAG("hostile", schedule=None):
    OptimusTrainingOperator(
        task_id="\u0627\u0644\u062a\u062f\u0631\u064a\u0628",  # "training", from right to left
        command=[sys.executable, "-c", HOSTILE],
        strategy=AllReduce(),
        workers=Replicas(cpu="100m", memory="64Mi", min=2, max=2),
        grace_seconds=2,
        retries=0,
    )
