"""The agent lends idle cores through limits files, and takes them back."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from tessera_agent.containers.hook_files import ContainerKey
from tessera_agent.lending.settings import LendingSettings
from tessera_core.dialect_kit.readings import ProcessReading
from tessera_core.hook import limits_file, usage_file
from tessera_core.hook.limits_file import CardFlag, CardLimit, Flag, HookLimits, Mode
from tessera_core.hook.records import HEAD
from tessera_kubelet.nri.types import Adjustment, PodSandbox
from tessera_runtime.errors import ApiRefused
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Body, Verb
from tessera_schema.annotation_keys import ACROSS_NAMESPACES_LABEL, LENDING_KEY
from tessera_schema.messages.envelope import Envelope
from tessera_schema.messages.hints import LendingBound, NodeHints, encode_hints
from tessera_schema.subjects import HINTS_BUCKET
from tessera_testing.clock import LoopClock
from tests.agent.limitsfile import limits_in
from tests.agent.nri.runtime_node import NODE, Node, a_node, a_share, granted, looks, metric, until
from tests.agent.usagefile import a_usage

MS = 1_000_000
QUICK = LendingSettings(tick_s=0.02, idle_s=0.1, active_s=0.3)


class Container:
    """A container that runs, and writes its usage file as a hook would."""

    def __init__(self, given: Adjustment, card: str = "GPU-0") -> None:
        sources = {mount.destination: Path(mount.source) for mount in given.mounts}
        self._limits, self._usage = sources[limits_file.PATH], sources[usage_file.PATH]
        self._card = card
        self.counts = {"gpu_ns": 0, "throttled_ns": 0, "launches": 0}

    @property
    def limits(self) -> HookLimits:
        return limits_in(self._limits)

    @property
    def card(self) -> CardLimit:
        return self.limits.cards[0]

    @property
    def written_ns(self) -> int:
        """When the limits were written last, by the agent's clock."""
        return int(HEAD.read(self._limits.read_bytes())["written_ns"])

    @property
    def waits(self) -> bool:
        return Flag.HOLD_LAUNCHES in self.limits.flags

    def works(self, *, throttled: bool = False) -> None:
        """It launches, and is held back if `throttled`."""
        self.counts["gpu_ns"] += MS
        self.counts["launches"] += 1
        self.counts["throttled_ns"] += MS if throttled else 0
        data = a_usage({"uuid": self._card.encode(), **self.counts})
        with self._usage.open("r+b") as file:
            os.pwrite(file.fileno(), data, 0)


async def two(node: Node, **busy: Any) -> tuple[Container, Container]:
    """An owner of half a card, and a neighbour with 30 percent that wants more."""
    owner = await node.run(granted("owner", a_share(cores_percent=50)))
    other = await node.run(granted("busy", replace(a_share(cores_percent=30), **busy)))
    return Container(owner), Container(other)


def wants_more(container: Container, loan: int) -> bool:
    """It is held back; whether it has this loan."""
    container.works(throttled=True)
    return container.card.lent_permille >= loan


async def test_idle_cores_go_to_the_neighbour_and_come_back(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent(lending=QUICK) as agent:
        owner, busy = await two(node)
        await until(lambda: wants_more(busy, 700) and metric(agent, lent("busy")) == 70)
        assert (busy.card.mode, busy.card.cores_permille) == (Mode.ELASTIC, 300)
        owner.works()
        await until(lambda: busy.card.lent_permille <= 200)
        assert owner.card.lent_permille == 0


def lent(name: str) -> str:
    labels = f'card="GPU-0",container="main",namespace="team",pod="{name}"'
    return f"tessera_agent_container_lent_percent{{{labels}}}"


async def test_best_effort_has_what_the_owner_leaves_and_no_more(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent(lending=QUICK) as agent:
        owner = Container(await node.run(granted("owner", a_share(cores_percent=100))))
        rest = Container(await node.run(granted("rest", a_share(best_effort=True))))
        assert (rest.card.mode, rest.card.cores_permille) == (Mode.ELASTIC, 0)
        assert CardFlag.REST in rest.card.flags
        assert CardFlag.REST not in owner.card.flags
        await until(lambda: wants_more(rest, 1000) and metric(agent, lent("rest")) == 100)
        owner.works()
        await until(lambda: rest.card.lent_permille == 0)
        assert (rest.card.mode, rest.card.cores_permille) == (Mode.ELASTIC, 0)


async def test_where_lending_is_off_best_effort_is_no_container_without_a_limit(
    tmp_path: Path,
) -> None:
    off = LendingSettings(enabled=False, tick_s=0.02)
    async with a_node(tmp_path) as node, node.agent(lending=off) as agent:
        rest = Container(await node.run(granted("rest", a_share(best_effort=True))))
        for _ in range(20):
            rest.works(throttled=True)
            await agent.lending.tick()
        assert (rest.card.mode, rest.card.lent_permille) == (Mode.ELASTIC, 0)
        assert CardFlag.REST in rest.card.flags


async def test_a_loan_is_short_and_is_renewed(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent(lending=QUICK):
        _, busy = await two(node)
        await until(lambda: wants_more(busy, 700))
        first = busy.card.lent_until_ns
        assert 0 < first - busy.written_ns <= QUICK.loan_s * 1e9
        await until(lambda: wants_more(busy, 700) and busy.card.lent_until_ns > first)


async def test_nothing_stays_lent_or_waiting_when_the_agent_ends(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node:
        async with node.agent(lending=QUICK):
            _, busy = await two(node)
            await until(lambda: wants_more(busy, 700))
        assert busy.card.lent_permille == 0


async def test_what_an_agent_that_was_killed_stopped_runs_again(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node:
        async with node.agent(lending=QUICK) as agent:
            _, busy = await two(node)
        [files] = [h.files for h in agent.holdings if h.pod.name == "busy"]
        assert files is not None
        files.change(lambda limits: replace(limits, flags=Flag.HOLD_LAUNCHES))
        off = LendingSettings(enabled=False)
        async with node.agent(lending=off):
            await until(lambda: not busy.waits)


async def test_switched_off_nothing_is_lent(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node:
        off = LendingSettings(enabled=False, tick_s=0.02)
        async with node.agent(lending=off) as agent:
            _, busy = await two(node)
            for _ in range(20):
                busy.works(throttled=True)
                await agent.lending.tick()
            assert busy.card.lent_permille == 0


async def test_who_opted_out_neither_gets_nor_gives(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent(lending=QUICK):
        keeper = granted("keeper", a_share(cores_percent=50))
        keeper = replace(keeper, annotations={**keeper.annotations, LENDING_KEY: "false"})
        alone = Container(await node.run(keeper))
        busy = Container(await node.run(granted("busy", a_share(cores_percent=30))))
        await until(lambda: wants_more(busy, 200))
        for _ in range(20):
            alone.works(throttled=True)
            assert busy.card.lent_permille <= 200
            assert alone.card.lent_permille == 0


async def test_the_rebalancers_bound_holds(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent(lending=QUICK) as agent:
        bound = LendingBound(uid="uid-busy", container="main", card="GPU-0", most_cores_percent=45)
        await publish(node, NodeHints(node=NODE, at=LoopClock().time(), bounds=(bound,)))
        key = ContainerKey("uid-busy", "main")
        await until(lambda: agent.bounds.most(key, "gpu-0", now=0) == 45)
        _, busy = await two(node)
        await until(lambda: wants_more(busy, 150))
        assert busy.card.lent_permille == 150


async def publish(node: Node, hints: NodeHints) -> None:
    envelope = Envelope(
        id="1", source="/tessera/rebalancer/test", type="dev.tessera.hint.changed", epoch=1,
        sequence=1, time="2026-01-01T00:00:00Z",
    )  # fmt: skip
    await node.bus.put(HINTS_BUCKET, NODE, envelope, encode_hints(hints))


async def test_a_spoilt_usage_file_gets_no_loan_and_harms_nobody(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent(lending=QUICK) as agent:
        _, busy = await two(node)
        given = await node.run(granted("odd", a_share(cores_percent=10)))
        odd = next(Path(m.source) for m in given.mounts if m.destination == usage_file.PATH)
        odd.unlink()
        odd.symlink_to("/dev/zero")
        await until(lambda: wants_more(busy, 600))
        assert metric(agent, lent("odd")) == 0


# -- priority, as HAMi has it


PID = 1 << 23
"""More than any process has."""


async def important(node: Node, namespace: str = "team") -> Container:
    """One of the highest priority, which the driver sees at work."""
    pod = replace(ranked("high", 0), namespace=namespace)
    given = await node.create(pod, env={"CUDA_TASK_PRIORITY": "0"})
    await node.start(pod, pid=PID)
    node.reader.run(0, ProcessReading(pid=PID, memory_bytes=1))
    return Container(given)


def ranked(name: str, priority: int) -> PodSandbox:
    return granted(name, a_share(cores_percent=30, mib=1000, dialect="hami"))


async def test_low_priority_waits_while_high_priority_works(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent(lending=QUICK) as agent:
        high = await important(node)
        low = Container(await node.run(ranked("low", 1)))
        assert not low.waits

        def works() -> bool:
            high.works()
            return low.waits

        waits = f"tessera_agent_container_held{{{names('low')}}}"
        await until(lambda: works() and metric(agent, waits) == 1)
        await until(lambda: not low.waits)
        assert not high.waits


async def test_a_hold_is_short_and_is_renewed(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent(lending=QUICK):
        high = await important(node)
        low = Container(await node.run(ranked("low", 1)))

        ends: list[int] = []

        def is_renewed(after_ns: int) -> bool:
            high.works()
            limits = low.limits
            ends.append(limits.hold_until_ns)
            return Flag.HOLD_LAUNCHES in limits.flags and ends[-1] > after_ns

        await until(lambda: is_renewed(0))
        first = ends[-1]
        assert first <= low.written_ns + QUICK.loan_s * 1e9
        await until(lambda: is_renewed(first))
        await until(lambda: not low.waits)
        assert low.limits.hold_until_ns == 0


async def test_launches_that_the_driver_does_not_see_hold_nobody(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent(lending=QUICK) as agent:
        high = await important(node)
        low = Container(await node.run(ranked("low", 1)))
        node.reader.run(0)
        await looks(agent, 8)
        free = 0
        async with asyncio.timeout(30):  # what the driver saw before has its time
            while free < 20:
                high.works()
                await agent.lending.tick()
                free = 0 if low.waits else free + 1
                await asyncio.sleep(0.005)


async def test_a_priority_counts_in_other_namespaces_by_an_administrators_label(
    tmp_path: Path,
) -> None:
    async with a_node(tmp_path) as node, node.agent(lending=QUICK) as agent:
        high = await important(node, namespace="others")
        low = Container(await node.run(ranked("low", 1)))
        await looks(agent, 3)
        for _ in range(20):
            high.works()
            await agent.lending.tick()
            assert not low.waits
        await label(node, "others")

        def works() -> bool:
            high.works()
            return low.waits

        await until(works)


async def test_a_limit_that_is_given_up_is_back_when_another_namespace_comes(
    tmp_path: Path,
) -> None:
    async with a_node(tmp_path) as node, node.agent(lending=QUICK):
        env = {"GPU_CORE_UTILIZATION_POLICY": "disable"}
        free = Container(await node.run(ranked("free", 1), env=env))
        await node.run(ranked("neighbour", 1))
        assert free.card.mode is Mode.OFF
        await node.run(replace(ranked("stranger", 1), namespace="others"))
        await until(lambda: free.card.mode is not Mode.OFF)
        assert free.card.cores_permille == 300
        await label(node, "team")
        await until(lambda: free.card.mode is Mode.OFF)
        await label(node, "team", None)
        await until(lambda: free.card.mode is not Mode.OFF)


async def label(node: Node, namespace: str, value: str | None = "true") -> None:
    """An administrator lets what its containers say count on cards that others share, or not."""
    path = f"{paths.NAMESPACES}/{namespace}"
    body = {"metadata": {"labels": {ACROSS_NAMESPACES_LABEL: value}}}
    with suppress(ApiRefused):
        made = msgspec.json.encode({"metadata": {"name": namespace}})
        await node.kube.call(Verb.POST, paths.NAMESPACES, body=made)
    await node.kube.call(Verb.PATCH, path, body=msgspec.json.encode(body), kind=Body.MERGE_PATCH)


def names(pod: str) -> str:
    return f'container="main",namespace="team",pod="{pod}"'
