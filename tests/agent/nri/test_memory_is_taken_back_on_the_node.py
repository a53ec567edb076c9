"""The agent ends best-effort containers while an owner waits for memory of their card."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from tessera_agent.agent import Agent
from tessera_agent.reclaim.settings import ReclaimSettings
from tessera_core.hook import limits_file, usage_file
from tessera_core.hook.limits_file import CardFlag, CardLimit
from tessera_kubelet.errors import ContainerRefused
from tessera_kubelet.nri.types import Adjustment, PodSandbox
from tessera_runtime.clock import SystemClock
from tessera_schema.grants import Share
from tessera_testing.readers import FakeReader, a_reading
from tests.agent.hooked import hooked
from tests.agent.limitsfile import limits_in
from tests.agent.machine import NVML, built, polling
from tests.agent.nri.runtime_node import Node, a_node, a_share, granted, metric, until
from tests.agent.usagefile import a_usage

QUICK = ReclaimSettings(enabled=True, tick_s=0.02, grace_s=0.3, closed_s=3600)
MIB = 1 << 20
WAITS_FOR_EVER = "import signal, sys; print(1, flush=True); signal.pause()"
IGNORES_REQUESTS = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True)\n"
    "while True: signal.pause()"
)


class Container:
    """A container with its process, which writes its usage file as a hook would."""

    def __init__(
        self, node: Node, given: Adjustment, process: "subprocess.Popen[str] | None" = None
    ) -> None:
        self._clock = node.clock
        sources = {mount.destination: Path(mount.source) for mount in given.mounts}
        self.limits, self.usage = sources[limits_file.PATH], sources[usage_file.PATH]
        self.process = process

    @property
    def card(self) -> CardLimit:
        return limits_in(self.limits).cards[0]

    @property
    def is_flagged(self) -> bool:
        return CardFlag.RECLAIM in self.card.flags

    def says(self, **fields: int) -> None:
        """The record of its card from now on."""
        data = a_usage({"uuid": b"GPU-0", **fields})
        with self.usage.open("r+b") as file:
            os.pwrite(file.fileno(), data, 0)

    def wants(self, mib: int) -> None:
        self.says(wanted_bytes=mib * MIB, wanted_at_ns=self._clock.time_ns())

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None


@contextmanager
def a_process(script: str = WAITS_FOR_EVER) -> Iterator["subprocess.Popen[str]"]:
    """A container's first process."""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as one:
        try:
            assert one.stdout is not None
            one.stdout.readline()
            yield one
        finally:
            one.kill()


def best_effort(name: str, card: int = 0) -> PodSandbox:
    return granted(name, a_share(best_effort=True, card=card))


async def run(node: Node, pod: PodSandbox, process: "subprocess.Popen[str]") -> Container:
    given = await node.create(pod)
    await node.start(pod, pid=process.pid)
    return Container(node, given, process)


def reclaims(agent: Agent, what: str) -> float:
    return metric(agent, f'tessera_agent_reclaims_total{{what="{what}"}}')


async def test_by_default_nobody_waits_and_nobody_is_ended(tmp_path: Path) -> None:
    with a_process() as process:
        async with a_node(tmp_path) as node, node.agent() as agent:
            owner = Container(node, await node.run(granted("owner", a_share())))
            rest = await run(node, best_effort("rest"), process)
            rest.says(charged_bytes=1000 * MIB)
            for _ in range(10):
                owner.wants(100)
                await agent.reclaim.tick()
            assert rest.runs
            assert not owner.is_flagged


async def test_the_youngest_is_ended_for_an_owner_that_waits(tmp_path: Path) -> None:
    with a_process() as first, a_process() as second:
        async with a_node(tmp_path) as node, node.agent(reclaim=QUICK) as agent:
            owner = Container(node, await node.run(granted("owner", a_share())))
            old = await run(node, best_effort("old"), first)
            young = await run(node, best_effort("young"), second)
            for one in (old, young):
                one.says(charged_bytes=1000 * MIB)
            await until(lambda: owner.is_flagged)
            assert not old.is_flagged

            def ended() -> bool:
                owner.wants(800)
                return not young.runs

            await until(ended)
            owner.says(wanted_bytes=0)
            await node.end(best_effort("young"))
            await until(lambda: node.events("MemoryReclaimed"))
            assert old.runs
            assert node.events("MemoryReclaimed") == [
                "container main: it is best-effort and was ended: containers wait for 800 MiB of "
                "card GPU-0 that they were granted"
            ]
            assert (reclaims(agent, "waited"), reclaims(agent, "ended")) == (1, 1)


async def test_one_that_does_not_end_when_it_is_requested_to_is_ended_by_force(
    tmp_path: Path,
) -> None:
    with a_process(IGNORES_REQUESTS) as process:
        async with a_node(tmp_path) as node, node.agent(reclaim=QUICK):
            owner = Container(node, await node.run(granted("owner", a_share())))
            rest = await run(node, best_effort("rest"), process)

            def ended() -> bool:
                owner.wants(800)
                return not rest.runs

            await until(ended)
            assert process.wait() == -9


async def test_on_a_card_where_an_owner_was_short_no_best_effort_container_begins(
    tmp_path: Path,
) -> None:
    with a_process() as process:
        async with a_node(tmp_path) as node, node.agent(reclaim=QUICK) as agent:
            owner = Container(node, await node.run(granted("owner", a_share())))
            await run(node, best_effort("rest"), process)

            def failed() -> bool:
                owner.says(failed_for_others=3)
                return reclaims(agent, "failed") > 0

            owner.says(failed_for_others=1)
            await until(lambda: owner.is_flagged)
            await agent.reclaim.tick()
            await until(failed)
            with pytest.raises(
                ContainerRefused,
                match=r"CardClosed: card 0 \(GPU-0\): .* best-effort containers wait 60 more min",
            ):
                await node.create(best_effort("next"))
            await node.create(best_effort("elsewhere", 1))
            await node.create(granted("another", a_share()))
            assert 3500 < metric(agent, 'tessera_agent_card_closed_seconds{card="GPU-0"}') <= 3600


async def test_nobody_waits_once_best_effort_containers_or_the_agent_are_gone(
    tmp_path: Path,
) -> None:
    with a_process() as process:
        async with a_node(tmp_path) as node:
            async with node.agent(reclaim=QUICK):
                owner = Container(node, await node.run(granted("owner", a_share())))
                await run(node, best_effort("rest"), process)
                await until(lambda: owner.is_flagged)
                await node.end(best_effort("rest"))
                await until(lambda: not owner.is_flagged)
                await run(node, best_effort("rest"), process)
                await until(lambda: owner.is_flagged)
            assert not owner.is_flagged


async def test_a_resize_leaves_the_flag_alone(tmp_path: Path) -> None:
    with a_process() as process:
        async with a_node(tmp_path) as node, node.agent(reclaim=QUICK) as agent:
            owner = Container(node, await node.run(granted("owner", a_share())))
            await run(node, best_effort("rest"), process)
            await until(lambda: owner.is_flagged)
            await agent.limits.reconcile()
            assert owner.is_flagged


async def owner_gets_its_memory(
    tmp_path: Path, card_mib: int, owner: Share, best_effort: Share, mib: int
) -> None:
    """All real but the runtime: hooks on a simulated card of 16 GiB of which `card_mib` can be
    granted. The best-effort container has 12,000 MiB of it when the owner allocates `mib`."""
    machine = tmp_path / "machine"
    environ = {"TESSERA_SIM_STATE": str(machine), "TESSERA_SIM_CONFIG": "cards=1 memory=16g"}
    built("sim/libnvidia-ml.so.1")
    with polling(NVML, environ) as poller:
        card = poller.poll()["cards"][0]["id"]
        async with a_node(tmp_path) as node:
            node.clock = SystemClock()
            node.reader = FakeReader(replace(a_reading(mib=card_mib), id=card))
            async with node.agent(reclaim=QUICK) as agent:
                pod = granted("owner", replace(owner, card=card))
                has = Container(node, await node.run(pod))
                rest = granted("rest", replace(best_effort, card=card))
                given = Container(node, await node.create(rest))
                with hooked(machine, given.limits, given.usage) as other:
                    await node.start(rest, pid=other.process.pid)
                    assert await asyncio.to_thread(other.alloc, 12_000) == 0
                    await until(lambda: has.is_flagged)
                    with hooked(machine, has.limits, has.usage) as process:
                        assert await asyncio.to_thread(process.alloc, mib) == 0
                    assert other.process.wait() != 0
                await until(lambda: reclaims(agent, "ended") == 1)


async def test_a_hook_gets_the_memory_that_its_container_was_granted(tmp_path: Path) -> None:
    share = a_share(mib=12_288)
    await owner_gets_its_memory(tmp_path, 24_576, share, replace(share, best_effort=True), 12_000)
