"""Quantities survive being printed and read back, under every prefix, and a wrong unit is never guessed at."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.core import units
from roofline.errors import UsageError

SCALES = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "Z": 1e21}
BINARY = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
SMALL = {"n": 1e-9, "µ": 1e-6, "m": 1e-3, "": 1}
RATES = ["FLOP", "FLOP/s", "OP", "OP/s", "B", "B/s", "Hz"]


@pytest.mark.parametrize("unit", RATES)
@pytest.mark.parametrize("prefix", SCALES)
def test_every_decimal_prefix_is_printed_and_read_at_its_scale(unit, prefix):
    assert units.show(1.23 * SCALES[prefix], unit) == f"1.23 {prefix}{unit}"
    assert units.parse(f"1.23 {prefix}{unit}", unit) == pytest.approx(1.23 * SCALES[prefix])


@pytest.mark.parametrize("prefix", BINARY)
def test_every_binary_prefix_is_printed_and_read_at_its_scale(prefix):
    assert units.show(40 * BINARY[prefix], "B", capacity=True) == f"40.0 {prefix}B"
    assert units.parse(f"40 {prefix}B", "B") == 40 * BINARY[prefix]


@pytest.mark.parametrize("prefix", SMALL)
def test_every_time_prefix_is_printed_and_read_at_its_scale(prefix):
    assert units.show(4.52 * SMALL[prefix], "s") == f"4.52 {prefix}s"
    assert units.parse(f"4.52 {prefix}s", "s") == pytest.approx(4.52 * SMALL[prefix])


@given(value=st.floats(1e-3, 9e23), unit=st.sampled_from(RATES), capacity=st.booleans())
def test_what_is_printed_reads_back_within_three_digits_and_has_no_exponent(value, unit, capacity):
    text = units.show(value, unit, capacity=capacity and unit == "B")
    assert "e" not in text.split()[0]
    assert units.parse(text, unit) == pytest.approx(value, rel=0.0051)


@given(value=st.floats(1e-15, 1e6))
def test_a_time_reads_back_within_three_digits(value):
    assert units.parse(units.show(value, "s"), "s") == pytest.approx(value, rel=0.0051)


@given(values=st.lists(st.floats(1.0, 1e18), min_size=1, max_size=8))
def test_a_column_has_one_prefix_and_reads_back(values):
    shown = units.column(values, "B/s")
    assert len({text.split()[1] for text in shown}) == 1
    for text, value in zip(shown, values, strict=True):
        assert units.parse(text, "B/s") == pytest.approx(value, rel=0.0051)


@given(fraction=st.floats(0, 20))
def test_a_percentage_is_within_its_last_digit(fraction):
    text = units.percent(fraction)
    if text == "< 0.01 %":
        assert 0 < 100 * fraction < 0.01
        return
    shown = float(text.removesuffix(" %"))
    assert shown == pytest.approx(100 * fraction, rel=0.0051, abs=0.0051)


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0, "0 %"),
        (4.9e-5, "< 0.01 %"),
        (1e-30, "< 0.01 %"),
        (5.1e-5, "0.01 %"),
        (-1e-9, "> -0.01 %"),
        (0.01, "1.00 %"),
    ],
)
def test_nothing_and_hardly_anything_are_told_apart(fraction, text):
    assert units.percent(fraction) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(999.4, "999 B"), (999.6, "1.00 kB"), (999_600, "1.00 MB"), (1000, "1.00 kB"), (0, "0 B"), (-1500, "-1.50 kB")],
)
def test_rounding_carries_into_the_next_prefix(value, text):
    assert units.show(value, "B") == text


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
def test_an_unknown_quantity_prints_as_not_available(value):
    assert units.show(value, "B/s") == "n/a"
    assert units.percent(value) == "n/a"


def test_a_gigabyte_is_not_a_gibibyte():
    assert units.parse("80 GB", "B") == 80e9
    assert units.parse("80 GiB", "B") == 80 * 2**30


def test_a_bare_number_and_a_bare_prefix_are_taken_in_the_unit_asked_for():
    assert units.parse("3.35e12", "B/s") == 3.35e12
    assert units.parse("989T", "FLOP/s") == 989e12
    assert units.parse("1,979 TOP/s", "OP/s") == 1979e12


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("80 Gb", "B"),  # bits
        ("100 Gb/s", "B/s"),
        ("5 mB/s", "B/s"),  # a slip for MB/s, not thousandths of a byte
        ("5 m", "FLOP/s"),
        ("30 Ms", "s"),
        ("1,5 TB/s", "B/s"),  # 1.5 or 15?
        ("1,97", "FLOP/s"),
        ("3.35 TB", "B/s"),  # no rate
        ("989 TFLOP", "FLOP/s"),
        ("1979 TOP/s", "FLOP/s"),  # integer rates are no FLOP rates
        ("80 gb", "B"),
        ("-3 GB", "B"),
        ("1e400", "B"),
        ("nan", "B"),
        ("inf", "B"),
        ("", "B"),
        ("GB", "B"),
        ("5 GiFLOP", "FLOP"),
    ],
)
def test_a_quantity_in_another_unit_or_none_is_refused(text, unit):
    with pytest.raises(UsageError, match="is not a quantity"):
        units.parse(text, unit)
