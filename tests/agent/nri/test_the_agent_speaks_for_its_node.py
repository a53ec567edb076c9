"""What an agent publishes is signed by the key that its node shows, in this run and the next."""

from pathlib import Path

import msgspec

from tessera_core.trust.messages import sender_problem
from tessera_runtime.kube.api import Verb
from tessera_schema.node_cards import decode_node_cards
from tests.agent.nri.runtime_node import NODE, Node, a_node, until

KEY = "cards.tessera.dev/nvidia"


def voice(node: Node) -> str:
    """The key that the node shows; empty before the agent has written anything."""
    shown = msgspec.json.decode(node.kube.store.handle(Verb.GET, f"/api/v1/nodes/{NODE}").body)
    text = shown["metadata"].get("annotations", {}).get(KEY)
    return str(decode_node_cards(text).speaks) if text else ""


def unsigned(node: Node, voice: str) -> list[str]:
    """What is wrong with what was said so far."""
    said = node.bus.said("tessera.v1.*.*.>")
    assert said
    return [
        why
        for message in said
        if (
            why := sender_problem(
                voice, message.envelope.signature, message.envelope.order, message.data
            )
        )
    ]


async def test_its_messages_bear_the_signature_of_the_key_on_its_node(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node:
        async with node.agent():
            await until(lambda: voice(node))
            first = voice(node)
            await until(lambda: node.bus.said("tessera.v1.*.usage.*"))
            await until(lambda: node.bus.said("tessera.v1.*.device.>"))
        assert unsigned(node, first) == []
        async with node.agent():
            await until(lambda: voice(node))
        assert voice(node) == first
        assert unsigned(node, first) == []


async def test_a_key_that_was_spoilt_is_made_again(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node:
        async with node.agent():
            await until(lambda: voice(node))
            first = voice(node)
        (file,) = (tmp_path / "agent").glob("speaks-*.key")
        assert file.stat().st_mode & 0o777 == 0o600
        file.write_bytes(b"torn")
        async with node.agent():
            await until(lambda: voice(node) != first)
        assert unsigned(node, voice(node)) != []  # what was said before
