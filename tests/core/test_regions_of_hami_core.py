"""Containers that HAMi-core limits are measured from its shared region."""

from struct import pack_into

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_core.hook.hami_core_region import MAGIC, NotARegion, RegionCard, read_region

UUID = b"GPU-12345678-0000-0000-0000-000000000001"
SIZES = {0: 1_197_896, 1: 2_008_952}


def a_region(version: int) -> bytearray:
    """One card, two living processes, one that ended: written from HAMi-core's C declarations."""
    data = bytearray(SIZES[version] + 1)
    head = 8 if version else 0  # the two version words move all that follows
    pack_into("<i", data, 0, MAGIC)
    if version:
        pack_into("<II", data, 4, 1, 2)
    pack_into("<Q", data, 48 + head, 1)
    data[56 + head : 56 + head + len(UUID)] = UUID
    pack_into("<Q", data, 1592 + head, 4 << 30)
    pack_into("<Q", data, 1720 + head, 30)
    slot, memory, use = (1960, 64, 48) if version else (1168, 40, 24)
    for i, (pid, status, total, sm) in enumerate([(7, 1, 1 << 30, 20), (0, 0, 9, 9), (9, 1, 5, 3)]):
        at = 1848 + head + i * slot
        pack_into("<i", data, at, pid)
        pack_into("<5Q", data, at + 8, 300 + i, 20 + i, 1 + i, 0, total)
        pack_into("<Q", data, at + 8 + 16 * memory + 16 * 8 + 16, sm)
        pack_into("<i", data, at + 8 + 16 * memory + 16 * 8 + 16 * use, status)
    if version:
        pack_into("<Q", data, 2_008_912, 1_700_000_000)
    return data


@pytest.mark.parametrize("version", [0, 1])
def test_the_living_are_summed_and_the_dead_are_not(version: int) -> None:
    region = read_region(bytes(a_region(version)))
    assert region.version == version
    assert region.cards == (
        RegionCard(
            uuid=UUID.decode(), limit_bytes=4 << 30, cores_limit_percent=30,
            used_bytes=(1 << 30) + 5, context_bytes=602, module_bytes=42, buffer_bytes=4,
            cores_percent=23,
        ),
    )  # fmt: skip
    assert region.pids == (7, 9)
    assert region.last_kernel == (1_700_000_000 if version else 0)


@pytest.mark.parametrize("size", [0, 4, 64, SIZES[0] - 1, SIZES[0] + 2, SIZES[1] + 2])
def test_another_size_is_no_region(size: int) -> None:
    with pytest.raises(NotARegion, match=f"^{size} bytes"):
        read_region(bytes(size))


def test_a_region_that_is_not_set_up_yet_says_so() -> None:
    with pytest.raises(NotARegion, match="not be set up yet"):
        read_region(bytes(SIZES[1] + 1))


def test_a_newer_region_is_distinguished() -> None:
    data = a_region(1)
    pack_into("<I", data, 4, 2)
    with pytest.raises(NotARegion, match="version 2"):
        read_region(bytes(data))


@given(st.integers(0, 1), st.lists(st.tuples(st.integers(0, 2**20), st.binary(max_size=64))))
def test_garbage_is_clamped(version: int, writes: list[tuple[int, bytes]]) -> None:
    data = a_region(version)
    for at, put in writes:
        data[at + 12 : at + 12 + len(put)] = put
    region = read_region(bytes(data[: SIZES[version] + 1]))
    for card in region.cards:
        assert 0 <= card.used_bytes <= 1 << 50
        assert 0 <= card.cores_percent <= 100
        assert 0 <= card.cores_limit_percent <= 100
        assert card.uuid.isascii()
