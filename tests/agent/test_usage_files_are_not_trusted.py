"""A container owns its usage file: whatever it puts there, a look ends, and says what is wrong."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_agent.containers.hook_files import (
    MOST_USAGE_BYTES,
    ContainerFiles,
    ContainerKey,
    HookFiles,
)
from tessera_agent.containers.slot_locks import MOST_ASKED, SlotLocks
from tessera_core.hook import usage_file
from tessera_core.hook.limits_file import BadLimits, CardLimit, HookLimits
from tessera_core.hook.usage_file import (
    Gap,
    Garbled,
    Spoilt,
    Unbuilt,
    UsageFile,
    UsageFileBounds,
    decode_usage,
)
from tessera_runtime.clock import SystemClock
from tests.agent.usagefile import a_usage, memory
from tests.contract.session_fixtures import CI

CARD = "GPU-0a"
NOW_NS = 1_000_000_000_000
BOUNDS = UsageFileBounds(memory_bytes={"0a": 16 << 30}, now_ns=NOW_NS)
LIMITS = HookLimits(container="ns/pod/c", cards=(CardLimit(uuid=CARD, memory_bytes=1 << 30),))
KEY = ContainerKey("uid-1", "c")


@pytest.fixture
def files(tmp_path: Path) -> ContainerFiles:
    return HookFiles(tmp_path, SystemClock()).make(KEY, LIMITS)


def a_symlink(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def a_socket(path: Path) -> None:
    made = socket.socket(socket.AF_UNIX)
    folder = os.open(path.parent, os.O_RDONLY)  # a socket's path must be short
    made.bind(f"/proc/self/fd/{folder}/{path.name}")
    os.close(folder)
    made.close()


def another_file(path: Path) -> None:
    path.write_bytes(a_usage({"uuid": CARD.encode()}))


@pytest.mark.parametrize(
    ("put", "why"),
    [
        (a_symlink, Spoilt.NOT_A_FILE),
        (os.mkfifo, Spoilt.NOT_A_FILE),
        (a_socket, Spoilt.NOT_A_FILE),
        (Path.mkdir, Spoilt.NOT_A_FILE),
        (another_file, Spoilt.REPLACED),
        (lambda path: None, Spoilt.MISSING),
    ],
    ids=["symlink", "fifo", "socket", "folder", "replaced", "missing"],
)
def test_what_is_no_usage_file_is_named(
    files: ContainerFiles, put: Callable[[Path], None], why: Spoilt
) -> None:
    (files.path / "usage").rename(files.path / "aside")  # as it is kept by the container's mount
    put(files.path / "usage")
    assert files.read(BOUNDS) == Garbled(why)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes")
def test_a_device_is_not_read(files: ContainerFiles) -> None:
    (files.path / "usage").unlink()
    os.mknod(files.path / "usage", 0o20666, os.makedev(1, 5))  # /dev/zero
    assert files.read(BOUNDS) == Garbled(Spoilt.NOT_A_FILE)


@pytest.mark.parametrize("size", [0, 1, usage_file.SIZE - 1])
def test_a_file_of_another_size_is_not_read(files: ContainerFiles, size: int) -> None:
    os.truncate(files.path / "usage", size)
    assert files.read(BOUNDS) == Garbled(Spoilt.SIZE)


@pytest.mark.parametrize("size", [usage_file.SIZE + 1, 64 << 20, 1 << 40])
def test_a_file_that_the_container_makes_larger_is_cut_back_and_reported(
    files: ContainerFiles, size: int
) -> None:
    path = files.path / "usage"
    path.write_bytes(a_usage({"uuid": CARD.encode()}))
    os.truncate(path, size)
    assert files.read(BOUNDS) == Garbled(Spoilt.GROWN)
    assert path.stat().st_size == usage_file.SIZE
    assert isinstance(files.read(BOUNDS), UsageFile)


def test_nor_does_it_keep_disk_beyond_its_end(files: ContainerFiles) -> None:
    path = files.path / "usage"
    taken = subprocess.run(
        ["fallocate", "--keep-size", f"--offset={usage_file.SIZE}", "--length=64MiB", path],
        check=False,
    )
    if taken.returncode and not CI:
        pytest.skip("this file system keeps no blocks beyond the end of a file")
    taken.check_returncode()
    assert path.stat().st_size == usage_file.SIZE
    assert files.read(BOUNDS) == Garbled(Spoilt.GROWN)
    assert path.stat().st_blocks * 512 <= MOST_USAGE_BYTES
    assert files.read(BOUNDS) == Unbuilt()


def test_a_file_in_the_place_of_the_agents_is_not_cut(files: ContainerFiles) -> None:
    path = files.path / "usage"
    path.rename(files.path / "aside")
    path.write_bytes(bytes(usage_file.SIZE + 7))
    assert files.read(BOUNDS) == Garbled(Spoilt.REPLACED)
    assert path.stat().st_size == usage_file.SIZE + 7


def test_a_read_queries_a_bounded_number_of_locks_and_all_have_their_turn() -> None:
    asked: list[int] = []

    def query(_fd: int, number: int) -> bool:
        asked.append(number)
        return number % 2 == 0

    locks, numbers = SlotLocks(query), range(3, usage_file.SLOTS)
    assert locks.alive(0, numbers) >= set(range(3 + MOST_ASKED, usage_file.SLOTS))
    assert len(asked) == MOST_ASKED
    looks = -(-len(numbers) // MOST_ASKED)
    found = [locks.alive(0, numbers) for _ in range(looks - 1)]
    assert found[-1] == {number for number in numbers if number % 2 == 0}
    assert len(asked) == looks * MOST_ASKED
    assert locks.alive(0, (7, 8)) == {8}
    assert locks.alive(0, ()) == frozenset()


def test_holes_are_zeros_which_is_a_file_nobody_has_built(files: ContainerFiles) -> None:
    os.truncate(files.path / "usage", 0)
    os.truncate(files.path / "usage", usage_file.SIZE)
    assert files.read(BOUNDS) == Unbuilt()


def test_a_file_that_shrinks_vanishes_and_returns_while_it_is_read(files: ContainerFiles) -> None:
    path = files.path / "usage"
    script = (
        f"import os\npath={str(path)!r}\n"
        "for n in range(3000):\n"
        f"    os.truncate(path, n * 97 % 3000); os.truncate(path, {usage_file.SIZE})\n"
        "    os.rename(path, path + 'x'); os.rename(path + 'x', path)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script]) as other:
        seen = set()
        while other.poll() is None:
            found = files.read(BOUNDS)
            seen.add(found.why if isinstance(found, Garbled) else type(found))
    assert seen <= {Spoilt.SIZE, Spoilt.MISSING, Unbuilt}
    assert Unbuilt in seen


def test_numbers_end_where_the_card_does() -> None:
    most = (1 << 64) - 1
    card = dict.fromkeys(
        ("charged_bytes", "peak_bytes", "limit_bytes", "denials", "raw_ns", "gpu_ns", "launches",
         "throttled_ns", "last_launch_ns", "generation", "failed_for_others", "wanted_bytes",
         "wanted_at_ns"), most,
    )  # fmt: skip
    slot = {
        "pid": -5, "card": 0, "version": (1 << 32) - 1, "gaps": (1 << 32) - 1, "gpu_ns": most,
        "contexts": (1 << 32) - 1, "bytes": memory(device=most, pool=7), "overhead_bytes": most,
        "last_active_ns": most, "command": b"a\x1b[2J\xff",
    }  # fmt: skip
    data = a_usage({"uuid": CARD.encode(), "cores_permille": 5000} | card, slots=(slot,))
    read = decode_usage(bytes(data), BOUNDS)
    assert isinstance(read, UsageFile)
    one, process = read.cards[0], read.slots[0]
    assert {one.charged_bytes, one.peak_bytes, one.limit_bytes} == {16 << 30}
    assert (one.last_launch_ns, one.cores_permille) == (0, 1000)
    assert one.gpu_ns < 1 << 63
    assert one.failed_for_others == one.denials < 1 << 63
    assert process.bytes == {"device": 16 << 30, "pool": 7}
    assert (process.pid, process.last_active_ns, process.command) == (0, 0, "a?[2J?")
    assert process.gaps == (Gap.SYMBOL, Gap.LIMITS, Gap.ALONE, Gap.EVENTS, Gap.OVER)


def test_cards_of_nobody_and_twins_are_left_out() -> None:
    twin = {"uuid": b"gpu-0A", "charged_bytes": 5}
    data = a_usage({"uuid": b"GPU-stranger"}, {"uuid": CARD.encode(), "charged_bytes": 3}, twin)
    read = decode_usage(bytes(data), BOUNDS)
    assert isinstance(read, UsageFile)
    assert [(c.uuid, c.charged_bytes) for c in read.cards] == [(CARD, 3)]


def test_slots_of_no_card_do_not_count_and_locks_do() -> None:
    slots = ({"card": 0, "pid": 1}, {"card": 0, "pid": 2}, {"card": 9, "pid": 3})
    data = bytes(a_usage({"uuid": CARD.encode()}, slots=slots))
    read = decode_usage(data, BOUNDS, lambda numbers: [n for n in numbers if n != 0])
    assert isinstance(read, UsageFile)
    assert [(s.pid, s.locked) for s in read.slots] == [(1, False), (2, True)]


@pytest.mark.parametrize("field", ["magic", "layout", "size"])
def test_another_layout_is_refused(field: str) -> None:
    data = a_usage({"uuid": CARD.encode()}, head={field: 7})
    assert decode_usage(bytes(data), BOUNDS) == Garbled(Spoilt.LAYOUT)


@given(st.binary(min_size=64, max_size=4096), st.integers(0, usage_file.SIZE - 4096))
def test_no_bytes_make_it_fail(noise: bytes, at: int) -> None:
    data = a_usage({"uuid": CARD.encode()}, slots=({"card": 0},) * 8)
    data[at : at + len(noise)] = noise
    assert isinstance(decode_usage(bytes(data), BOUNDS), UsageFile | Garbled | Unbuilt)


def test_names_that_leave_the_folder_are_refused(tmp_path: Path) -> None:
    files = HookFiles(tmp_path, SystemClock())
    for key in (
        ContainerKey("..", "c"),
        ContainerKey("uid", "../c"),
        ContainerKey("", "c"),
        ContainerKey("a/b", "c"),
    ):
        with pytest.raises(ValueError, match="a name has letters"):
            files.make(key, LIMITS)


def test_files_go_with_their_container(tmp_path: Path) -> None:
    files = HookFiles(tmp_path, SystemClock())
    files.make(KEY, LIMITS)
    files.make(ContainerKey("uid-1", "other"), LIMITS)
    assert files.known() == (KEY, ContainerKey("uid-1", "other"))
    files.remove(KEY)
    files.remove(KEY)
    assert files.known() == (ContainerKey("uid-1", "other"),)
    files.remove(ContainerKey("uid-1", "other"))
    assert list((tmp_path / "containers").iterdir()) == []


def test_a_usage_file_that_is_none_is_made_again_and_a_whole_one_stays(tmp_path: Path) -> None:
    made = HookFiles(tmp_path, SystemClock())
    path = made.make(KEY, LIMITS).path / "usage"
    path.write_bytes(a_usage({"uuid": CARD.encode()}))
    assert isinstance(made.make(KEY, LIMITS).read(BOUNDS), UsageFile)
    os.truncate(path, 5)
    assert made.make(KEY, LIMITS).read(BOUNDS) == Unbuilt()
    path.unlink()
    path.symlink_to("/etc/passwd")
    assert made.make(KEY, LIMITS).read(BOUNDS) == Unbuilt()


def test_an_agent_that_starts_again_goes_on(tmp_path: Path) -> None:
    files = HookFiles(tmp_path, SystemClock())
    first = files.make(KEY, LIMITS)
    first.change_card(CARD, lambda c: CardLimit(uuid=c.uuid, cores_permille=300))
    second = files.adopt(KEY)
    assert second.limits == first.limits
    assert second.read(BOUNDS) == Unbuilt()
    with pytest.raises(FileNotFoundError):
        files.adopt(ContainerKey("uid-2", "c"))


def test_limits_that_were_half_written_are_written_again(tmp_path: Path) -> None:
    files = HookFiles(tmp_path, SystemClock())
    path = files.make(KEY, LIMITS).path / "limits"
    torn = bytearray(path.read_bytes())
    torn[12] |= 1
    path.write_bytes(torn)
    with pytest.raises(BadLimits, match="being written"):
        files.adopt(KEY)
    assert files.make(KEY, LIMITS).limits.cards == LIMITS.cards
    assert files.adopt(KEY).limits.cards == LIMITS.cards


def test_the_container_may_write_one_file_only(files: ContainerFiles) -> None:
    modes = {m.source: (m.read_only, Path(m.source).stat().st_mode & 0o777) for m in files.mounts}
    assert modes == {
        str(files.path / "limits"): (True, 0o644),
        str(files.path / "usage"): (False, 0o666),
    }


@pytest.mark.parametrize(
    ("card", "message"),
    [
        (CardLimit(uuid=""), "1 to 63 characters"),
        (CardLimit(uuid="G" * 64), "1 to 63 characters"),
        (CardLimit(uuid=CARD, memory_bytes=-1), "memory_bytes -1"),
        (CardLimit(uuid=CARD, cores_permille=1 << 32), "cores_permille 4294967296"),
        (CardLimit(uuid=CARD, priority=1 << 31), "priority 2147483648"),
    ],
)
def test_limits_that_do_not_fit_change_nothing(
    files: ContainerFiles, card: CardLimit, message: str
) -> None:
    before = (files.path / "limits").read_bytes()
    with pytest.raises(BadLimits, match=message):
        files.change_card(CARD, lambda _: card)
    with pytest.raises(BadLimits, match="holds no part"):
        files.change_card("GPU-other", lambda c: c)
    assert (files.path / "limits").read_bytes() == before


def test_seventeen_cards_are_too_many(tmp_path: Path) -> None:
    many = HookLimits(container="c", cards=tuple(CardLimit(uuid=f"GPU-{i}") for i in range(17)))
    with pytest.raises(BadLimits, match="17 cards"):
        HookFiles(tmp_path, SystemClock()).make(KEY, many)
