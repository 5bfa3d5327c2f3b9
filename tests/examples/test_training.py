"""The examples, as real processes: the same training at every size, over every resize, stop and loss."""

import os
import signal

import pytest

from tests.examples.conftest import ROOT, wait_until

QUICK = ("--read-ms", "0.05", "--report-every", "1", "--checkpoint-every", "20")
PS, RING = "train_ps.py", "train_allreduce.py"
SIZES = [pytest.param(PS, 1, id="servers"), pytest.param(RING, 0, id="all-reduce")]


def steps_of_checkpoints(generation):
    return [line["step"] for line in generation.leader.lines("checkpoint")]


def all_zero(codes):
    return set(codes.values()) == {0}


def assert_same(losses, want):
    assert losses.keys() == want.keys()
    assert all(losses[step] == pytest.approx(want[step], rel=1e-6) for step in want)


@pytest.mark.parametrize(("script", "servers"), SIZES)
def test_the_loss_curve_is_the_same_for_one_two_and_four_workers(start, script, servers):
    curves = []
    for workers in (1, 2, 4):
        generation = start(
            script, *QUICK, "--steps", 40, workers=workers, servers=servers * (workers + 1) // 2, job=f"with-{workers}"
        )
        assert all_zero(generation.wait()), generation.leader.err.read_text()
        curves.append(generation.leader.losses())
    assert list(curves[0]) == list(range(1, 41))
    assert curves[0][40] < curves[0][1] / 2
    assert_same(curves[1], curves[0])
    assert_same(curves[2], curves[0])


def test_servers_and_all_reduce_train_the_same(start):
    one = start(PS, *QUICK, "--steps", 20, workers=2, servers=2, job="a")
    other = start(RING, *QUICK, "--steps", 20, workers=3, job="b")
    assert all_zero(one.wait())
    assert all_zero(other.wait())
    assert_same(other.leader.losses(), one.leader.losses())


def test_more_workers_than_samples_in_a_batch_train_the_same(start):
    few = start(PS, *QUICK, "--steps", 10, workers=1, servers=1, batch=2, job="a")
    many = start(PS, *QUICK, "--steps", 10, workers=3, servers=1, batch=2, job="b")
    assert all_zero(few.wait())
    assert all_zero(many.wait())
    assert_same(many.leader.losses(), few.leader.losses())


def test_a_long_vector_does_not_block_the_ring(start):
    generation = start(RING, *QUICK, "--steps", 2, "--hidden", 20000, workers=2)
    assert all_zero(generation.wait())


@pytest.mark.parametrize(("script", "servers"), SIZES)
def test_training_goes_on_where_it_was_after_growing_and_shrinking(start, script, servers):
    whole = start(script, *QUICK, "--steps", 60, workers=1, servers=servers, job="undisturbed")
    assert all_zero(whole.wait())
    losses = {}
    for generation_number, workers in enumerate((2, 3, 1)):
        generation = start(
            script, *QUICK, "--steps", 20 * (generation_number + 1), workers=workers, servers=servers * workers
        )
        assert all_zero(generation.wait())
        assert min(generation.leader.losses()) == 20 * generation_number + 1
        losses.update(generation.leader.losses())
    assert_same(losses, whole.leader.losses())


@pytest.mark.parametrize(("script", "servers"), SIZES)
def test_after_a_kill_training_goes_on_at_most_one_checkpoint_earlier(start, script, servers):
    first = start(script, *QUICK, "--steps", 100000, workers=2, servers=servers)
    first.until_step(45)
    first.kill()
    reached = max(first.leader.losses())
    second = start(script, *QUICK, "--steps", reached + 5, workers=1, servers=2 * servers)
    assert all_zero(second.wait())
    assert reached - 20 <= min(second.leader.losses()) - 1 <= reached


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("workers", [1, 3])
def test_asked_to_stop_all_end_with_zero_and_save_the_last_step(start, workers, mode):
    generation = start(PS, *QUICK, "--steps", 100000, "--mode", mode, workers=workers, servers=2)
    generation.until_step(10)
    generation.stop()
    assert all_zero(generation.wait())
    last = max(generation.leader.losses())
    # asynchronous: what others had under way may still be counted after the leader's last report
    assert last <= steps_of_checkpoints(generation)[-1] <= last + (workers - 1) * (mode == "async")


def test_asked_to_stop_all_workers_of_a_ring_leave_after_the_same_step(start):
    generation = start(RING, *QUICK, "--steps", 100000, workers=3)
    generation.until_step(10)
    generation.stop()
    assert all_zero(generation.wait())
    last = [max(line["step"] for line in replica.lines("report")) for replica in generation.replicas]
    assert last == [steps_of_checkpoints(generation)[-1]] * 3


@pytest.mark.parametrize("asked", ["worker 1", "server 0"])
def test_one_replica_that_is_asked_to_stop_stops_all(start, asked):
    generation = start(PS, *QUICK, "--steps", 100000, workers=2, servers=2)
    generation.until_step(5)
    generation[asked].process.send_signal(signal.SIGTERM)
    assert all_zero(generation.wait())
    assert steps_of_checkpoints(generation)[-1] == max(generation.leader.losses())


@pytest.mark.parametrize(("script", "servers"), SIZES)
def test_asked_to_stop_while_they_wait_for_one_that_never_comes_all_end_with_zero(start, script, servers):
    generation = start(script, *QUICK, workers=3, servers=servers)
    missing = generation["worker 1"]
    missing.process.kill()
    missing.process.wait()
    generation.replicas.remove(missing)
    wait_until(lambda: all(replica.traps_sigterm() for replica in generation.replicas))
    generation.stop()
    assert all_zero(generation.wait())


@pytest.mark.parametrize(
    ("script", "servers", "lost"),
    [
        pytest.param(PS, 2, "worker 0", id="servers-lose-the-leader"),
        pytest.param(PS, 2, "worker 1", id="servers-lose-a-worker"),
        pytest.param(PS, 2, "server 1", id="workers-lose-a-server"),
        pytest.param(RING, 0, "worker 1", id="ring-loses-a-worker"),
    ],
)
def test_when_one_is_killed_the_others_do_not_hang_and_do_not_succeed(start, script, servers, lost):
    generation = start(script, *QUICK, "--steps", 100000, workers=3, servers=servers)
    generation.until_step(3)
    generation[lost].process.kill()
    codes = generation.wait()
    assert codes.pop(lost) == -signal.SIGKILL
    assert set(codes.values()) == {75}


def test_asynchronous_training_goes_on_without_a_worker_that_was_killed(start):
    generation = start(PS, *QUICK, "--steps", 400, "--mode", "async", workers=3, servers=2)
    wait_until(lambda: generation["worker 2"].lines("report"))
    generation["worker 2"].process.kill()
    codes = generation.wait()
    assert codes.pop("worker 2") == -signal.SIGKILL
    assert all_zero(codes)
    assert steps_of_checkpoints(generation)[-1] == 400


def test_asynchronous_training_goes_on_without_a_worker_that_never_came(start):
    generation = start(PS, *QUICK, "--steps", 200, "--mode", "async", "--connect-seconds", 3, workers=3, servers=2)
    generation["worker 2"].process.kill()
    codes = generation.wait()
    assert codes.pop("worker 2") == -signal.SIGKILL
    assert all_zero(codes)
    assert steps_of_checkpoints(generation)[-1] == 200


def test_synchronous_training_does_not_begin_without_a_worker_that_never_came(start):
    generation = start(PS, *QUICK, "--connect-seconds", 1, workers=2, servers=1)
    generation["worker 1"].process.kill()
    codes = generation.wait()
    assert codes.pop("worker 1") == -signal.SIGKILL
    assert set(codes.values()) == {75}
    assert "[1] did not come within 1 s" in generation["server 0"].err.read_text()


def test_asynchronous_steps_are_counted_over_all_workers_and_many_workers_learn_too(start):
    generation = start(PS, *QUICK, "--steps", 300, "--mode", "async", workers=4, servers=2, batch=64, per="worker")
    assert all_zero(generation.wait())
    losses = generation.leader.losses()
    assert max(losses) == 300
    assert len(losses) < 300  # the leader did only its part of them
    assert losses[300] < 0.5


def test_a_finished_job_ends_again_at_once(start):
    assert all_zero(start(PS, *QUICK, "--steps", 10, workers=2, servers=1).wait())
    again = start(PS, *QUICK, "--steps", 10, workers=3, servers=2)
    assert all_zero(again.wait())
    assert again.leader.losses() == {}


def test_a_worker_that_comes_late_to_a_finished_job_still_ends_with_zero(start):
    assert all_zero(start(PS, *QUICK, "--steps", 10, workers=2, servers=1).wait())
    again = start(PS, *QUICK, "--steps", 10, workers=3, servers=2)
    again["worker 2"].process.send_signal(signal.SIGSTOP)
    wait_until(lambda: again.leader.process.poll() is not None)
    again["worker 2"].process.send_signal(signal.SIGCONT)
    assert all_zero(again.wait())


@pytest.mark.parametrize("script", [PS, RING])
def test_a_script_run_by_hand_needs_nothing_but_itself(start, script):
    nothing = {
        name: ""
        for name in (
            "OPTIMUS_WORKER_ADDRESSES",
            "OPTIMUS_SERVERS",
            "OPTIMUS_GENERATION",
            "OPTIMUS_CHECKPOINTS",
            "OPTIMUS_BATCH_SIZE",
            "OPTIMUS_BATCH_PER",
        )
    }
    generation = start(script, *QUICK, "--epochs", "0.5", env={**nothing, "OPTIMUS_WORKERS": "1"})
    assert all_zero(generation.wait())


def test_without_pytorch_its_backend_says_what_to_do(start, tmp_path):
    (tmp_path / "sitecustomize.py").write_text('import sys\nsys.modules["torch"] = None  # wherever it is installed\n')
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    generation = start(RING, *QUICK, "--backend", "gloo", env={"PYTHONPATH": path})
    assert generation.wait() == {"worker 0": 1}
    assert "pip install torch" in generation.leader.err.read_text()


def test_workers_without_a_parameter_server_are_told_so(start):
    generation = start(PS, *QUICK, workers=2)
    assert set(generation.wait().values()) == {1}
    assert "OPTIMUS_SERVERS is 0" in generation.leader.err.read_text()


def test_another_model_than_in_the_checkpoint_is_refused(start):
    assert all_zero(start(RING, *QUICK, "--steps", 5).wait())
    other = start(RING, *QUICK, "--steps", 10, "--hidden", 8)
    assert other.wait() == {"worker 0": 1}
    assert "use the same --hidden" in other.leader.err.read_text()
