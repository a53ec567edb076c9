import pytest

from tessera_core.kube.quantity import (
    BadQuantity,
    binary_quantity,
    integer_quantity,
    quantity_milli,
    quantity_value,
)


@pytest.mark.parametrize(
    ("text", "as_int", "as_value"),
    [
        pytest.param("1k", 1000, 1000, id="PRB-22 1k"),
        pytest.param("1Ki", 1024, 1024, id="PRB-22 1Ki"),
        pytest.param("16.0Gi", None, 17179869184, id="PRB-22 16.0Gi"),
        pytest.param("1.5", None, 2, id="PRB-22 1.5"),
        pytest.param("500m", None, 1, id="PRB-22 500m"),
        pytest.param("1e3", 1000, 1000, id="PRB-22 1e3"),
        pytest.param("0.5Gi", None, 536870912, id="half a Gi"),
        pytest.param(7, 7, 7, id="a number"),
        pytest.param("-3", -3, -3, id="negative"),
        pytest.param("2000m", 2, 2, id="whole in milli"),
    ],
)
def test_go_reads_a_quantity_in_two_ways(text: str, as_int: int | None, as_value: int) -> None:
    assert integer_quantity(text) == as_int
    assert quantity_value(text) == as_value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "abc",
        "1 Gi",
        "1Gib",
        "--1",
        "1e",
        "9223372036854775808",
        "1" * 100,
        True,
        "0x10",
        "\u0661\u0660",
    ],
)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(BadQuantity):
        quantity_value(text)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (11520 << 20, "11520Mi"),
        (8504035246, "8504035246"),
        (41600608 << 10, "41600608Ki"),
        (16 << 30, "16Gi"),
        (0, "0"),
    ],
)
def test_bytes_print_with_the_largest_suffix_that_divides_them(amount: int, text: str) -> None:
    assert binary_quantity(amount) == text


def test_milli_rounds_up() -> None:
    assert quantity_milli("40m") == 40
    assert quantity_milli("1.0001") == 1001
