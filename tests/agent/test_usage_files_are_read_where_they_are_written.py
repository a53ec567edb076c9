"""A usage file is read in parts, and says what the whole of it says; nothing of another is left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tessera_agent.containers.hook_files import ContainerFiles, ContainerKey, HookFiles
from tessera_agent.containers.written_usage import ShortUsageFile, written_parts
from tessera_core.hook import usage_file
from tessera_core.hook.limits_file import CardLimit, HookLimits
from tessera_core.hook.records import CARDS as MOST_CARDS
from tessera_core.hook.usage_file import UsageFile, UsageFileBounds, decode_usage
from tessera_runtime.clock import SystemClock
from tests.agent.usagefile import a_usage, memory

CARDS = tuple(f"GPU-{i:02x}" for i in range(MOST_CARDS))
BOUNDS = UsageFileBounds(
    memory_bytes={f"{i:02x}": 16 << 30 for i in range(MOST_CARDS)}, now_ns=1_000_000_000_000
)
LIMITS = HookLimits(container="ns/pod/c", cards=(CardLimit(uuid=CARDS[0], memory_bytes=1 << 30),))


def written(cards: int, slots: int, high: int) -> bytes:
    """A file with so many cards and slots, of which the hook says that `high` were ever in use."""
    data = a_usage(
        *({"uuid": uuid.encode(), "charged_bytes": 7, "launches": 3} for uuid in CARDS[:cards]),
        slots=tuple(
            {"card": n % max(cards, 1), "pid": n + 1, "bytes": memory(device=n)}
            for n in range(slots)
        ),
    )
    at = usage_file.FILE.offsets["slots_high"]
    data[at : at + 4] = high.to_bytes(4, "little")
    for card in range(cards):
        at = usage_file.KERNEL_TIMES_AT + card * usage_file.KERNEL_TIMES.size
        data[at] = card + 1
    return bytes(data)


def a_container(folder: Path, name: str = "c") -> ContainerFiles:
    return HookFiles(folder, SystemClock()).make(ContainerKey("uid-1", name), LIMITS)


def put(files: ContainerFiles, data: bytes) -> None:
    with (files.path / "usage").open("r+b") as file:
        file.write(data)


def read(files: ContainerFiles, data: bytes) -> UsageFile:
    put(files, data)
    found = files.read(BOUNDS)
    assert isinstance(found, UsageFile)
    slots = tuple(replace(slot, locked=True) for slot in found.slots)
    assert replace(found, slots=slots) == decode_usage(data, BOUNDS)
    return found


@pytest.mark.parametrize(
    ("cards", "slots", "high"),
    [(0, 0, 0), (1, 1, 1), (1, 1, 0), (2, 40, 40), (16, 512, 512), (16, 512, 513), (3, 5, 1 << 31)],
)
def test_all_that_the_hook_wrote_is_read(tmp_path: Path, cards: int, slots: int, high: int) -> None:
    found = read(a_container(tmp_path), written(cards, slots, high))
    assert (len(found.cards), len(found.slots)) == (cards, slots if cards else 0)
    assert [card.kernel_times[0] for card in found.cards] == list(range(1, cards + 1))


def test_nothing_is_left_of_another_containers_file(tmp_path: Path) -> None:
    one, other = a_container(tmp_path, "one"), a_container(tmp_path, "other")
    for _ in range(2):
        assert len(read(one, written(16, 512, 0)).slots) == 512
        assert read(other, written(1, 1, 1)).slots[0].number == 0
        assert read(other, written(0, 0, 0)).cards == ()


def test_a_slot_beyond_those_that_were_ever_in_use_is_none(tmp_path: Path) -> None:
    files = a_container(tmp_path)
    put(files, written(1, 40, 3))
    found = files.read(BOUNDS)
    assert isinstance(found, UsageFile)
    assert [slot.number for slot in found.slots] == [0, 1, 2]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(64, usage_file.SIZE - 9), st.binary(max_size=8)), max_size=8))
def test_whatever_is_written_a_read_ends(
    tmp_path: Path, scribbles: list[tuple[int, bytes]]
) -> None:
    data = bytearray(written(2, 9, 9))
    for at, scribble in scribbles:
        data[at : at + len(scribble)] = scribble
    files = a_container(tmp_path)
    put(files, bytes(data))
    assert isinstance(files.read(BOUNDS), UsageFile)
    read(files, written(1, 1, 1))


def test_a_file_that_is_cut_while_it_is_read_is_short(tmp_path: Path) -> None:
    files = a_container(tmp_path)
    data = written(16, 512, 512)
    fd = os.open(tmp_path / "cut", os.O_RDWR | os.O_CREAT)
    os.write(fd, data[:-1])
    with pytest.raises(ShortUsageFile):
        written_parts(fd)
    os.close(fd)
    read(files, written(1, 1, 1))
