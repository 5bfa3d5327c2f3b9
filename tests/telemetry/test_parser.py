from __future__ import annotations

from pathlib import Path

import pytest

from optimus_core.errors import SpecificationError
from optimus_core.telemetry import Event, EventKind, Parser, Point, parse_file

DATA = Path(__file__).parent / "data"


def points_of(text: str, pattern: str | None = None) -> list[tuple[str, float]]:
    return [(p.name, p.value) for p in parse_file(text.encode(), pattern).points]


def coordinates_of(text: str) -> tuple[int | None, float | None]:
    point = parse_file(text.encode()).points[-1]
    return point.step, point.epoch


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("loss=0.25", [("loss", 0.25)], id="equals"),
        pytest.param("loss: 0.25", [("loss", 0.25)], id="colon"),
        pytest.param("loss = 0.25", [("loss", 0.25)], id="spaces"),
        pytest.param("loss:0.25", [("loss", 0.25)], id="glued-colon"),
        pytest.param("loss:1", [("loss", 1.0)], id="glued-colon-whole-number"),
        pytest.param("loss=1e-5", [("loss", 1e-5)], id="exponent"),
        pytest.param("loss=1E-5", [("loss", 1e-5)], id="capital-exponent"),
        pytest.param("loss=1e+05", [("loss", 1e5)], id="positive-exponent"),
        pytest.param("loss=.5", [("loss", 0.5)], id="no-digit-before-the-point"),
        pytest.param("loss=5.", [("loss", 5.0)], id="no-digit-after-the-point"),
        pytest.param("loss=+3", [("loss", 3.0)], id="plus"),
        pytest.param("loss=-3.25", [("loss", -3.25)], id="minus"),
        pytest.param("The loss is now loss=0.25.", [("loss", 0.25)], id="end-of-a-sentence"),
        pytest.param("val/loss=0.3", [("val/loss", 0.3)], id="slash-in-the-name"),
        pytest.param("val_loss: 0.3", [("val_loss", 0.3)], id="underscore-in-the-name"),
        pytest.param("val.loss=0.3", [("val.loss", 0.3)], id="dot-in-the-name"),
        pytest.param("Train-cross-entropy=0.1", [("Train-cross-entropy", 0.1)], id="dashes-in-the-name"),
        pytest.param("Validation-accuracy=0.9", [("Validation-accuracy", 0.9)], id="validation-accuracy"),
        pytest.param("epoch_loss=0.3", [("epoch_loss", 0.3)], id="name-that-begins-as-a-coordinate"),
        pytest.param("Acc@1: 71.5", [("Acc@1", 71.5)], id="at-in-the-name"),
        pytest.param("Time cost=0.072", [("Time cost", 0.072)], id="a-duration-is-not-a-cost"),
        pytest.param("{'loss': '0.694', 'epoch': '0.2'}", [("loss", 0.694)], id="python-dict-of-strings"),
        pytest.param("{'loss': 0.694, 'epoch': 0.2}", [("loss", 0.694)], id="python-dict-of-numbers"),
        pytest.param("{'loss': tensor(0.25)}", [("loss", 0.25)], id="python-dict-with-a-tensor"),
        pytest.param("{'loss': np.float64(0.25)}", [("loss", 0.25)], id="python-dict-with-a-numpy-number"),
        pytest.param("{'val': {'loss': 0.3}}", [("val/loss", 0.3)], id="nested-python-dict"),
        pytest.param('{"loss": 0.25, "ok": true, "note": "x"}', [("loss", 0.25)], id="json"),
        pytest.param('{"loss": "0.25"}', [("loss", 0.25)], id="json-string"),
        pytest.param('{"loss":3}', [("loss", 3.0)], id="compact-json"),
        pytest.param('{"val": {"loss": 0.3}}', [("val/loss", 0.3)], id="nested-json"),
        pytest.param('10:22 INFO {"loss": 0.25, "step": 3}', [("loss", 0.25)], id="json-after-a-prefix"),
        pytest.param("\x1b[32mloss \x1b[0m=\x1b[1m0.25", [("loss", 0.25)], id="colours"),
        pytest.param("\x1b]0;title\x07loss=0.25", [("loss", 0.25)], id="title-of-the-terminal"),
        pytest.param("loss=0.25\b\b\b\b", [("loss", 0.25)], id="backspaces"),
        pytest.param("loss=0.5\rloss=0.25\r\n", [("loss", 0.5), ("loss", 0.25)], id="carriage-returns"),
        pytest.param("loss=0.25,acc=0.9", [("loss", 0.25), ("acc", 0.9)], id="comma-between-pairs"),
        pytest.param("loss=0.25 lr=1e-3", [("loss", 0.25), ("lr", 1e-3)], id="learning-rate"),
    ],
)
def test_a_pair_of_name_and_number_is_a_point(text: str, want: list[tuple[str, float]]) -> None:
    assert points_of(text) == want


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("loss=٣", id="arabic-digit"),
        pytest.param("loss=abc", id="word"),
        pytest.param("loss=0.25abc", id="number-with-a-tail"),
        pytest.param("loss: 1,234.5", id="thousands"),
        pytest.param("time: 12:30:45", id="clock"),
        pytest.param("version=1.2.3", id="version"),
        pytest.param("date=2030-01-02", id="date"),
        pytest.param("took: 10ms", id="unit"),
        pytest.param("python train.py --lr=0.1 --epochs=3", id="options"),
        pytest.param("TF_ENABLE_ONEDNN_OPTS=0", id="environment-variable"),
        pytest.param("listening on localhost:8080", id="port"),
        pytest.param("../src/executor/graph_executor.cc:1991: Subgraph", id="place-in-a-source"),
        pytest.param("GET http://host/x?loss=3&acc=4", id="query"),
        pytest.param("hello", id="chatter"),
        pytest.param("{'loss': '0.694', 'epo", id="cut-dict"),
        pytest.param('{"loss": 0.3', id="cut-json"),
        pytest.param('{"loss": 0.3}}', id="malformed-json"),
        pytest.param('{"loss": true}', id="truth-value"),
        pytest.param('{"optimus": "tomorrow", "step": 3, "loss": 1}', id="unknown-report"),
        pytest.param('{"optimus": ["report"], "loss": 1}', id="malformed-report"),
        pytest.param("[" * 5000, id="brackets"),
        pytest.param('{"a":' * 3000 + "1" + "}" * 3000, id="deep-json"),
        pytest.param('{"loss": ' + "9" * 5000 + "}", id="endless-whole-number"),
    ],
)
def test_what_is_no_metric_is_counted_as_unread(text: str) -> None:
    result = parse_file(text.encode())
    assert (result.points, result.events, result.unread) == ([], [], 1)


@pytest.mark.parametrize(
    ("text", "step", "epoch"),
    [
        pytest.param("step=120 loss=1", 120, None, id="step"),
        pytest.param("Step 120: loss=1", 120, None, id="step-without-a-sign"),
        pytest.param("global_step: 120, loss: 1", 120, None, id="global-step"),
        pytest.param("iter 5 loss=1", 5, None, id="iter"),
        pytest.param("Iteration 5, loss = 1", 5, None, id="iteration"),
        pytest.param("step: 1e3 loss: 1", 1000, None, id="step-with-an-exponent"),
        pytest.param("batch=3 global_step=103 loss=1", 103, None, id="global-step-wins"),
        pytest.param("Epoch[0] Batch [0-20]\tSpeed: 74933.83 samples/sec\tloss=1", 20, 0.0, id="speedometer"),
        pytest.param("Epoch[0] Batch [70]\tSpeed: 7.5 samples/sec\tloss=1", 70, 0.0, id="old-speedometer"),
        pytest.param("Epoch [1/5], Step [100/600], Loss: 1", 100, 1.0, id="of-many"),
        pytest.param("Epoch: [0][  10/5005]\tTime  0.3\tloss: 1", 10, 0.0, id="double-brackets"),
        pytest.param("Epoch 1:  90%|███ | 36/40 [00:01<00:00, 32.62it/s, loss=1]", 36, 1.0, id="tqdm"),
        pytest.param("Epoch 2/3\n57/57 - 1s - 10ms/step - loss: 1", 57, 2.0, id="keras"),
        pytest.param("Epoch 2/3\nloss: 1", None, 2.0, id="epoch-of-the-header"),
        pytest.param("Epoch 2/3\nepoch=7 loss: 1", None, 7.0, id="own-epoch-before-that-of-the-header"),
        pytest.param("{'loss': '1', 'epoch': '0.2'}", None, 0.2, id="epoch-as-a-string"),
        pytest.param('{"loss": 1, "step": 5, "epoch": 0.2}', 5, 0.2, id="json"),
        pytest.param('{"loss": 1, "step": "5"}', 5, None, id="step-as-a-string"),
        pytest.param("step: 45% loss=1", None, None, id="percentage"),
        pytest.param("45% eta 0:10:22 lr=1 loss=1", None, None, id="times-and-rates"),
        pytest.param("Train Epoch: 1 [640/60000 (1%)]\tLoss: 1", None, 1.0, id="samples-are-no-steps"),
        pytest.param("2030-01-01T12:30:45Z 3/4 loss=1", None, None, id="a-fraction-is-no-bar"),
    ],
)
def test_coordinates_are_read_from_their_words(text: str, step: int | None, epoch: float | None) -> None:
    assert coordinates_of(text) == (step, epoch)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        pytest.param("loss=nan", EventKind.DIVERGED, id="nan"),
        pytest.param("loss: NaN", EventKind.DIVERGED, id="NaN"),
        pytest.param("loss=-inf", EventKind.DIVERGED, id="minus-infinity"),
        pytest.param("loss=Infinity", EventKind.DIVERGED, id="infinity"),
        pytest.param("loss=1e999", EventKind.DIVERGED, id="overflow"),
        pytest.param("cross-entropy=nan", EventKind.DIVERGED, id="entropy"),
        pytest.param('{"loss": NaN}', EventKind.DIVERGED, id="json-nan"),
        pytest.param('{"loss": "nan"}', EventKind.DIVERGED, id="json-string"),
        pytest.param("{'loss': nan}", EventKind.DIVERGED, id="dict"),
        pytest.param('{"optimus": "report", "step": 3, "loss": "inf"}', EventKind.DIVERGED, id="report"),
        pytest.param("grad_norm=inf", EventKind.NONFINITE, id="not-a-loss"),
    ],
)
def test_what_is_not_finite_is_an_event_and_no_point(text: str, kind: EventKind) -> None:
    result = parse_file(text.encode())
    assert (result.points, [e.kind for e in result.events], result.unread) == ([], [kind], 0)


def test_a_report_keeps_its_own_time() -> None:
    line = '{"optimus": "report", "time": 12.5, "step": 120, "epoch": 1.5, "loss": 0.25, "acc": 0.5}'
    assert Parser().parse_line(line, 99.0) == [
        Point(1, "loss", 0.25, 120, 1.5, 12.5),
        Point(1, "acc", 0.5, 120, 1.5, 12.5),
    ]


def test_a_report_without_time_has_that_of_its_line() -> None:
    assert Parser().parse_line('{"optimus": "report", "step": 1, "loss": 2}', 99.0) == [
        Point(1, "loss", 2.0, 1, None, 99.0)
    ]


@pytest.mark.parametrize(
    ("line", "want"),
    [
        pytest.param(
            '{"optimus": "checkpoint", "time": 1.0, "step": 120, "path": "/c/120"}',
            Event(1, EventKind.CHECKPOINT, "/c/120", 120, 1.0),
            id="checkpoint",
        ),
        pytest.param(
            '{"optimus": "stopped", "step": 120}',
            Event(1, EventKind.STOPPED, "stopped as asked", 120),
            id="stopped",
        ),
        pytest.param(
            '{"optimus": "total", "steps": 900}',
            Event(1, EventKind.TOTAL, "900 steps in all", total=900),
            id="total",
        ),
        pytest.param(
            '{"optimus": "report", "time": 1.0, "step": 120}',
            Event(1, EventKind.PROGRESS, "step 120", 120, 1.0),
            id="report-without-a-metric",
        ),
        pytest.param("#argo progress=3/10", Event(1, EventKind.PROGRESS, "3/10", 3, total=10), id="argo"),
    ],
)
def test_a_line_of_a_protocol_is_an_event(line: str, want: Event) -> None:
    assert Parser().parse_line(line) == [want]
    assert Parser(r"loss=(?P<loss>\S+)").parse_line(line) == [want] or line.startswith("#argo")


def test_the_termination_message_tells_the_last_report_and_checkpoint() -> None:
    line = '{"checkpoint": 100, "loss": 0.25, "optimus": "last", "step": 120, "time": 1.0}'
    assert Parser().parse_line(line) == [
        Point(1, "loss", 0.25, 120, None, 1.0),
        Event(1, EventKind.CHECKPOINT, "", 100, 1.0),
    ]


def test_a_pattern_replaces_the_default_grammar() -> None:
    text = "loss=0.5\n@ 12 / 1 => 0.25\n"
    result = parse_file(text.encode(), r"@ (?P<step>\d+) / (?P<epoch>\d+) => (?P<loss>\S+)")
    assert result.points == [Point(2, "loss", 0.25, 12, 1.0)]
    assert result.unread == 1


def test_a_pattern_may_name_its_metrics() -> None:
    assert points_of("a~1 b~2e-1 c~x", r"(?P<name>\w+)~(?P<value>\S+)") == [("a", 1.0), ("b", 0.2)]


def test_a_pattern_sees_lines_that_are_objects() -> None:
    assert points_of('{"loss": 0.25}', r'"loss": (?P<loss>[\d.]+)') == [("loss", 0.25)]


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        pytest.param("loss=(", "no regular expression", id="syntax"),
        pytest.param(r"loss=(\S+)", "no named group", id="no-named-group"),
        pytest.param(r"(?P<step>\d+)", "the groups step", id="no-number"),
        pytest.param(r"(?P<name>\w+)=", "the groups name", id="name-without-value"),
    ],
)
def test_a_bad_pattern_is_refused_with_a_remedy(pattern: str, words: str) -> None:
    with pytest.raises(SpecificationError) as refused:
        Parser(pattern)
    assert words in str(refused.value)
    assert repr(pattern) in str(refused.value)
    assert "Write for example" in str(refused.value)


@pytest.mark.parametrize(
    ("file", "metrics", "count", "last", "unread"),
    [
        pytest.param(
            "keras_fit_verbose1_pipe.txt",
            {"accuracy", "loss", "val_accuracy", "val_loss"},
            32,
            Point(10, "val_loss", 0.6778, 57, 3.0, None, True, 57),
            4,
            id="keras-bars",
        ),
        pytest.param(
            "keras_fit_verbose2_tty.txt",
            {"accuracy", "loss", "val_accuracy", "val_loss"},
            12,
            Point(10, "val_loss", 0.6956, 57, 3.0, None, True, 57),
            4,
            id="keras-lines",
        ),
        pytest.param(
            "mxnet_speedometer.txt",
            {
                "Speed", "accuracy", "cross-entropy", "Train-accuracy", "Train-cross-entropy", "Time cost",
                "Validation-accuracy", "Validation-cross-entropy",
            },
            51,
            Point(28, "Validation-cross-entropy", 0.008935, None, 2.0),
            1,
            id="mxnet",
        ),
        pytest.param(
            "tqdm_pipe.txt",
            {"loss"},
            102,
            Point(2, "loss", 0.0125, 40, 1.0, None, True, 40),
            0,
            id="tqdm",
        ),
        pytest.param(
            "hf_trainer_pipe.txt",
            {
                "loss", "grad_norm", "learning_rate", "train_runtime", "train_samples_per_second",
                "train_steps_per_second", "train_loss",
            },
            34,
            Point(11, "train_loss", 0.6932, None, 2.0),
            0,
            id="transformers",
        ),
    ],
)  # fmt: skip
def test_real_outputs_are_read(file: str, metrics: set[str], count: int, last: Point, unread: int) -> None:
    result = parse_file(DATA / file)
    assert {p.name for p in result.points} == metrics
    assert len(result.points) == count
    assert result.points[-1] == last
    assert (result.events, result.unread) == ([], unread)


def test_a_result_is_plain_json() -> None:
    assert parse_file(b"step=3 loss=0.5\nhm\nloss=nan").to_dict() == {
        "points": [{"line": 1, "name": "loss", "value": 0.5, "step": 3, "epoch": None}],
        "events": [{"line": 3, "kind": "diverged"}],
        "unread": 1,
    }


def test_lines_are_counted_by_line_feeds_only() -> None:
    points = parse_file(b"a=1\rb=2\r\nc=3\n\nd=4").points
    assert [(p.line, p.name) for p in points] == [(1, "a"), (1, "b"), (2, "c"), (4, "d")]


def test_blank_lines_are_not_unread() -> None:
    assert parse_file(b"\n  \n\x1b[0m\n\r\n").unread == 0


def test_a_line_of_several_frames_is_unread_only_if_all_are() -> None:
    assert parse_file(b"hm\rloss=1\nhm\rhm\n").unread == 1


def test_a_parser_that_was_stored_goes_on_at_the_next_line() -> None:
    first = Parser()
    first.parse_line("Epoch 2/3")
    again = Parser.from_state(first.state())
    assert again.parse_line("loss: 1") == [Point(2, "loss", 1.0, None, 2.0)]


def test_a_line_that_is_told_twice_has_the_same_key() -> None:
    one, two = parse_file(b"step=3 loss=1\nstep=3 loss=1").points
    assert one.key == two.key == ("loss", 3, None)
