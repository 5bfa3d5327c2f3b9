"""Each line that a job's replicas write is handed to its task's log once, whoever asks."""

import dataclasses

from optimus_core.cluster.base import OutputLine
from optimus_core.engine.engine import Engine


def write(driver, job_id, monkeypatch, *texts):
    """Let the cluster give these lines at the next look."""
    monkeypatch.undo()
    given = [OutputLine(1.0, text.encode()) for text in texts]
    real = driver.cluster.output

    def output(replica, cursor, *arguments, **more):
        found = real(replica, cursor, *arguments, **more)
        lines, given[:] = tuple(given), []
        return dataclasses.replace(found, lines=lines, missed=False)

    monkeypatch.setattr(driver.cluster, "output", output)
    driver.drive(job_id, to=lambda: not given)


def lines(outputs):
    return [line for output in outputs for line in output.lines]


def test_each_line_is_told_once_by_whichever_engine_is_asked(driver, make_job, monkeypatch):
    made = driver.submit(make_job(STEPS=10_000))
    driver.to_step(made.job_id, 1)
    driver.engine.untold(made.job_id)
    other = Engine(driver.engine.settings)
    write(driver, made.job_id, monkeypatch, "one", "two")
    first = driver.engine.untold(made.job_id)
    assert (lines(first), first[0].cut) == (["one", "two"], False)
    assert other.untold(made.job_id) == []
    write(driver, made.job_id, monkeypatch, "three")
    assert lines(other.untold(made.job_id)) == ["three"]
    assert driver.engine.untold(made.job_id) == []


def test_of_more_than_is_kept_whole_lines_are_told_and_that_some_are_gone(driver, make_job, monkeypatch):
    object.__setattr__(driver.engine.settings, "log_tail_bytes", 100)
    made = driver.submit(make_job(STEPS=10_000))
    driver.to_step(made.job_id, 1)
    driver.engine.untold(made.job_id)
    write(driver, made.job_id, monkeypatch, *(f"line {number:04}" for number in range(50)))
    (told,) = driver.engine.untold(made.job_id)
    assert told.cut
    assert told.lines == tuple(f"line {number:04}" for number in range(41, 50))
