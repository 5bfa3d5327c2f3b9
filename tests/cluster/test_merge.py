"""Two specifications become one as kubectl's patches do, and neither is changed."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus_core.cluster.merge import merged

_SCALARS = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["a", "b", ""])
_NAMED = st.fixed_dictionaries({"name": st.sampled_from("abc")}, optional={"value": _SCALARS, "image": _SCALARS})


def _named_lists(entries):
    return st.lists(entries, max_size=3, unique_by=lambda each: each["name"])


_CONTAINERS = _named_lists(
    st.fixed_dictionaries({"name": st.sampled_from("abc")}, optional={"env": _named_lists(_NAMED), "image": _SCALARS})
)
_SPECS = st.recursive(
    st.dictionaries(st.sampled_from("xyz"), _SCALARS | st.lists(_SCALARS, max_size=2), max_size=3),
    lambda inner: st.fixed_dictionaries(
        {}, optional={"spec": inner, "x": inner, "containers": _CONTAINERS, "args": st.lists(_SCALARS, max_size=2)}
    ),
    max_leaves=4,
)


@given(_SPECS)
def test_nothing_on_top_or_below_leaves_it_as_it_is(spec):
    assert merged(spec, {}) == spec
    assert merged({}, spec) == spec


@given(_SPECS, _SPECS)
def test_merging_the_same_again_changes_nothing(base, over):
    once = merged(base, over)
    assert merged(once, over) == once
    assert merged(base, base) == base


@given(_SPECS, _SPECS)
def test_neither_is_changed_nor_shared(base, over):
    before = copy.deepcopy((base, over))
    result = merged(base, over)
    _spoil(result)
    assert (base, over) == before


def _spoil(part):
    for each in list(part.values()) if isinstance(part, dict) else list(part):
        if isinstance(each, dict | list):
            _spoil(each)
    if isinstance(part, dict):
        part["spoilt"] = True
    else:
        part.append("spoilt")


@given(_SPECS, _SPECS, _SPECS)
def test_scalars_of_the_last_win(one, two, three):
    result = merged(merged(one, two), three)
    for key in {*one, *two, *three}:
        last = next(spec[key] for spec in (three, two, one) if key in spec)
        if not isinstance(last, dict | list):
            assert result[key] == last


@given(_CONTAINERS, _CONTAINERS)
def test_each_name_is_there_once_in_the_order_of_its_coming(base, over):
    names = [each["name"] for each in merged({"containers": base}, {"containers": over})["containers"]]
    assert names == list(dict.fromkeys(each["name"] for each in (*base, *over)))


SECRET = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}


@pytest.mark.parametrize(
    ("key", "base", "over", "want"),
    [
        pytest.param(
            "containers", [{"name": "a", "image": "x", "tty": True}], [{"name": "a", "image": "y"}],
            [{"name": "a", "image": "y", "tty": True}], id="by-name",
        ),
        pytest.param(
            "containers", [{"name": "a", "env": [{"name": "X", "value": "1"}]}],
            [{"name": "a", "env": [{"name": "Y", "value": "2"}]}],
            [{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]}], id="lists-in-lists",
        ),
        pytest.param("env", [SECRET], [{"name": "A", "value": "1"}], [{"name": "A", "value": "1"}], id="value-for-ref"),
        pytest.param("env", [{"name": "A", "value": "1"}], [SECRET], [SECRET], id="a-reference-for-a-value"),
        pytest.param(
            "volumes", [{"name": "data", "emptyDir": {}}], [{"name": "data", "hostPath": {"path": "/d"}}],
            [{"name": "data", "hostPath": {"path": "/d"}}], id="a-volume-has-one-source",
        ),
        pytest.param(
            "volumeMounts", [{"name": "a", "mountPath": "/x"}], [{"name": "b", "mountPath": "/x"}],
            [{"name": "b", "mountPath": "/x"}], id="mounts-by-path",
        ),
        pytest.param(
            "ports", [{"containerPort": 1}], [{"containerPort": 1, "name": "p"}, {"containerPort": 2}],
            [{"containerPort": 1, "name": "p"}, {"containerPort": 2}], id="ports-by-number",
        ),
        pytest.param("tolerations", [{"key": "a"}], [{"key": "a"}, {"key": "b"}], [{"key": "a"}, {"key": "b"}],
                     id="tolerations-are-added-once"),
        pytest.param("args", ["a"], ["b"], ["b"], id="other-lists-are-replaced"),
        pytest.param("args", ["a"], [], [], id="even-by-an-empty-one"),
        pytest.param("containers", None, [{"name": "a"}], [{"name": "a"}], id="a-bare-key-below"),
        pytest.param("containers", [{"name": "a"}], None, None, id="a-bare-key-on-top"),
        pytest.param("env", [{"value": "1"}], [{"value": "2"}], [{"value": "1"}, {"value": "2"}], id="without-names"),
        pytest.param("env", ["A=1"], ["B=2", {"name": "C"}], ["A=1", "B=2", {"name": "C"}], id="no-entries-at-all"),
        pytest.param("env", [{"name": []}], [{"name": {}}], [{"name": []}, {"name": {}}], id="names-that-are-none"),
    ],
)  # fmt: skip
def test_lists_are_merged_by_what_tells_their_entries_apart(key, base, over, want):
    assert merged({key: base}, {key: over}) == {key: want}
