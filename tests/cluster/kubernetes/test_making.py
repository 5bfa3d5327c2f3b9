"""Pods that are there already, since an answer was lost or another driver was faster, are no reason to give up."""

import json

import pytest
from kubernetes.client.exceptions import ApiException

from optimus_core.cluster.base import ReplicaSpec, Role
from optimus_core.cluster.kubernetes import KubernetesCluster
from optimus_core.cluster.kubernetes.api import Api
from optimus_core.cluster.kubernetes.status import GENERATION, JOB
from optimus_core.errors import ClusterRefusesNow, ClusterUnavailable, NameTaken
from optimus_core.resources import Resources

SPEC = ReplicaSpec(
    "a-worker-0-g1", "a", 1, Role.WORKER, 0, "node", Resources.of(cpu="1", memory="64Mi"), ("true",), {}, 5, image="i"
)
QUOTA = 'pods "a-worker-0-g1" is forbidden: exceeded quota: q, requested: requests.cpu=1, used: 1, limited: 1'


class FullQuota:
    """A server whose quota refuses every pod, one with a name that is there already too."""

    def __init__(self, pod):
        self.pod, self.deleted = pod, []

    def call_api(self, path, method, **more):
        if method == "POST" and path.endswith("/pods"):
            raise self._error(403, QUOTA)
        if method == "GET" and self.pod is None:
            raise self._error(404, "not found")
        if method == "DELETE":
            self.deleted.append(path)
        answer = self.pod if method == "GET" else {"metadata": more["body"].get("metadata", {}) | {"uid": "u"}}
        return type("Answer", (), {"data": json.dumps(answer).encode()})

    def _error(self, status, message):
        error = ApiException(status=status)
        error.body = json.dumps({"message": message})
        return error


def create(connection):
    KubernetesCluster("kube", Api("kube", connection), ["x"]).create("a-g1", [SPEC])


def pod(generation):
    return {"metadata": {"name": SPEC.name, "labels": {JOB: "a", GENERATION: str(generation)}}}


def test_a_pod_that_has_filled_the_quota_itself_is_left_as_it_is():
    connection = FullQuota(pod(1))
    create(connection)
    assert connection.deleted == []


@pytest.mark.parametrize(
    ("there", "kind"),
    [pytest.param(None, ClusterRefusesNow, id="no pod"), pytest.param(pod(2), NameTaken, id="of another generation")],
)
def test_a_pod_that_a_quota_refuses_takes_its_group_with_it(there, kind):
    connection = FullQuota(there)
    with pytest.raises(kind):
        create(connection)
    assert connection.deleted == ["/api/v1/namespaces/x/configmaps/a-g1"]


def test_what_is_in_the_way_of_a_new_object_and_gone_when_it_is_looked_at_is_tried_again():
    class JustGone(FullQuota):
        def call_api(self, path, method, **more):
            raise self._error(409 if method == "POST" else 404, "already exists" if method == "POST" else "not found")

    with pytest.raises(ClusterUnavailable, match="ConfigMap a of cluster kube is just being deleted"):
        create(JustGone(None))
