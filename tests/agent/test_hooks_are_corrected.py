"""What the driver measured of a container reaches its hook: all of it, once, and soon."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tessera_agent.containers.hook_files import ContainerFiles, ContainerKey, HookFiles
from tessera_agent.usage.limit_correction import LimitCorrections
from tessera_agent.usage.sampler import MeasuredContainer
from tessera_core.dialect_kit.readings import CardReading, ProcessReading, Readings
from tessera_core.hook.limits_file import CardLimit, HookLimits, Mode, decode_limits
from tessera_core.node.usage_rates import RESTART_NS, HoldingContainer
from tessera_runtime.clock import SystemClock
from tests.agent.usagefile import a_usage

SECOND = 1_000_000_000
CARD, OTHER = "GPU-0a", "GPU-0b"
LIMITED = CardLimit(uuid=CARD, cores_permille=300)
FREE = CardLimit(uuid=CARD)
ANY_US = 1000 * 1_000_000


class Owned:
    """Owners as a test says."""

    def __init__(self, owners: Mapping[int, str]) -> None:
        self.owners = dict(owners)

    def container_of(self, pid: int) -> str:
        return self.owners.get(pid, "")


class Set(SystemClock):
    """A wall clock that a test sets."""

    now_ns = 1000 * SECOND

    def time_ns(self) -> int:
        return self.now_ns


def a_container(folder: Path, *cards: CardLimit, name: str = "a") -> MeasuredContainer:
    limits = HookLimits(container=f"ns/{name}/c", cards=cards or (LIMITED,))
    files = HookFiles(folder, SystemClock()).make(ContainerKey(name, "c"), limits)
    held = HoldingContainer(namespace="ns", pod=name, uid=name, container="c", limits=limits)
    return MeasuredContainer(held=held, files=files, id=f"id-{name}")


def files_of(one: MeasuredContainer) -> ContainerFiles:
    assert one.files is not None
    return one.files


def count(one: MeasuredContainer, raw_ns: int) -> None:
    """The container's hook has counted so much on each card."""
    records = [{"uuid": c.uuid.encode(), "raw_ns": raw_ns} for c in files_of(one).limits.cards]
    with (files_of(one).path / "usage").open("r+b") as file:
        file.write(a_usage(*records))


def busy(sampled_us: int, processes: Mapping[int, int], card: str = CARD) -> CardReading:
    """What the driver says: nanoseconds so far, by process."""
    return CardReading(
        id=card, index=0, sampled_us=sampled_us,
        processes=tuple(ProcessReading(pid=pid, busy_ns=ns) for pid, ns in processes.items()),
    )  # fmt: skip


def correct(
    corrections: LimitCorrections,
    *all_: MeasuredContainer,
    read: CardReading,
    everyone: bool = False,
) -> None:
    watched = {ContainerKey(one.held.uid, "c"): one for one in all_}
    corrections.write(watched, Readings(cards=(read,)), everyone=everyone)


def written(one: MeasuredContainer, card: str = CARD) -> tuple[int, int]:
    """What its limits file says was measured, and what the hook had counted by then."""
    limits = decode_limits((files_of(one).path / "limits").read_bytes())
    limit = next(limit for limit in limits.cards if limit.uuid == card)
    return limit.measured_ns, limit.measured_usage_ns


def test_the_time_of_all_processes_of_the_container_is_added_up(tmp_path: Path) -> None:
    one = a_container(tmp_path)
    corrections = LimitCorrections(Owned({10: "id-a", 11: "id-a", 12: "id-b"}), SystemClock())
    count(one, 77)
    correct(corrections, one, read=busy(5, {10: 90 * SECOND, 11: 50}))
    assert written(one) == (0, 0)
    correct(corrections, one, read=busy(6, {10: 90 * SECOND + 300, 11: 150, 12: 9, 13: 9}))
    assert written(one) == (400, 77)
    correct(corrections, one, read=busy(7, {10: 90 * SECOND + 500, 11: 20}))
    assert written(one) == (400 + 200 + 20, 77)
    assert files_of(one).limits.generation == 1


def test_who_was_not_busy_is_not_written_to(tmp_path: Path) -> None:
    one = a_container(tmp_path)
    corrections = LimitCorrections(Owned({10: "id-a", 11: "id-b"}), SystemClock())
    count(one, 77)
    correct(corrections, one, read=busy(5, {10: 0, 11: 0}))
    before = (files_of(one).path / "limits").read_bytes()
    correct(corrections, one, read=busy(6, {10: 0, 11: 900}))
    assert (files_of(one).path / "limits").read_bytes() == before


@pytest.mark.parametrize("limit", [FREE, replace(LIMITED, mode=Mode.OFF)])
def test_a_hook_without_a_limit_of_cores_is_corrected_when_everyone_is(
    tmp_path: Path, limit: CardLimit
) -> None:
    one, corrections = (
        a_container(tmp_path, limit),
        LimitCorrections(Owned({10: "id-a"}), SystemClock()),
    )
    count(one, 77)
    for stamp in (5, 6, 7):
        correct(corrections, one, read=busy(stamp, {10: stamp * 100}))
    assert written(one) == (0, 0)
    correct(corrections, one, read=busy(8, {10: 800}), everyone=True)
    assert written(one) == (300, 77)


def test_each_card_of_a_container_is_corrected_by_itself(tmp_path: Path) -> None:
    one = a_container(tmp_path, LIMITED, CardLimit(uuid=OTHER))
    corrections = LimitCorrections(Owned({10: "id-a"}), SystemClock())
    count(one, 77)
    for stamp in (5, 6):
        correct(corrections, one, read=busy(stamp, {10: stamp * 100}))
        correct(corrections, one, read=busy(stamp, {10: stamp * 10}, OTHER))
    assert (written(one), written(one, OTHER)) == ((100, 77), (0, 0))
    correct(corrections, one, read=busy(7, {10: 75}, OTHER), everyone=True)
    assert (written(one), written(one, OTHER)) == ((100, 77), (25, 77))


def test_the_hooks_figure_is_that_of_the_moment_of_the_sample(tmp_path: Path) -> None:
    one, clock = a_container(tmp_path), Set()
    corrections = LimitCorrections(Owned({10: "id-a"}), clock)
    for at_ms, stamp_ms, raw in ((0, -900, 1000), (500, -100, 1000), (1000, 875, 2000)):
        clock.now_ns = 1000 * SECOND + at_ms * 1_000_000
        count(one, raw)
        correct(corrections, one, read=busy(ANY_US + stamp_ms * 1000, {10: at_ms}))
    assert written(one) == (1000, 1750)


def test_nothing_is_written_before_the_moment_of_a_sample_is_certain(tmp_path: Path) -> None:
    one, clock = a_container(tmp_path), Set()
    corrections = LimitCorrections(Owned({10: "id-a"}), clock)
    correct(corrections, one, read=busy(ANY_US - 500_000, {10: 0}))  # the hook has no figure yet
    count(one, 1000)
    correct(corrections, one, read=busy(ANY_US - 100_000, {10: 200}))
    assert written(one) == (0, 0)
    clock.now_ns += SECOND
    count(one, 2000)
    correct(corrections, one, read=busy(ANY_US + 500_000, {10: 700}))
    assert written(one) == (700, 1500)


def test_what_could_not_be_written_is_written_with_the_next(tmp_path: Path) -> None:
    one, corrections = a_container(tmp_path), LimitCorrections(Owned({10: "id-a"}), SystemClock())
    count(one, 77)
    limits = files_of(one).path / "limits"
    correct(corrections, one, read=busy(5, {10: 0}))
    aside = limits.rename(limits.with_name("aside"))
    correct(corrections, one, read=busy(6, {10: 100}))
    aside.rename(limits)
    assert (written(one), corrections.failed) == ((0, 0), 1)
    correct(corrections, one, read=busy(7, {10: 130}))
    assert written(one) == (130, 77)


def test_a_process_that_ended_meanwhile_is_its_containers(tmp_path: Path) -> None:
    owners = Owned({10: "id-a"})
    one, corrections = a_container(tmp_path), LimitCorrections(owners, SystemClock())
    count(one, 77)
    correct(corrections, one, read=busy(5, {10: 100}))
    owners.owners.clear()
    correct(corrections, one, read=busy(6, {10: 160}))
    assert written(one) == (60, 77)


def test_what_was_counted_while_no_agent_ran_is_compared_with_nothing(tmp_path: Path) -> None:
    one = a_container(tmp_path)
    count(one, 77)
    former = LimitCorrections(Owned({10: "id-a"}), SystemClock())
    for stamp, busy_ns in ((5, 0), (6, 50)):
        correct(former, one, read=busy(stamp, {10: busy_ns}))
    assert written(one) == (50, 77)
    later = LimitCorrections(Owned({10: "id-a"}), SystemClock())
    for stamp, busy_ns in ((7, 900), (8, 900), (9, 930), (10, 970)):
        correct(later, one, read=busy(stamp, {10: busy_ns}))
    assert written(one) == (50 + RESTART_NS + 30 + 40, 77)


@pytest.mark.parametrize("spoilt", ["unbuilt", "missing", "no record"])
def test_a_hook_that_has_not_counted_is_corrected_once_it_has(tmp_path: Path, spoilt: str) -> None:
    one, corrections = a_container(tmp_path), LimitCorrections(Owned({10: "id-a"}), SystemClock())
    usage = files_of(one).path / "usage"
    if spoilt == "missing":
        usage.rename(usage.with_name("aside"))
    if spoilt == "no record":
        with usage.open("r+b") as file:
            file.write(a_usage({"uuid": OTHER.encode(), "raw_ns": 5}))
    correct(corrections, one, read=busy(5, {10: 0}))
    correct(corrections, one, read=busy(6, {10: 100}))
    assert written(one) == (0, 0)
    if spoilt == "missing":
        usage.with_name("aside").rename(usage)
    count(one, 77)
    correct(corrections, one, read=busy(7, {10: 130}))
    correct(corrections, one, read=busy(8, {10: 170}))
    assert written(one) == (170, 77)


def test_a_driver_that_does_not_say_changes_nothing(tmp_path: Path) -> None:
    one, corrections = a_container(tmp_path), LimitCorrections(Owned({10: "id-a"}), SystemClock())
    count(one, 77)
    for _ in range(3):
        correct(corrections, one, read=busy(0, {10: -1}), everyone=True)
    assert written(one) == (0, 0)


Step: TypeAlias = tuple[str, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["a works", "b works", "sample", "answer", "everyone", "lift", "limit", "fail",
             "end", "reload"]
        ),
        st.integers(0, 400_000_000),
    ),
    max_size=40,
)  # fmt: skip


class Shared:
    """A card, its driver, two containers on it and what is written for them."""

    def __init__(self, folder: Path) -> None:
        self.owners = Owned({10: "id-a", 11: "id-b"})
        self.corrections = LimitCorrections(self.owners, SystemClock())
        self.all = a_container(folder, name="a"), a_container(folder, FREE, name="b")
        for one in self.all:
            count(one, 77)
        self.really = {"a": 0, "b": 0}
        self.pids = {"a": 10, "b": 11}
        self.figures = {10: 0, 11: 0}
        self.stamp_us = ANY_US
        self.sampled = busy(ANY_US, {10: 0, 11: 0})
        self.answer(everyone=True)

    def sample(self) -> None:
        self.stamp_us += 166_667
        self.sampled = busy(self.stamp_us, self.figures)

    def answer(self, *, everyone: bool = False) -> None:
        correct(self.corrections, *self.all, read=self.sampled, everyone=everyone)

    def settle(self) -> None:
        self.sample()
        self.answer(everyone=True)

    def do(self, what: str, ns: int) -> None:
        match what:
            case "a works" | "b works":
                self.really[what[0]] += ns
                self.figures[self.pids[what[0]]] += ns
            case "sample":
                self.sample()
            case "answer" | "everyone":
                self.answer(everyone=what == "everyone")
            case "lift" | "limit":
                permille = 300 if what == "limit" else 0
                files_of(self.all[0]).change_card(
                    CARD, lambda card: replace(card, cores_permille=permille)
                )
            case "fail":
                self._fail()
            case "end":
                self._end("a" if ns % 2 else "b")
            case _:
                self._reload()

    def _fail(self) -> None:
        """An answer that cannot be written to the first container."""
        limits = files_of(self.all[0]).path / "limits"
        aside = limits.rename(limits.with_name("aside"))
        self.answer(everyone=True)
        aside.rename(limits)

    def _end(self, name: str) -> None:
        """A process ends, after its last sample was seen, and another one begins."""
        self.sample()
        self.answer()
        del self.figures[self.pids[name]]
        pid = self.pids[name] = max(self.owners.owners) + 1
        self.owners.owners[pid] = f"id-{name}"
        self.figures[pid] = 0

    def _reload(self) -> None:
        """The driver is opened again and counts from 0, with no sample yet."""
        self.sample()
        self.answer()
        self.figures = dict.fromkeys(self.figures, 0)
        self.sampled = busy(0, dict.fromkeys(self.figures, -1))
        self.answer()


@given(STEPS)
def test_nothing_is_lost_and_nothing_counted_twice(steps: list[Step]) -> None:
    with TemporaryDirectory() as folder:
        shared = Shared(Path(folder))
        for what, ns in steps:
            shared.do(what, ns)
        shared.settle()
        shared.settle()
        measured = {one.held.uid: written(one)[0] for one in shared.all}
        assert measured == shared.really
