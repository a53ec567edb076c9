"""One set of cards from everything that a node publishes."""

import json

import pytest

from tessera_core.inventory import cards_of
from tessera_core.registry import load
from tessera_schema.kube import Node
from tessera_testing.builders import a_node
from tests.dialects.adding import acme

REGISTRY = load(extra=[acme])
OURS = "cards.tessera.dev/nvidia"
HAMI = "hami.io/node-nvidia-register"
REGISTERED = json.dumps(
    [{"id": "GPU-a", "count": 10, "devmem": 16384, "devcore": 100, "type": "A10", "health": True}]
)


def published(*cards: dict[str, object], version: int = 1) -> str:
    base = {"index": 0, "vendor": "nvidia", "memory_bytes": 1 << 34}
    return json.dumps({"version": version, "cards": [{**base, **card} for card in cards]})


def ids(node: Node) -> list[str]:
    return [c.id for c in cards_of(REGISTRY, node, {})[0]]


def told(node: Node) -> str:
    return " / ".join(cards_of(REGISTRY, node, {})[1])


def test_our_own_agent_is_believed_over_others() -> None:
    node = a_node(annotations={OURS: published({"id": "GPU-b"}), HAMI: REGISTERED})
    assert ids(node) == ["GPU-b"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (published(), "has 0 nvidia cards, hami has 1; tessera counts"),
        ("{", "the agent will write it again"),
        (published({"id": "GPU-b"}, version=2), "version 2, this one reads 1"),
    ],
)
def test_even_where_it_has_none_or_cannot_be_read(text: str, said: str) -> None:
    node = a_node(annotations={OURS: text, HAMI: REGISTERED})
    assert ids(node) == []
    assert said in told(node)


def test_others_take_health_away_and_complete() -> None:
    node = a_node(
        annotations={HAMI: REGISTERED, "volcano.sh/gpu-unhealthy-ids": "0"},
        capacity={"volcano.sh/gpu-number": 1, "volcano.sh/gpu-memory": 16384},
    )
    ((card,), _) = cards_of(REGISTRY, node, {})
    assert (card.id, card.healthy) == ("GPU-a", False)


def test_unknown_memory_is_taken_from_whoever_knows_it() -> None:
    node = a_node(
        capacity={
            "tencent.com/vcuda-core": 100,
            "volcano.sh/gpu-number": 1,
            "volcano.sh/gpu-memory": 16384,
        }
    )
    ((card,), _) = cards_of(REGISTRY, node, {})
    assert card.memory_mib == 16384


def test_one_id_is_one_card_whatever_its_vendor() -> None:
    node = a_node(
        annotations={OURS: published({"id": "same"}), "acme.com/cards": "same:16,other:16"}
    )
    assert ids(node) == ["same", "other"]
    assert "both publish a card 'same'" in told(node)


@pytest.mark.parametrize(
    "odd", [{"memory_bytes": 1 << 70}, {"memory_bytes": -1}, {"slots": 1 << 70}, {"numa": 1 << 70}]
)
def test_cards_beyond_belief_are_not_used(odd: dict[str, object]) -> None:
    node = a_node(annotations={OURS: published({"id": "GPU-b", **odd})})
    assert ids(node) == []
    assert told(node)
