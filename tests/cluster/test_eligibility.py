"""Which nodes a replica may run on, as Kubernetes' scheduler decides it."""

import pytest

from optimus_core.cluster.base import NodeInfo, Taint
from optimus_core.cluster.eligibility import Needs
from optimus_core.resources import Resources

NODE = NodeInfo(
    "n1", Resources(), labels={"zone": "a", "disk": "ssd", "generation": "7", "flag": "", "word": "1_0", "minus": "-3"}
)


def expression(key, operator, *values):
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


def term(*expressions, fields=()):
    return {"matchExpressions": list(expressions), "matchFields": list(fields)}


@pytest.mark.parametrize(
    ("selector", "accepted"),
    [
        pytest.param({}, True, id="none"),
        pytest.param({"zone": "a"}, True, id="it-has-it"),
        pytest.param({"zone": "a", "disk": "ssd"}, True, id="it-has-both"),
        pytest.param({"zone": "b"}, False, id="another-value"),
        pytest.param({"zone": "a", "disk": "hdd"}, False, id="one-of-two"),
        pytest.param({"rack": "1"}, False, id="no-such-label"),
        pytest.param({"flag": ""}, True, id="an-empty-value"),
        pytest.param({"rack": ""}, False, id="no-label-is-no-empty-one"),
    ],
)
def test_a_node_has_the_labels_that_are_selected(selector, accepted):
    assert Needs(selector).accept(NODE) == accepted


@pytest.mark.parametrize(
    ("operator", "key", "values", "holds"),
    [
        pytest.param("In", "zone", ["b", "a"], True, id="in"),
        pytest.param("In", "zone", ["b"], False, id="not-among-them"),
        pytest.param("In", "rack", ["a"], False, id="in-without-the-label"),
        pytest.param("In", "zone", [], False, id="in-nothing"),
        pytest.param("NotIn", "zone", ["b"], True, id="not-in"),
        pytest.param("NotIn", "zone", ["a"], False, id="not-in-but-it-is"),
        pytest.param("NotIn", "rack", ["a"], True, id="not-in-without-the-label"),
        pytest.param("Exists", "flag", [], True, id="exists"),
        pytest.param("Exists", "rack", [], False, id="exists-not"),
        pytest.param("DoesNotExist", "rack", [], True, id="does-not-exist"),
        pytest.param("DoesNotExist", "flag", [], False, id="does-exist"),
        pytest.param("Gt", "generation", ["6"], True, id="greater"),
        pytest.param("Gt", "generation", ["7"], False, id="not-greater"),
        pytest.param("Gt", "generation", ["10"], False, id="as-numbers-not-as-text"),
        pytest.param("Lt", "generation", ["10"], True, id="less"),
        pytest.param("Lt", "minus", ["-2"], True, id="less-than-a-negative"),
        pytest.param("Lt", "generation", ["7"], False, id="not-less"),
        pytest.param("Gt", "zone", ["6"], False, id="no-number-on-the-node"),
        pytest.param("Gt", "word", ["6"], False, id="no-number-for-kubernetes"),
        pytest.param("Gt", "generation", ["x"], False, id="no-number-asked-for"),
        pytest.param("Gt", "generation", [], False, id="nothing-asked-for"),
        pytest.param("Gt", "generation", ["1", "2"], False, id="two-numbers"),
        pytest.param("Lt", "rack", ["6"], False, id="less-without-the-label"),
        pytest.param("Near", "zone", ["a"], False, id="unknown-operator"),
    ],
)
def test_each_operator_of_an_affinity(operator, key, values, holds):
    assert Needs(affinity=[term(expression(key, operator, *values))]).accept(NODE) == holds


IN_A, IN_B, SSD = expression("zone", "In", "a"), expression("zone", "In", "b"), expression("disk", "In", "ssd")
HERE, THERE = expression("metadata.name", "In", "n1"), expression("metadata.name", "In", "n2")


@pytest.mark.parametrize(
    ("terms", "accepted"),
    [
        pytest.param([term(IN_B), term(IN_A)], True, id="one-term-is-enough"),
        pytest.param([term(IN_B), term(IN_B)], False, id="none-of-them"),
        pytest.param([term(IN_A, SSD)], True, id="all-of-a-term"),
        pytest.param([term(IN_B, SSD)], False, id="a-part-of-a-term"),
        pytest.param([{}], False, id="an-empty-term-matches-nothing"),
        pytest.param([{}, term(IN_A)], True, id="beside-an-empty-term"),
        pytest.param([term(fields=[HERE])], True, id="by-name"),
        pytest.param([term(fields=[THERE])], False, id="another-name"),
        pytest.param([term(IN_A, fields=[THERE])], False, id="labels-and-name"),
        pytest.param([term(fields=[expression("metadata.name", "NotIn", "n1")])], False, id="kept-off"),
        pytest.param([], True, id="no-terms"),
    ],
)
def test_terms_of_an_affinity_are_alternatives(terms, accepted):
    assert Needs(affinity=terms).accept(NODE) == accepted


def test_selector_and_affinity_must_both_hold():
    assert Needs({"disk": "ssd"}, affinity=[term(IN_A)]).accept(NODE)
    assert not Needs({"disk": "hdd"}, affinity=[term(IN_A)]).accept(NODE)
    assert not Needs({"disk": "ssd"}, affinity=[term(IN_B)]).accept(NODE)


GPU_TAINT = Taint("gpu", "a100", "NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "taint", "accepted"),
    [
        pytest.param(None, GPU_TAINT, False, id="not-tolerated"),
        pytest.param({"key": "gpu", "value": "a100"}, GPU_TAINT, True, id="equal-is-the-default"),
        pytest.param({"key": "gpu", "operator": "Equal", "value": "a100"}, GPU_TAINT, True, id="equal"),
        pytest.param({"key": "gpu", "operator": "Equal", "value": "h100"}, GPU_TAINT, False, id="another-value"),
        pytest.param({"key": "tpu", "operator": "Equal", "value": "a100"}, GPU_TAINT, False, id="another-key"),
        pytest.param({"key": "gpu"}, GPU_TAINT, False, id="no-value"),
        pytest.param({"key": "gpu"}, Taint("gpu"), True, id="no-value-on-either"),
        pytest.param({"key": "gpu", "operator": "Exists"}, GPU_TAINT, True, id="exists"),
        pytest.param({"key": "tpu", "operator": "Exists"}, GPU_TAINT, False, id="exists-for-another-key"),
        pytest.param({"operator": "Exists"}, GPU_TAINT, True, id="everything"),
        pytest.param({"operator": "Exists", "effect": "NoSchedule"}, GPU_TAINT, True, id="everything-of-its-effect"),
        pytest.param({"operator": "Exists", "effect": "NoExecute"}, GPU_TAINT, False, id="another-effect"),
        pytest.param({"operator": "Exists", "effect": ""}, GPU_TAINT, True, id="an-empty-effect-is-any"),
        pytest.param({"key": "gpu", "operator": "Near", "value": "a100"}, GPU_TAINT, False, id="unknown-operator"),
        pytest.param(None, Taint("gpu", "", "NoExecute"), False, id="no-execute-keeps-off-too"),
        pytest.param(None, Taint("gpu", "", "PreferNoSchedule"), True, id="a-preference-keeps-nobody-off"),
    ],
)
def test_taints_keep_off_who_does_not_tolerate_them(toleration, taint, accepted):
    node = NodeInfo("n", Resources(), taints=(taint,))
    assert Needs(tolerations=[toleration] if toleration else []).accept(node) == accepted


def test_each_taint_must_be_tolerated():
    node = NodeInfo("n", Resources(), taints=(Taint("a"), Taint("b")))
    assert not Needs(tolerations=[{"key": "a"}]).accept(node)
    assert Needs(tolerations=[{"key": "a"}, {"key": "b"}]).accept(node)


def test_needs_are_collected_from_selector_and_template():
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term(IN_A)]}}}
    spec = {"nodeSelector": {"zone": "b", "disk": "ssd"}, "tolerations": [{"key": "gpu"}], "affinity": affinity}
    needs = Needs.of({"zone": "a"}, {"spec": spec})
    assert needs == Needs({"zone": "a", "disk": "ssd"}, [{"key": "gpu"}], [term(IN_A)])
    assert needs.describe() == "disk=ssd, zone=a, node affinity"


@pytest.mark.parametrize(
    "template",
    [
        pytest.param({}, id="empty"),
        pytest.param({"spec": None}, id="bare-spec"),
        pytest.param({"spec": {"affinity": None, "tolerations": None, "nodeSelector": None}}, id="bare-keys"),
        pytest.param({"spec": {"affinity": {"nodeAffinity": None, "podAffinity": {}}}}, id="another-affinity"),
    ],
)
def test_a_template_that_says_nothing_needs_nothing(template):
    needs = Needs.of({}, template)
    assert not needs
    assert needs.describe() == ""
    assert needs.accept(NODE)
