"""What HAMi's plugin publishes of a node's cards: JSON, both CSV forms, links and cordon."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_core.dialect_kit.hami_format import RegisteredCard, encode_csv, read_csv
from tessera_core.dialects.hami.codec import read_register
from tessera_core.inventory.merge import cards_of
from tessera_core.registry.registry import load
from tessera_schema.cards import MIB, Inventory, Precision
from tessera_testing.builders import a_node
from tests.dialects.hami.register import encode_register
from tests.dialects.hami.setting import CORDON, REGISTER, SCORE, a_gpu_node, made

P4 = RegisteredCard(
    id="GPU-0", count=10, devmem=8192, devcore=100, type="NVIDIA-Tesla P4", mode="hami-core",
    health=True,
)  # fmt: skip


def published(text: str, **notes: str) -> Inventory:
    (inventory,) = made().inventory(a_node(annotations={REGISTER: text, **notes}), ())
    return inventory


def test_an_entry_is_written_without_its_zero_values() -> None:
    """PRB-23."""
    assert encode_register([P4]) == (
        '[{"id":"GPU-0","count":10,"devmem":8192,"devcore":100,"type":"NVIDIA-Tesla P4",'
        '"mode":"hami-core","health":true}]'
    )


def test_an_unhealthy_card_has_no_health_key_and_reads_as_unhealthy() -> None:
    """PRB-24."""
    text = encode_register([RegisteredCard(id="GPU-0", count=10, devmem=8192, devcore=100)])
    assert "health" not in text
    assert [c.healthy for c in published(text).cards] == [False]


def test_missing_fields_have_their_zero_values() -> None:
    """ENC-18."""
    inventory = published(
        '[{"index":1,"id":"id-1","count":1,"devmem":1024,"devcore":10,"type":"type","health":true}]'
    )
    (card,) = inventory.cards
    assert (card.numa, card.healthy, card.mode, card.index) == (0, True, "", 1)
    assert (card.memory_bytes, card.cores_percent, card.slots) == (1024 * MIB, 10, 1)
    assert (inventory.precision, inventory.warnings) == (Precision.REGISTERED, ())


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        pytest.param(
            "GPU-e,10,7680,100,NVIDIA-Tesla P4,0,true:",
            RegisteredCard(
                "GPU-e", 0, 10, 7680, 100, "NVIDIA-Tesla P4", 0, "hami-core", health=True
            ),
            id="ENC-10",
        ),
        pytest.param(
            "GPU-e,10,7680,100,P4,1,F,3,mig:",
            RegisteredCard("GPU-e", 3, 10, 7680, 100, "P4", 1, "mig", health=False),
            id="nine fields",
        ),
    ],
)
def test_both_csv_forms_are_read(text: str, entry: RegisteredCard) -> None:
    assert read_csv(text) == ([entry], [])
    assert read_csv(encode_csv([entry])) == ([entry], [])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(",:", "unexpected field count 2 in node annotation", id="ENC-09"),
        pytest.param("GPU-e,notanint,7680,100,P4,0,true:", "invalid count field", id="ENC-13"),
        pytest.param(
            "GPU-e,10,7680,100,P4:", "unexpected field count 5 in node annotation", id="ENC-15"
        ),
        pytest.param("GPU-e,1,7680,100,P4,0,true,0:", "unexpected field count 8", id="8 fields"),
        pytest.param("GPU-e,1,7680,100,P4,0,yes:", "invalid health field", id="health"),
        pytest.param("GPU-e,1,7680,100,P4,0,true,-1,x:", "index -1 is not between", id="index"),
        pytest.param("GPU-e", "no list of cards", id="no colon"),
        pytest.param("[{", "no list of cards", id="torn JSON"),
        pytest.param('[{"id":"GPU-e","count":"10"}]', "entry 0", id="text for a number"),
        pytest.param('[{"count":10}]', "it has no id", id="no id"),
        pytest.param('[{"id":"a","devmem":-1}]', "devmem -1", id="negative"),
        pytest.param("[" * 100_000, "no list of cards", id="deep JSON"),
    ],
)
def test_a_malformed_entry_is_a_warning_that_names_node_and_key(text: str, problem: str) -> None:
    inventory = published(text)
    assert not inventory.cards
    assert len(inventory.warnings) == 1
    assert problem in inventory.warnings[0]
    assert inventory.warnings[0].startswith(f"node n1: annotation {REGISTER}: ")


def test_the_readable_rest_is_used() -> None:
    csv = published("GPU-a,10,7680,100,P4,0,true:GPU-b,x,7680,100,P4,0,true:")
    json = published('[{"id":"GPU-a","count":1,"devmem":1,"health":true},{"id":7},null]')
    assert [c.id for c in csv.cards] == [c.id for c in json.cards] == ["GPU-a"]
    assert len(csv.warnings) == 1
    assert len(json.warnings) == 2


@pytest.mark.parametrize("text", [":", "::", pytest.param("[]", id="ENC-20")])
def test_an_empty_list_has_no_cards(text: str) -> None:
    assert not published(text).cards


def test_cards_of_the_old_csv_are_numbered_as_they_stand() -> None:
    cards = published("GPU-b,10,7680,100,P4,0,true:GPU-a,10,7680,100,P4,0,true:").cards
    assert [(c.id, c.index) for c in cards] == [("GPU-b", 0), ("GPU-a", 1)]


def test_cards_that_share_an_index_are_numbered_and_reported() -> None:
    inventory = published('[{"id":"a","count":1,"devmem":1},{"id":"b","count":1,"devmem":1}]')
    assert [(c.id, c.index) for c in inventory.cards] == [("a", 0), ("b", 1)]
    assert "share an index" in inventory.warnings[0]


def test_a_node_that_registered_nothing_has_no_inventory() -> None:
    assert made().inventory(a_node(), ()) == ()


def test_links_come_from_the_score_annotation() -> None:
    text = '[{"uuid":"a","score":{"b":100}},{"uuid":"b","score":{"a":120}}]'
    (inventory,) = made().inventory(a_gpu_node("a", "b", "c", annotations={SCORE: text}), ())
    assert [c.links for c in inventory.cards] == [{"b": 100}, {"a": 120}, {}]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("not-valid-json", id="ENC-23"),
        '[{"uuid":"a","score":{"b":"x"}}]',
        "[" * 100_000,
    ],
)
def test_malformed_scores_cost_the_links_not_the_cards(text: str) -> None:
    (inventory,) = made().inventory(a_gpu_node("a", annotations={SCORE: text}), ())
    assert [(c.id, c.links) for c in inventory.cards] == [("a", {})]
    assert SCORE in inventory.warnings[0]


def test_cordoned_cards_are_marked_and_unknown_ones_reported() -> None:
    node = a_gpu_node("a", "b", annotations={CORDON: " b , gone,"})
    cards, warnings = cards_of(load(), node, {})
    assert [(c.id, c.cordoned) for c in cards] == [("a", False), ("b", True)]
    assert warnings == (
        "node n1: cordoned nvidia cards gone: no such card on the node; correct the list",
    )


def test_a_cordon_holds_for_cards_that_our_own_agent_published() -> None:
    card = {"id": "b", "index": 0, "vendor": "nvidia", "memory_bytes": 1 << 34}
    own = json.dumps({"version": 1, "cards": [card]})
    node = a_node("n1", annotations={CORDON: "b", "cards.tessera.dev/nvidia": own})
    cards, warnings = cards_of(load(), node, {})
    assert [(c.id, c.cordoned) for c in cards] == [("b", True)]
    assert warnings == ()


def test_mig_instances_registered_as_cards_are_in_mig_mode() -> None:
    assert [c.mode for c in published("MIG-1,1,5120,14,A100-1g,0,true:").cards] == ["mig"]


def test_more_cards_than_a_node_can_have_are_not_used() -> None:
    inventory = published("".join(f"g{i},1,1,1,x,0,1:" for i in range(65)))
    assert not inventory.cards
    assert "65 cards are more than 64" in inventory.warnings[0]


@given(
    st.lists(
        st.builds(
            RegisteredCard, id=st.text("abG-", min_size=1), index=st.integers(0, 99),
            count=st.integers(0, 2**31 - 1), devmem=st.integers(0, 2**31 - 1),
            devcore=st.integers(0, 400), type=st.text("ABC 4-"), numa=st.integers(-1, 7),
            mode=st.sampled_from(["", "mig", "hami-core"]), health=st.booleans(),
        ),
        min_size=1,
    )
)  # fmt: skip
def test_json_reads_as_it_was_written(entries: list[RegisteredCard]) -> None:
    assert read_register(encode_register(entries)) == (entries, [])


@given(
    st.sampled_from([REGISTER, SCORE, CORDON]),
    st.text(max_size=80) | st.text('[]{}":,a0-', max_size=80),
)
def test_no_text_raises(key: str, text: str) -> None:
    notes: Mapping[str, str] = {key: text}
    made().inventory(a_gpu_node("a", annotations=notes), ())
