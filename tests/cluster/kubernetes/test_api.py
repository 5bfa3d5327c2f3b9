"""Each answer of an API server becomes the error that says what it means for a job."""

import json

import pytest
from kubernetes.client.exceptions import ApiException

from optimus_core.cluster.kubernetes.api import Api, Conflict, Gone, NotFound, translated
from optimus_core.errors import ClusterRefusesNow, ClusterUnavailable, PermissionMissing, SpecificationError

USER = 'User "system:serviceaccount:default:optimus"'


def answer(status, message):
    """What the client raises for an answer of the API server."""
    error = ApiException(status=status, reason="Reason")
    error.body = json.dumps({"kind": "Status", "status": "Failure", "message": message, "code": status})
    return error


MODIFIED = 'Operation cannot be fulfilled on {} "q": the object has been modified; please apply your changes'
NO_LIMITS = "[maximum cpu usage per Container is 1, but limit is 2]"
QUOTA = 'pods "c" is forbidden: exceeded quota: q, requested: requests.cpu=300m, used: 300m, limited: 500m'


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        pytest.param(404, 'pods "a" not found', NotFound, id="404"),
        pytest.param(409, 'pods "a" already exists', Conflict, id="409-it-exists"),
        pytest.param(409, "the UID in the precondition (a) does not match", Conflict, id="409-another-of-its-name"),
        pytest.param(409, MODIFIED.format("resourcequotas"), ClusterUnavailable, id="409-two-pods-under-one-quota"),
        pytest.param(409, MODIFIED.format("pods"), ClusterUnavailable, id="409-another-change-came-first"),
        pytest.param(410, "The provided continue parameter is too old", Gone, id="410"),
        pytest.param(400, 'container "base" in pod "a" is waiting to start', SpecificationError, id="400"),
        pytest.param(413, "Request entity too large: limit is 3145728", SpecificationError, id="413"),
        pytest.param(422, 'Pod "a" is invalid: spec.containers[0].image: Required value', SpecificationError, id="422"),
        pytest.param(401, "Unauthorized", ClusterUnavailable, id="401"),
        pytest.param(403, f'pods is forbidden: {USER} cannot list resource "pods" in API group "" in the namespace "x"',
                     PermissionMissing, id="403-no-permission"),
        pytest.param(403, QUOTA, ClusterRefusesNow, id="403-quota"),
        pytest.param(403, 'pods "a" is forbidden: status unknown for quota: q, resources: pods', ClusterRefusesNow,
                     id="403-quota-not-counted-yet"),
        pytest.param(403, 'pods "a" is forbidden: unable to create new content in namespace x because it is being '
                     "terminated", ClusterRefusesNow, id="403-namespace-goes"),
        pytest.param(403, 'pods "a" is forbidden: failed quota: q: must specify limits.memory for: m',
                     SpecificationError, id="403-quota-wants-limits"),
        pytest.param(403, f'pods "a" is forbidden: {NO_LIMITS}', SpecificationError, id="403-limit-range"),
        pytest.param(403, 'pods "a" is forbidden: violates PodSecurity "restricted:latest"', SpecificationError,
                     id="403-pod-security"),
        pytest.param(403, 'pods "a" is forbidden: error looking up service account x/trainer: not found',
                     SpecificationError, id="403-no-service-account"),
        pytest.param(429, "too many requests", ClusterUnavailable, id="429"),
        pytest.param(500, "etcdserver: request timed out", ClusterUnavailable, id="500"),
        pytest.param(503, "apiserver is shutting down", ClusterUnavailable, id="503"),
        pytest.param(504, "Timeout: request did not complete", ClusterUnavailable, id="504"),
        pytest.param(0, "", ClusterUnavailable, id="no-status"),
    ],
)  # fmt: skip
def test_an_answer_becomes_the_error_that_it_means(status, message, kind):
    error = translated(answer(status, message), "prod")
    assert type(error) is kind
    assert message in str(error) or status == 401


@pytest.mark.parametrize(
    ("message", "words"),
    [
        pytest.param(
            f'pods is forbidden: {USER} cannot list resource "pods" in API group "" in the namespace "training"',
            'may not list pods in namespace "training"', id="in-a-namespace",
        ),
        pytest.param(
            f'nodes is forbidden: {USER} cannot list resource "nodes" in API group "" at the cluster scope',
            "may not list nodes at the cluster scope", id="at-the-cluster-scope",
        ),
        pytest.param(
            f'pods "a-0" is forbidden: {USER} cannot get resource "pods/log" in API group "" in the namespace "x"',
            'may not get pods/log in namespace "x"', id="a-part-of-an-object",
        ),
        pytest.param(
            f'leases is forbidden: {USER} cannot create resource "leases" in API group "coordination.k8s.io" '
            'in the namespace "x"',
            'may not create leases in namespace "x"', id="in-a-group",
        ),
    ],
)  # fmt: skip
def test_a_missing_permission_names_verb_resource_and_namespace(message, words):
    error = translated(answer(403, message), "prod")
    assert isinstance(error, PermissionMissing)
    assert words in str(error)
    assert "cluster prod" in str(error)
    assert message in str(error)


def test_a_quota_keeps_its_own_words():
    assert str(translated(answer(403, QUOTA), "prod")) == QUOTA


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param(b"upstream connect error", "upstream connect error", id="text-of-a-proxy"),
        pytest.param(b"<html>" + b"x" * 5000, "<html>", id="a-long-page"),
        pytest.param(b"[1]", "[1]", id="json-of-another-kind"),
        pytest.param(b'{"kind": "Status"}', "Status", id="no-message"),
        pytest.param(None, "Reason", id="nothing"),
    ],
)
def test_an_answer_that_is_none_of_kubernetes_is_quoted(body, words):
    error = ApiException(status=502, reason="Reason")
    error.body = body
    told = str(translated(error, "prod"))
    assert words in told
    assert "prod answered 502" in told
    assert len(told) < 600


class Answers:
    """A connection that answers as told, one answer per call."""

    def __init__(self, *answers):
        self.answers, self.calls = list(answers), []

    def call_api(self, path, method, **more):
        self.calls.append((method, path, dict(more["query_params"])))
        given = self.answers.pop(0)
        if isinstance(given, Exception):
            raise given
        return type("Answer", (), {"data": json.dumps(given).encode()})


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr("optimus_core.cluster.kubernetes.api._PAUSES", (0.0, 0.0))


@pytest.mark.parametrize(
    "passing",
    [
        pytest.param(answer(429, "slow down"), id="429"),
        pytest.param(answer(500, "etcd"), id="500"),
        pytest.param(answer(409, MODIFIED.format("resourcequotas")), id="409-quota"),
    ],
)
def test_what_passes_is_tried_three_times(passing):
    api = Api("prod", Answers(passing, passing, {"kind": "Pod"}))
    assert api.create("/pods", {}) == {"kind": "Pod"}
    connection = Answers(passing, passing, passing)
    with pytest.raises(ClusterUnavailable):
        Api("prod", connection).create("/pods", {})
    assert len(connection.calls) == 3


@pytest.mark.parametrize(("status", "kind"), [(404, NotFound), (409, Conflict), (422, SpecificationError)])
def test_what_stays_is_tried_once(status, kind):
    connection = Answers(answer(status, "no"))
    with pytest.raises(kind):
        Api("prod", connection).create("/pods", {})
    assert len(connection.calls) == 1


def test_a_conflict_is_no_word_on_what_is_only_read():
    with pytest.raises(ClusterUnavailable):
        Api("prod", Answers(answer(409, "no"))).get("/pods/a")


def test_a_server_that_is_not_there_can_not_be_reached():
    with pytest.raises(ClusterUnavailable, match="prod can't be reached: refused"):
        Api("prod", Answers(OSError("refused\nand more"))).get("/pods/a")


def test_a_list_is_read_to_its_last_page():
    first = {"metadata": {"continue": "token"}, "items": [{"a": 1}]}
    connection = Answers(first, {"metadata": {}, "items": [{"b": 2}]})
    assert list(Api("prod", connection).items("/pods", labelSelector="x")) == [{"a": 1}, {"b": 2}]
    queries = [query for _, _, query in connection.calls]
    assert [query.get("continue") for query in queries] == [None, "token"]
    assert all(query["labelSelector"] == "x" for query in queries)


def test_deleting_what_is_not_there_is_no_error():
    Api("prod", Answers(answer(404, "gone"))).delete("/pods/a", {})


def test_a_list_that_the_server_has_let_go_of_is_read_anew():
    first = {"metadata": {"continue": "token"}, "items": [{"a": 1}]}
    whole = [{"metadata": {"continue": "new"}, "items": [{"a": 2}]}, {"metadata": {}, "items": [{"b": 2}]}]
    connection = Answers(first, answer(410, "token too old"), *whole)
    assert list(Api("prod", connection).items("/pods")) == [{"a": 2}, {"b": 2}]
    assert [query.get("continue") for _, _, query in connection.calls] == [None, "token", None, "new"]


def test_a_list_that_is_lost_each_time_is_unknown_and_not_empty():
    first = {"metadata": {"continue": "token"}, "items": [{"a": 1}]}
    with pytest.raises(ClusterUnavailable, match="token too old"):
        Api("prod", Answers(*[first, answer(410, "token too old")] * 3)).items("/pods")


def asks_to_wait(seconds):
    error = answer(429, "slow down")
    error.headers = {"Retry-After": seconds}
    return error


@pytest.mark.parametrize(
    ("told", "waited"),
    [
        pytest.param("3", 3.0, id="seconds"),
        pytest.param("Thu, 03 Dec 2026 00:00:00 GMT", 0.0, id="a-date"),
    ],
)
def test_a_server_that_asks_to_wait_is_waited_for(monkeypatch, told, waited):
    pauses = []
    monkeypatch.setattr("optimus_core.cluster.kubernetes.api.time.sleep", pauses.append)
    assert Api("prod", Answers(asks_to_wait(told), {"kind": "Pod"})).create("/pods", {}) == {"kind": "Pod"}
    assert pauses == [waited]


def test_a_server_that_asks_to_wait_for_long_is_left_alone():
    connection = Answers(asks_to_wait("60"))
    with pytest.raises(ClusterUnavailable):
        Api("prod", connection).create("/pods", {})
    assert len(connection.calls) == 1


def test_an_answer_that_is_no_json_says_nothing_of_the_cluster():
    connection = Answers(None)
    connection.call_api = lambda *_, **__: type("Answer", (), {"data": b"<html>Sign in</html>"})
    with pytest.raises(ClusterUnavailable, match="Sign in"):
        Api("prod", connection).get("/pods/a")
