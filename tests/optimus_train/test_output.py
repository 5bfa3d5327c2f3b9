import json
import math
import sys

import numpy as np
import pytest

import optimus_train


def printed(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_report_is_one_line_of_json(capsys):
    optimus_train.report(7, 0.5, epoch=1, accuracy=0.9)
    (line,) = printed(capsys)
    assert line.pop("time") > 1e9
    assert line == {"optimus": "report", "step": 7, "loss": 0.5, "epoch": 1, "accuracy": 0.9}


def test_numbers_that_json_does_not_know_are_words(capsys):
    optimus_train.report(1, math.nan, up=math.inf, down=-math.inf)
    (line,) = printed(capsys)
    assert (line["loss"], line["up"], line["down"]) == ("nan", "inf", "-inf")


def test_scalars_of_numpy_are_numbers(capsys):
    optimus_train.report(np.int64(3), np.float32(0.5), n=np.int32(2))
    (line,) = printed(capsys)
    assert (line["step"], line["loss"], line["n"]) == (3, 0.5, 2)


def test_a_report_without_loss_has_none(capsys):
    optimus_train.report(1)
    assert "loss" not in printed(capsys)[0]


def test_the_names_of_the_line_itself_are_refused():
    with pytest.raises(ValueError, match="choose another"):
        optimus_train.report(1, time=3)


def test_total_steps_are_told(capsys):
    optimus_train.total_steps(600)
    assert printed(capsys)[0]["steps"] == 600


def test_an_output_that_nobody_reads_does_not_end_the_training(monkeypatch):
    class Gone:
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Gone())
    optimus_train.report(1, 0.5)


def test_the_termination_message_holds_the_last_step_loss_and_checkpoint(monkeypatch, tmp_path):
    path = tmp_path / "message"
    path.write_text("x" * 1000)
    monkeypatch.setenv("OPTIMUS_TERMINATION_MESSAGE", str(path))
    optimus_train.report(10, 0.25)
    with optimus_train.checkpoint(10):
        pass
    optimus_train.report(12, math.nan)
    message = json.loads(path.read_text())
    assert (message["step"], message["loss"], message["checkpoint"]) == (12, "nan", 10)


def test_a_termination_message_that_cannot_be_written_does_no_harm(monkeypatch, tmp_path):
    monkeypatch.setenv("OPTIMUS_TERMINATION_MESSAGE", str(tmp_path / "missing" / "message"))
    optimus_train.report(1, 0.5)
