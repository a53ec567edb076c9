"""Containers of a group that uses more than its quota get less of their cores, until another
message comes, or none comes any more."""

import asyncio
from pathlib import Path

from msgspec.structs import replace

from tessera_agent.admission.resize import ResizeSettings
from tessera_agent.lending.settings import LendingSettings
from tessera_agent.lending.throttle import MOST_QUOTAS, ThrottledNamespaces
from tessera_core.hook.limits_file import CardLimit, Mode
from tessera_schema.messages.envelope import Envelope
from tessera_schema.quotas import (
    QuotaEvent,
    QuotaExceeded,
    QuotaRestored,
    QuotaThrottled,
    encode_quota,
    quota_subject,
)
from tests.agent.nri.runtime_node import Node, a_node, a_share, granted, until
from tests.agent.nri.test_idle_cores_are_lent_on_the_node import Container, wants_more

QUICK = ResizeSettings(look_s=0.02)
THROTTLED = QuotaThrottled(
    namespace="team", quota="q", message="too much", cores_percent=50, namespaces=("team", "ci")
)
RESTORED = QuotaRestored(namespace="team", quota="q", namespaces=("team", "ci"))


async def publish(node: Node, event: QuotaEvent) -> None:
    envelope = Envelope(
        id=str(id(event)), source="/tessera/quota/test", type="dev.tessera.quota.throttled",
        epoch=1, sequence=1, time="2026-01-01T00:00:00Z",
    )  # fmt: skip
    await node.bus.publish(quota_subject("default", event), envelope, encode_quota(event))


def cores(card: CardLimit) -> tuple[int, Mode]:
    return card.cores_permille, card.mode


async def test_cores_are_lowered_and_raised_again(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent(resize=QUICK):
        some = Container(await node.run(granted("some", a_share(cores_percent=30))))
        free = Container(await node.run(granted("free", a_share(cores_percent=0, mib=100))))
        await publish(node, THROTTLED)
        await until(lambda: cores(some.card) == (150, Mode.HARD))
        await until(lambda: cores(free.card) == (500, Mode.HARD))
        late = Container(await node.run(granted("late", a_share(cores_percent=20, mib=100))))
        await until(lambda: cores(late.card) == (100, Mode.HARD))
        await publish(node, RESTORED)
        await until(lambda: cores(some.card) == (300, Mode.HARD))
        await until(lambda: cores(free.card) == (0, Mode.OFF))
        await until(lambda: cores(late.card) == (200, Mode.HARD))


async def test_best_effort_has_no_cores_to_lower_and_is_lent_nothing(tmp_path: Path) -> None:
    quick = LendingSettings(tick_s=0.02, idle_s=0.1)
    async with a_node(tmp_path) as node, node.agent(resize=QUICK, lending=quick):
        rest = Container(await node.run(granted("rest", a_share(best_effort=True))))
        await until(lambda: wants_more(rest, 1000))
        await publish(node, THROTTLED)
        await until(lambda: rest.card.lent_permille == 0)
        assert cores(rest.card) == (0, Mode.ELASTIC)
        await publish(node, RESTORED)
        await until(lambda: wants_more(rest, 1000))


async def test_a_throttled_container_is_lent_nothing_and_its_cores_are_lent(
    tmp_path: Path,
) -> None:
    lending = LendingSettings(tick_s=0.02, idle_s=0.1)
    async with a_node(tmp_path) as node, node.agent(resize=QUICK, lending=lending):
        poor = Container(await node.run(granted("poor", a_share(cores_percent=60))))
        rich = granted("rich", a_share(cores_percent=40))
        await publish(node, replace(THROTTLED, namespaces=("team",)))
        await until(lambda: poor.card.cores_permille == 300)
        other = Container(await node.run(replace(rich, namespace="other")))

        def both() -> bool:
            poor.works(throttled=True)
            return wants_more(other, 300)

        await until(both)
        assert poor.card.lent_permille == 0


async def test_the_next_agent_leaves_lowered_cores_until_a_message_comes(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node:
        async with node.agent(resize=QUICK):
            some = Container(await node.run(granted("some", a_share(cores_percent=30))))
            await publish(node, THROTTLED)
            await until(lambda: some.card.cores_permille == 150)
        async with node.agent(resize=QUICK) as agent:
            assert [h.lowered for h in agent.holdings] == [{"GPU-0"}]
            await agent.limits.reconcile()
            assert some.card.cores_permille == 150
            await publish(node, RESTORED)
            await until(lambda: some.card.cores_permille == 300)


async def test_the_next_agent_waits_no_longer_than_a_message_holds(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node:
        async with node.agent(resize=QUICK):
            some = Container(await node.run(granted("some", a_share(cores_percent=30))))
            await publish(node, THROTTLED)
            await until(lambda: some.card.cores_permille == 150)
        async with node.agent(resize=replace(QUICK, throttle_s=0.2)):
            await until(lambda: some.card.cores_permille == 300)


# -- what holds


def throttling(vendor: str = "acme") -> ThrottledNamespaces:
    return ThrottledNamespaces(vendor, asyncio.Event(), valid_s=600, now=0)


async def test_a_monitor_that_is_gone_throttles_nobody_for_ever() -> None:
    known = throttling()
    known.on_message(THROTTLED, 100)
    assert known.percent("ci", 700) == 50
    assert known.percent("ci", 701) == 100
    known.on_message(THROTTLED, 800)
    assert known.percent("ci", 900) == 50


async def test_nobody_knows_at_first() -> None:
    known = throttling()
    assert known.percent("team", 1) is None
    known.on_message(RESTORED, 2)
    assert known.percent("team", 2) == 100
    assert known.percent("other", 2) is None
    assert known.percent("other", 601) == 100


async def test_names_of_quotas_that_are_gone_are_not_remembered_for_ever() -> None:
    known = throttling()
    for number in range(2 * MOST_QUOTAS):
        known.on_message(replace(THROTTLED, quota=f"q{number}", namespaces=(f"ns{number}",)), 1)
        known.on_message(replace(RESTORED, quota="r", namespaces=(f"back{number}",)), 1)
    assert known.remembered <= 2 * MOST_QUOTAS
    assert known.percent(f"ns{2 * MOST_QUOTAS - 1}", 2) == 50
    assert known.percent(f"back{2 * MOST_QUOTAS - 1}", 2) == 100
    known.on_message(THROTTLED, 700)
    assert known.remembered == 1


async def test_the_lowest_of_several_quotas_holds() -> None:
    known = throttling()
    known.on_message(THROTTLED, 0)
    known.on_message(replace(THROTTLED, quota="r", cores_percent=20), 0)
    assert known.percent("team", 1) == 20
    known.on_message(replace(RESTORED, quota="r"), 2)
    assert known.percent("team", 2) == 50


async def test_quotas_of_other_vendors_and_grace_change_nothing() -> None:
    known = throttling()
    known.on_message(RESTORED, 0)
    known.on_message(replace(THROTTLED, vendor="other"), 0)
    known.on_message(QuotaExceeded(namespace="team", quota="q", message="m"), 0)
    assert known.percent("team", 1) == 100
    known.on_message(replace(THROTTLED, vendor="acme"), 0)
    assert known.percent("team", 1) == 50
