"""Cards that only the vendor's plugin sees are taken from what it published, use from a library."""

import asyncio
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import msgspec
import pytest
from msgspec.structs import replace

from tessera_agent.readers import CardReader, DriverSilent, ReaderSettings, open_reader
from tessera_agent.readers.node_object import PublishedReader
from tessera_core.dialect_kit.monitoring import version_problems
from tessera_core.dialect_kit.readings import CardReading, Readings
from tessera_core.registry.registry import load
from tessera_core.vendors import iluvatar, mthreads
from tessera_runtime.clock import SystemClock
from tessera_schema.cards import MIB
from tessera_schema.kube import Node
from tessera_schema.node_cards import decode_node_cards
from tests.agent.node import SETTINGS, FixedNode, a_cluster, annotation, running, text_of

REGISTRY = load()
ILUVATAR = {"iluvatar.ai/vcuda-core": "200", "iluvatar.ai/vcuda-memory": "256"}
MTHREADS = {"mthreads.com/sgpu-core": "32", "mthreads.com/sgpu-memory": "192"}
KEYS = {v: f"cards.tessera.dev/{v}" for v in ("iluvatar", "mthreads")}


def a_node(capacity: dict[str, str], **annotations: str) -> Node:
    node = {
        "metadata": {"name": "worker-1", "annotations": annotations},
        "status": {"capacity": capacity, "allocatable": capacity},
    }
    return msgspec.convert(node, Node)


def opened(vendor: str, node: FixedNode) -> AbstractAsyncContextManager[CardReader]:
    return open_reader(vendor, ReaderSettings(), node, REGISTRY, SystemClock())


async def polled(vendor: str, node: Node | None) -> Readings | DriverSilent:
    async with opened(vendor, FixedNode(node)) as reader:
        return await reader.poll()


@pytest.mark.parametrize(
    ("vendor", "capacity", "mib"), [("iluvatar", ILUVATAR, 32768), ("mthreads", MTHREADS, 49152)]
)
async def test_capacities_are_cards(vendor: str, capacity: dict[str, str], mib: int) -> None:
    seen = await polled(vendor, a_node(capacity))
    assert isinstance(seen, Readings)
    assert [(c.vendor, c.memory_mib) for c in seen.counted] == [(vendor, mib)] * 2


async def test_our_own_word_is_no_evidence() -> None:
    first = await polled("iluvatar", a_node(ILUVATAR))
    assert isinstance(first, Readings)
    own = text_of(*(replace(card, memory_bytes=7 * MIB) for card in first.counted))
    again = await polled("iluvatar", a_node(ILUVATAR, **{KEYS["iluvatar"]: own}))
    assert again == first


async def test_a_node_that_was_not_read_is_silence() -> None:
    assert isinstance(await polled("mthreads", None), DriverSilent)


async def test_no_cards_is_a_problem() -> None:
    seen = await polled("mthreads", a_node({}))
    assert isinstance(seen, Readings)
    assert "shows no mthreads cards" in seen.problems[0]


class Library:
    """Stands for a management library."""

    def __init__(self, answer: Readings | DriverSilent) -> None:
        self.answer = answer

    async def poll(self, *, times_only: bool = False) -> Readings | DriverSilent:
        return self.answer


async def with_library(answer: Readings | DriverSilent) -> Readings:
    library: CardReader = Library(answer)
    seen = await PublishedReader("iluvatar", FixedNode(a_node(ILUVATAR)), REGISTRY, library).poll()
    assert isinstance(seen, Readings)
    return seen


async def test_use_is_read_under_the_names_that_the_plugin_gave() -> None:
    cards = tuple(CardReading(id=f"GPU-{i}", index=i, memory_used_bytes=i) for i in range(2))
    seen = await with_library(Readings(cards=cards, driver="3.2.0"))
    assert [c.id for c in seen.cards] == [c.id for c in seen.counted]
    assert (seen.driver, seen.problems) == ("3.2.0", ())


async def test_another_count_is_a_problem() -> None:
    cards = tuple(CardReading(id=f"GPU-{i}", index=i) for i in range(3))
    seen = await with_library(Readings(cards=cards))
    assert (len(seen.cards), len(seen.counted)) == (2, 2)
    assert "the driver shows 3 cards, the node 2" in seen.problems[0]


async def test_a_library_that_fails_costs_use_alone() -> None:
    seen = await with_library(DriverSilent(why="not there"))
    assert len(seen.counted) == 2
    assert seen.problems == ("use is unknown: not there",)


@pytest.mark.parametrize(("driver", "problem"), [("3.1.0", True), ("3.1.1", False), ("4", False)])
def test_the_driver_must_be_newer_than_the_one_that_could_not_share(
    driver: str, *, problem: bool
) -> None:
    problems = version_problems(iluvatar.MONITORING.minimums, Readings(driver=driver))
    assert bool(problems) is problem


@pytest.mark.parametrize(
    ("driver", "toolkit", "count"),
    [("1.2.0", "1.9.1", 0), ("1.2.0", "1.9.0", 1), ("1.1.9", "1.9", 2), ("", "", 0), ("x", "y", 0)],
)
def test_versions_that_can_be_read_are_compared(driver: str, toolkit: str, count: int) -> None:
    read = Readings(driver=driver, toolkit=toolkit)
    assert len(version_problems(mthreads.MONITORING.minimums, read)) == count


@pytest.mark.looptime
async def test_what_a_plugin_takes_back_is_taken_back() -> None:
    kube = await a_cluster(capacity=MTHREADS, allocatable=MTHREADS)
    settings = replace(SETTINGS, vendor="mthreads")
    async with AsyncExitStack() as stack:
        source = FixedNode(None)
        reader = await stack.enter_async_context(opened("mthreads", source))
        async with running(kube, reader, mthreads.MONITORING, settings) as agent:
            await asyncio.sleep(2)
            assert await annotation(kube, KEYS["mthreads"]) == ""
            source.node = agent.inventory.node
            await asyncio.sleep(2)
            text = await annotation(kube, KEYS["mthreads"])
            assert [c.healthy for c in decode_node_cards(text).cards] == [True, True]
            assert source.node is not None
            bare = replace(source.node.status, capacity={}, allocatable={})
            source.node = replace(source.node, status=bare)
            await asyncio.sleep(20)
            text = await annotation(kube, KEYS["mthreads"])
            assert [c.healthy for c in decode_node_cards(text).cards] == [False, False]


@pytest.mark.looptime
async def test_a_plugin_that_never_showed_cards_is_not_spoken_for() -> None:
    kube = await a_cluster()
    settings = replace(SETTINGS, vendor="iluvatar")
    async with (
        opened("iluvatar", FixedNode(a_node({}))) as reader,
        running(kube, reader, iluvatar.MONITORING, settings) as agent,
    ):
        await asyncio.sleep(20)
        assert await annotation(kube, KEYS["iluvatar"]) == ""
        assert agent.states == []
        assert "shows no iluvatar cards" in agent.events[0]
