"""`optimus parse` and `optimus fit`: they need files only."""

import json

import pytest

CURVE = [(step, 1 / (0.02 * step + 0.5) + 0.1) for step in range(1, 200)]


def test_parse_shows_exactly_what_would_be_read(optimus_json, tmp_path):
    file = tmp_path / "out.log"
    file.write_text("hello\nstep 10 loss=0.5\nEpoch 2, step: 20, loss: nan\n")
    data = optimus_json("parse", file)
    assert data == {
        "points": [{"line": 2, "name": "loss", "value": 0.5, "step": 10, "epoch": None}],
        "events": [{"line": 3, "kind": "diverged"}],
        "unread": 1,
    }


def test_parse_takes_an_expression_and_names_a_bad_one(optimus, optimus_json, tmp_path):
    file = tmp_path / "out.log"
    file.write_text("L=0.25\n")
    (point,) = optimus_json("parse", file, "--metrics", r"L=(?P<loss>\S+)")["points"]
    assert (point["name"], point["value"]) == ("loss", 0.25)
    assert "Traceback" not in optimus("parse", file, "--metrics", "(", code=1).output


def test_parse_prints_a_table_and_counts(optimus, tmp_path):
    file = tmp_path / "out.log"
    file.write_text("step 10 loss=0.5 [bold]\nnothing\n")
    assert "1 point, 0 events, 1 line told nothing" in optimus("parse", file).stdout


@pytest.mark.parametrize("command", ["parse", "fit"])
@pytest.mark.parametrize("name", ["nowhere.log", "."])
def test_a_file_that_cannot_be_read_is_told_in_one_sentence(optimus, tmp_path, command, name):
    result = optimus(command, tmp_path / name, code=1)
    assert "can't be read" in result.stderr
    assert "Traceback" not in result.output


def as_csv():
    return "step,loss\n" + "".join(f"{step},{loss}\n" for step, loss in CURVE)


def as_json():
    return json.dumps(CURVE)


def as_output():
    return "".join(f"step {step} loss={loss:.6f}\n" for step, loss in CURVE)


@pytest.mark.parametrize("form", [as_csv, as_json, as_output])
def test_fit_reads_three_forms_and_predicts(optimus_json, tmp_path, form):
    file = tmp_path / "curve"
    file.write_text(form())
    data = optimus_json("fit", file, "--below", "0.3")
    assert set(data) == {"curve", "noise", "last_step", "floor", "at_twice_the_steps", "below"}
    ahead = data["at_twice_the_steps"]
    assert ahead["step"] == 398
    assert ahead["loss"] == pytest.approx(1 / (0.02 * 398 + 0.5) + 0.1, rel=0.1)
    assert ahead["low"] <= ahead["loss"] <= ahead["high"]
    assert data["below"]["step"] == pytest.approx(225, rel=0.2)


def test_fit_prints_what_it_predicts_and_draws_it(optimus, tmp_path):
    file = tmp_path / "curve.csv"
    file.write_text(as_csv())
    plain = optimus("fit", file, "--below", "0.01").stdout
    assert "predicted" in plain
    assert "never, as far as the curve tells" in plain
    drawn = optimus("fit", file, "--plot").stdout
    assert "loss by step" in drawn
    assert "seen" in drawn
    assert "fit" in drawn
    assert "\x1b" not in drawn


@pytest.mark.parametrize("below", ["nan", "inf", "-inf", "1e308"])
def test_fit_below_what_no_loss_is_is_refused(optimus, tmp_path, below):
    file = tmp_path / "curve.csv"
    file.write_text(as_csv())
    assert "--below is " in optimus("fit", file, "--below", below, code=1).stderr


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("hello\n", id="no-loss"),
        pytest.param("step,loss\n1,\n", id="no-number"),
        pytest.param("step,loss\n1,0.5\n", id="one-point"),
        pytest.param('{"a": 1}', id="other-json"),
        pytest.param("step,loss\n1,nan\n2,nan\n3,nan\n", id="only-nan"),
        pytest.param("step,loss\n1," + "9" * 140_000 + "\n", id="a-long-field"),
        pytest.param("x" * 140_000, id="a-long-line"),
        pytest.param("[[1, 1" + "0" * 400 + "]]", id="an-endless-number"),
        pytest.param("[" * 100_000, id="endless-depth"),
        pytest.param("step,loss\n1,3\n2,2\n1e308,1\n", id="an-endless-step"),
        pytest.param("step,loss\n1,1e308\n2,2\n3,1\n", id="an-endless-loss"),
    ],
)
def test_fit_of_what_is_no_curve_is_refused_in_one_sentence(optimus, tmp_path, text):
    file = tmp_path / "curve"
    file.write_text(text)
    result = optimus("fit", file, code=1)
    assert "Error: " in result.stderr
    assert "Traceback" not in result.output
