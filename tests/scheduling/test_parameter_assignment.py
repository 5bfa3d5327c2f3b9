"""Which parameter server holds which parameters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from benchmarks.assignment import MODELS, resnet50
from optimus_core.cli.main import app
from optimus_core.errors import SpecificationError
from optimus_core.scheduling.parameter_assignment import (
    DEFAULTS,
    Block,
    assign,
    most_servers,
    mxnet,
    paa,
    tensorflow,
)

METHODS = [pytest.param(method, id=method.__name__) for method in (paa, mxnet, tensorflow, assign)]
MODEL = st.lists(st.integers(1, 3_000_000), min_size=1, max_size=30).map(
    lambda sizes: [Block(f"b{place}", size) for place, size in enumerate(sizes)]
)


def test_the_arrays_of_resnet_50_are_spread_as_evenly_as_the_paper_says() -> None:
    blocks = resnet50()
    ours = paa(blocks, 10)
    assert (len(blocks), sum(block.size for block in blocks)) == (161, 25_557_032)
    assert ours.spread <= 103_000
    assert (sum(ours.requests), ours.request_spread) == (161, 1)


def test_stock_mxnet_with_the_keys_of_gluon_is_what_mxnet_does() -> None:
    stock = mxnet(resnet50(), 10)
    assert (stock.spread, sum(stock.requests), stock.request_spread) == (727_167, 251, 3)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("servers", [2, 5, 20])
def test_no_default_has_a_fullest_server_that_is_better_by_more_than_a_hundredth_of_the_average(
    name: str, servers: int
) -> None:
    blocks = MODELS[name]()
    average = sum(block.size for block in blocks) / servers
    best = min(max(default(blocks, servers).loads) for default in DEFAULTS)
    assert max(assign(blocks, servers).loads) <= best + 0.01 * average


def test_on_two_servers_the_better_cut_of_a_default_is_returned() -> None:
    assert assign(resnet50(), 2).method != "paa"


@pytest.mark.parametrize("method", METHODS)
@given(blocks=MODEL, servers=st.integers(1, 12))
def test_each_parameter_is_on_exactly_one_server(method, blocks: list[Block], servers: int) -> None:  # type: ignore[no-untyped-def]
    made = method(blocks, servers)
    ends: dict[str, int] = {}
    for part in sorted((p for server in made.servers for p in server), key=lambda p: (p.block, p.start)):
        assert part.size > 0
        assert part.start == ends.get(part.block, 0)
        ends[part.block] = part.start + part.size
    assert ends == {block.name: block.size for block in blocks}
    assert len(made.servers) == servers


@given(blocks=MODEL, servers=st.integers(1, 12))
def test_the_order_of_the_blocks_does_not_matter_to_paa(blocks: list[Block], servers: int) -> None:
    assert paa(blocks, servers) == paa(blocks[::-1], servers)


@pytest.mark.parametrize(
    ("blocks", "servers", "said"),
    [
        pytest.param([], 2, "no blocks", id="no block"),
        pytest.param([Block("a", 0)], 2, "size of block", id="an empty block"),
        pytest.param([Block("a", 1), Block("a", 2)], 2, "twice", id="a name given twice"),
        pytest.param([Block("a", 1)], 0, "servers is 0", id="no server"),
    ],
)
def test_what_cannot_be_assigned_is_refused(blocks: list[Block], servers: int, said: str) -> None:
    with pytest.raises(SpecificationError, match=said):
        paa(blocks, servers)


def test_a_model_uses_no_more_servers_than_it_has_blocks() -> None:
    assert most_servers(resnet50()) == 161


def test_the_command_prints_each_slice_with_the_defaults_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "blocks.csv"
    file.write_text("name,size\nconv,64x3x7x7\ndense,2000000\n")
    result = CliRunner().invoke(app, ["assign", str(file), "--servers", "2", "--json"])
    data = json.loads(result.output)
    assert sum(server["parameters"] for server in data["chosen"]["servers"]) == 64 * 3 * 49 + 2_000_000
    assert set(data["compared"]) == {"paa", "mxnet", "tensorflow"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("name\na\n", "lacks a column", id="no sizes"),
        pytest.param("name,size\na,many\n", "line 2", id="a size that is none"),
        pytest.param("name,size\na,0x3\n", "line 2", id="an empty shape"),
    ],
)
def test_the_command_says_what_is_wrong_with_a_file(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "blocks.csv"
    file.write_text(text)
    result = CliRunner().invoke(app, ["assign", str(file), "--servers", "2"])
    assert result.exit_code == 1
    assert said in result.output.replace("\n", " ")
