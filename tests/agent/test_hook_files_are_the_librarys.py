"""Python and C agree on the two files of a container, byte for byte and in what they do."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tessera_agent.containers.hook_files import ContainerFiles, ContainerKey, HookFiles
from tessera_core.hook import limits_file, records, usage_file
from tessera_core.hook.limits_file import CardFlag, CardLimit, Flag, HookLimits, Mode, decode_limits
from tessera_core.hook.records import RecordLayout
from tessera_core.hook.usage_file import Gap, Unbuilt, UsageFile, UsageFileBounds
from tessera_runtime.clock import SystemClock
from tests.agent.hooked import hooked
from tests.agent.machine import NVML, built, polling

RECORDS = (
    records.HEAD,
    limits_file.CARD,
    limits_file.FILE,
    usage_file.CARD,
    usage_file.SLOT,
    usage_file.FILE,
)


@pytest.fixture(scope="module")
def printed() -> dict[str, tuple[int, int]]:
    out = subprocess.run(
        [built("tessera-hook-info"), "--layout"], check=True, capture_output=True, text=True
    ).stdout
    rows = [line.split() for line in out.splitlines()]
    return {name: (int(at), int(size)) for name, at, size in rows}


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: r.name)
def test_every_field_lies_where_the_library_has_it(
    record: RecordLayout, printed: dict[str, tuple[int, int]]
) -> None:
    python = {f"{record.name}.{f}": (at, record.field_size(f)) for f, at in record.offsets.items()}
    library = {name: at for name, at in printed.items() if name.startswith(f"{record.name}.")}
    assert python == library
    assert (0, record.size) == printed[record.name]


def test_constants_are_the_librarys(printed: dict[str, tuple[int, int]]) -> None:
    python = {
        "limits_magic": limits_file.MAGIC, "usage_magic": usage_file.MAGIC, "cards": records.CARDS,
        "slots": usage_file.SLOTS, "kinds": len(usage_file.KINDS), "bins": 2048,
        "times": usage_file.TIMES,
    }  # fmt: skip
    library = {n.removeprefix("constant."): v for n, (v, _) in printed.items() if "constant" in n}
    assert python == library


def test_the_librarys_own_writer_is_read(tmp_path: Path) -> None:
    path = tmp_path / "limits"
    words = (
        "container=ns/pod/c flags=2 hold_ms=60000 log=3 "
        "card=GPU-1 memory=100 cores=30 mode=elastic lent=200"
    )
    now_ns = SystemClock().time_ns()
    subprocess.run([built("tessera-limits"), path, *words.split()], check=True)
    read = decode_limits(path.read_bytes())
    assert read.container == "ns/pod/c"
    assert (read.flags, read.log_level) == (Flag.HOLD_LAUNCHES, 3)
    assert read.hold_until_ns >= now_ns + 60_000_000_000
    assert read.cards == (
        CardLimit(
            uuid="GPU-1", memory_bytes=100 << 20, cores_permille=300, lent_permille=200,
            mode=Mode.ELASTIC,
        ),
    )  # fmt: skip


cards = st.builds(
    CardLimit, uuid=st.text("GPU-0123456789abcdef", min_size=1, max_size=63),
    memory_bytes=st.integers(0, (1 << 64) - 1), resident_bytes=st.integers(0, 1 << 50),
    cores_permille=st.integers(0, 1000), lent_permille=st.integers(0, 1000),
    lent_until_ns=st.integers(0, 1 << 63), mode=st.sampled_from(Mode),
    flags=st.sampled_from(limits_file.CardFlag), index=st.integers(0, 15),
    priority=st.integers(-5, 5), measured_ns=st.integers(0, 1 << 63),
)  # fmt: skip


@given(
    st.lists(cards, max_size=16), st.sampled_from(Flag), st.integers(0, (1 << 64) - 1),
    st.integers(0, 3),
)  # fmt: skip
def test_every_limit_survives_the_file(
    held: list[CardLimit], flag: Flag, until_ns: int, level: int
) -> None:
    limits = HookLimits(
        container="ns/pod/c", cards=tuple(held), flags=flag, hold_until_ns=until_ns,
        log_level=level,
    )  # fmt: skip
    assert decode_limits(limits_file.encode_limits(limits, sequence=4, now_ns=5)) == limits


@pytest.mark.parametrize("until_ns", [-1, 1 << 64])
def test_an_end_of_a_hold_that_the_file_cannot_hold_is_refused(until_ns: int) -> None:
    limits = HookLimits(container="ns/pod/c", cards=(), hold_until_ns=until_ns)
    with pytest.raises(
        limits_file.BadLimits, match=f"ns/pod/c: hold_until_ns {until_ns}: write 0 to"
    ):
        limits_file.encode_limits(limits, sequence=4, now_ns=5)


def test_a_hold_in_what_older_agents_wrote_has_no_end() -> None:
    limits = HookLimits(container="ns/pod/c", cards=(), flags=Flag.HOLD_LAUNCHES, hold_until_ns=7)
    data = bytearray(limits_file.encode_limits(limits, sequence=4, now_ns=5))
    at = limits_file.FILE.offsets["hold_until_ns"]
    data[at : at + 8] = bytes(8)  # reserved then
    assert decode_limits(bytes(data)) == replace(limits, hold_until_ns=0)


def a_container(tmp_path: Path, card: str, mib: int) -> ContainerFiles:
    held = HookLimits(container="ns/pod/c", cards=(CardLimit(uuid=card, memory_bytes=mib << 20),))
    return HookFiles(tmp_path / "tessera", SystemClock()).make(ContainerKey("uid-1", "c"), held)


def the_card(tmp_path: Path) -> tuple[Path, str]:
    """A simulated machine and the id of its card."""
    machine = tmp_path / "machine"
    environ = {"TESSERA_SIM_STATE": str(machine), "TESSERA_SIM_CONFIG": "cards=1 memory=16g"}
    built("sim/libnvidia-ml.so.1")
    with polling(NVML, environ) as poller:
        return machine, poller.poll()["cards"][0]["id"]


def bounds(card: str) -> UsageFileBounds:
    return UsageFileBounds(
        memory_bytes={records.uuid_key(card): 16 << 30}, now_ns=SystemClock().time_ns()
    )  # fmt: skip


def used(files: ContainerFiles, card: str) -> UsageFile:
    found = files.read(bounds(card))
    assert isinstance(found, UsageFile)
    return found


def test_what_we_write_is_enforced_and_what_is_used_is_read(tmp_path: Path) -> None:
    machine, card = the_card(tmp_path)
    files = a_container(tmp_path, card, mib=1000)
    assert files.read(bounds(card)) == Unbuilt()
    with hooked(machine, files.path / "limits", files.path / "usage") as process:
        assert [process.alloc(600), process.alloc(600)] == [0, 2]
        seen = used(files, card)
        assert seen.cards[0].limit_bytes == 1000 << 20
        assert seen.cards[0].denials == 1
        assert seen.cards[0].allocated_bytes == 600 << 20
        assert seen.cards[0].hour_peak_bytes == seen.cards[0].peak_bytes == 600 << 20
        assert 0 <= SystemClock().time_ns() // usage_file.HOUR_NS - seen.cards[0].peak_hour <= 1
        assert [dict(s.bytes) for s in seen.slots] == [{"device": 600 << 20}]
        assert seen.slots[0].pid == process.process.pid
        assert (seen.slots[0].gaps, seen.slots[0].locked) == ((), True)


def test_limits_change_under_a_running_process(tmp_path: Path) -> None:
    machine, card = the_card(tmp_path)
    files = a_container(tmp_path, card, mib=1000)
    with hooked(machine, files.path / "limits", files.path / "usage") as process:
        assert process.alloc(2000) == 2
        files.change_card(card, lambda c: CardLimit(uuid=c.uuid, memory_bytes=4000 << 20))
        while process.alloc(2000) == 2:  # within 20 ms of its next call
            pass
        assert used(files, card).cards[0].generation == files.limits.generation == 2
        files.change_card(card, lambda c: CardLimit(uuid=c.uuid, memory_bytes=100 << 20))
        while Gap.OVER not in used(files, card).slots[0].gaps:
            assert process.alloc(1) in (0, 2)


def test_a_suspended_container_waits(tmp_path: Path) -> None:
    machine, card = the_card(tmp_path)
    files = a_container(tmp_path, card, mib=1000)
    with hooked(machine, files.path / "limits", files.path / "usage") as process:
        assert process.alloc(100) == 0
        files.change(lambda limits: replace(limits, flags=Flag.SUSPEND))
        while not process.waits(1001):  # within 20 ms of its next call; more than it may have
            pass
        files.change(lambda limits: replace(limits, flags=Flag.NONE))
        assert process.answer() == 2
        assert process.alloc(100) == 0


def test_a_killed_process_leaves_no_ghost(tmp_path: Path) -> None:
    machine, card = the_card(tmp_path)
    files = a_container(tmp_path, card, mib=1000)
    with hooked(machine, files.path / "limits", files.path / "usage") as process:
        assert process.alloc(600) == 0
        process.process.kill()
        process.process.wait()
        assert [slot.locked for slot in used(files, card).slots] == [False]


def test_memory_that_others_have_is_waited_for_where_it_can_be_reclaimed(tmp_path: Path) -> None:
    machine, card = the_card(tmp_path)
    owner = a_container(tmp_path, card, mib=14_000)
    owner.change_card(card, lambda c: replace(c, flags=CardFlag.RECLAIM))
    neighbour = HookFiles(tmp_path / "other", SystemClock()).make(
        ContainerKey("uid-2", "c"),
        HookLimits(container="ns/q/c", cards=(CardLimit(uuid=card, memory_bytes=12_000 << 20),)),
    )
    with hooked(machine, neighbour.path / "limits", neighbour.path / "usage") as other:
        assert other.alloc(12_000) == 0
        with hooked(machine, owner.path / "limits", owner.path / "usage") as process:
            assert process.waits(10_000)
            other.process.kill()
            other.process.wait()
            assert process.answer() == 0
    assert used(owner, card).cards[0].failed_for_others == 0


def test_an_allocation_that_fails_for_others_is_counted(tmp_path: Path) -> None:
    machine, card = the_card(tmp_path)
    files = a_container(tmp_path, card, mib=20_000)
    with hooked(machine, files.path / "limits", files.path / "usage") as process:
        assert process.alloc(17_000) == 2
    assert used(files, card).cards[0].failed_for_others == 1
