"""Only what our scheduler signed for this pod on this node gives anything; the rest is refused, and
asked again."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tessera_agent.agent import Agent
from tessera_core.trust.grants import Signer
from tessera_kubelet.errors import ContainerRefused
from tessera_kubelet.nri.types import PodSandbox
from tessera_schema.grants import GRANT_KEY, encode_grant
from tests.agent.nri.runtime_node import (
    SECRET,
    VISIBLE,
    Node,
    a_grant,
    a_node,
    a_pod,
    a_share,
    granted,
    metric,
    signed,
    until,
)

STRANGER = Signer(SECRET[::-1])
GOOD = signed(a_grant("job", a_share()))

BAD = {
    "unsigned": (encode_grant(a_grant("job", a_share())), "ForgedGrant"),
    "signed by a stranger": (signed(a_grant("job", a_share()), STRANGER), "ForgedGrant"),
    "changed": (GOOD.replace("4294967296", "8589934592"), "ForgedGrant"),
    "cut off": (GOOD[:-20], "ForgedGrant"),
    "cut to nothing": ("", "ForgedGrant"),
    "of another pod": (signed(a_grant("other", a_share())), "GrantOfAnother"),
    "of another node": (
        signed(a_grant("job", a_share(), node="worker-2")), "GrantOfAnother",
    ),
    "of another release": (
        signed(a_grant("job", a_share(), version=99)), "GrantOfNewerRelease",
    ),
    "not a grant": (Signer(SECRET).sign('{"version":1,"uid":7}'), "GrantUnreadable"),
    "beyond belief": (
        signed(a_grant("job", replace(a_share(), memory_bytes=-1))), "GrantUnreadable",
    ),
    "of a card that is not here": (signed(a_grant("job", a_share(card=9))), "CardUnknown"),
}  # fmt: skip


async def refused(node: Node, agent: Agent, pod: PodSandbox, reason: str) -> None:
    """It is refused, counted, and recorded as an event of the pod."""
    before = metric(agent, f'tessera_agent_refusals_total{{why="{reason}"}}')
    with pytest.raises(ContainerRefused, match=f'plugin "10-tessera": {reason}: '):
        await node.create(pod)
    assert metric(agent, f'tessera_agent_refusals_total{{why="{reason}"}}') == before + 1
    await until(lambda: node.events(reason))


@pytest.mark.parametrize(("text", "reason"), BAD.values(), ids=BAD)
async def test_a_grant_gives_nothing_that_is(tmp_path: Path, text: str, reason: str) -> None:
    async with a_node(tmp_path) as node, node.agent() as agent:
        await refused(node, agent, a_pod("job", text), reason)
        assert len(agent.holdings) == 0
        given = await node.create(a_pod("job", GOOD))  # its own is restored: it starts
        assert given.env[VISIBLE] == "GPU-0"


async def test_what_was_granted_keeps_when_the_grant_is_lost(tmp_path: Path) -> None:
    pod = granted("job", a_share())
    robbed = replace(pod, id="sb-2", annotations={})
    async with a_node(tmp_path) as node, node.agent() as agent:
        given = await node.run(pod)
        await refused(node, agent, robbed, "GrantRemoved")
        limits = next(Path(m.source) for m in given.mounts if m.source.endswith("limits"))
        assert limits.exists()  # what runs goes on


async def test_a_changed_grant_does_not_enlarge_what_runs(tmp_path: Path) -> None:
    pod = granted("job", a_share())
    more = replace(pod, id="sb-2", annotations={GRANT_KEY: BAD["changed"][0]})
    async with a_node(tmp_path) as node, node.agent() as agent:
        await node.run(pod)
        with pytest.raises(ContainerRefused, match="ForgedGrant"):
            await node.create(more, attempt=1)
        assert [h.shares for h in agent.holdings] == [(a_share(),)]


async def test_a_grant_that_was_restored_counts(tmp_path: Path) -> None:
    """The runtime knows the annotations of when the sandbox was made."""
    async with a_node(tmp_path) as node, node.agent() as agent:
        uid = await node.show_pod("job")
        bare = PodSandbox(id="sb-1", name="job", uid=uid, namespace="default")
        grant = a_grant("job", a_share(), uid=uid, namespace="default")
        forged = replace(bare, annotations={GRANT_KEY: encode_grant(grant)})
        with pytest.raises(ContainerRefused, match="ForgedGrant"):
            await node.create(forged)
        await node.annotate_pod("job", signed(grant))
        await until(lambda: (shown := agent.pods.get(uid)) and shown.grant)
        assert (await node.create(forged)).env[VISIBLE] == "GPU-0"
        assert (await node.create(bare, attempt=1)).env[VISIBLE] == "GPU-0"


async def test_without_keys_nothing_is_given_until_they_are_published(tmp_path: Path) -> None:
    async with a_node(tmp_path, keys=False) as node, node.agent(ready=False) as agent:
        await until(lambda: node.runtime.plugins)
        await refused(node, agent, a_pod("job", GOOD), "GrantKeysUnknown")
        assert "public keys" in agent.problem()
        assert (await node.create(a_pod("plain"))).env == {VISIBLE: "void"}
        await node.publish_keys()
        await until(lambda: not agent.problem())
        assert (await node.create(a_pod("job", GOOD))).env[VISIBLE] == "GPU-0"
        assert metric(agent, 'tessera_agent_alarms_total{what="GrantKeysUnknown"}') == 0


async def test_a_card_that_is_ill_takes_no_container(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent() as agent:
        node.reader.fail(0)
        await until(lambda: not (agent.devices.cards or {})["GPU-0"].healthy)
        await refused(node, agent, granted("job", a_share()), "CardUnhealthy")
        assert (await node.create(granted("well", a_share(card=1)))).env[VISIBLE] == "GPU-1"


async def test_cards_that_are_not_known_are_not_given(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node:
        node.reader.be_silent("it is being loaded")
        async with node.agent(ready=False) as agent:
            await until(lambda: node.runtime.plugins and agent.keys.known.is_set())
            assert "it is being loaded" in agent.problem()
            await refused(node, agent, a_pod("job", GOOD), "CardUnknown")
