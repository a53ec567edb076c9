"""One set of cards from everything that a node publishes."""

import json

import pytest
from msgspec.structs import replace

from tessera_core.dialect_kit.capacity_cards import MOST_CARDS
from tessera_core.fleet.fleet import Fleet
from tessera_core.inventory.merge import MOST_WARNINGS, cards_of
from tessera_core.registry.registry import load
from tessera_schema.cards import Siting
from tessera_schema.kube import Node
from tessera_testing.builders import a_card, a_node
from tests.dialects.adding import acme

REGISTRY = load(extra=[acme])
AGENTS = "cards.tessera.dev/nvidia"
HAMI = "hami.io/node-nvidia-register"
REGISTERED = json.dumps(
    [{"id": "GPU-a", "count": 10, "devmem": 16384, "devcore": 100, "type": "A10", "health": True}]
)


def published(*cards: dict[str, object], version: int = 1) -> str:
    base = {"index": 0, "vendor": "nvidia", "memory_bytes": 1 << 34}
    return json.dumps({"version": version, "cards": [{**base, **card} for card in cards]})


def ids(node: Node) -> list[str]:
    return [c.id for c in cards_of(REGISTRY, node, {})[0]]


def reported(node: Node) -> str:
    return " / ".join(cards_of(REGISTRY, node, {})[1])


def test_our_own_agent_is_believed_over_others() -> None:
    node = a_node(annotations={AGENTS: published({"id": "GPU-b"}), HAMI: REGISTERED})
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
    node = a_node(annotations={AGENTS: text, HAMI: REGISTERED})
    assert ids(node) == []
    assert said in reported(node)


def test_others_take_health_away_and_complete() -> None:
    node = a_node(
        annotations={HAMI: REGISTERED, "volcano.sh/gpu-unhealthy-ids": "0"},
        capacity={"volcano.sh/gpu-number": 1, "volcano.sh/gpu-memory": 16384},
    )
    ((card,), _) = cards_of(REGISTRY, node, {})
    assert (card.id, card.healthy) == ("GPU-a", False)


def test_unknown_memory_is_taken_from_what_knows_it() -> None:
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
        annotations={AGENTS: published({"id": "same"}), "acme.com/cards": "same:16,other:16"}
    )
    assert ids(node) == ["same", "other"]
    assert "both publish a card 'same'" in reported(node)


@pytest.mark.parametrize(
    "odd", [{"memory_bytes": 1 << 70}, {"memory_bytes": -1}, {"slots": 1 << 70}, {"numa": 1 << 70}]
)
def test_cards_beyond_belief_are_not_used(odd: dict[str, object]) -> None:
    node = a_node(annotations={AGENTS: published({"id": "GPU-b", **odd})})
    assert ids(node) == []
    assert reported(node)


def many(count: int, **facts: object) -> str:
    return published(*({"id": f"GPU-{i}", "index": i, **facts} for i in range(count)))


def test_more_cards_than_a_node_can_have_are_left_out_and_reported() -> None:
    node = a_node(annotations={AGENTS: many(4000)})
    assert ids(node) == [f"GPU-{i}" for i in range(MOST_CARDS)]
    assert reported(node) == (
        f"node {node.name}: tessera's nvidia cards are 4000: the first {MOST_CARDS} are used, the "
        "rest is left out; see what publishes them"
    )


def test_the_vendors_of_a_node_have_no_more_cards_together() -> None:
    others = ",".join(f"card-{i}:16" for i in range(MOST_CARDS))
    node = a_node(annotations={AGENTS: many(MOST_CARDS), "acme.com/cards": others})
    assert len(ids(node)) == MOST_CARDS
    assert "all its vendors together cards are 128" in reported(node)


def test_names_without_end_are_beyond_belief() -> None:
    node = a_node(annotations={AGENTS: many(40, model="A" * 5000)})
    assert ids(node) == []
    warnings = cards_of(REGISTRY, node, {})[1]
    assert len(warnings) == MOST_WARNINGS + 1
    assert warnings[-1] == f"and {40 - MOST_WARNINGS} more warnings"
    assert "names of more than 256 letters" in warnings[0]


def test_the_fleet_is_no_wider_for_a_node_of_4000_cards() -> None:
    fleet = Fleet()
    for n in range(20):
        fleet.put(f"n{n}", cards_of(REGISTRY, a_node(annotations={AGENTS: many(8)}), {})[0])
    fleet.put("evil", cards_of(REGISTRY, a_node(annotations={AGENTS: many(4000)}), {})[0])
    assert fleet.cards.vendor.shape[1] == MOST_CARDS


def test_names_that_no_card_has_any_more_are_forgotten() -> None:
    """A node that publishes other models, modes and pools each time."""
    fleet = Fleet()
    fleet.put("good", [a_card("g", model="A100", mode="mps")])
    before = fleet.snapshot()
    for turn in range(1000):
        siting = Siting(pool=f"pool-{turn}")
        card = replace(a_card("e", model=f"model-{turn}", mode=f"mode-{turn}"), siting=siting)
        fleet.put("evil", [card])
    assert [len(n.of) for n in (fleet.models, fleet.modes, fleet.pools)] == [3, 3, 2]
    assert fleet.models.of[fleet.cards.model[fleet.rows["evil"], 0]] == "model-999"
    assert fleet.models.of[fleet.cards.model[fleet.rows["good"], 0]] == "A100"
    assert before.models.of[before.cards.model[before.rows["good"], 0]] == "A100"
    fleet.remove("evil")
    fleet.remove("good")
    assert (fleet.models.known("A100"), fleet.models.known("")) == (None, 0)
