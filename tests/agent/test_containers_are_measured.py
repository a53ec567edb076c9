"""What containers use is measured and published."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tessera_agent.containers.hook_files import ContainerFiles, ContainerKey, HookFiles
from tessera_agent.usage.sampler import MeasuredContainer, Moment, Sampler
from tessera_agent.usage.settings import UsageSettings
from tessera_core.dialect_kit.readings import CardReading, ProcessReading, Readings
from tessera_core.hook.limits_file import CardLimit, HookLimits
from tessera_core.hook.records import uuid_key
from tessera_core.hook.usage_file import SIZE, Spoilt
from tessera_core.node.usage_rates import HoldingContainer
from tessera_runtime.clock import SystemClock
from tessera_schema.cards import MIB, Card
from tests.agent.hooked import hooked
from tests.agent.machine import NVML, Poller, built, polling
from tests.agent.usagefile import a_usage, memory

SECOND = 1_000_000_000
CARD = Card(id="GPU-0a", index=0, vendor="nvidia", memory_bytes=16000 * MIB)
LIMIT = CardLimit(uuid=CARD.id, memory_bytes=4000 * MIB, cores_permille=300)


class Owned:
    """Owners as a test says."""

    def __init__(self, owners: Mapping[int, str]) -> None:
        self.owners = owners

    def container_of(self, pid: int) -> str:
        return self.owners.get(pid, "")


class Mounted:
    """Mounts as a test says."""

    def __init__(self, *changed: str) -> None:
        self.changed = changed
        self.asked: list[tuple[str, tuple[int, ...]]] = []

    def are_changed(self, container_id: str, limits: Path, pids: Iterable[int]) -> bool:
        self.asked.append((container_id, tuple(pids)))
        return container_id in self.changed


def a_container(tmp_path: Path, name: str, limit: CardLimit = LIMIT) -> MeasuredContainer:
    limits = HookLimits(container=f"ns/{name}/c", cards=(limit,))
    files = HookFiles(tmp_path, SystemClock()).make(ContainerKey(name, "c"), limits)
    held = HoldingContainer(namespace="ns", pod=name, uid=name, container="c", limits=limits)
    return MeasuredContainer(held=held, files=files, id=f"id-{name}")


def fill(files: ContainerFiles | None, **card: int) -> None:
    assert files is not None
    slot = {"card": 0, "pid": 1, "bytes": memory(device=100 * MIB)}
    (files.path / "usage").write_bytes(a_usage({"uuid": b"GPU-0a"} | card, slots=(slot,)))


def at(seconds: float) -> Moment:
    return Moment(at_s=seconds, wall_ns=int((1000 + seconds) * SECOND))


def read(*processes: ProcessReading, sampled_us: int = 0) -> Readings:
    card = CardReading(
        id=CARD.id, index=0, memory_bytes=CARD.memory_bytes, memory_used_bytes=999,
        busy_percent=44, processes=processes, sampled_us=sampled_us,
    )  # fmt: skip
    return Readings(cards=(card,))


def a_sampler(*changed: str, **owners: str) -> Sampler:
    by_pid = {int(pid.removeprefix("p")): id_ for pid, id_ in owners.items()}
    return Sampler("worker-1", "nvidia", UsageSettings(), Owned(by_pid), Mounted(*changed))


def test_a_sample_has_every_container_and_card(tmp_path: Path) -> None:
    sampler, one, two = a_sampler(), a_container(tmp_path, "a"), a_container(tmp_path, "b")
    watched = {ContainerKey("a", "c"): one, ContainerKey("b", "c"): two}
    sampler.sample(watched, (CARD,), read(), at(0))
    fill(one.files, gpu_ns=SECOND)
    usage = sampler.sample(watched, (CARD,), read(), at(2))
    assert (usage.node, usage.at, usage.interval_s) == ("worker-1", 1002, 2)
    assert [(u.pod, u.cards[0].cores_percent) for u in usage.containers] == [("a", 50), ("b", 0)]
    assert [(c.card, c.memory_used_bytes, c.cores_percent) for c in usage.cards] == [
        (CARD.id, 999, 44)
    ]


def test_whose_a_process_is_is_read_when_it_comes_and_now_and_then(tmp_path: Path) -> None:
    owners = {7: "id-a"}
    sampler = Sampler("n", "nvidia", UsageSettings(), Owned(owners), Mounted())
    watched = {ContainerKey(name, "c"): a_container(tmp_path, name) for name in ("a", "b")}
    busy = read(ProcessReading(pid=7, memory_bytes=5))

    def memory_at(seconds: float, found: Readings = busy) -> list[int]:
        usage = sampler.sample(watched, (CARD,), found, at(seconds))
        return [use.cards[0].memory_bytes for use in usage.containers]

    assert memory_at(0) == [5, 0]
    owners[7] = "id-b"  # its number, of another process now
    assert memory_at(2) == [5, 0]
    assert memory_at(31) == [0, 5]
    owners[7] = "id-a"
    memory_at(33, read())
    assert memory_at(35) == [5, 0]


def test_limits_are_published_as_they_are_now(tmp_path: Path) -> None:
    one = a_container(tmp_path, "a")
    assert one.files is not None
    one.files.change_card(CARD.id, lambda card: replace(card, cores_permille=500))
    usage = a_sampler().sample({ContainerKey("a", "c"): one}, (CARD,), read(), at(0))
    assert usage.containers[0].cards[0].cores_limit_percent == 50


def test_mounts_that_changed_are_a_gap(tmp_path: Path) -> None:
    mounted = Mounted("id-a")
    sampler = Sampler("n", "nvidia", UsageSettings(), Owned({7: "id-a", 8: "id-b"}), mounted)
    one, two = a_container(tmp_path, "a"), a_container(tmp_path, "b")
    uses = sampler.sample(
        {ContainerKey("a", "c"): replace(one, pid=5), ContainerKey("b", "c"): two}, (CARD,),
        read(ProcessReading(pid=7, memory_bytes=0), ProcessReading(pid=8, memory_bytes=0)), at(0),
    ).containers  # fmt: skip
    assert [(use.gaps, use.enforced) for use in uses] == [(("mounts-changed",), False), ((), True)]
    assert mounted.asked == [("id-a", (5, 7)), ("id-b", (0, 8))]


def test_a_bad_file_spoils_one_container_and_is_counted(tmp_path: Path) -> None:
    sampler, one, two = a_sampler(), a_container(tmp_path, "a"), a_container(tmp_path, "b")
    assert one.files is not None
    (one.files.path / "usage").unlink()
    watched = {ContainerKey("a", "c"): one, ContainerKey("b", "c"): two}
    usage = sampler.sample(watched, (CARD,), read(), at(0))
    assert [u.enforced for u in usage.containers] == [False, True]
    assert sampler.spoilt == {Spoilt.MISSING: 1}


def test_a_container_that_comes_back_starts_again(tmp_path: Path) -> None:
    sampler, one = a_sampler(), a_container(tmp_path, "a")
    key = ContainerKey("a", "c")
    fill(one.files, gpu_ns=SECOND)
    sampler.sample({key: one}, (CARD,), read(), at(0))
    sampler.sample({}, (CARD,), read(), at(2))
    usage = sampler.sample({key: one}, (CARD,), read(), at(4))
    assert usage.containers[0].cards[0].cores_percent == 0


def test_more_than_the_card_is_allowed_where_memory_is_oversubscribed(tmp_path: Path) -> None:
    one = a_container(tmp_path, "a", replace(LIMIT, memory_bytes=20000 * MIB))
    assert one.files is not None
    slot = {"card": 0, "pid": 1, "bytes": memory(managed=18000 * MIB)}
    (one.files.path / "usage").write_bytes(a_usage({"uuid": b"GPU-0a"}, slots=(slot,)))
    working = read(ProcessReading(pid=10, memory_bytes=1))
    usage = a_sampler(p10="id-a").sample({ContainerKey("a", "c"): one}, (CARD,), working, at(0))
    assert usage.containers[0].cards[0].memory_bytes == 18000 * MIB
    assert usage.containers[0].cards[0].managed_bytes == 18000 * MIB
    assert (one.files.path / "usage").stat().st_size == SIZE


def polled(poller: Poller) -> Readings:
    return msgspec.convert(poller.poll(), Readings)


def test_hook_driver_and_agent_agree(tmp_path: Path) -> None:
    machine = tmp_path / "machine"
    built("sim/libnvidia-ml.so.1")
    environ = {
        "TESSERA_SIM_STATE": str(machine), "TESSERA_SIM_CONFIG": "cards=1 memory=16g context=300m",
    }  # fmt: skip
    with polling(NVML, environ) as poller:
        seen = polled(poller).cards[0]
        card = Card(id=seen.id, index=0, vendor="nvidia", memory_bytes=seen.memory_bytes)
        honest = a_container(tmp_path, "a", CardLimit(uuid=card.id, memory_bytes=4000 * MIB))
        other = a_container(tmp_path, "b", CardLimit(uuid=card.id, memory_bytes=4000 * MIB))
        assert honest.files is not None
        path = honest.files.path
        with (
            hooked(machine, path / "limits", path / "usage") as inside,
            hooked(machine, path / "limits", path / "usage") as stray,
        ):
            assert (inside.alloc(1000), stray.alloc(500)) == (0, 0)
            owners = {inside.process.pid: "id-a", stray.process.pid: "id-b"}
            sampler = Sampler("worker-1", "nvidia", UsageSettings(), Owned(owners), Mounted())
            watched = {ContainerKey("a", "c"): honest, ContainerKey("b", "c"): other}
            sampler.sample(watched, (card,), polled(poller), at(0))
            usage = sampler.sample(watched, (card,), polled(poller), at(2))
    first, second = usage.containers
    assert (first.enforced, first.cards[0].memory_bytes) == (True, 1500 * MIB)
    assert (second.enforced, second.gaps) == (False, ("no-hook",))
    assert second.cards[0].memory_bytes == 800 * MIB
    assert uuid_key(second.cards[0].card) == uuid_key(card.id)
