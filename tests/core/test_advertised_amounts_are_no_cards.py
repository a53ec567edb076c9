"""What agents write into their nodes' status is not taken for cards, by any dialect."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from tessera_core.inventory.extended_resources import (
    FORMER,
    allocated_names,
    amounts_of,
    is_former,
    without_advertised,
)
from tessera_core.inventory.merge import cards_of
from tessera_core.registry.registry import load
from tessera_schema.annotation_keys import CARDS_PREFIX
from tessera_schema.kube import Node, NodeStatus, ObjectMeta, Quantity
from tessera_schema.node_cards import ALLOCATE, NodeCardsAnnotation, encode_node_cards
from tessera_testing.builders import a_card

REGISTRY = load()
PER_DIALECT = [(name, dialect.resources) for name, dialect in REGISTRY.readers.items()]


def a_node(amounts: Mapping[str, Quantity]) -> Node:
    return Node(
        metadata=ObjectMeta(name="n"),
        status=NodeStatus(capacity=dict(amounts), allocatable=dict(amounts)),
    )


@pytest.mark.parametrize(("name", "resources"), PER_DIALECT)
@pytest.mark.parametrize("published", [None, "", '{"version":1,"cards":[]}', "garbage"])
def test_no_dialect_sees_cards_in_what_the_first_release_wrote(
    name: str, resources: frozenset[str], published: str | None
) -> None:
    vendor = REGISTRY.readers[name].vendor
    node = a_node({"cpu": "4", **dict.fromkeys(resources, FORMER)})
    if published is not None:
        meta = replace(node.metadata, annotations={f"{CARDS_PREFIX}{vendor}": published})
        node = replace(node, metadata=meta)
    bare = replace(node, status=NodeStatus(capacity={"cpu": "4"}, allocatable={"cpu": "4"}))
    assert cards_of(REGISTRY, node, {}) == cards_of(REGISTRY, bare, {})
    assert cards_of(REGISTRY, node, {})[0] == ()


@pytest.mark.parametrize("vendor", sorted(REGISTRY.vendors))
def test_what_an_agent_advertises_counts_no_cards(vendor: str) -> None:
    card = a_card("GPU-0", vendor=vendor)
    amounts = amounts_of(REGISTRY, vendor, [card, replace(card, id="GPU-1", index=1)])
    text = encode_node_cards(NodeCardsAnnotation(cards=(card,), advertises=amounts))
    node = replace(
        a_node({name: str(amount) for name, amount in amounts.items()}),
        metadata=ObjectMeta(name="n", annotations={f"{CARDS_PREFIX}{vendor}": text}),
    )
    assert cards_of(REGISTRY, node, {}) == ((card,), ())


def test_what_our_own_plugin_registers_counts_no_cards() -> None:
    card = a_card("GPU-0", vendor="nvidia")
    text = encode_node_cards(NodeCardsAnnotation(cards=(card,), giving=ALLOCATE))
    names = dict.fromkeys(allocated_names(REGISTRY, "nvidia"), "400")
    node = replace(
        a_node(names), metadata=ObjectMeta(name="n", annotations={f"{CARDS_PREFIX}nvidia": text})
    )
    assert cards_of(REGISTRY, node, {}) == ((card,), ())


def test_a_plugins_amounts_next_to_it_still_count() -> None:
    amounts = {"mthreads.com/sgpu-core": "32", "mthreads.com/sgpu-memory": "192"}
    counted = cards_of(REGISTRY, a_node(amounts), {})
    assert counted[0]
    assert cards_of(REGISTRY, a_node({**amounts, "mthreads.com/vgpu": FORMER}), {}) == counted


def test_a_node_without_it_is_not_copied() -> None:
    node = a_node({"nvidia.com/gpu": "8"})
    assert without_advertised(node) is node


def test_what_the_first_release_wrote_is_known_by_its_value() -> None:
    assert is_former(FORMER)
    assert not any(map(is_former, (None, 0, "0", 8, "1Pi", "1125899906842625")))
