"""A running container's limits follow its pod's last grant, within what the card has."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tessera_agent.admission.resize import ResizeSettings
from tessera_agent.agent import Agent
from tessera_core.hook import usage_file
from tessera_core.hook.limits_file import PATH, CardLimit, Mode
from tessera_core.trust.grants import Signer
from tessera_kubelet.errors import ContainerRefused
from tessera_kubelet.nri.types import Adjustment, PodSandbox
from tessera_schema.cards import MIB
from tessera_schema.grants import Grant, Share
from tests.agent.limitsfile import limits_of
from tests.agent.nri.runtime_node import (
    SIGNER,
    Node,
    a_grant,
    a_node,
    a_pod,
    a_share,
    granted,
    signed,
    until,
)
from tests.agent.usagefile import a_usage, memory

QUICK = ResizeSettings(look_s=0.02, patience_s=60)


class Job:
    """A pod that runs, and is shown by the API server."""

    def __init__(self, node: Node, uid: str, *shares: Share) -> None:
        self.node, self.uid = node, uid
        self.grant = a_grant("job", *shares, uid=uid)
        self.given: Adjustment

    @property
    def pod(self) -> PodSandbox:
        return replace(a_pod("job", signed(self.grant)), uid=self.uid)

    async def run(self) -> None:
        self.given = await self.node.run(self.pod)

    def file(self, inside: str) -> Path:
        return next(Path(m.source) for m in self.given.mounts if m.destination == inside)

    @property
    def card(self) -> CardLimit:
        return limits_of(self.given).cards[0]

    def uses(self, mib: int) -> None:
        """Its hook has charged so much."""
        slot = {"card": 0, "pid": 1, "bytes": memory(device=mib * MIB)}
        data = a_usage({"uuid": b"GPU-0", "charged_bytes": mib * MIB}, slots=(slot,))
        with self.file(usage_file.PATH).open("r+b") as file:
            file.write(data)

    async def regrant(
        self, *shares: Share, revision: int = 1, signer: Signer = SIGNER
    ) -> Grant:  # fmt: skip
        """The scheduler has resized it."""
        later = replace(self.grant, shares=shares, revision=revision)
        await self.node.annotate_pod("job", signed(later, signer))
        return later


async def a_job(node: Node, *shares: Share) -> Job:
    job = Job(node, await node.show_pod("job"), *shares)
    await job.run()
    return job


def shares(agent: Agent, job: Job) -> list[Share]:
    return agent.holdings.shares_by_pod().get(job.uid, [])


async def test_what_is_taken_away_is_there_for_others(tmp_path: Path) -> None:
    other = granted("other", a_share(mib=10_000))
    async with a_node(tmp_path) as node, node.agent(resize=QUICK) as agent:
        job = await a_job(node, a_share(mib=10_000))
        with pytest.raises(ContainerRefused, match="CardOverfull"):
            await node.create(other)
        await job.regrant(a_share(mib=6_000, cores_percent=20))
        await until(lambda: shares(agent, job) == [a_share(mib=6_000, cores_percent=20)])
        await node.create(other)
        assert (job.card.memory_bytes, job.card.cores_permille) == (6_000 * MIB, 200)
        assert job.card.mode is Mode.HARD  # it had no limit of cores before


async def test_what_is_in_use_is_given_back_as_it_becomes_free(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent(resize=QUICK) as agent:
        job = await a_job(node, a_share(mib=10_000))
        job.uses(7_000)
        await job.regrant(a_share(mib=4_000))
        await until(lambda: job.card.memory_bytes == 7_000 * MIB)
        await until(lambda: shares(agent, job)[0].memory_mib == 7_000)
        with pytest.raises(ContainerRefused, match="CardOverfull"):
            await node.create(granted("other", a_share(mib=10_000)))
        job.uses(3_000)
        await until(lambda: job.card.memory_bytes == 4_000 * MIB)
        await until(lambda: shares(agent, job)[0].memory_mib == 4_000)
        await node.create(granted("other", a_share(mib=10_000)))


async def test_who_never_gives_back_is_allowed_no_more_in_the_end(tmp_path: Path) -> None:
    short = replace(QUICK, patience_s=0.1)
    async with a_node(tmp_path) as node, node.agent(resize=short):
        job = await a_job(node, a_share(mib=10_000))
        job.uses(7_000)
        await job.regrant(a_share(mib=4_000))
        await until(lambda: job.card.memory_bytes == 4_000 * MIB)


async def test_what_is_not_there_is_not_given_until_it_is(tmp_path: Path) -> None:
    other = granted("other", a_share(mib=8_000))
    async with a_node(tmp_path) as node, node.agent(resize=QUICK) as agent:
        job = await a_job(node, a_share(mib=8_000))
        await node.run(other)
        await job.regrant(a_share(mib=9_000))
        await until(lambda: agent.holdings.granted(job.uid).revision == 1)  # type: ignore[union-attr]  # it was granted
        await agent.limits.reconcile()
        assert job.card.memory_bytes == 8_000 * MIB
        await node.stop(other)
        await until(lambda: job.card.memory_bytes == 9_000 * MIB)
        assert shares(agent, job) == [a_share(mib=9_000)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"signer": Signer(bytes(32))},
        {"revision": 0},
    ],
)
async def test_only_a_later_grant_that_is_signed_changes_anything(
    tmp_path: Path, wrong: dict[str, Any]
) -> None:
    async with a_node(tmp_path) as node, node.agent(resize=QUICK) as agent:
        job = await a_job(node, a_share(mib=4_000))
        later = await job.regrant(a_share(mib=9_000), **wrong)
        await until(lambda: grant_of(agent, job) == signed(later, wrong.get("signer", SIGNER)))
        await agent.limits.reconcile()
        assert job.card.memory_bytes == 4_000 * MIB


def grant_of(agent: Agent, job: Job) -> str:
    found = agent.pods.get(job.uid)
    return found.grant if found else ""


async def test_a_grant_on_other_cards_is_no_later_one(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent(resize=QUICK) as agent:
        job = await a_job(node, a_share(mib=4_000))
        later = await job.regrant(a_share(card=1, mib=9_000))
        await until(lambda: grant_of(agent, job) == signed(later))
        await agent.limits.reconcile()
        assert shares(agent, job) == [a_share(mib=4_000)]


async def test_a_container_that_starts_again_has_what_was_granted_last(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent(resize=QUICK):
        job = await a_job(node, a_share(mib=4_000))
        await job.regrant(a_share(mib=9_000))
        await until(lambda: job.card.memory_bytes == 9_000 * MIB)
        await node.stop(job.pod)
        await node.create(job.pod, attempt=1)
        assert job.card.memory_bytes == 9_000 * MIB


async def test_the_next_agent_knows_what_was_granted_last(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node:
        async with node.agent(resize=QUICK):
            job = await a_job(node, a_share(mib=4_000))
            await job.regrant(a_share(mib=9_000, cores_percent=30))
            await until(lambda: job.card.memory_bytes == 9_000 * MIB)
        await node.drop_pod("job")  # nothing but the node knows of it
        async with node.agent(resize=QUICK) as agent:
            assert shares(agent, job) == [a_share(mib=9_000, cores_percent=30)]
            await agent.limits.reconcile()
            assert (job.card.memory_bytes, job.card.cores_permille) == (9_000 * MIB, 300)


async def test_a_grant_counts_as_soon_as_its_key_is_known(tmp_path: Path) -> None:
    newer = Signer(bytes(32))
    async with a_node(tmp_path) as node, node.agent(resize=QUICK) as agent:
        job = await a_job(node, a_share(mib=4_000))
        later = await job.regrant(a_share(mib=9_000), signer=newer)
        await until(lambda: grant_of(agent, job) == signed(later, newer))
        await agent.limits.reconcile()
        assert job.card.memory_bytes == 4_000 * MIB
        await node.also_publish(newer)
        await until(lambda: job.card.memory_bytes == 9_000 * MIB)


async def test_the_next_agent_goes_on_taking_back(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node:
        async with node.agent(resize=QUICK):
            job = await a_job(node, a_share(mib=10_000))
            job.uses(7_000)
            await job.regrant(a_share(mib=4_000))
            await until(lambda: job.card.memory_bytes == 7_000 * MIB)
        async with node.agent(resize=QUICK) as agent:
            assert shares(agent, job)[0].memory_mib == 7_000
            job.uses(1_000)
            await until(lambda: shares(agent, job) == [a_share(mib=4_000)])


async def test_a_file_that_cannot_be_written_is_tried_again(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent(resize=QUICK) as agent:
        job = await a_job(node, a_share(mib=8_000))
        limits = job.file(PATH)
        aside = limits.rename(limits.with_name("aside"))
        await job.regrant(a_share(mib=9_000))
        await until(lambda: shares(agent, job) == [a_share(mib=9_000)])
        aside.rename(limits)
        await until(lambda: job.card.memory_bytes == 9_000 * MIB)
