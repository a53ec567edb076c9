"""Namespaces by their labels, guarantees by model, and pools of nodes, in the scheduler's step."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from tessera_agent.readers.node_object import PublishedReader
from tessera_core.dialect_kit.contract import BadLimit
from tessera_core.dialect_kit.readings import Readings
from tessera_core.inventory.merge import cards_of
from tessera_core.ledger.ledger import Ledger
from tessera_core.quota.accounting import QuotaAccounting
from tessera_core.quota.allowance import QuotaUsage, pool_of
from tessera_core.quota.objects import AcceleratorQuota, accelerator_limit
from tessera_core.registry.registry import load
from tessera_schema.cards import Siting
from tessera_schema.kube import ObjectMeta
from tessera_schema.node_cards import NodeCardsAnnotation, encode_node_cards
from tessera_schema.quotas import Limit
from tessera_testing.builders import a_card, a_node, a_pod
from tessera_testing.plan import plan
from tests.agent.node import FixedNode
from tests.dialects.adding import acme
from tests.dialects.hami.setting import Gpu, a_gpu_node, needs

REGISTRY = load(extra=[acme])
_quota = msgspec.json.Decoder(AcceleratorQuota).decode


def limit(spec: dict[str, Any], namespace: str = "home", name: str = "q") -> Limit:
    """The limit of a quota object as it is written."""
    quota = _quota(json.dumps({"spec": spec}).encode())
    meta = ObjectMeta(name=name, namespace=namespace)
    return accelerator_limit(msgspec.structs.replace(quota, metadata=meta), REGISTRY)


def usage_of(cards: int, model: str = "A100") -> dict[tuple[str, str], QuotaUsage]:
    return {("acme", model): QuotaUsage(cards=cards, parts=cards)}


def most(book: QuotaAccounting, namespace: str, model: str = "A100") -> int:
    """How many cards more the namespace may have."""
    allowance = book.allowance(namespace)
    return next((n for n in range(20) if allowance.exceeded(usage_of(n + 1, model))), 20)


# -- namespaces by labels

TEAM = {"matchLabels": {"team": "x"}}


def a_book(*limits: Limit, **labels: dict[str, str]) -> QuotaAccounting:
    book = QuotaAccounting()
    book.set_namespaces(labels)
    book.set_limits(limits)
    return book


def test_all_namespaces_that_bear_the_labels_count_together() -> None:
    book = a_book(
        limit({"namespaceSelector": TEAM, "hard": {"cards": 3}}),
        home={}, a={"team": "x"}, b={"team": "x", "more": "y"}, c={"team": "z"},
    )  # fmt: skip
    book.count("a", usage_of(1))
    book.count("c", usage_of(9))
    assert [most(book, n) for n in ("a", "b", "c", "home")] == [2, 2, 20, 20]
    assert book.resolved(limit({"namespaceSelector": TEAM})).group == ("a", "b")


def test_names_and_labels_add_up_and_an_empty_selector_selects_all() -> None:
    named = limit({"namespaceSelector": TEAM, "namespaces": ["c"], "hard": {"cards": 1}})
    book = a_book(named, a={"team": "x"}, c={}, d={})
    assert [most(book, n) for n in "acd"] == [1, 1, 20]
    book = a_book(limit({"namespaceSelector": {}, "hard": {"cards": 1}}), a={}, d={})
    assert [most(book, n) for n in "ad"] == [1, 1]


def test_a_namespace_comes_and_goes_with_its_labels() -> None:
    book = a_book(limit({"namespaceSelector": TEAM, "hard": {"cards": 1}}), a={"team": "x"}, b={})
    assert not book.set_namespaces({"a": {"team": "x"}, "b": {}})
    assert book.set_namespaces({"a": {}, "b": {"team": "x"}})
    assert [most(book, n) for n in "ab"] == [20, 1]


def test_while_labels_decide_a_namespace_that_is_not_known_yet_waits() -> None:
    book = a_book(limit({"namespaceSelector": TEAM, "hard": {"cards": 1}}), a={})
    assert most(book, "new") == 0
    assert "labels are not known yet" in book.allowance("new").exceeded(usage_of(1))
    assert book.set_namespaces({"a": {}, "new": {}})
    assert most(book, "new") == 20


def test_who_does_not_follow_namespaces_is_granted_to_what_is_named() -> None:
    book = QuotaAccounting()
    book.set_limits([limit({"namespaceSelector": TEAM, "namespaces": ["a"], "hard": {"cards": 1}})])
    assert (most(book, "a"), most(book, "b")) == (1, 20)


def test_without_selectors_namespaces_need_not_be_known() -> None:
    book = a_book(limit({"hard": {"cards": 1}}, namespace="a"))
    assert (most(book, "a"), most(book, "b")) == (1, 20)
    assert not book.set_namespaces({"a": {}})


def test_groups_by_label_lend_to_each_other() -> None:
    x = limit({"namespaceSelector": TEAM, "guaranteed": {"cards": 2}}, name="x")
    z = limit({"namespaceSelector": {"matchLabels": {"team": "z"}}, "guaranteed": {"cards": 2}})
    book = a_book(x, z, a={"team": "x"}, b={"team": "x"}, c={"team": "z"})
    assert most(book, "a") == 4
    book.count("b", usage_of(3))
    assert (most(book, "a"), most(book, "c")) == (1, 2)
    assert book.set_pending("pod", "c", usage_of(2))
    assert most(book, "a") == 0


@pytest.mark.parametrize(
    "selector",
    [
        {"matchLabel": {}}, {"matchLabels": {"a": 1}},
        {"matchExpressions": [{"key": "a", "operator": "Near"}]},
        {"matchExpressions": [{"key": "a", "operator": "In"}]},
    ],
)  # fmt: skip
def test_a_selector_that_makes_no_sense_is_refused(selector: dict[str, Any]) -> None:
    with pytest.raises(BadLimit, match=r"spec\.namespaceSelector"):
        limit({"namespaceSelector": selector})


# -- guarantees by model


def two_groups() -> QuotaAccounting:
    return a_book(
        limit({"guaranteed": {"models": {"A100": 2}}}, namespace="a"),
        limit({"guaranteed": {"models": {"a100": 1, "T4": 4}}}, namespace="b"),
    )


def test_cards_of_a_model_are_lent_and_those_of_others_are_not_limited() -> None:
    book = two_groups()
    assert [most(book, "a", m) for m in ("NVIDIA A100", "T4", "H100")] == [3, 20, 20]
    assert [most(book, "b", m) for m in ("NVIDIA A100", "T4", "H100")] == [3, 4, 20]
    book.count("b", usage_of(2))
    assert most(book, "a") == 2
    assert most(book, "b") == 1


def test_an_owner_requests_back_cards_of_a_model_that_its_pod_may_be_given() -> None:
    book = two_groups()
    book.count("b", usage_of(1))
    assert most(book, "b") == 2
    book.set_pending("t4", "a", {("acme", "T4"): QuotaUsage(cards=1)})
    assert most(book, "b") == 2
    book.set_pending("any", "a", {("acme", ""): QuotaUsage(cards=1)})
    assert most(book, "b") == 1
    book.set_pending("a100", "a", {("acme", "A100"): QuotaUsage(cards=1)})
    assert most(book, "b") == 0
    book.drop_pending("any")
    assert most(book, "b") == 1


def test_what_is_guaranteed_of_a_model_is_reported_in_its_numbers() -> None:
    book = two_groups()
    book.count("a", usage_of(3))
    assert book.allowance("a").exceeded(usage_of(1)) == (
        "AcceleratorQuota q (2 cards of model A100 guaranteed, 1 lent by others) allows "
        "3 cards of model A100, 3 are used and 1 asked"
    )


def test_what_a_group_does_not_guarantee_it_has_not_borrowed() -> None:
    book = a_book(
        limit({"guaranteed": {"cards": 2}}, namespace="a"),
        limit({"guaranteed": {"cards": 2}}, namespace="b"),
        limit({"guaranteed": {"models": {"T4": 1}}}, namespace="c"),
    )
    book.count("c", usage_of(9))
    assert most(book, "a") == 4


@pytest.mark.parametrize("hard", [{"A100": 1}, {"T4": 9}])
def test_no_more_of_a_model_is_guaranteed_than_is_allowed(hard: dict[str, int]) -> None:
    with pytest.raises(BadLimit, match=r"spec\.guaranteed\.models\[A100\]"):
        limit({"guaranteed": {"models": {"A100": 2}}, "hard": {"models": hard}})


# -- pools of nodes

POOL = "tessera.dev/pool"


def test_only_nodes_of_the_pools_that_are_named_are_used() -> None:
    nodes = [
        msgspec.structs.replace(
            node, metadata=msgspec.structs.replace(node.metadata, labels=labels)
        )
        for node, labels in (
            (a_gpu_node(Gpu("a"), name="n1"), {POOL: "public"}),
            (a_gpu_node(Gpu("b"), name="n2"), {POOL: "private"}),
            (a_gpu_node(Gpu("c"), name="n3"), {}),
        )
    ]
    pools = limit({"nodePools": ["private"]}, namespace="default")
    pods = [a_pod(needs({"gpu": 1}), name=f"p{n}") for n in range(2)]
    placed, waits = plan(pods, nodes, limits=[pools])
    assert placed.node == "n2"
    assert {why.reason.wire for why in waits.reasons} >= {"ResourceQuotaNotFit"}
    assert [o.node for o in plan(pods, nodes)] != ["n2", ""]


def test_another_vendors_cards_are_not_meant() -> None:
    ledger = Ledger()
    ledger.set_limits([limit({"vendor": "nvidia", "nodePools": ["x"]})])
    assert not ledger.allowance("home").outside(a_card())
    ledger.set_limits([limit({"nodePools": ["x"]})])
    assert "the node is in none" in ledger.allowance("home").outside(a_card())
    assert not ledger.allowance("home").outside(a_card(siting=Siting(pool="x")))


def test_a_node_that_changes_its_pool_is_known_by_the_new_one() -> None:
    ledger = Ledger()
    for pool in ("x", "y"):
        ledger.put_node("n", [a_card(siting=Siting(pool=pool))])
        fleet = ledger.fleet
        assert fleet.pools.of[fleet.pool[fleet.rows["n"]]] == pool
    before = ledger.fleet.snapshot()
    ledger.put_node("n", [a_card()])
    assert before.pools.of[before.pool[before.rows["n"]]] == "y"


def test_a_pool_without_a_name_is_refused() -> None:
    with pytest.raises(BadLimit, match=r"spec\.nodePools"):
        limit({"nodePools": [""]})


@pytest.mark.parametrize(
    ("labels", "pool"),
    [
        ({POOL: "x", "gaia.tencent.com/gpu-pool": "y"}, "x"),
        ({"gaia.tencent.com/gpu-pool": "y"}, "y"),
        ({"tkestack.io/gpu-pool": "z"}, "z"),
        ({}, ""),
    ],
)
def test_a_nodes_pool_is_what_its_labels_say_whatever_its_agent_publishes(
    labels: dict[str, str], pool: str
) -> None:
    published = NodeCardsAnnotation(cards=(a_card(vendor="nvidia", siting=Siting(pool="stale")),))
    notes = {"cards.tessera.dev/nvidia": encode_node_cards(published)}
    (card,), warnings = cards_of(REGISTRY, a_node(annotations=notes, labels=labels), {})
    assert (pool_of(card), warnings) == (pool, ())


async def test_an_agent_that_reads_its_cards_from_the_node_does_not_publish_the_pool() -> None:
    amounts = {"mthreads.com/sgpu-core": "32", "mthreads.com/sgpu-memory": "192"}
    node = a_node(capacity=amounts, labels={POOL: "x"})
    read = await PublishedReader("mthreads", FixedNode(node), REGISTRY, None).poll()
    assert isinstance(read, Readings)
    assert [card.siting for card in read.counted] == [UNSET, UNSET]
