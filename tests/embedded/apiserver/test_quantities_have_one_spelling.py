"""However an amount is written, it is stored in one spelling, and never as less than it was."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_core.kube.quantity import quantity_milli
from tessera_embedded.apiserver.errors import BadRequest
from tessera_embedded.apiserver.objects.quantities import MILLI, canonical, read

SUFFIXES = ("", "n", "u", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "e3", "E-2")
AMOUNTS = st.builds(
    lambda whole, fraction, suffix: f"{whole}{fraction}{suffix}",
    st.integers(-(10**6), 10**6),
    st.sampled_from(["", ".5", ".125", ".001", ".0"]),
    st.sampled_from(SUFFIXES),
)


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("1500m", "1500m"), ("1.5", "1500m"), (0.5, "500m"), (1, "1"), ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"), ("0.5Ki", "512"), ("0.001Mi", "1048576m"), ("24000", "24k"),
        ("1100", "1100"), ("1e3", "1e3"), ("12E6", "12e6"), ("0Gi", "0"), ("-1.5", "-1500m"),
        ("0.0000000001", "1n"), ("99999999999999999999", "9223372036854775807"),
    ],
)  # fmt: skip
def test_an_amount_is_stored_in_its_spelling(written: object, stored: str) -> None:
    assert canonical(written) == stored


@given(AMOUNTS)
def test_what_is_stored_is_stored_again_as_it_is(written: str) -> None:
    assert canonical(canonical(written)) == canonical(written)


@given(AMOUNTS)
def test_nothing_is_lost_but_what_is_below_a_billionth(written: str) -> None:
    assert 0 <= read(canonical(written))[0] - read(written)[0] < Decimal("1e-9")


@given(AMOUNTS)
def test_the_core_reads_what_is_stored(written: str) -> None:
    assert quantity_milli(canonical(written, MILLI)) == quantity_milli(written)


@pytest.mark.parametrize("written", ["", "x", "1 Gi", "1Kii", "0x10", "1e", "--1", True, None, []])
def test_what_is_no_amount_is_refused(written: object) -> None:
    with pytest.raises(BadRequest, match="is not a quantity"):
        canonical(written)
