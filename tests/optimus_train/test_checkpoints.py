import json
import os
import shutil

import pytest

import optimus_train
from optimus_train import checkpoints


@pytest.fixture
def generation(monkeypatch, tmp_path):
    """generation(n): from now on we are generation n of the job."""
    monkeypatch.setenv("OPTIMUS_CHECKPOINTS", str(tmp_path / "job"))
    return lambda number: monkeypatch.setenv("OPTIMUS_GENERATION", str(number))


def save(step, text="weights", **options):
    with optimus_train.checkpoint(step, **options) as folder:
        (folder / "model").write_text(text)


def save_half(step):
    with optimus_train.checkpoint(step) as folder:
        (folder / "model").write_text("half")
        raise RuntimeError


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_checkpoint_has_its_place_its_marker_and_is_told(generation, tmp_path, capsys):
    generation(7)
    optimus_train.report(120, 0.5)
    save(120)
    folder = tmp_path / "job" / "g000007" / "step-000000000120"
    marker = json.loads((folder / "optimus.json").read_text())
    assert (marker["step"], marker["generation"], marker["metrics"]) == (120, 7, {"loss": 0.5})
    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (line["optimus"], line["step"], line["path"]) == ("checkpoint", 120, str(folder))
    generation(8)
    assert optimus_train.latest_checkpoint() == folder
    assert optimus_train.checkpoint_step(folder) == 120


def test_by_hand_checkpoints_are_kept_in_the_current_folder(tmp_path):
    save(1)
    assert (tmp_path / "checkpoints" / "g000000" / "step-000000000001" / "model").exists()
    assert optimus_train.checkpoint_step(optimus_train.latest_checkpoint()) == 1


def test_a_block_that_fails_leaves_nothing(generation, tmp_path, capsys):
    generation(1)
    with pytest.raises(RuntimeError):
        save_half(5)
    assert names(tmp_path / "job" / "g000001") == []
    generation(2)
    assert optimus_train.latest_checkpoint() is None
    assert capsys.readouterr().out == ""


def test_the_newest_two_of_this_generation_stay(generation, tmp_path):
    generation(1)
    save(1)
    generation(2)
    for step in (2, 3, 4):
        save(step)
    assert names(tmp_path / "job" / "g000002") == ["step-000000000003", "step-000000000004"]
    assert names(tmp_path / "job" / "g000001") == ["step-000000000001"]


def test_the_same_step_again_replaces_the_first(generation, tmp_path):
    generation(1)
    save(4, "old")
    save(4, "new")
    assert names(tmp_path / "job" / "g000001") == ["step-000000000004"]
    generation(2)
    assert (optimus_train.latest_checkpoint() / "model").read_text() == "new"


def test_the_highest_generation_counts_before_the_highest_step(generation):
    generation(1)
    save(900)
    generation(2)
    save(100)
    generation(3)
    assert optimus_train.checkpoint_step(optimus_train.latest_checkpoint()) == 100


def test_a_checkpoint_of_the_same_or_a_later_generation_is_not_ours(generation):
    """Each replica of a generation gets the same answer, though its siblings may have trained already."""
    generation(1)
    save(10)
    generation(2)
    save(30)
    generation(3)
    save(20)
    generation(2)
    assert optimus_train.checkpoint_step(optimus_train.latest_checkpoint()) == 10
    generation(1)
    assert optimus_train.latest_checkpoint() is None


class LateSave:
    """A checkpoint that is begun now and ends when the test says so."""

    def __init__(self, step):
        self._checkpoint = optimus_train.checkpoint(step)
        self._folder = self._checkpoint.__enter__()
        (self._folder / "model").write_text("late")

    def end(self):
        self._checkpoint.__exit__(None, None, None)


def resumed_at():
    latest = optimus_train.latest_checkpoint()
    return None if latest is None else optimus_train.checkpoint_step(latest)


@pytest.mark.parametrize("saved", [pytest.param(50, id="from a checkpoint"), pytest.param(None, id="from scratch")])
def test_what_a_generation_saves_after_its_successor_began_never_counts(generation, tmp_path, saved):
    generation(1)
    if saved:
        save(saved)
    begun = LateSave(60)
    generation(2)
    assert resumed_at() == saved
    generation(1)
    with pytest.raises(optimus_train.ContractError, match="generation 1 of this job is over, since generation 2"):
        begun.end()
    with pytest.raises(optimus_train.ContractError, match=r"checkpoint\(70\): generation 1 of this job is over"):
        save(70)
    forced = tmp_path / "job" / "g000001" / "step-000000000080"  # it noticed nothing
    forced.mkdir(parents=True)
    (forced / "optimus.json").write_text('{"step": 80}')
    for number in (2, 3, 4):  # the others of the same; two that follow, though none of them has saved
        generation(number)
        assert resumed_at() == saved
    save(55)
    generation(5)
    assert resumed_at() == 55


def test_what_was_gone_on_from_and_is_there_no_more_is_not_gone_on_from(generation, tmp_path):
    generation(1)
    save(50)
    generation(2)
    assert resumed_at() == 50
    shutil.rmtree(tmp_path / "job" / "g000001" / "step-000000000050")
    assert resumed_at() is None
    generation(3)
    assert resumed_at() is None


def test_of_replicas_that_ask_at_once_all_get_the_answer_of_the_first(generation, tmp_path, monkeypatch):
    generation(1)
    save(40)
    save(50)
    generation(2)
    real = checkpoints._newest_up_to

    def slow(root, newest):
        found = real(root, newest)
        monkeypatch.setattr(checkpoints, "_newest_up_to", real)
        assert resumed_at() == 50  # another is faster
        return found.with_name("step-000000000040")

    monkeypatch.setattr(checkpoints, "_newest_up_to", slow)
    assert resumed_at() == 50
    assert names(tmp_path / "job") == ["g000001", "resumed-g000002"]


def test_only_who_saves_makes_the_folder_of_all(generation, monkeypatch, tmp_path):
    generation(2)
    monkeypatch.setenv("OPTIMUS_WORKERS", "2")
    monkeypatch.setenv("OPTIMUS_RANK", "1")
    assert optimus_train.latest_checkpoint() is None
    assert not (tmp_path / "job").exists()
    monkeypatch.setenv("OPTIMUS_RANK", "0")
    assert optimus_train.latest_checkpoint() is None
    assert names(tmp_path / "job") == ["resumed-g000002"]


def test_a_place_that_cannot_be_written_is_read_all_the_same(generation, monkeypatch):
    generation(1)
    save(50)
    generation(2)

    def refuse(**_):
        raise PermissionError

    monkeypatch.setattr(checkpoints.tempfile, "mkdtemp", refuse)
    assert resumed_at() == 50


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda folder: (folder / "optimus.json").unlink(), id="no-marker"),
        pytest.param(lambda folder: (folder / "optimus.json").write_text('{"step": 2'), id="half-a-marker"),
        pytest.param(lambda folder: (folder / "optimus.json").write_text("[]"), id="another-marker"),
        pytest.param(lambda folder: (folder / "optimus.json").write_text('{"step": 7}'), id="another-step"),
        pytest.param(lambda folder: folder.rename(folder.parent / ".saving-1"), id="a-temporary-name"),
    ],
)
def test_a_broken_checkpoint_is_passed_over_even_if_its_generation_has_no_other(generation, tmp_path, spoil):
    generation(1)
    save(1)
    generation(2)
    save(2)
    spoil(tmp_path / "job" / "g000002" / "step-000000000002")
    generation(3)
    assert optimus_train.checkpoint_step(optimus_train.latest_checkpoint()) == 1


def test_asking_a_folder_that_is_no_checkpoint_for_its_step_says_so(tmp_path):
    with pytest.raises(ValueError, match="no complete checkpoint"):
        optimus_train.checkpoint_step(tmp_path)


def test_all_files_are_on_disk_before_the_checkpoint_has_its_name(generation, monkeypatch):
    generation(1)
    done = []
    monkeypatch.setattr(checkpoints, "_sync", lambda path: done.append(path.name))
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: (done.append("named"), replace(a, b)))
    save(1)
    assert {"model", "optimus.json"} <= set(done[: done.index("named")])
    assert done[-1] == "g000001"


@pytest.mark.parametrize("options", [{"step": -1}, {"step": 1, "keep": 0}])
def test_impossible_numbers_are_refused(options):
    with pytest.raises(ValueError, match="at least"), optimus_train.checkpoint(**options):
        pass


@pytest.mark.parametrize(("role", "rank"), [("worker", 1), ("server", 0), ("scheduler", 0)])
def test_only_worker_0_saves_and_others_are_told_what_to_write(generation, monkeypatch, tmp_path, role, rank):
    generation(1)
    environment = {"ROLE": role, "RANK": rank, "WORKERS": 2, "SERVERS": 1}
    for name, value in environment.items():
        monkeypatch.setenv(f"OPTIMUS_{name}", str(value))
    with pytest.raises(optimus_train.ContractError, match=rf"this is {role} {rank}, .* Write: if .*rank\(\) == 0:$"):
        save(5)
    assert not (tmp_path / "job").exists()


# -- a checkpoint that is known to exist ---------------------------------------------------------------------


@pytest.fixture
def confirmed(monkeypatch):
    """confirmed(step): Optimus knows that a checkpoint of this step was saved."""
    monkeypatch.setattr(checkpoints, "PATIENCE", 0.2)
    return lambda step: monkeypatch.setenv("OPTIMUS_CONFIRMED_STEP", str(step))


@pytest.mark.parametrize("step", [pytest.param(20, id="the same"), pytest.param(10, id="an older one")])
def test_what_was_confirmed_or_is_newer_is_resumed_from(generation, confirmed, step):
    generation(1)
    save(20)
    generation(2)
    confirmed(step)
    assert optimus_train.checkpoint_step(optimus_train.latest_checkpoint()) == 20


@pytest.mark.parametrize(
    ("saved", "words"),
    [pytest.param(None, "is none", id="nothing"), pytest.param(10, "is of step 10", id="an older one")],
)
def test_a_confirmed_checkpoint_that_is_not_there_is_an_error_and_no_new_beginning(
    generation, confirmed, monkeypatch, tmp_path, capsys, saved, words
):
    monkeypatch.setenv("OPTIMUS_TERMINATION_MESSAGE", str(tmp_path / "message"))
    generation(1)
    if saved is not None:
        save(saved)
    generation(2)
    confirmed(20)
    with pytest.raises(optimus_train.CheckpointMissing, match=f"step 20 was saved and confirmed.*{words}.*volume"):
        optimus_train.latest_checkpoint()
    message = json.loads((tmp_path / "message").read_text())
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert message == told
    assert (told["optimus"], told["confirmed"], told["found"]) == ("checkpoint_missing", 20, saved)


def test_a_confirmed_checkpoint_that_shows_late_is_waited_for(generation, confirmed, monkeypatch, tmp_path):
    generation(1)
    save(20)
    hidden, root = tmp_path / "hidden", tmp_path / "job"
    root.rename(hidden)
    monkeypatch.setattr(checkpoints.time, "sleep", lambda _: hidden.rename(root))
    generation(2)
    confirmed(20)
    assert optimus_train.checkpoint_step(optimus_train.latest_checkpoint()) == 20
