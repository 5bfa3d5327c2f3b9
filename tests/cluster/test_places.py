"""Nodes and ports."""

import multiprocessing
import socket

import pytest

from optimus_core.cluster.base import Role
from optimus_core.cluster.local import LocalCluster
from optimus_core.cluster.nodes import nodes_from_config, this_machine
from optimus_core.errors import SpecificationError
from optimus_core.resources import Resources

MEMBERS = [(Role.SERVER, 0), (Role.WORKER, 0), (Role.WORKER, 1)]


def choose(root, group):
    return LocalCluster("here", root).endpoints(group, MEMBERS)


def test_a_groups_endpoints_are_the_same_each_time(tmp_path):
    assert choose(tmp_path, "job-g1") == choose(tmp_path, "job-g1")


def test_no_two_members_share_a_port_even_if_groups_are_asked_about_at_once(tmp_path):
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.starmap(choose, [(tmp_path, f"job-g{number % 6}") for number in range(12)])
    ports = {group: {e.port for e in endpoints.values()} for group, endpoints in zip(range(6), found[:6], strict=True)}
    assert len(set.union(*ports.values())) == 18
    assert found[:6] == found[6:]


def test_a_port_in_use_is_left_alone(tmp_path):
    first = choose(tmp_path, "job-g1")[Role.SERVER, 0].port
    (tmp_path / "groups" / "job-g1.json").unlink()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first))
        taken.listen()
        assert choose(tmp_path, "job-g1")[Role.SERVER, 0].port != first


def test_ports_lie_below_those_that_clients_get(tmp_path):
    assert all(20000 <= endpoint.port < 32000 for endpoint in choose(tmp_path, "job-g1").values())


def test_by_default_there_is_one_node_with_what_the_machine_has(tmp_path):
    (node,) = LocalCluster("here", tmp_path).nodes()
    assert node == this_machine()
    assert node.allocatable["cpu"] >= 1000
    assert node.allocatable["memory"] > 1 << 28
    assert not node.others


def test_nodes_are_read_from_the_configuration():
    full = {"name": "a", "cpu": "2", "memory": "4Gi", "devices": {"nvidia.com/gpu": 1}, "labels": {"z": 1}}
    first, second = nodes_from_config([full, {"name": "b"}])
    assert first.allocatable == Resources.of("2", "4Gi", {"nvidia.com/gpu": 1})
    assert first.labels == {"z": "1"}
    assert second.allocatable == this_machine().allocatable


@pytest.mark.parametrize(
    ("config", "text"),
    [
        pytest.param([{"cpu": 1}], "no name", id="no-name"),
        pytest.param([{"name": "a"}, {"name": "a"}], "twice", id="twice"),
        pytest.param([{"name": "a", "cpus": 1}], '"cpus"', id="unknown-key"),
        pytest.param([{"name": "a", "memory": "4GB"}], "GB", id="no-quantity"),
    ],
)
def test_a_wrong_node_is_refused(config, text):
    with pytest.raises(SpecificationError, match=text):
        nodes_from_config(config)
