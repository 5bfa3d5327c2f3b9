"""What a job may be, what its errors say, and how it is written."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from optimus_core import (
    AllReduce,
    Converged,
    Epochs,
    Loss,
    ParameterServer,
    Replicas,
    Steps,
    TrainingJob,
)
from optimus_core.errors import SpecificationError
from optimus_core.job import capacity_check, load_job_file, work_per_step
from optimus_core.resources import Resources
from optimus_core.telemetry import Parser

HUGE = 10**400


def replicas(**changes: Any) -> Replicas:
    return Replicas(**{"cpu": "1", "memory": "1Gi"} | changes)


def job(**changes: Any) -> TrainingJob:
    given: dict[str, Any] = {
        "name": "resnet",
        "command": ["python", "train.py"],
        "strategy": ParameterServer(),
        "workers": replicas(max=4),
        "servers": replicas(max=2),
    }
    return TrainingJob(**given | changes)


def written(**changes: Any) -> dict[str, Any]:
    return job().to_dict() | changes


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        pytest.param({"workers": replicas(min=3, max=2)}, "workers.min is 3, more than workers.max", id="min over max"),
        pytest.param({"workers": replicas(min=0)}, "workers.min is 0; it is at least 1", id="no worker"),
        pytest.param({"servers": replicas(min=0)}, "servers.min is 0; it is at least 1", id="no server"),
        pytest.param({"workers": replicas(max=2.5)}, "workers.max is 2.5; it is a whole number", id="half a worker"),
        pytest.param({"workers": replicas(cpu="0")}, 'workers.cpu is "0"; a replica needs some', id="no cpu"),
        pytest.param({"servers": replicas(memory=0)}, "servers.memory is 0; a replica needs some", id="no memory"),
        pytest.param({"workers": replicas(memory="1K")}, 'workers.memory is "1K"; Kubernetes knows', id="1K"),
        pytest.param({"workers": replicas(cpu=0.5)}, 'workers.cpu is 0.5.*Write it as "0.5"', id="a float"),
        pytest.param({"workers": replicas(devices={"gpu": 1})}, "nvidia.com/gpu", id="a device without a vendor"),
        pytest.param({"workers": replicas(node_selector={"a": 1})}, 'node_selector.*Write "1"', id="a label's number"),
        pytest.param({"workers": 3}, "workers is 3.*Replicas", id="workers as a number"),
        pytest.param({"strategy": "ring"}, r'strategy is "ring".*AllReduce\(\)', id="an unknown strategy"),
        pytest.param({"strategy": ParameterServer(sync="no")}, "Write true or false", id="sync as a text"),  # type: ignore[arg-type]
        pytest.param({"strategy": AllReduce()}, "AllReduce, which has no servers", id="all-reduce with servers"),
        pytest.param({"servers": None}, "ParameterServer, but servers are not given", id="no parameter servers"),
        pytest.param({"stop": Steps(0)}, "stop.steps is 0", id="no step"),
        pytest.param({"stop": Epochs(0)}, "stop.epochs is 0", id="no epoch"),
        pytest.param({"stop": Loss(float("nan"))}, "stop.loss.below is nan", id="a loss of nan"),
        pytest.param({"stop": Loss(below=float("inf"))}, "stop.loss.below is inf", id="an endless loss"),
        pytest.param({"stop": Converged(0)}, "stop.converged.threshold is 0", id="a threshold of nothing"),
        pytest.param({"stop": Converged(1.0)}, "stop.converged.threshold is 1.0", id="a threshold of all"),
        pytest.param({"stop": Converged(0.01, patience=0)}, "stop.converged.patience is 0", id="no patience"),
        pytest.param({"stop": 500}, r"Steps\(500\)", id="a stop criterion as a number"),
        pytest.param({"env": {"OPTIMUS_JOB": "x"}}, "OPTIMUS_JOB.*DMLC_.*TF_CONFIG", id="a variable of Optimus"),
        pytest.param({"env": {"DMLC_ROLE": "x"}}, "DMLC_ROLE", id="a variable of MXNet"),
        pytest.param({"env": {"PET_NNODES": "x"}}, "PET_NNODES", id="a variable of torchrun"),
        pytest.param({"env": {"AIRFLOW__CORE__X": "x"}}, "AIRFLOW__CORE__X", id="a variable of Airflow"),
        pytest.param({"env": {"MASTER_ADDR": "x"}}, "MASTER_ADDR", id="the address of the master"),
        pytest.param({"env": {"LEVEL": 3}}, r'env\["LEVEL"\] is of type int', id="a variable's number"),
        pytest.param({"env": {"A=B": "x"}}, 'env sets "A=B"', id="an equals sign in a variable's name"),
        pytest.param({"command": "python t.py 'a b'"}, r'Write \["python", "t.py", "a b"\]', id="a command as text"),
        pytest.param({"command": "python 'x"}, r'Write \["python", "train.py"\]', id="a command that no shell reads"),
        pytest.param({"command": []}, r"command is \[\]", id="an empty command"),
        pytest.param({"command": ["python", 3]}, r'command\[1\] is 3; .* Write "3"', id="a number in a command"),
        pytest.param({"batch_size": 3}, "workers.max is 4: some workers would get no", id="few samples"),
        pytest.param({"batch_size": 1, "workers": replicas(min=2, max=4)}, "workers.min is 2", id="fewer samples"),
        pytest.param({"batch_per": "wroker"}, 'Did you mean "worker"', id="a misspelt batch_per"),
        pytest.param({"framework": "pytorhc"}, 'Did you mean "pytorch"', id="a misspelt framework"),
        pytest.param({"metrics": "loss=("}, "no regular expression", id="a broken expression"),
        pytest.param({"metrics": r"loss=(\S+)"}, 'neither a group "loss"', id="an expression without names"),
        pytest.param({"deadline": datetime(2026, 8, 1)}, r"2026-08-01T00:00:00\+00:00 for UTC", id="a naive deadline"),  # noqa: DTZ001
        pytest.param({"deadline": "tomorrow"}, 'deadline is "tomorrow"', id="a deadline in words"),
        pytest.param({"retries": -1}, "retries is -1; it is at least 0", id="less than no retry"),
        pytest.param({"grace_seconds": float("inf")}, "grace_seconds is inf", id="endless grace"),
        pytest.param({"start_timeout": 0}, "start_timeout is 0", id="no time to start"),
        pytest.param({"hang_timeout": 0}, "hang_timeout is 0", id="no time for a step"),
        pytest.param({"steps_per_epoch": 0}, "steps_per_epoch is 0", id="an epoch without steps"),
        pytest.param({"priority": "high"}, 'priority is "high"; it is a whole number', id="a priority in words"),
        pytest.param({"resumable": "no"}, "resumable.*Write true or false", id="resumable as a text"),
        pytest.param({"colocate": "no"}, "colocate.*Write true or false", id="colocate as a text"),
        pytest.param({"pool": ""}, 'pool is ""', id="a pool without a name"),
        pytest.param({"stop": Steps(HUGE)}, "stop.steps is .*; it is at most 2147483647", id="endless steps"),
        pytest.param({"stop": Epochs(HUGE)}, "stop.epochs is .*; it is at most", id="endless epochs"),
        pytest.param({"stop": Loss(HUGE)}, "stop.loss.below is .*; it is at most", id="a huge loss"),
        pytest.param({"stop": Loss(-HUGE)}, "stop.loss.below is .*; it is at least", id="a huge loss below 0"),
        pytest.param({"stop": Converged(0.01, HUGE)}, "patience is .*; it is at most", id="endless patience"),
        pytest.param({"steps_per_epoch": HUGE}, "steps_per_epoch is .* at most", id="an endless epoch"),
        pytest.param({"samples_per_epoch": HUGE}, "samples_per_epoch is .* at most", id="endless data"),
        pytest.param({"batch_size": HUGE}, "batch_size is .*; it is at most", id="an endless batch"),
        pytest.param({"workers": replicas(max=HUGE)}, "workers.max is .*; it is at most 10000", id="endless workers"),
        pytest.param({"workers": replicas(cpu="1e999")}, 'workers.cpu is "1e999", more than any', id="endless cpu"),
        pytest.param({"workers": replicas(memory=HUGE)}, 'workers.memory is ".*", more than', id="endless memory"),
        pytest.param(
            {"workers": replicas(devices={"a.b/c": HUGE})}, 'workers.a.b/c is ".*", more than', id="endless devices"
        ),
        pytest.param({"priority": 10**30}, "priority is .*; it is at most 2147483647", id="a huge priority"),
        pytest.param({"priority": -(2**31)}, "priority is .*; it is at least -2147483647", id="a low priority"),
        pytest.param({"retries": HUGE}, "retries is .*; it is at most 1000", id="endless retries"),
        pytest.param({"grace_seconds": HUGE}, "grace_seconds is .* at most 1e\\+09", id="endless grace as a count"),
        pytest.param({"start_timeout": 1e300}, "start_timeout is 1e\\+300; it is at most", id="endless time to start"),
        pytest.param({"workload": "x" * 601}, "of 601 letters; it has at most 600", id="a long workload"),
        pytest.param({"pool": "x" * 129}, "of 129 letters; it has at most 128", id="a long pool"),
        pytest.param(
            {"deadline": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))}, "1971 and 8999", id="before time"
        ),
        pytest.param(
            {"deadline": datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=14)))}, "1971", id="after time"
        ),
        pytest.param({"command": ["a\0b"]}, 'command\\[0\\] is "a.u0000b".*Write "ab"', id="a NUL in a command"),
        pytest.param({"command": ["a\ud800"]}, 'is "a.ud800".*Write "a"', id="half a character in a command"),
        pytest.param({"env": {"A": "\ud800"}}, 'env\\["A"\\] has a NUL or half a character', id="half in a variable"),
    ],
)  # fmt: skip
def test_what_can_not_be_is_refused_with_the_name_first_and_what_to_write(changes: dict[str, Any], want: str) -> None:
    with pytest.raises(SpecificationError, match=f'^job "resnet": .*{want}'):
        job(**changes)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("", id="empty"),
        pytest.param(None, id="nothing"),
        pytest.param("a\nb", id="two lines"),
        pytest.param("x" * 251, id="longer than the store takes"),
    ],
)
def test_a_job_has_a_name(name: Any) -> None:
    with pytest.raises(SpecificationError, match=r'name is .*Write .*such as "resnet"'):
        job(name=name)


@pytest.mark.parametrize("value", [pytest.param(10**400, id="400 digits"), pytest.param(10**5000, id="5000 digits")])
@pytest.mark.parametrize("key", [*TrainingJob.__dataclass_fields__])
def test_a_huge_number_in_any_field_is_refused(key: str, value: int) -> None:
    with pytest.raises(SpecificationError) as caught:
        job(**{key: value})
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "deadline",
    [
        pytest.param("0001-01-01T00:00:00+14:00", id="before the first year"),
        pytest.param("9999-12-31T23:59:59-14:00", id="after the last year"),
    ],
)
@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_a_deadline_that_no_calendar_has_is_refused_in_files_too(tmp_path: Path, deadline: str, suffix: str) -> None:
    path = tmp_path / f"job.{suffix}"
    data = written(deadline=deadline)
    path.write_text(json.dumps(data) if suffix == "json" else yaml.safe_dump(data))
    with pytest.raises(SpecificationError, match=r"deadline is .*between the years"):
        load_job_file(path)


@pytest.mark.parametrize(
    "metrics",
    [
        pytest.param(r"(a+)+(?P<loss>b)", id="a repeat in a repeat"),
        pytest.param(r"(?:(?:a*)x?)*(?P<loss>b)", id="deeper"),
        pytest.param(r"(?:a|aa)+(?P<loss>b)", id="ways that overlap"),
        pytest.param(r"(?:a?){50}a{50}(?P<loss>b)", id="a bounded number of times"),
        pytest.param(r"(?:a+?)*?(?P<loss>b)", id="lazy ones"),
        pytest.param(r"(?=(a+)+$)(?P<loss>b)", id="in a look-ahead"),
    ],
)
def test_an_expression_that_could_take_for_ever_is_refused(metrics: str) -> None:
    with pytest.raises(SpecificationError, match=r"could take it for ever. Repeat one set of characters"):
        job(metrics=metrics)
    with pytest.raises(SpecificationError, match=r"could take it for ever. Repeat one set of characters"):
        Parser(metrics)


@pytest.mark.parametrize(
    "metrics",
    [
        pytest.param(r"loss[:=]\s*(?P<loss>[-+]?\d*\.?\d+(?:[eE][-+]?\d+)?)", id="a number"),
        pytest.param(r"(?P<name>\w+)=(?P<value>\S+)", id="pairs"),
        pytest.param(r"step (?P<step>\d+).*loss (?P<loss>\S+).*lr", id="with gaps"),
        pytest.param(r"(?P<loss>\d*\.?\d+)s", id="a number without a begin"),
        pytest.param(r"(?:\d{2}:){2}\d{2} (?P<loss>\S+)", id="a fixed part again"),
        pytest.param(r"(?:train|val) loss=(?P<loss>\S+)", id="one of two words"),
        pytest.param(r"(?:a++ ?+)*(?P<loss>b)", id="a repeat that never tries again"),
    ],
)
def test_usual_expressions_are_taken_and_soon_through_with_any_line(metrics: str) -> None:
    job(metrics=metrics)
    begin = time.process_time()
    for letter in "a0 =.:":
        Parser(metrics).feed(f"loss={letter * 5000}\n".encode())
    assert time.process_time() - begin < 5


def test_the_value_of_a_variable_is_in_no_error() -> None:
    with pytest.raises(SpecificationError) as caught:
        job(env={"TOKEN": b"hunter2"})
    assert "hunter2" not in str(caught.value)


def test_each_strategy_has_its_kind() -> None:
    assert [s.kind for s in (ParameterServer(), ParameterServer(sync=False), AllReduce())] == [
        "ps_sync", "ps_async", "allreduce",
    ]  # fmt: skip


JOBS = [
    pytest.param(job(), id="only what is needed"),
    pytest.param(job(strategy=AllReduce(), servers=None, stop=Converged(0.01)), id="all-reduce until convergence"),
    pytest.param(job(strategy=ParameterServer(sync=False), stop=Epochs(3), env={"A": "b"}), id="asynchronous"),
    pytest.param(
        job(stop=Loss(below=0.1), deadline=datetime(2026, 8, 1, tzinfo=timezone(timedelta(hours=2)))), id="deadline"
    ),
    pytest.param(
        job(
            workers=replicas(devices={"nvidia.com/gpu": 1}, node_selector={"zone": "a"}, max=8),
            batch_size=256,
            batch_per="worker",
            stop=Steps(500),
            image="python:3.11",
            working_dir="/srv",
            framework="pytorch",
            metrics=r"loss=(?P<loss>\S+)",
            resumable=False,
            priority=-2,
        ),
        id="much of it",
    ),
]


@pytest.mark.parametrize("original", JOBS)
@pytest.mark.parametrize("form", [pytest.param(json, id="JSON"), pytest.param(yaml, id="YAML")])
def test_writing_and_reading_a_job_gives_the_same(original: TrainingJob, form: Any) -> None:
    text = json.dumps(original.to_dict()) if form is json else yaml.safe_dump(original.to_dict())
    again = TrainingJob.from_dict(json.loads(text) if form is json else yaml.safe_load(text))
    assert again == original
    assert again.specification_hash == original.specification_hash


def test_the_deadline_is_kept_in_utc() -> None:
    deadline = job(deadline=datetime(2026, 8, 1, 14, tzinfo=timezone(timedelta(hours=2)))).deadline
    assert deadline is not None
    assert deadline.isoformat() == "2026-08-01T12:00:00+00:00"


@pytest.mark.parametrize(
    ("data", "want"),
    [
        pytest.param(written(comand=["x"]), '"comand" is no key of a job. Did you mean "command"?', id="a job's key"),
        pytest.param(
            written(workers={"cpu": "1", "memroy": "1Gi"}),
            '"memroy" is no key of workers. Did you mean "memory"?',
            id="a key of workers",
        ),
        pytest.param(
            written(strategy={"parameter_serve": {}}), 'Did you mean "parameter_server"?', id="a strategy's name"
        ),
        pytest.param(
            written(strategy={"parameter_server": {"snyc": True}}),
            '"snyc" is no key of strategy.parameter_server. Did you mean "sync"?',
            id="a strategy's key",
        ),
        pytest.param(written(strategy="allreduce"), 'Did you mean "all_reduce"?', id="a strategy without underscore"),
        pytest.param(written(stop={"step": 5}), 'Did you mean "steps"?', id="a criterion's name"),
        pytest.param(
            written(stop={"converged": {"treshold": 0.1}}), 'Did you mean "threshold"?', id="a criterion's key"
        ),
        pytest.param(written(stop={"steps": 5, "epochs": 1}), "stop names 2 things", id="two criteria"),
        pytest.param(
            written(stop="steps"),
            'stop.steps has no "n". Write such as {steps: 500}.',
            id="a criterion without its number",
        ),
        pytest.param(written(workers=None), '"workers" is missing. Write such as workers:', id="no workers"),
        pytest.param(written(workers={"cpu": "1"}), 'workers has no "memory"', id="no memory"),
        pytest.param(written(deadline="soon"), 'deadline is "soon", which is no time', id="a deadline in words"),
        pytest.param(written(workers=[1]), "workers is [1]; it maps names to values", id="a list for a mapping"),
        pytest.param(["name"], "the job is ['name']", id="no mapping at all"),
    ],
)
def test_a_wrong_form_names_the_nearest_right_one(data: Any, want: str) -> None:
    with pytest.raises(SpecificationError) as caught:
        TrainingJob.from_dict(data)
    assert str(caught.value).startswith("job file: ")
    assert want in str(caught.value)


def test_short_forms_are_read() -> None:
    workers = {"cpu": 1, "memory": "1Gi"}
    short = TrainingJob.from_dict(
        written(strategy="all_reduce", servers=None, stop={"converged": 0.02}, env=None, workers=workers)
    )
    assert (short.strategy, short.stop, short.env) == (AllReduce(), Converged(0.02), {})


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=6,
    ),
    st.sampled_from([*written(), "stop", "deadline", "metrics", "batch_size", "image"]),
)
def test_no_value_of_any_key_raises_anything_but_a_specification_error(value: Any, key: str) -> None:
    try:
        TrainingJob.from_dict(written(**{key: value}))
    except SpecificationError as error:
        said = str(error)
    else:
        return
    assert said.startswith(("job", "a job's name"))


@pytest.mark.parametrize(
    ("content", "name", "want"),
    [
        pytest.param("name: a\ncommand: [x\nworkers: {}\n", "job.yaml", "job.yaml, line 3: ", id="an open bracket"),
        pytest.param("name: a\n\tcommand: x\n", "job.yaml", "job.yaml, line 2: ", id="a tab"),
        pytest.param("name: a\nimage: b\nname: c\n", "job.yaml", 'line 3: this is no YAML: "name" is', id="twice"),
        pytest.param("name: !!python/object:os.system x\n", "job.yaml", "line 1", id="a foreign tag"),
        pytest.param("? [a, b]\n: c\n", "job.yaml", "job.yaml", id="a list as key"),
        pytest.param('{"env": {"B": "c", "B": "d"}}', "job.json", 'the key "B" is given twice', id="twice in JSON"),
        pytest.param('{"name": "a",\n "x": }', "job.json", "job.json, line 2: this is no JSON", id="broken JSON"),
        pytest.param("- a\n", "job.yaml", "its content is ['a']; it maps names to values", id="a list"),
        pytest.param("", "job.yaml", "job.yaml is empty. Write such as {name: resnet", id="an empty file"),
        pytest.param("# to be written\n---\n", "job.yaml", "job.yaml is empty", id="nothing but a remark"),
        pytest.param("quota: batch\n", "job.yaml", '"pool". Write pool: "batch"', id="the operator's word"),
        pytest.param("1: x\n", "job.yaml", "its content has the key 1, of type int", id="a number as a key"),
        pytest.param("comand: [x]\n", "job.yaml", 'job.yaml: "comand" is no key', id="a misspelt key"),
    ],
)  # fmt: skip
def test_a_broken_file_is_named_with_its_line(tmp_path: Path, content: str, name: str, want: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(SpecificationError) as caught:
        load_job_file(tmp_path / name)
    assert want in str(caught.value)


def test_a_large_file_is_read_soon(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("command:\n" + "- 'a'\n" * 100_000)
    begin = time.process_time()
    with pytest.raises(SpecificationError, match='"name" is missing'):
        load_job_file(tmp_path / "job.yaml")
    assert time.process_time() - begin < 8


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecificationError, match=r"none.yaml.*No such file"):
        load_job_file(tmp_path / "none.yaml")


def test_a_job_that_was_written_to_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(job(stop=Steps(5)).to_dict()))
    assert load_job_file(path) == job(stop=Steps(5))


BASE = job(batch_size=64)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"workers": replicas(min=2, max=9)}, id="sizes"),
        pytest.param({"priority": 3}, id="priority"),
        pytest.param({"deadline": datetime(2026, 8, 1, tzinfo=UTC)}, id="deadline"),
        pytest.param({"stop": Steps(5)}, id="stop criterion"),
        pytest.param({"workers": replicas(cpu="1000m", memory="1024Mi")}, id="the same amounts written otherwise"),
    ],
)
def test_what_changes_in_place_leaves_the_hash(changes: dict[str, Any]) -> None:
    assert job(**{"batch_size": 64} | changes).specification_hash == BASE.specification_hash


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"command": ["python", "other.py"]}, id="command"),
        pytest.param({"image": "python:3.12"}, id="image"),
        pytest.param({"env": {"A": "1"}}, id="environment"),
        pytest.param({"strategy": ParameterServer(sync=False)}, id="strategy"),
        pytest.param({"workers": replicas(memory="2Gi", max=4)}, id="memory of a worker"),
        pytest.param({"servers": replicas(cpu="2")}, id="cpu of a server"),
        pytest.param({"batch_size": 128}, id="batch size"),
        pytest.param({"batch_per": "worker"}, id="whose batch"),
        pytest.param({"working_dir": "/srv"}, id="folder"),
        pytest.param({"framework": "mxnet"}, id="framework"),
    ],
)
def test_what_makes_another_run_changes_the_hash(changes: dict[str, Any]) -> None:
    changed = job(**{"batch_size": 64} | changes).specification_hash
    assert len(changed) == 16
    assert changed != BASE.specification_hash


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        pytest.param({"batch_per": "worker"}, 3, id="a batch for each worker, synchronous"),
        pytest.param({"batch_per": "worker", "stop": Steps(9)}, 1, id="counted in steps"),
        pytest.param({"batch_per": "worker", "strategy": ParameterServer(sync=False)}, 1, id="asynchronous"),
        pytest.param({"batch_per": "worker", "strategy": AllReduce(), "servers": None}, 3, id="all-reduce"),
        pytest.param({}, 1, id="one batch for all"),
    ],
)
def test_a_step_is_worth_as_many_batches_as_it_makes_at_once(changes: dict[str, Any], want: int) -> None:
    assert work_per_step(job(**changes), 3) == want


def test_the_public_form_hides_the_values_of_the_environment() -> None:
    public = job(env={"TOKEN": "hunter2"}).public_dict()
    assert public["env"] == {"TOKEN": "***"}
    assert "hunter2" not in json.dumps(public)


def nodes(*sizes: tuple[str, str]) -> list[tuple[str, Resources]]:
    return [(f"n{index}", Resources.of(cpu, memory)) for index, (cpu, memory) in enumerate(sizes, 1)]


@pytest.mark.parametrize(
    ("changes", "cluster", "want"),
    [
        pytest.param(
            {"workers": replicas(cpu="16")},
            nodes(("8", "16Gi"), ("4", "64Gi")),
            'workers.cpu is "16", more than any node holds. The largest node, "n1", holds 8 cpu, 16Gi memory. '
            'Write at most "8".',
            id="a worker larger than any node",
        ),
        pytest.param(
            {"servers": replicas(devices={"nvidia.com/gpu": 1})},
            nodes(("8", "16Gi")),
            'servers.devices["nvidia.com/gpu"] is "1", more than any node holds.',
            id="a device that no node has",
        ),
        pytest.param(
            {"workers": replicas(cpu="8", memory="32Gi")},
            nodes(("8", "16Gi"), ("4", "64Gi")),
            "no single node holds all of it",
            id="cpu here and memory there",
        ),
        pytest.param(
            {"workers": replicas(cpu="3", min=3, max=3)},
            nodes(("5", "16Gi"), ("5", "16Gi")),
            "workers.min is 3, but on the 2 nodes there is room for 2 of 3 cpu, 1Gi memory each",
            id="room in sum but not in any node",
        ),
        pytest.param(
            {"workers": replicas(cpu="2", min=2, max=2), "servers": replicas(cpu="2")},
            nodes(("4", "16Gi")),
            "its minimum (2 workers and 1 server) asks for 6 cpu, 3Gi memory; the whole cluster holds 4 cpu",
            id="a minimum larger than the cluster",
        ),
    ],
)
def test_a_job_that_never_fits_is_refused_with_the_numbers(
    changes: dict[str, Any], cluster: list[tuple[str, Resources]], want: str
) -> None:
    with pytest.raises(SpecificationError) as caught:
        capacity_check(job(**changes), cluster)
    assert str(caught.value).startswith('job "resnet": ')
    assert want in str(caught.value)


@pytest.mark.parametrize(
    "cluster", [pytest.param(nodes(("2", "2Gi")), id="exactly enough"), pytest.param([], id="nothing known")]
)
def test_a_job_that_may_fit_is_taken(cluster: list[tuple[str, Resources]]) -> None:
    capacity_check(job(), cluster)


def test_importing_the_core_loads_nothing_heavy() -> None:
    heavy = "yaml numpy scipy sqlalchemy pydantic kubernetes airflow"
    code = f"import sys, optimus_core; print(*[m for m in '{heavy}'.split() if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == ""
