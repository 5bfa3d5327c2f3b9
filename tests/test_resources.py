"""Quantities as Kubernetes reads them, and exact sums of them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus_core.errors import SpecificationError
from optimus_core.resources import Resources, format_amount, parse_quantity, total

AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.integers(-(10**15), 10**15))
POSITIVE = st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.integers(0, 10**15))


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("2", 2, id="a number"),
        pytest.param(2, 2, id="an int"),
        pytest.param("500m", Fraction(1, 2), id="milli"),
        pytest.param("1.5Gi", 3 * 2**29, id="a part of a binary unit"),
        pytest.param("1k", 1000, id="kilo"),
        pytest.param("1e3", 1000, id="an exponent"),
        pytest.param("1E3", 1000, id="a capital exponent"),
        pytest.param("1E", 10**18, id="exa, no exponent"),
        pytest.param(".5", Fraction(1, 2), id="no digit before the point"),
        pytest.param("5.", 5, id="no digit after the point"),
        pytest.param("100n", Fraction(1, 10**7), id="nano"),
        pytest.param("+1Ki", 1024, id="a plus sign"),
    ],
)
def test_quantities_are_read_as_the_api_reads_them(text: str | int, want: int | Fraction) -> None:
    assert parse_quantity(text) == want


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param("1K", 'Kubernetes knows "k" and "Ki", not "K". Write "1Ki"', id="capital K"),
        pytest.param("4GB", 'Did you mean "4G"?', id="GB"),
        pytest.param("four", "not a quantity", id="words"),
        pytest.param("", "not a quantity", id="empty"),
        pytest.param(" 1", "not a quantity", id="a space"),
        pytest.param("1\n", "not a quantity", id="a line end"),
        pytest.param("٣", "not a quantity", id="digits of another script"),
        pytest.param("9" * 5000, "not a quantity", id="more digits than Python reads"),
        pytest.param(0.5, 'Write it as "0.5"', id="a float"),
        pytest.param(float("nan"), 'is nan, of type float; a quantity is text. Write such as "2"', id="no number"),
        pytest.param(float("inf"), 'Write such as "2"', id="an endless number"),
        pytest.param(-0.5, 'Write such as "2"', id="a negative float"),
        pytest.param(True, 'Write such as "2"', id="a boolean"),
        pytest.param(None, 'Write such as "2"', id="nothing"),
    ],
)
def test_what_is_no_quantity_is_refused_with_what_to_write(value: object, want: str) -> None:
    with pytest.raises(SpecificationError) as caught:
        parse_quantity(value, "workers.memory")
    assert str(caught.value).startswith("workers.memory is ")
    assert want in str(caught.value)


@given(st.text(max_size=12))
def test_no_text_raises_anything_but_a_specification_error(text: str) -> None:
    try:
        assert isinstance(parse_quantity(text), Fraction)
    except SpecificationError as error:
        said = str(error)
    else:
        return
    assert any(hint in said for hint in ("Write", "Did you mean", "Kubernetes knows"))


@given(st.sampled_from(["cpu", "memory"]), st.integers(0, 2**53))
def test_writing_and_reading_an_amount_gives_the_same(name: str, amount: int) -> None:
    written = Resources({name: amount}).to_quantities()
    assert Resources.from_quantities(written)[name] == amount


@pytest.mark.parametrize(
    ("name", "amount", "want"),
    [
        pytest.param("cpu", 1500, "1500m", id="a part of a processor"),
        pytest.param("cpu", 2000, "2", id="whole processors"),
        pytest.param("memory", 2**29, "512Mi", id="the largest exact unit"),
        pytest.param("memory", 2**30 + 1, "1073741825", id="no exact unit"),
        pytest.param("nvidia.com/gpu", 2, "2", id="devices"),
    ],
)
def test_amounts_are_written_in_the_largest_exact_unit(name: str, amount: int, want: str) -> None:
    assert format_amount(name, amount) == want


@given(AMOUNTS, AMOUNTS, st.integers(0, 9))
def test_sums_are_exact_and_zeros_make_no_difference(a: dict[str, int], b: dict[str, int], count: int) -> None:
    one, other = Resources(a), Resources(b)
    assert one + other == other + one
    assert hash(one + other) == hash(other + one)
    assert one + other - other == one
    assert one * count == total([one] * count)
    assert one - one == Resources()
    assert min(one.clamped().values(), default=0) >= 0


@given(POSITIVE, POSITIVE)
def test_what_fits_leaves_no_negative_rest(demand: dict[str, int], room: dict[str, int]) -> None:
    need, space = Resources(demand), Resources(room)
    assert need.fits_in(space) == all(amount >= 0 for amount in (space - need).values())


@pytest.mark.parametrize(
    ("devices", "want"),
    [
        pytest.param({"gpu": 1}, '"vendor/name"', id="no vendor"),
        pytest.param({"nvidia.com/gpu": "500m"}, "devices come whole", id="half a device"),
        pytest.param({"nvidia.com/gpu": -1}, "is negative", id="less than none"),
        pytest.param({"nvidia.com/gpu": 10**5000}, "workers.nvidia.com/gpu is .* more than any", id="more than any"),
    ],
)
def test_devices_are_whole_and_have_a_vendor(devices: dict[str, int | str], want: str) -> None:
    with pytest.raises(SpecificationError, match=want):
        Resources.of("1", "1Gi", devices, "workers")


@pytest.mark.parametrize(
    "amount",
    [
        pytest.param("1e999", id="an exponent"),
        pytest.param("10Ei", id="exa"),
        pytest.param(2**53 + 1, id="one more"),
        pytest.param(10**5000, id="5000 digits"),
    ],
)
@pytest.mark.parametrize("kind", ["cpu", "memory"])
def test_what_a_person_wrote_is_no_more_than_sums_can_hold(kind: str, amount: str | int) -> None:
    with pytest.raises(SpecificationError, match=f"workers.{kind} is .*, more than any cluster has. Write"):
        Resources.of(**{kind: amount}, where="workers")  # type: ignore[arg-type]


def test_fractions_are_rounded_up_to_what_can_be_counted() -> None:
    assert dict(Resources.of("1500u", "1500m")) == {"cpu": 2, "memory": 2}


def test_a_person_can_read_them() -> None:
    assert Resources.of("1500m", "512Mi", {"amd.com/gpu": 1}).describe() == "1 amd.com/gpu, 1500m cpu, 512Mi memory"
    assert Resources().describe() == "nothing"


@pytest.mark.parametrize(
    ("amount", "want"),
    [(1536 * 2**20, "1536Mi"), (16393244 * 2**10, "15.63Gi"), (2**40 + 1, "1Ti"), (123_456_789, "117.73Mi"),
     (3000, "3000"), (-(2**30) - 1, "-1.01Gi")],
)  # fmt: skip
def test_memory_is_written_so_that_people_can_read_it(amount, want):
    assert Resources({"memory": amount}).describe() == f"{want} memory"
