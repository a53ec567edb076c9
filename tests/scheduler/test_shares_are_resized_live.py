"""A bound pod asks for other amounts: first the ledger, then one patch, and certainty about what it
carries."""

import asyncio

import msgspec
import pytest

from tessera_core.machines.allocation import AllocationPhase
from tessera_embedded.apiserver.faults import Answer, Cut, Delay, Effect, Hang
from tessera_scheduler.scheduler import Scheduler
from tessera_schema.cards import MIB
from tessera_schema.grants import GRANT_KEY
from tessera_schema.resizes import (
    RESIZE_KEY,
    RESIZE_REFUSED_KEY,
    Resize,
    ShareChange,
    encode_resize,
)
from tests.scheduler.fake_cluster import (
    FakeCluster,
    cards_on,
    counted,
    leading,
    phase,
    standing_by,
    the_entry,
)
from tests.scheduler.fake_cluster import until as until_

pytestmark = pytest.mark.looptime

CARD = "GPU-n0-0"
PATCH = r".*/pods/a"


def request_resize(
    cluster: FakeCluster, name: str, *, mib: int | None = None, cores: float | None = None
) -> None:
    """The pod is asked to have this from now on."""
    change = ShareChange(
        container="c", card=CARD, memory_bytes=None if mib is None else mib * MIB,
        cores_percent=cores,
    )  # fmt: skip
    text = encode_resize(Resize(plan="p1", changes=(change,)))
    cluster.note(cluster.path(name), {RESIZE_KEY: text, RESIZE_REFUSED_KEY: None})


def carried(cluster: FakeCluster, scheduler: Scheduler, name: str) -> tuple[int, int]:
    """MiB and revision of the grant on the pod."""
    grant = cluster.granted(name, scheduler.keys.verifier)
    return grant.shares[0].memory_mib, grant.revision


def answered(cluster: FakeCluster, name: str) -> bool:
    return RESIZE_KEY not in cluster.read(name).metadata.annotations


def used(scheduler: Scheduler) -> int:
    """MiB of the card that the ledger has."""
    charge = scheduler.ledger.charges_on("n0").get(CARD)
    return charge.memory_bytes // MIB if charge else 0


async def until(cluster: FakeCluster, name: str) -> None:
    await until_(lambda: answered(cluster, name))


async def test_it_grows_and_shrinks_where_it_is() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 4000)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        for revision, mib in ((1, 9000), (2, 2000)):
            request_resize(cluster, "a", mib=mib)
            await until(cluster, "a")
            assert carried(cluster, scheduler, "a") == (mib, revision)
            await until_(lambda mib=mib: used(scheduler) == mib)  # type: ignore[misc]  # a default
            assert the_entry(scheduler, uid).grant.revision == revision
            assert RESIZE_REFUSED_KEY not in cluster.read("a").metadata.annotations
        assert counted(scheduler, 'resizes_total{outcome="done"}') == 2
        assert counted(scheduler, 'alarms_total{wrong="GrantChanged"}') == 0


async def test_what_other_programs_read_says_the_same() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 4000)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        before = cluster.read("a").metadata.annotations
        request_resize(cluster, "a", mib=9000, cores=30)
        await until(cluster, "a")
        after = cluster.read("a").metadata.annotations
        assert ",9000,30:" in after["hami.io/vgpu-devices-allocated"]
        changed = {key for key in after if after[key] != before.get(key)}
        assert changed == {
            GRANT_KEY, "hami.io/vgpu-devices-allocated", "hami.io/vgpu-devices-to-allocate",
        }  # fmt: skip
        assert before.keys() == after.keys()


async def test_what_a_plugin_has_worked_off_is_left_alone() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 4000)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        cluster.note(cluster.path("a"), {"hami.io/vgpu-devices-to-allocate": ";"})
        request_resize(cluster, "a", mib=9000)
        await until(cluster, "a")
        assert cluster.read("a").metadata.annotations["hami.io/vgpu-devices-to-allocate"] == ";"


async def test_what_does_not_fit_is_refused_in_numbers() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 4000)
    cluster.pod("b", 10000)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        await cluster.place(scheduler, "b")
        request_resize(cluster, "a", mib=9000)
        await until(cluster, "a")
        why = cluster.read("a").metadata.annotations[RESIZE_REFUSED_KEY]
        assert why == f"card {CARD} on n0: 5000 MiB more asked, 2384 MiB free"
        assert carried(cluster, scheduler, "a") == (4000, 0)
        assert used(scheduler) == 14000


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ("{", "annotation tessera.dev/resize"),
        ('{"changes": []}', "changes: none"),
        ('{"changes": [{"container": "x", "card": "y"}]}', "container x holds nothing of card y"),
        (f'{{"changes": [{{"container": "c", "card": "{CARD}", "memory_bytes": 0}}]}}', "write 1"),
        (f'{{"changes": [{{"container": "c", "card": "{CARD}", "cores_percent": 0}}]}}',
         "write more than 0"),
    ],
)  # fmt: skip
async def test_a_question_that_makes_no_sense_is_answered(question: str, why: str) -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 4000)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        cluster.note(cluster.path("a"), {RESIZE_KEY: question})
        await until(cluster, "a")
        assert why in cluster.read("a").metadata.annotations[RESIZE_REFUSED_KEY]


async def test_all_changes_or_none() -> None:
    cluster = FakeCluster(1, cards=2)
    cluster.pod("a", 4000)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        [share] = cluster.granted("a", scheduler.keys.verifier).shares
        good = ShareChange(container="c", card=share.card, memory_bytes=5000 * MIB)
        bad = ShareChange(container="c", card="GPU-none", memory_bytes=5000 * MIB)
        text = encode_resize(Resize(changes=(good, bad)))
        cluster.note(cluster.path("a"), {RESIZE_KEY: text})
        await until(cluster, "a")
        assert carried(cluster, scheduler, "a") == (4000, 0)


async def test_quota_holds_for_what_grows_and_lets_go_what_shrinks() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 8000)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        quota = {"metadata": {"name": "q"}, "spec": {"hard": {"limits.nvidia.com/gpumem": "6000"}}}
        cluster.make("/api/v1/namespaces/default/resourcequotas", quota)
        await until_(lambda: scheduler.ledger.allowance("default").limits)
        request_resize(cluster, "a", mib=9000)
        await until(cluster, "a")
        assert "allows 6000 MiB" in cluster.read("a").metadata.annotations[RESIZE_REFUSED_KEY]
        request_resize(cluster, "a", mib=7000)
        await until(cluster, "a")
        assert carried(cluster, scheduler, "a") == (7000, 1)


async def test_an_ill_card_gives_nothing_more() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 8000)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        cluster.publish("n0", cards_on("n0", healthy=False))
        await asyncio.sleep(5)
        request_resize(cluster, "a", mib=9000)
        await until(cluster, "a")
        assert carried(cluster, scheduler, "a") == (8000, 0)
        request_resize(cluster, "a", mib=5000)
        await until(cluster, "a")
        assert carried(cluster, scheduler, "a") == (5000, 1)


# -- whatever becomes of the patch


@pytest.mark.parametrize("effect", [Cut(), Hang(), Answer(500), Answer(503), Answer(504),
                                    Cut(after=True)])  # fmt: skip
@pytest.mark.parametrize("mib", [2000, 9000])
async def test_an_unknown_outcome_is_settled_by_reading(effect: Effect, mib: int) -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 4000)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        cluster.fault("PATCH", PATCH, effect)
        request_resize(cluster, "a", mib=mib)
        lowest, highest = min(4000, mib), max(4000, mib)
        while not answered(cluster, "a"):
            assert lowest <= used(scheduler) <= highest
            [held] = cluster.truth().values()
            assert used(scheduler) >= held.memory_bytes // MIB
            await asyncio.sleep(0.01)
        await until_(lambda: used(scheduler) == mib)
        assert carried(cluster, scheduler, "a") == (mib, 1)
        await until_(lambda: scheduler.retry_queue.open == 0)


async def test_a_patch_that_comes_late_is_counted_all_the_time() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 4000)
    cluster.pod("b", 8000)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        cluster.fault("PATCH", PATCH, Delay(40.0), times=1)
        request_resize(cluster, "a", mib=12000)
        await until_(lambda: used(scheduler) == 12000)
        assert not cluster.filter(scheduler, "b").node_names
        await until(cluster, "a")
        assert carried(cluster, scheduler, "a") == (12000, 1)
        assert used(scheduler) == 12000


async def test_a_pod_that_changes_meanwhile_is_read_again() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 4000)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        cluster.fault("PATCH", PATCH, Answer(409), times=3)
        request_resize(cluster, "a", mib=9000)
        await until(cluster, "a")
        assert carried(cluster, scheduler, "a") == (9000, 1)


async def test_a_pod_that_goes_meanwhile_leaves_nothing() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 4000)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        cluster.fault("PATCH", PATCH, Cut(), times=2)
        request_resize(cluster, "a", mib=9000)
        await until_(lambda: used(scheduler) == 9000)
        cluster.delete("a")
        await until_(lambda: used(scheduler) == 0)
        assert phase(scheduler, uid) is None
        await until_(lambda: scheduler.retry_queue.open == 0)


# -- who else reads it


async def test_a_replica_that_only_watches_knows_and_does_not_answer() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 4000)
    async with leading(cluster) as scheduler, standing_by(cluster) as other:
        await cluster.place(scheduler, "a")
        await until_(lambda: phase(other, uid) is AllocationPhase.BOUND)
        request_resize(cluster, "a", mib=9000)
        await until_(lambda: used(scheduler) == 9000 and used(other) == 9000)
        assert counted(other, 'resizes_total{outcome="done"}') == 0
        assert counted(other, 'alarms_total{wrong="GrantChanged"}') == 0


async def test_after_a_restart_the_ledger_is_the_same() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 4000)
    cluster.pod("b", 10000)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        request_resize(cluster, "a", mib=9000)
        await until(cluster, "a")
    async with leading(cluster) as scheduler:
        assert used(scheduler) == 9000
        assert not cluster.filter(scheduler, "b").node_names


async def test_a_question_that_came_while_nobody_led_is_answered() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 4000)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
    request_resize(cluster, "a", mib=9000)
    async with leading(cluster) as scheduler:
        await until(cluster, "a")
        assert carried(cluster, scheduler, "a") == (9000, 1)


async def test_an_earlier_grant_of_the_pod_is_undone() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 9000)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        first = cluster.read("a").metadata.annotations[GRANT_KEY]
        request_resize(cluster, "a", mib=4000)
        await until(cluster, "a")
        cluster.note(cluster.path("a"), {GRANT_KEY: first})
        await until_(lambda: carried(cluster, scheduler, "a") == (4000, 1))
        assert counted(scheduler, 'alarms_total{wrong="GrantChanged"}') == 1
        assert used(scheduler) == 4000


async def test_an_event_from_before_the_resize_is_no_change_of_the_grant() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 9000)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        earlier = scheduler.pod_reader.summarize(cluster.read("a"))
        request_resize(cluster, "a", mib=4000)
        await until_(lambda: used(scheduler) == 4000)
        scheduler.pod_cache.on_update(earlier, scheduler.monotonic_clock.time())
        await asyncio.sleep(30)
        assert counted(scheduler, 'alarms_total{wrong="GrantChanged"}') == 0
        assert counted(scheduler, 'grants_restored_total{outcome="done"}') == 0
        assert carried(cluster, scheduler, "a") == (4000, 1)


async def test_nothing_to_change_takes_the_question_away() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 4000)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        before = cluster.read("a").metadata.annotations[GRANT_KEY]
        request_resize(cluster, "a", mib=4000)
        await until(cluster, "a")
        assert cluster.read("a").metadata.annotations[GRANT_KEY] == before


def test_the_wire_form_is_what_the_rebalancer_writes() -> None:
    change = ShareChange(container="c", card=CARD, memory_bytes=MIB)
    wire = msgspec.json.decode(encode_resize(Resize(plan="p", changes=(change,))))
    assert wire["changes"][0]["card"] == CARD


@pytest.mark.parametrize(
    ("limits", "key", "says"),
    [
        ({"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "4000"},
         "volcano.sh/vgpu-ids-new", ",9000,"),
        ({"koordinator.sh/gpu.shared": "1", "koordinator.sh/gpu-core": "50",
          "koordinator.sh/gpu-memory-ratio": "50"},
         "scheduling.koordinator.sh/device-allocated", '"koordinator.sh/gpu-memory":"9000Mi"'),
    ],
)  # fmt: skip
async def test_every_dialects_own_keys_follow(limits: dict[str, str], key: str, says: str) -> None:
    cluster = FakeCluster(1)
    container = {"name": "c", "image": "i", "resources": {"limits": limits}}
    labels = {"koordinator.sh/gpu-isolation-provider": "hami-core"}
    body = {"metadata": {"name": "a", "labels": labels}, "spec": {"containers": [container]}}
    cluster.make("/api/v1/namespaces/default/pods", body)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        before = cluster.read("a").metadata.annotations[key]
        request_resize(cluster, "a", mib=9000)
        await until(cluster, "a")
        after = cluster.read("a").metadata.annotations[key]
        assert after != before
        assert says in after, after


async def test_a_replica_that_read_it_before_the_event_has_it_too() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 4000)
    async with leading(cluster) as scheduler, standing_by(cluster) as other:
        await cluster.place(scheduler, "a")
        await until_(lambda: phase(other, uid) is AllocationPhase.BOUND)
        cluster.kube.event_delay_s = 3
        request_resize(cluster, "a", mib=6000)
        await until(cluster, "a")
        other.pod_reader.summarize(cluster.read("a"))  # as an audit does
        assert used(other) == 4000
        await until_(lambda: used(other) == 6000)
