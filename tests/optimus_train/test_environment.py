import pytest

import optimus_train


def test_by_hand_there_is_one_worker_and_nothing_else():
    assert (optimus_train.role(), optimus_train.rank()) == ("worker", 0)
    assert (optimus_train.workers(), optimus_train.servers()) == (1, 0)
    assert optimus_train.worker_addresses() == [optimus_train.address()] == [("127.0.0.1", 0)]
    assert optimus_train.server_addresses() == []
    assert optimus_train.grace_seconds() == 30


def test_addresses_come_in_the_order_of_ranks_and_print_as_they_were_given(monkeypatch):
    monkeypatch.setenv("OPTIMUS_WORKERS", "2")
    monkeypatch.setenv("OPTIMUS_WORKER_ADDRESSES", "job-worker-0.job:4000, [::1]:4001")
    assert optimus_train.worker_addresses() == [("job-worker-0.job", 4000), ("::1", 4001)]
    assert [str(a) for a in optimus_train.worker_addresses()] == ["job-worker-0.job:4000", "[::1]:4001"]


@pytest.mark.parametrize(
    ("name", "value", "ask", "told"),
    [
        ("OPTIMUS_RANK", "one", optimus_train.rank, "OPTIMUS_RANK is 'one'; write a whole number such as 0."),
        ("OPTIMUS_RANK", "1", optimus_train.rank, "the highest rank is 0"),
        ("OPTIMUS_ROLE", "chief", optimus_train.role, "worker, server, scheduler"),
        ("OPTIMUS_WORKERS", "0", optimus_train.workers, "at least 1"),
        ("OPTIMUS_SERVERS", "-1", optimus_train.servers, "at least 0"),
        ("OPTIMUS_SERVERS", "1", optimus_train.server_addresses, "names 0 addresses, but OPTIMUS_SERVERS is 1"),
        ("OPTIMUS_ADDRESS", "4000", optimus_train.address, "write host:port"),
        ("OPTIMUS_ADDRESS", "host:70000", optimus_train.address, "write host:port"),
        ("OPTIMUS_BATCH_SIZE", "0", optimus_train.batch_size, "at least 1"),
        ("OPTIMUS_BATCH_PER", "server", optimus_train.batch_size, "job or worker"),
        ("OPTIMUS_GRACE_SECONDS", "nan", optimus_train.grace_seconds, "number of seconds"),
    ],
)
def test_a_value_that_cannot_be_is_named_with_what_to_write(monkeypatch, name, value, ask, told):
    monkeypatch.setenv(name, value)
    with pytest.raises(optimus_train.ContractError) as error:
        ask()
    assert name in str(error.value)
    assert told in str(error.value)


def test_an_empty_variable_counts_as_not_set(monkeypatch):
    monkeypatch.setenv("OPTIMUS_WORKERS", "")
    assert optimus_train.workers() == 1
