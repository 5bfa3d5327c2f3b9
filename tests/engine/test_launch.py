"""What replicas take of a node, with what a template has beside the training."""

import pytest

from optimus_core.cluster.base import Role
from optimus_core.engine.launch import demand, trial_specs
from optimus_core.resources import Resources

SIDECAR = {"name": "proxy", "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}}}


@pytest.mark.parametrize(
    ("pod", "taken"),
    [
        pytest.param({}, Resources.of("1", "64Mi"), id="the training alone"),
        pytest.param({"spec": {"containers": [SIDECAR]}}, Resources.of("1250m", "128Mi"), id="with a sidecar"),
        pytest.param({"spec": {"overhead": {"memory": "32Mi"}}}, Resources.of("1", "96Mi"), id="with overhead"),
        pytest.param(
            {"spec": {"containers": [{"name": "base", "resources": {"limits": {"cpu": "4"}}}]}},
            Resources.of("1", "64Mi"),
            id="a limit of the training is no request",
        ),
        pytest.param(
            {"spec": {"initContainers": [{"name": "fetch", "resources": {"requests": {"cpu": "3"}}}]}},
            Resources.of("3", "64Mi"),
            id="with a larger init container",
        ),
    ],
)
def test_a_plan_counts_all_of_a_pod_and_the_training_asks_for_its_own(make_job, cluster, pod, taken):
    job = make_job(pod=pod)
    assert demand(job, Role.WORKER) == taken
    assert trial_specs(job, "digits", cluster)[0].resources == Resources.of("1", "64Mi")
