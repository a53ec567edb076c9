"""kube-scheduler's filter call, from bytes to bytes."""

import json

import msgspec
import pytest

from tessera_core.explain.decision_log import MOST_MESSAGE, MOST_RECORDS, Decision, DecisionLog
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.placer import Placer
from tessera_core.placement.screen_cache import ScreenCache
from tessera_core.registry.registry import load
from tessera_core.scheduling.filter import MAX_ANSWERS, MOST_ASKED, Filter
from tessera_schema.endpoints.extender import (
    MOST_NODES,
    MOST_VICTIMS,
    ExtenderFilterResult,
    decode_preemption_args,
)
from tessera_schema.quotas import Limit
from tessera_schema.requests import PodRequest
from tessera_schema.verdicts import Verdict
from tessera_testing.builders import a_card
from tests.dialects.adding import acme

REGISTRY = load(extra=[acme])
_read = msgspec.json.Decoder(ExtenderFilterResult).decode


class Scheduler:
    """A ledger of nodes with one card of 16 GiB each, and its filter."""

    def __init__(self, nodes: int = 2, *, slots: int = 100) -> None:
        self.ledger, self.decisions = Ledger(), DecisionLog()
        for n in range(nodes):
            self.put(f"n{n}", slots=slots)
        self.filter = Filter(
            REGISTRY, self.ledger, Placer(self.ledger.fleet, ScreenCache()), self.decisions
        )
        self.names: list[str] = [f"n{n}" for n in range(nodes)]

    def put(self, node: str, *, healthy: bool = True, slots: int = 100) -> None:
        card = a_card(f"{node}-0", vendor="acme", healthy=healthy, slots=slots)
        self.ledger.put_node(node, [card])

    def attempt(self, name: str, gib: int = 4, **resources: object) -> ExtenderFilterResult:
        limits = {"acme.com/gib": str(gib), **resources} if gib else {}
        container = {"name": "c", "resources": {"limits": limits, "requests": limits}}
        pod = {
            "metadata": {"name": name, "namespace": "team", "uid": name},
            "spec": {"containers": [container]},
        }
        return self.send({"Pod": pod, "Nodes": None, "NodeNames": self.names})

    def send(self, body: object) -> ExtenderFilterResult:
        return _read(self.filter(json.dumps(body).encode(), 1.0))

    def why(self, name: str) -> list[str]:
        return [w.message for w in self.decisions.why(name, self.ledger.fleet)]


def test_one_node_is_answered_and_its_cards_are_taken() -> None:
    scheduler = Scheduler()
    assert scheduler.attempt("a", 12).node_names == ("n0",)
    assert scheduler.attempt("b", 12).node_names == ("n1",)
    assert scheduler.decisions.record("c", scheduler.ledger.fleet) is None
    third = scheduler.attempt("c", 12)
    assert third.node_names == ()
    assert third.failed_nodes == {}  # nobody is to look for victims there
    assert third.failed_and_unresolvable_nodes == dict.fromkeys(
        ["n0", "n1"], "CardInsufficientMemory"
    )
    assert "asks 12288 MiB of a card, the freest of these has 4096" in scheduler.why("c")[0]
    record = scheduler.decisions.record("c", scheduler.ledger.fleet)
    assert record is not None
    assert record.message == "0/2 nodes have room: 2 CardInsufficientMemory"
    assert [r.node for r in record.reasons] == ["n0", "n1"]


def test_a_pod_queried_again_keeps_its_node() -> None:
    scheduler = Scheduler()
    first = scheduler.attempt("a")
    assert scheduler.attempt("a") == first
    assert len(list(scheduler.ledger.entries())) == 1
    scheduler.ledger.binding_sent("a")
    assert scheduler.attempt("a") == first


@pytest.mark.parametrize("what", ["gone", "sick", "not offered"])
def test_a_reservation_that_is_no_use_is_made_again(what: str) -> None:
    scheduler = Scheduler()
    assert scheduler.attempt("a").node_names == ("n0",)
    if what == "gone":
        scheduler.ledger.remove_node("n0")
    elif what == "sick":
        scheduler.put("n0", healthy=False)
    else:
        scheduler.names = ["n1"]
    assert scheduler.attempt("a").node_names == ("n1",)


def test_a_waiting_pod_is_tried_again_when_its_quota_was_raised() -> None:
    scheduler = Scheduler()
    scheduler.ledger.set_limits([Limit(namespace="team", source="q", memory_bytes=1 << 30)])
    assert scheduler.attempt("a").failed_and_unresolvable_nodes == dict.fromkeys(
        ["n0", "n1"], "ResourceQuotaNotFit"
    )
    reported = ["q allows 1024 MiB of memory, 0 are used and 4096 asked"]
    assert scheduler.why("a") == reported
    assert scheduler.attempt("a").node_names == ()
    assert scheduler.why("a") == reported
    record = scheduler.decisions.record("a", scheduler.ledger.fleet)
    assert record is not None
    assert (record.message, record.attempts) == (reported[0], 2)
    scheduler.ledger.set_limits([])
    assert scheduler.attempt("a").node_names == ("n0",)


def test_the_reason_is_that_of_the_ledger_it_was_decided_by() -> None:
    scheduler = Scheduler(1)
    scheduler.attempt("a", 12)
    scheduler.attempt("b", 12)
    before = scheduler.why("b")
    scheduler.ledger.forget("a")
    assert scheduler.why("b") == before
    assert scheduler.attempt("b", 12).node_names == ("n0",)
    assert scheduler.why("b") == []
    decision = scheduler.decisions.get("b")
    assert decision is not None
    assert (decision.verdict, decision.attempts) == (Verdict.PLACED, 2)


def test_nodes_that_it_does_not_know_are_reported() -> None:
    scheduler = Scheduler(0)
    scheduler.names = ["x"]
    assert scheduler.attempt("a").failed_and_unresolvable_nodes == {"x": "NodeUnregistered"}
    scheduler.ledger.put_node("x", [])
    assert scheduler.attempt("a").failed_and_unresolvable_nodes == {"x": "NodeHasNoCards"}
    scheduler.ledger.fleet.missing["x"] = frozenset({"acme"})
    scheduler.ledger.put_node("x", [])
    assert scheduler.attempt("a").failed_and_unresolvable_nodes == {"x": "NodeUnregistered"}


def test_a_closed_node_is_reported_as_such() -> None:
    scheduler = Scheduler(1)
    scheduler.ledger.block_node("n0", "newer", 0)
    assert scheduler.attempt("a").failed_and_unresolvable_nodes == {"n0": "NodeBlocked"}


def test_pods_that_request_nothing_pass() -> None:
    assert Scheduler().attempt("a", 0).node_names == ("n0", "n1")


def test_a_pod_that_is_refused_says_why_afterwards() -> None:
    scheduler = Scheduler()
    answer = scheduler.attempt("a", 4, **{"acme.com/cores": "101"})
    assert answer.failed_and_unresolvable_nodes == dict.fromkeys(["n0", "n1"], "InvalidRequest")
    assert "write at most 100" in scheduler.why("a")[0]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"Pod": None, "NodeNames": ["n0"]}, "Pod: missing"),
        ({"Pod": {"metadata": {}}, "Nodes": {"items": []}}, "nodeCacheCapable"),
    ],
)
def test_a_body_that_lacks_something_is_reported(body: object, said: str) -> None:
    answer = Scheduler().send(body)
    assert said in answer.error
    assert answer.node_names is None


@pytest.mark.parametrize("nodes", [(), ("n0",), ("n0", "n1"), ("n0", "n0", "n1")])
def test_only_nodes_that_are_offered_count(nodes: tuple[str, ...]) -> None:
    scheduler = Scheduler(3)
    scheduler.names = ["n2", "n1", "n0"]
    assert [scheduler.attempt(name, 16).node_names for name in "abc"] == [("n0",), ("n1",), ("n2",)]
    for name in "abc":
        scheduler.ledger.forget(name)
    scheduler.names = list(nodes)
    assert [scheduler.attempt(name, 16).node_names for name in "def"] == [
        *((node,) for node in sorted(set(nodes))), *[()] * (3 - len(set(nodes)))
    ]  # fmt: skip


def test_nodes_in_another_order_are_the_same_nodes() -> None:
    """kube-scheduler looks at nodes in several threads, and names them as they are done."""
    scheduler = Scheduler(3)
    scheduler.attempt("full", 16)
    answers = []
    for names in (["n0", "n1"], ["n1", "n0"], ["n0"]):
        limits = {"acme.com/gib": "17"}
        container = {"name": "c", "resources": {"limits": limits, "requests": limits}}
        pod = {"metadata": {"name": "p", "uid": "p"}, "spec": {"containers": [container]}}
        body = {"Pod": pod, "Nodes": None, "NodeNames": names}
        answers.append(scheduler.filter(json.dumps(body).encode(), 1.0))
    assert answers[1] is answers[0]  # remembered, not made again
    assert _read(answers[2]).failed_and_unresolvable_nodes == {"n0": "CardInsufficientMemory"}


def test_waiting_answers_are_bounded() -> None:
    scheduler = Scheduler(1)
    scheduler.attempt("full", 16)
    for gib in range(1, MAX_ANSWERS + 20):
        assert scheduler.attempt(f"p{gib}", gib).node_names == ()
    assert len(scheduler.filter._waiting) == MAX_ANSWERS


def test_pods_that_were_given_a_node_are_remembered_by_their_bytes() -> None:
    """Pods of 1 MiB each: the youngest are known when they are bound, the first ones are read."""
    scheduler = Scheduler(1, slots=1000)
    limits = {"acme.com/gib": "1"}
    env = [{"name": "E", "value": "x" * (1 << 20)}]
    container = {"name": "c", "env": env, "resources": {"limits": limits, "requests": limits}}
    scheduler.ledger.put_node("n0", [a_card("n0-0", vendor="acme", mib=1 << 20, slots=1000)])
    for n in range(40):
        pod = {
            "metadata": {"name": f"p{n}", "namespace": "team", "uid": f"p{n}"},
            "spec": {"containers": [container]},
        }
        assert scheduler.send({"Pod": pod, "NodeNames": ["n0"]}).node_names == ("n0",)
    known = [n for n in range(40) if scheduler.filter.filtered_pod(f"p{n}") is not None]
    assert known == list(range(40 - MOST_ASKED // (1 << 20) + 1, 40))
    scheduler.filter.forget("p39")
    assert scheduler.filter.filtered_pod("p39") is None


def test_decisions_are_remembered_by_their_bytes() -> None:
    decisions, fleet = DecisionLog(), Ledger().fleet
    for n in range(2_000):
        over = "a" * 100_000
        request = PodRequest(namespace="n", name="x" * 100_000, uid=f"p{n}", containers=())
        decisions.keep(
            Decision(uid=f"p{n}", verdict=Verdict.REJECTED, at=0, over=over, request=request), fleet
        )
    count, size = decisions.size
    assert 300 < count < MOST_RECORDS // 100_000
    assert size <= MOST_RECORDS
    last = decisions.get("p1999")
    assert last is not None
    assert (len(last.over), last.over[-4:]) == (MOST_MESSAGE, "a...")
    assert (decisions.get("p0"), decisions.attempt("p0"), decisions.attempt("p1999")) == (
        None,
        1,
        2,
    )


def test_more_nodes_than_a_cluster_has_are_refused() -> None:
    scheduler = Scheduler(1)
    names = [f"n{n}" for n in range(MOST_NODES + 1)]
    pod = {"metadata": {"name": "p", "namespace": "team", "uid": "p"}}
    with pytest.raises(msgspec.DecodeError, match="length <= 65536"):
        scheduler.send({"Pod": pod, "NodeNames": names})
    victims = [{"UID": str(n)} for n in range(MOST_VICTIMS + 1)]
    body = msgspec.json.encode({"Pod": pod, "NodeNameToMetaVictims": {"n0": {"Pods": victims}}})
    with pytest.raises(msgspec.DecodeError, match="length <= 1024"):
        decode_preemption_args(body)
