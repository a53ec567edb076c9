import asyncio
import random
from collections.abc import Callable

import pytest

from tessera_core.slices import Slices
from tessera_embedded.apiserver.faults import Answer, Cut, Effect, Hang, InjectedFault
from tessera_runtime.kube import paths
from tessera_runtime.kube.lists import UnreadableObject
from tessera_runtime.kube.reflector import Handler, ListWatch, Reflector, WatchEventType
from tessera_runtime.kube.settings import KubeSettings
from tessera_schema.json_codec import decoder
from tessera_schema.kube import Pod
from tessera_testing.kube import FakeKube
from tests.runtime.cluster import Memory, a_cluster, drop, make_pod, mark, marks, running, until

pytestmark = pytest.mark.looptime

PODS = ListWatch(paths.PODS, decoder(Pod))


SETTINGS = KubeSettings()


class SlicedMemory:
    """Takes a list in slices; something happens in each."""

    def __init__(self, happens: Callable[[int], object]) -> None:
        self.memory = Memory()
        self._happens = happens

    def on_list(self, items: list[Pod], started: float, now: float) -> Slices[None]:
        for number in range(3):
            self._happens(number)
            yield
        self.memory.on_list(items, started, now)

    def on_event(self, change: WatchEventType, item: Pod, now: float) -> None:
        self.memory.on_event(change, item, now)


def a_reflector(
    kube: FakeKube, sink: Handler[Pod], settings: KubeSettings = SETTINGS
) -> Reflector[Pod]:
    chance = random.Random(1)  # noqa: S311  (reproducible)
    return Reflector(kube, PODS, sink, settings=settings, random=chance)


async def test_a_list_comes_first_and_then_every_change() -> None:
    store, sink = a_cluster(), Memory()
    make_pod(store, "a")
    reflector = a_reflector(FakeKube(store), sink)
    async with running(reflector):
        await reflector.synced.wait()
        make_pod(store, "b")
        mark(store, "a", "1")
        drop(store, "b")
        await until(lambda: len(sink.story) == 5)
    assert sink.story == ["list a", "ADDED b", "MODIFIED a", "MODIFIED b", "DELETED b"]
    assert sink.marks == {"a": "1"}


async def test_a_list_is_read_page_by_page_and_is_of_one_moment() -> None:
    store, sink = a_cluster(), Memory()
    for number in range(25):
        make_pod(store, f"p{number:02}")
    kube = FakeKube(store, latency_s=1.0)
    reflector = a_reflector(kube, sink, KubeSettings(page=10))
    async with running(reflector):
        await until(lambda: len(kube.calls) == 2)
        make_pod(store, "late")
        await until(lambda: "late" in sink.pods)
    assert [path for _, path in kube.calls] == [paths.PODS] * 3
    assert len(sink.story[0].split()) == 26
    assert sink.story[1:] == ["ADDED late"]


async def test_the_list_says_when_it_was_begun() -> None:
    store, sink = a_cluster(), Memory()
    kube = FakeKube(store, latency_s=2.0)
    reflector = a_reflector(kube, sink)
    began = asyncio.get_running_loop().time()
    async with running(reflector):
        await reflector.synced.wait()
    assert sink.times == [(began, began + 2.0)]


async def test_nothing_is_reported_while_a_list_is_taken_in_slices() -> None:
    store = a_cluster()
    make_pod(store, "a")
    seen = []

    def happens(number: int) -> None:
        make_pod(store, f"b{number}")
        seen.append((reflector.synced.is_set(), list(sink.memory.story)))

    sink = SlicedMemory(happens)
    reflector = a_reflector(FakeKube(store), sink)
    async with running(reflector):
        await until(lambda: "b2" in sink.memory.pods)
        assert reflector.synced.is_set()
    assert seen == [(False, [])] * 3
    assert sink.memory.story == ["list a", "ADDED b0", "ADDED b1", "ADDED b2"]


async def test_a_watch_that_breaks_goes_on_where_it_was() -> None:
    store, sink = a_cluster(), Memory()
    kube = FakeKube(store)
    reflector = a_reflector(kube, sink)
    async with running(reflector):
        await reflector.synced.wait()
        make_pod(store, "a")
        await until(lambda: "a" in sink.pods)
        for round_ in range(5):
            kube.cut_watches()
            mark(store, "a", str(round_))
            await until(lambda round_=round_: sink.marks["a"] == str(round_))  # type: ignore[misc]
    assert reflector.lists == 1
    assert sink.story[0] == "list"


async def test_a_watch_that_the_server_ends_is_no_failure() -> None:
    store, sink = a_cluster(), Memory()
    kube = FakeKube(store)
    reflector = a_reflector(kube, sink)
    async with running(reflector):
        await reflector.synced.wait()
        await asyncio.sleep(3600)
        make_pod(store, "a")
        await until(lambda: "a" in sink.pods)
    assert kube.watches_opened > 3
    assert (reflector.lists, reflector.breaks) == (1, 0)


async def test_a_place_that_the_server_forgot_leads_to_a_new_list() -> None:
    store, sink = a_cluster(window=3), Memory()
    kube = FakeKube(store)
    make_pod(store, "gone")
    reflector = a_reflector(kube, sink)
    async with running(reflector):
        await reflector.synced.wait()
        kube.pause()
        kube.cut_watches()
        drop(store, "gone")
        for number in range(8):
            make_pod(store, f"p{number}")
        kube.resume()
        await until(lambda: sink.marks == marks(store))
    assert reflector.lists == 2
    assert "gone" not in sink.pods


async def test_a_list_during_which_the_server_forgets_begins_again() -> None:
    store, sink = a_cluster(), Memory()
    for number in range(6):
        make_pod(store, f"p{number}")
    kube = FakeKube(store, latency_s=1.0)
    reflector = a_reflector(kube, sink, KubeSettings(page=2))
    async with running(reflector):
        await until(lambda: len(kube.calls) == 2)
        make_pod(store, "q")
        store.compact()
        await reflector.synced.wait()
    assert sink.story == ["list p0 p1 p2 p3 p4 p5 q"]


@pytest.mark.parametrize("bookmark_s", [60.0, float("inf")])
async def test_silence_ends_a_watch_and_quiet_does_not(bookmark_s: float) -> None:
    store, sink = a_cluster(), Memory()
    kube = FakeKube(store, bookmark_s=bookmark_s)
    reflector = a_reflector(kube, sink, KubeSettings(silence_s=90, watch_s=100_000))
    async with running(reflector):
        await reflector.synced.wait()
        await asyncio.sleep(1000)
        alive_at = reflector.alive_at
        make_pod(store, "a")
        await until(lambda: "a" in sink.pods)
    quiet = bookmark_s == 60.0
    assert (reflector.breaks == 0) is quiet
    assert (asyncio.get_running_loop().time() - alive_at < 90) is quiet
    assert reflector.lists == 1 or not quiet


async def test_a_stopped_connection_is_left_for_a_new_one() -> None:
    store, sink = a_cluster(), Memory()
    kube = FakeKube(store)
    reflector = a_reflector(kube, sink)
    async with running(reflector):
        await reflector.synced.wait()
        kube.pause()
        await asyncio.sleep(120)
        make_pod(store, "a")
        kube.resume()
        await until(lambda: "a" in sink.pods)
    assert reflector.breaks > 0


@pytest.mark.parametrize(
    "effect", [Answer(500), Answer(429, retry_after_s=3), Answer(403), Answer(410), Cut(), Hang()]
)
async def test_a_server_in_trouble_is_requested_again_and_again_but_not_in_haste(
    effect: Answer | Cut | Hang,
) -> None:
    store, sink = a_cluster(), Memory()
    make_pod(store, "a")
    kube = FakeKube(store)
    kube.faults.add(InjectedFault("GET", paths.PODS, effect, times=20))
    reflector = a_reflector(kube, sink)
    began = asyncio.get_running_loop().time()
    async with running(reflector):
        await until(lambda: kube.watches_opened, within_s=600)
    assert sink.story == ["list a"]
    assert asyncio.get_running_loop().time() - began > 100


async def test_events_that_come_twice_are_reported_once() -> None:
    store, sink = a_cluster(), Memory()
    kube = FakeKube(store)
    kube.event_times = 3
    reflector = a_reflector(kube, sink)
    async with running(reflector):
        await reflector.synced.wait()
        for name in "abc":
            make_pod(store, name)
        await until(lambda: len(sink.pods) == 3)
        await asyncio.sleep(10)
    assert sink.story == ["list", "ADDED a", "ADDED b", "ADDED c"]


async def test_what_cannot_be_read_is_reported_and_does_not_stop_the_rest() -> None:
    store, sink, reported = a_cluster(), Memory(), list[UnreadableObject]()

    def read(raw: bytes) -> Pod:
        pod = decoder(Pod)(raw)
        if pod.metadata.annotations.get("mark") == "bad":
            raise ValueError("marked bad")
        return pod

    make_pod(store, "a", mark="bad")
    make_pod(store, "b")
    reflector = Reflector(
        FakeKube(store),
        ListWatch(paths.PODS, read),
        sink,
        settings=KubeSettings(),
        unreadable=reported.append,
    )
    async with running(reflector):
        await reflector.synced.wait()
        mark(store, "b", "bad")
        make_pod(store, "c")
        await until(lambda: "c" in sink.pods)
    assert sink.story == ["list b", "ADDED c"]
    assert [(one.object.namespace, one.object.name, one.why) for one in reported] == [
        ("default", "a", "marked bad"),
        ("default", "b", "marked bad"),
    ]


async def test_a_handler_with_a_bug_ends_the_reflector() -> None:
    class Broken(Memory):
        def on_list(self, items: list[Pod], started: float, now: float) -> None:
            raise KeyError("a bug")

    reflector = a_reflector(FakeKube(a_cluster()), Broken())
    with pytest.raises(ExceptionGroup) as caught:
        async with running(reflector):
            await asyncio.sleep(100)
    assert caught.group_contains(KeyError)


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_happens_the_handler_ends_up_with_what_there_is(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  (reproducible)
    store, sink = a_cluster(window=40), Memory()
    kube = FakeKube(store)
    reflector = a_reflector(kube, sink, KubeSettings(page=7))
    names = [f"p{number}" for number in range(20)]
    async with running(reflector):
        for step in range(300):
            name = chance.choice(names)
            if name not in marks(store):
                make_pod(store, name)
            elif chance.random() < 0.4:
                drop(store, name)
            else:
                mark(store, name, str(step))
            trouble(kube, chance)
            await asyncio.sleep(chance.expovariate(2))
        kube.faults.clear()
        kube.resume()
        await until(lambda: sink.marks == marks(store))
    assert reflector.events > 10


def trouble(kube: FakeKube, chance: random.Random) -> None:
    match chance.randrange(30):
        case 0:
            kube.cut_watches()
        case 1:
            kube.end_watches()
        case 2:
            kube.store.compact()
        case 3:
            kube.pause()
        case 4:
            effects: list[Effect] = [Answer(500), Answer(429), Answer(410), Cut(), Hang()]
            effect = chance.choice(effects)
            kube.faults.add(InjectedFault("*", ".*", effect, times=2))
        case 5:
            kube.event_delay_s = chance.choice([0.0, 0.5, 3.0])
            kube.event_times = chance.choice([1, 1, 2])
        case number if number < 15:
            kube.resume()
        case _:
            pass
