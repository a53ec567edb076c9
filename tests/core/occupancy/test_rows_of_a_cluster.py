"""Nodes, pods and reports become rows of cards and shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from tessera_core.occupancy.node_rows import NOT_PUBLISHED
from tessera_core.occupancy.occupancy import USAGE_S, Occupancy, PodAnswer
from tessera_core.occupancy.rows import CardRow, NodeRow
from tessera_core.occupancy.summaries import (
    HoldingPod,
    NoCardsPod,
    UnplacedPod,
    read_node,
    read_pod,
)
from tessera_core.registry.registry import load
from tessera_schema.cards import MIB
from tessera_schema.grants import GRANT_KEY
from tessera_schema.messages.device_reports import CardLoad, DeviceState, NodeUsage, Occupied
from tessera_schema.requests import Role
from tests.cli import cluster as manifests
from tests.cli.card_cluster import (
    GIB,
    a100,
    card_node,
    holding_pod,
    node_usage,
    part,
    use,
    waiting_pod,
)

REGISTRY = load({})


class Read:
    """A cluster as it was read."""

    def __init__(self) -> None:
        self.occupancy = Occupancy()

    def node(self, name: str, cards: int = 2, **facts: Any) -> None:
        found = card_node(name, [a100(name, i, **facts) for i in range(cards)])
        self.occupancy.put_node(read_node(REGISTRY, msgspec.json.encode(found)))

    def pod(self, pod: Mapping[str, Any]) -> Mapping[str, Any]:
        raw = msgspec.json.encode(pod)
        self.occupancy.put_pod(read_pod(REGISTRY, raw, self.occupancy.cards_on))
        return pod

    def usage(self, report: NodeUsage, now: float = 0) -> None:
        self.occupancy.put_usage(report, now)

    def row(self, name: str = "n0") -> NodeRow:
        return next(row for row in self.occupancy.rows() if row.name == name)

    def card(self, index: int = 0, name: str = "n0") -> CardRow:
        return self.row(name).cards[index]


@pytest.fixture
def read() -> Read:
    found = Read()
    found.node("n0")
    return found


def test_a_card_has_the_shares_of_its_pods_largest_first(read: Read) -> None:
    read.pod(holding_pod("ml", "small", part("n0", 0, 8, 10)))
    read.pod(holding_pod("ml", "large", part("n0", 0, 16, 30, dialect="koordinator")))
    card, other = read.row().cards
    assert [(s.name, s.dialects) for s in card.shares] == [
        ("large", ("koordinator",)), ("small", ("hami",)),
    ]  # fmt: skip
    assert (card.memory_bytes, card.cores_percent) == (24 * GIB * MIB, 40)
    assert (card.used_bytes, card.used_percent) == (None, None)
    assert (other.shares, other.memory_bytes) == ((), 0)


def test_what_is_lent_is_not_counted_in_what_is_granted_of_a_card(read: Read) -> None:
    read.pod(holding_pod("ml", "owner", part("n0", 0, 30)))
    read.pod(holding_pod("ml", "rest", part("n0", 0, 20, best_effort=True, lent=True)))
    card = read.card()
    assert [(s.name, s.memory_bytes // MIB // GIB, s.lent) for s in card.shares] == [
        ("owner", 30, False), ("rest", 20, True),
    ]  # fmt: skip
    assert card.memory_bytes == 30 * GIB * MIB


def test_a_pod_that_has_a_card_to_itself_holds_all_of_it(read: Read) -> None:
    read.pod(holding_pod("ml", "p", part("n0", 0, 8, 10, exclusive=True)))
    card = read.card()
    assert card.whole
    assert (card.memory_bytes, card.cores_percent) == (card.card.memory_bytes, 100)


def test_init_containers_and_others_do_not_add_up(read: Read) -> None:
    init = part("n0", 0, 20, 10, role=Role.INIT)
    app = msgspec.structs.replace(part("n0", 0, 8, 30), container="app", position=1)
    read.pod(holding_pod("ml", "p", init, app))
    assert read.card().memory_bytes == 20 * GIB * MIB
    assert read.card().cores_percent == 30


def test_what_is_measured_stands_next_to_what_was_granted(read: Read) -> None:
    pod = read.pod(holding_pod("ml", "p", part("n0", 0, 8, 30)))
    read.usage(node_usage("n0", use(pod, 2, 25, limit=30, throttled=4)))
    card = read.card()
    [share] = card.shares
    assert share.measured is not None
    assert (share.measured.memory_bytes, share.measured.cores_percent) == (2 * GIB * MIB, 25)
    assert share.measured.throttled_percent == 4
    assert (card.used_bytes, card.used_percent) == (2 * GIB * MIB, 25)
    assert read.card(1).used_bytes == 0


def test_a_drivers_view_of_a_whole_card_counts_more_than_the_sum(read: Read) -> None:
    pod = read.pod(holding_pod("ml", "p", part("n0", 0, 8, 30)))
    load = CardLoad(card="GPU-n0-0", memory_used_bytes=3 * GIB * MIB, cores_percent=41)
    read.usage(node_usage("n0", use(pod, 2, 25), loads=[load]))
    assert (read.card().used_bytes, read.card().used_percent) == (3 * GIB * MIB, 41)


def test_old_reports_count_no_more(read: Read) -> None:
    pod = read.pod(holding_pod("ml", "p", part("n0", 0, 8, 30)))
    read.usage(node_usage("n0", use(pod, 2, 25)), now=100)
    read.occupancy.expire(100 + USAGE_S)
    assert read.row().measured
    read.occupancy.expire(101 + USAGE_S)
    assert not read.row().measured
    assert read.card().shares[0].measured is None


def test_cards_that_are_lost_or_unhealthy_say_so(read: Read) -> None:
    read.node("n1", cards=1, healthy=False)
    read.pod(holding_pod("ml", "p", part("n0", 7, 8)))
    lost = read.card(2)
    assert (lost.published, lost.note, lost.card.index) == (False, NOT_PUBLISHED, 7)
    assert read.card(0, "n1").note == "unhealthy"
    bad = msgspec.structs.replace(a100("n0", 0), healthy=False)
    left = Occupied(uid="u", namespace="ml", name="gone", shares=())
    read.occupancy.put_state(
        DeviceState(
            node="n0", vendor="nvidia", cards=(bad,), problems=("XID 79",), occupied=(left,)
        )
    )
    assert read.card(0).note == "unhealthy"
    assert read.card(1).note == ""
    assert read.row().problems == (
        "XID 79", "containers of ml/gone run on although their pod is gone",
    )  # fmt: skip


def test_nothing_is_left_of_what_is_gone(read: Read) -> None:
    pod = read.pod(holding_pod("ml", "p", part("n0", 0, 8)))
    read.occupancy.remove_node("n0")
    assert [card.published for card in read.row().cards] == [False]
    read.occupancy.remove_pod(pod["metadata"]["uid"])
    assert read.occupancy.rows() == []
    assert list(read.occupancy.pods()) == []


def test_a_pod_that_moves_to_another_state_is_one_pod(read: Read) -> None:
    waits = waiting_pod("ml", "p", 1000)
    read.pod(waits)
    assert [row.name for row in read.occupancy.waiting()] == ["p"]
    read.pod(holding_pod("ml", "p", part("n0", 0, 1), uid=waits["metadata"]["uid"]))
    assert read.occupancy.waiting() == []
    assert len(read.card().shares) == 1
    ended = holding_pod("ml", "p", part("n0", 0, 1), uid=waits["metadata"]["uid"])
    read.pod(ended | {"status": {"phase": "Succeeded"}})
    assert read.card().shares == ()


def test_totals_leave_out_what_nobody_can_have(read: Read) -> None:
    read.node("n1", cards=1, healthy=False)
    read.pod(holding_pod("ml", "p", part("n0", 0, 40, 50)))
    assert read.occupancy.rows()
    totals = read.occupancy.totals()
    assert (totals.nodes, totals.cards, totals.cards_healthy, totals.shares) == (2, 3, 2, 1)
    assert totals.memory_granted_bytes / totals.memory_bytes == 0.25
    assert totals.cores_granted_percent / totals.cores_percent == 0.25


def test_why_a_pod_waits_is_the_schedulers_answer_or_kube_schedulers(read: Read) -> None:
    read.pod(waiting_pod("ml", "p", 1000, "0/1 nodes are available"))
    [row] = read.occupancy.waiting()
    assert (row.reason, row.dialects, row.parts[0].memory_bytes) == (
        "0/1 nodes are available", ("hami",), 1000 * MIB,
    )  # fmt: skip
    read.occupancy.put_answers({row.uid: PodAnswer("too large", "ask for less")})
    [row] = read.occupancy.waiting()
    assert (row.reason, row.remedy) == ("too large", "ask for less")
    read.occupancy.put_answers({row.uid: PodAnswer("", "ask for less")})
    [row] = read.occupancy.waiting()
    assert (row.reason, row.remedy) == ("0/1 nodes are available", "ask for less")


def test_a_pod_is_read_as_what_it_is() -> None:
    def kind(pod: Mapping[str, Any]) -> type[object]:
        return type(read_pod(REGISTRY, msgspec.json.encode(pod)))

    assert kind(holding_pod("ml", "p", part("n0", 0, 8))) is HoldingPod
    assert kind(waiting_pod("ml", "p", 1000)) is UnplacedPod
    assert kind(manifests.pod(limits={"cpu": "1"})) is NoCardsPod
    forged = holding_pod("ml", "p", part("n0", 0, 8))
    forged["metadata"]["annotations"][GRANT_KEY] = "{}"
    assert kind(forged) is NoCardsPod


def test_a_pod_has_its_own_name_whatever_its_grant_says(read: Read) -> None:
    pod = holding_pod("ml", "p", part("n0", 0, 8))
    pod["metadata"] |= {"name": "own", "namespace": "mine"}
    read.pod(pod)
    assert read.card().shares[0].pod == "mine/own"


def test_what_another_system_wrote_counts_for_cards_that_its_node_has(read: Read) -> None:
    read.occupancy.put_node(read_node(REGISTRY, msgspec.json.encode(manifests.node("n1"))))
    pod = manifests.bound("p", "GPU-n1-0,NVIDIA,3000,30:;")
    pod["metadata"]["uid"] = "u"
    read.pod(pod)
    [share] = read.card(0, "n1").shares
    assert (share.name, share.memory_bytes, share.cores_percent) == ("p", 3000 * MIB, 30)


def test_a_pod_that_is_rejected_waits_with_the_reason() -> None:
    bad = manifests.pod(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "-5"})
    found = read_pod(REGISTRY, msgspec.json.encode(bad))
    assert isinstance(found, UnplacedPod)
    assert found.reason.startswith("rejected: ")
    assert "nvidia.com/gpumem" in found.reason


def test_only_what_changed_is_made_again(read: Read) -> None:
    read.node("n1")
    before = {row.name: row for row in read.occupancy.rows()}
    generation = read.occupancy.generation
    read.pod(holding_pod("ml", "p", part("n1", 0, 8)))
    after = {row.name: row for row in read.occupancy.rows()}
    assert after["n0"] is before["n0"]
    assert after["n1"] is not before["n1"]
    assert read.occupancy.generation > generation
