"""Where checkpoints lie: a volume that is another one on each node is told, and never taken for a new beginning."""

from __future__ import annotations

from tests.conftest import TRAIN

IMPATIENT = "import optimus_train.checkpoints as c\nc.PATIENCE = 1\n" + TRAIN
ANOTHER_ON_EACH_NODE = {
    "spec": {
        "containers": [
            {
                "name": "base",
                "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
                "volumeMounts": [{"mountPath": "/mnt/optimus-checkpoints", "subPathExpr": "$(NODE)"}],
            }
        ]
    }
}


def test_a_volume_that_is_another_one_on_each_node_fails_the_job_with_that_sentence(driver, make_job):
    command = ["python3", "-c", IMPATIENT]
    job = make_job(command=command, workers=(1, 2), cpu="2", STEPS=100_000, pod=ANOTHER_ON_EACH_NODE)
    made = driver.submit(job)
    driver.engine.pin(str(made.job_id), "ann", workers=1)
    driver.to_size(made.job_id, 1)
    driver.to_step(made.job_id, 8)
    driver.engine.pin(str(made.job_id), "ann", workers=2)
    report = driver.to_end(made.job_id)
    assert (report.state, report.reason_code) == ("failed", "checkpoint_missing")
    assert "is missing: replica" in report.reason
    assert "each node sees another volume: use a claim that is ReadWriteMany" in report.reason
    assert report.result["checkpoint_step"] >= 5
    assert [g["workers"] for g in driver.generations(made.job_id) if g["starting_at"]] == [1, 2], "no second try"
