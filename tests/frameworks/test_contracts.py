"""Each contract, variable by variable, for the groups in which its traps lie."""

import json

import pytest

from optimus_core.errors import SpecificationError
from optimus_core.frameworks import (
    RESERVED,
    Group,
    Member,
    check_user_environment,
    deciders,
    environment,
    roles,
)
from optimus_core.roles import Endpoint, Role

W, S, C = Role.WORKER, Role.SERVER, Role.SCHEDULER


def group(framework, servers, workers, **more):
    hosts = {W: "w", S: "s", C: "c"}
    found = roles(framework, servers, workers)
    members = [Member(role, index, Endpoint(f"{hosts[role]}{index}", 4000 + index)) for role, index in found]
    return Group(job="digits-1", generation=3, attempt=2, members=tuple(reversed(members)), **more)


def variables(framework, servers, workers, role, index):
    whole = group(framework, servers, workers)
    member = next(m for m in whole.members if (m.role, m.index) == (role, index))
    return {k: v for k, v in environment(framework, whole, member).items() if not k.startswith("OPTIMUS_")}


PYTORCH = {"MASTER_ADDR": "w0", "MASTER_PORT": "4000", "LOCAL_RANK": "0"}
TORCHRUN = {"PET_MASTER_ADDR": "w0", "PET_MASTER_PORT": "4000", "PET_NPROC_PER_NODE": "1"}
MXNET = {"DMLC_PS_ROOT_URI": "c0", "DMLC_PS_ROOT_PORT": "4000", "DMLC_NUM_SERVER": "2", "DMLC_NUM_WORKER": "3"}


@pytest.mark.parametrize(
    ("framework", "servers", "workers", "role", "index", "expected"),
    [
        pytest.param("pytorch", 0, 3, W, 2, PYTORCH | {"RANK": "2", "WORLD_SIZE": "3", "NNODES": "3"}, id="pytorch"),
        pytest.param("pytorch", 2, 1, W, 0, PYTORCH | {"RANK": "0", "WORLD_SIZE": "1", "NNODES": "1"}, id="pytorch-ps"),
        pytest.param("pytorch", 2, 1, S, 1, {}, id="pytorch-server"),
        pytest.param("torchrun", 0, 2, W, 1, TORCHRUN | {"PET_NNODES": "2", "PET_NODE_RANK": "1"}, id="torchrun"),
        pytest.param("torchrun", 1, 2, S, 0, {}, id="torchrun-server"),
        pytest.param(
            "mxnet", 2, 3, W, 1, MXNET | {"DMLC_ROLE": "worker", "DMLC_NODE_HOST": "w1", "DMLC_WORKER_ID": "1"},
            id="mxnet-worker",
        ),
        pytest.param("mxnet", 2, 3, S, 1, MXNET | {"DMLC_ROLE": "server", "DMLC_NODE_HOST": "s1"}, id="mxnet-server"),
        pytest.param("mxnet", 2, 3, C, 0, MXNET | {"DMLC_ROLE": "scheduler", "DMLC_NODE_HOST": "c0"}, id="mxnet-third"),
        pytest.param("mxnet", 0, 1, W, 0, {}, id="mxnet-alone"),
    ],
)  # fmt: skip
def test_a_framework_gets_its_variables(framework, servers, workers, role, index, expected):
    assert variables(framework, servers, workers, role, index) == expected


TF_PS = {"chief": ["w0:4000"], "worker": ["w1:4001", "w2:4002"], "ps": ["s0:4000", "s1:4001"]}


@pytest.mark.parametrize(
    ("servers", "workers", "role", "index", "cluster", "task"),
    [
        pytest.param(0, 2, W, 1, {"worker": ["w0:4000", "w1:4001"]}, ("worker", 1), id="all-reduce"),
        pytest.param(2, 3, W, 0, TF_PS, ("chief", 0), id="the-first-worker-is-chief"),
        pytest.param(2, 3, W, 2, TF_PS, ("worker", 1), id="the-others-count-from-0"),
        pytest.param(2, 3, S, 1, TF_PS, ("ps", 1), id="server"),
        pytest.param(1, 1, W, 0, {"chief": ["w0:4000"], "ps": ["s0:4000"]}, ("chief", 0), id="chief-alone"),
    ],
)
def test_tensorflow_gets_the_whole_cluster_and_its_task(servers, workers, role, index, cluster, task):
    got = variables("tensorflow", servers, workers, role, index)
    assert list(got) == ["TF_CONFIG"]
    assert json.loads(got["TF_CONFIG"]) == {"cluster": cluster, "task": {"type": task[0], "index": task[1]}}


def test_a_job_without_framework_gets_what_pytorch_and_tensorflow_read():
    both = variables("pytorch", 0, 2, W, 1) | variables("tensorflow", 0, 2, W, 1)
    assert variables(None, 0, 2, W, 1) == both


def test_every_replica_is_told_who_it_is_and_who_else_there_is():
    whole = group("mxnet", 1, 2, batch_size=64, batch_per="worker", checkpoints="/c/digits", grace_seconds=2.5)
    member = next(m for m in whole.members if m.role is S)
    got = {k: v for k, v in environment("mxnet", whole, member).items() if k.startswith("OPTIMUS_")}
    assert got == {
        "OPTIMUS_JOB": "digits-1", "OPTIMUS_GENERATION": "3", "OPTIMUS_ATTEMPT": "2", "OPTIMUS_ROLE": "server",
        "OPTIMUS_RANK": "0", "OPTIMUS_WORKERS": "2", "OPTIMUS_SERVERS": "1", "OPTIMUS_ADDRESS": "s0:4000",
        "OPTIMUS_WORKER_ADDRESSES": "w0:4000,w1:4001", "OPTIMUS_SERVER_ADDRESSES": "s0:4000",
        "OPTIMUS_BATCH_SIZE": "64", "OPTIMUS_BATCH_PER": "worker", "OPTIMUS_CHECKPOINTS": "/c/digits",
        "OPTIMUS_GRACE_SECONDS": "2.5",
    }  # fmt: skip


def test_a_batch_that_nobody_named_is_not_set():
    whole = group(None, 0, 1)
    assert "OPTIMUS_BATCH_SIZE" not in environment(None, whole, whole.members[0])


def test_optimus_train_understands_the_contract(monkeypatch):
    import optimus_train

    whole = group(None, 2, 3)
    for name, value in environment(None, whole, whole.workers[1]).items():
        monkeypatch.setenv(name, value)
    assert (optimus_train.rank(), optimus_train.workers(), optimus_train.servers()) == (1, 3, 2)
    assert [str(address) for address in optimus_train.server_addresses()] == ["s0:4000", "s1:4001"]


@pytest.mark.parametrize(
    ("framework", "servers", "workers", "expected"),
    [
        ("mxnet", 1, 2, [(C, 0), (S, 0), (W, 0), (W, 1)]),
        ("mxnet", 0, 1, [(W, 0)]),
        ("tensorflow", 1, 1, [(S, 0), (W, 0)]),
        (None, 0, 2, [(W, 0), (W, 1)]),
    ],
)
def test_only_mxnet_with_servers_has_a_third_role(framework, servers, workers, expected):
    assert roles(framework, servers, workers) == expected


@pytest.mark.parametrize("framework", [None, "mxnet", "pytorch", "tensorflow", "torchrun"])
def test_the_workers_decide(framework):
    assert deciders(framework) == {W}


def test_an_unknown_framework_is_refused_with_those_that_are_known():
    with pytest.raises(SpecificationError, match="mxnet, pytorch, tensorflow, torchrun"):
        roles("jax", 0, 1)


@pytest.mark.parametrize("name", ["OPTIMUS_X", "DMLC_ROLE", "PET_NNODES", "TF_CONFIG", "MASTER_ADDR", "RANK", "NNODES"])
def test_a_reserved_name_is_refused_with_the_list(name):
    with pytest.raises(SpecificationError) as caught:
        check_user_environment({"MINE": "1", name: "x"})
    assert f"env sets {name}," in str(caught.value)
    assert all(word in str(caught.value) for word in RESERVED)


def test_every_variable_of_every_contract_is_reserved():
    for framework in ("mxnet", "pytorch", "tensorflow", "torchrun"):
        whole = group(framework, 1, 2)
        for member in whole.members:
            for name in environment(framework, whole, member):
                with pytest.raises(SpecificationError):
                    check_user_environment({name: ""})


def test_other_names_are_free():
    check_user_environment({"PATH": "/bin", "RANKS": "1", "CUDA_VISIBLE_DEVICES": "0"})


def test_an_address_with_colons_is_put_in_brackets():
    assert Endpoint("fd00::7", 4000).address == "[fd00::7]:4000"
