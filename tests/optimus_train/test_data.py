import os
from itertools import islice
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

import optimus_train

COUNTS = st.integers(1, 9)
SAMPLES = st.integers(1, 120)
SIZES = st.integers(1, 40)


def as_rank(rank, workers, size, per="job", role="worker"):
    return mock.patch.dict(
        os.environ,
        {
            "OPTIMUS_ROLE": role,
            "OPTIMUS_RANK": str(rank),
            "OPTIMUS_WORKERS": str(workers),
            "OPTIMUS_BATCH_SIZE": str(size),
            "OPTIMUS_BATCH_PER": per,
        },
    )


def of_all(workers, size, ask, per="job"):
    """What each rank gets as an answer."""
    answers = []
    for rank in range(workers):
        with as_rank(rank, workers, size, per):
            answers.append(ask())
    return answers


@given(COUNTS, SIZES)
def test_the_shares_of_a_batch_add_up_and_differ_by_one_at_most(workers, size):
    shares = of_all(workers, size, optimus_train.batch_size)
    assert sum(shares) == size
    assert max(shares) - min(shares) <= 1
    assert shares == sorted(shares, reverse=True)


def test_a_batch_per_worker_is_whole_on_each():
    assert of_all(3, 16, optimus_train.batch_size, per="worker") == [16, 16, 16]
    assert of_all(3, 16, optimus_train.job_batch_size, per="worker") == [48, 48, 48]


@given(COUNTS, SAMPLES, SIZES, st.integers(0, 50))
def test_a_step_trains_on_the_same_samples_however_many_workers_share_them(workers, n, size, start):
    def steps():
        return list(islice(optimus_train.batches(n, start), 5))

    (alone,), together = of_all(1, size, steps), of_all(workers, size, steps)
    for place, (step, epoch, samples) in enumerate(alone):
        parts = [steps_of_rank[place] for steps_of_rank in together]
        assert {part[:2] for part in parts} == {(step, epoch)}
        dealt = [sample for part in parts for sample in part[2]]
        assert len(dealt) == len(set(dealt))
        assert sorted(dealt) == sorted(samples)


@given(COUNTS, SAMPLES, SIZES, st.integers(0, 5))
def test_an_epoch_sees_each_sample_once(workers, n, size, epoch):
    dealt = [sample for shard in of_all(workers, size, lambda: optimus_train.shard(n, epoch)) for sample in shard]
    assert sorted(dealt) == list(range(n))


@given(COUNTS, SAMPLES, SIZES)
def test_an_epoch_of_batches_is_the_shard(workers, n, size):
    def both():
        steps = islice(optimus_train.batches(n), optimus_train.steps_per_epoch(n))
        return [sample for _, _, samples in steps for sample in samples], optimus_train.shard(n, 0)

    assert all(batches == shard for batches, shard in of_all(workers, size, both))


@given(COUNTS, SAMPLES, SIZES, st.integers(0, 50))
def test_whole_batches_in_turn_are_those_of_one_worker(workers, n, size, start):
    def steps():
        return list(islice(optimus_train.batches(n, start, in_turn=True), 4))

    together = [step for steps_of_rank in of_all(workers, size, steps, per="worker") for step in steps_of_rank]
    with as_rank(0, 1, size):
        alone = list(islice(optimus_train.batches(n, start), 4 * workers))
    assert sorted(together) == alone


def test_going_on_from_a_step_is_as_if_never_stopped():
    whole = list(islice(optimus_train.batches(100), 20))
    assert list(islice(optimus_train.batches(100, start_step=7), 13)) == whole[7:]


def test_epochs_and_seeds_have_orders_of_their_own():
    orders = [optimus_train.shard(50, epoch, seed) for epoch in (0, 1) for seed in (0, 1)]
    assert len({tuple(order) for order in orders}) == 4


def test_the_order_is_the_same_on_every_python():
    assert optimus_train.shard(10, 0) == [1, 0, 2, 4, 9, 3, 8, 6, 7, 5]


def test_a_server_has_no_share_of_the_data():
    with (
        as_rank(0, 1, 8, role="server"),
        mock.patch.dict(os.environ, {"OPTIMUS_SERVERS": "1"}),
        pytest.raises(
            optimus_train.ContractError, match=r'only workers .* write such as: if optimus_train\.role\(\) == "server"'
        ),
    ):
        optimus_train.batch_size()


def test_no_samples_are_refused():
    with pytest.raises(ValueError, match="nothing to train on"):
        next(optimus_train.batches(0))
