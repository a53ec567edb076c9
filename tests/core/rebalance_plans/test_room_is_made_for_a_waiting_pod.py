"""A pod waits only for cards: the cheapest pods move away, if they fit elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from tessera_core.rebalance.cluster_view import PlanRules, WorthRules
from tessera_core.rebalance.disruption_budgets import Disruption
from tessera_core.rebalance.movable_pods import MoveRules
from tessera_core.rebalance.plan_budget import BudgetRules, Spent
from tessera_core.rebalance.proposals import ProposalRules, proposing
from tessera_core.slices import at_once
from tessera_schema.kube import Taint, Toleration
from tessera_schema.label_selectors import LabelTest
from tessera_schema.plans import PlanKind, PlanSpec
from tests.core.rebalance_plans.clusters import HOUR_S, NOW, Cluster, defragment, stale

NEVER_TOO_DEAR = PlanRules(worth=WorthRules(times=0))
WHOLE = 16000


def a_plan(found: PlanSpec | str) -> PlanSpec:
    assert isinstance(found, PlanSpec), found
    return found


def moved(spec: PlanSpec) -> list[tuple[str, str]]:
    return [(step.pod.name, step.to_node) for step in spec.steps]


def two_half_full() -> Cluster:
    """Two cards, each half full: nobody gets a whole one."""
    cluster = Cluster({"n0": 1, "n1": 1})
    cluster.runs("a", "n0", 0)
    cluster.runs("b", "n1", 0, age_s=HOUR_S)
    return cluster


def test_the_pod_that_costs_less_moves() -> None:
    cluster = two_half_full()
    waits = cluster.waits("w", WHOLE)
    spec = a_plan(defragment(cluster.situation(), waits))
    assert spec.kind is PlanKind.DEFRAGMENT
    assert moved(spec) == [("b", "n0")]
    assert spec.steps[0].pod.node == "n1"
    assert spec.for_pod is not None
    assert spec.for_pod.uid == waits.pod.metadata.uid
    assert spec.cost == pytest.approx((HOUR_S + 60) / 2)
    assert spec.gain == HOUR_S
    assert "default/w has waited 600 s for 1 cards" in spec.reason
    assert "1830 card-seconds are lost, 3600 won" in spec.reason


def test_what_would_cost_too_much_is_said_with_numbers() -> None:
    cluster = Cluster({"n0": 1, "n1": 1})
    cluster.runs("a", "n0", 0, age_s=20 * HOUR_S)
    cluster.runs("b", "n1", 0, age_s=20 * HOUR_S)
    found = defragment(cluster.situation(), cluster.waits("w", WHOLE))
    assert found == (
        "moving would cost 36030 card-seconds and gain 3600: 1.5 times as much is asked"
    )


def test_work_since_the_last_checkpoint_is_what_is_lost() -> None:
    cluster = Cluster({"n0": 1, "n1": 1})
    cluster.runs("a", "n0", 0, age_s=HOUR_S)
    checkpoints = {"tessera.dev/checkpoint-every": "600"}
    cluster.runs("b", "n1", 0, age_s=20 * HOUR_S, annotations=checkpoints)
    spec = a_plan(defragment(cluster.situation(), cluster.waits("w", WHOLE)))
    assert moved(spec) == [("b", "n0")]
    assert spec.cost == pytest.approx((300 + 60) / 2)


def test_several_pods_move_and_all_of_them_fit_at_the_same_time() -> None:
    cluster = Cluster({"n0": 1, "n1": 1, "n2": 1})
    cluster.runs("a", "n0", 0, 5000)
    cluster.runs("b", "n0", 0, 5000)
    cluster.runs("c", "n1", 0, 11000, age_s=60)
    cluster.runs("d", "n2", 0, 11000, age_s=60)
    spec = a_plan(defragment(cluster.situation(NEVER_TOO_DEAR), cluster.waits("w", WHOLE)))
    assert dict(moved(spec)) in ({"a": "n1", "b": "n2"}, {"a": "n2", "b": "n1"})


def test_a_pod_may_move_to_another_card_of_its_node() -> None:
    cluster = Cluster({"n0": 2})
    cluster.runs("a", "n0", 0)
    cluster.runs("b", "n0", 1, age_s=HOUR_S)
    spec = a_plan(defragment(cluster.situation(), cluster.waits("w", WHOLE)))
    assert moved(spec) == [("b", "n0")]


def test_nobody_moves_where_it_would_not_fit_elsewhere() -> None:
    cluster = Cluster({"n0": 1, "n1": 1})
    cluster.runs("a", "n0", 0, 9000)
    cluster.runs("b", "n1", 0, 9000)
    found = defragment(cluster.situation(NEVER_TOO_DEAR), cluster.waits("w", WHOLE))
    assert found == "no pods that may move leave room for it and fit elsewhere"


def test_a_pod_that_moves_needs_a_node_that_takes_it() -> None:
    cluster = Cluster({"n0": 1})
    cluster.node("n1", 1, taints=(Taint(key="team", value="x", effect="NoSchedule"),))
    cluster.runs("a", "n0", 0)
    waits = cluster.waits("w", WHOLE, node_selector={}, tolerations=())
    found = defragment(cluster.situation(NEVER_TOO_DEAR), waits)
    assert isinstance(found, str)
    tolerant = cluster.waits("t", WHOLE, tolerations=(Toleration(operator="Exists"),))
    assert defragment(cluster.situation(NEVER_TOO_DEAR), tolerant) == "default/t fits without it"


def test_other_resources_count_for_who_comes_and_for_who_goes() -> None:
    cluster = Cluster({"n0": 1, "n1": 1}, capacity={"cpu": "4", "pods": "10"})
    cluster.runs("a", "n0", 0, asks={"cpu": "3"})
    cluster.runs("b", "n1", 0, asks={"cpu": "3"})
    waits = cluster.waits("w", WHOLE, asks={"cpu": "1"})
    found = defragment(cluster.situation(NEVER_TOO_DEAR), waits)
    assert found == "no pods that may move leave room for it and fit elsewhere"


def test_a_node_that_is_full_of_cpu_does_once_the_pods_have_gone() -> None:
    cluster = Cluster({"n0": 1}, capacity={"cpu": "4", "pods": "10"})
    cluster.node("n1", 1, capacity={"cpu": "8", "pods": "10"})
    cluster.runs("a", "n0", 0, asks={"cpu": "4"})
    cluster.runs("b", "n1", 0, asks={"cpu": "2"}, age_s=60)
    spec = a_plan(
        defragment(cluster.situation(NEVER_TOO_DEAR), cluster.waits("w", WHOLE, asks={"cpu": "4"}))
    )
    assert moved(spec) == [("a", "n1")]


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"annotations": {"tessera.dev/rebalance": "false"}}, "opted out"),
        ({"annotations": {"tessera.dev/rebalance": "no"}}, "opted out in other words"),
        ({"namespace": "kube-system"}, "system"),
        ({"owner": " ", "owner_kind": "DaemonSet"}, "daemon set"),
        ({"owner": " ", "owner_kind": "Node"}, "static pod"),
        ({"owner_kind": "Job"}, "job"),
        ({"local": True}, "files"),
        ({"tied": "it uses host ports"}, "tied"), ({"grace_s": 3600.0}, "slow to end"),
        ({"age_s": 60.0}, "young"),
        ({"priority": 1}, "matters more"),
        ({"deleted": True}, "goes anyway"),
        ({"labels": {"volcano.sh/job-name": "j"}, "annotations":
          {"scheduling.k8s.io/group-name": "g"}}, "gang"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_who_is_left_alone_does_not_move(facts: dict[str, Any], why: str) -> None:
    del why
    cluster = Cluster({"n0": 1, "n1": 1})
    for name, node in (("a", "n0"), ("b", "n1")):
        cluster.runs(name, node, 0, **facts)
    assert isinstance(defragment(cluster.situation(NEVER_TOO_DEAR), cluster.waits("w", WHOLE)), str)


def test_a_bare_pod_moves_only_where_its_owner_says_so() -> None:
    cluster = Cluster({"n0": 1, "n1": 1})
    one = cluster.runs("a", "n0", 0)
    bare = {"owner": "", "owner_kind": ""}
    cluster.running[one.uid] = type(one)(**{**_fields(one), **bare})
    cluster.runs("b", "n1", 0, age_s=60)
    waits = cluster.waits("w", WHOLE)
    assert isinstance(defragment(cluster.situation(NEVER_TOO_DEAR), waits), str)
    willing = Cluster({"n0": 1, "n1": 1})
    one = willing.runs("a", "n0", 0, local=True, annotations={"tessera.dev/rebalance": "true"})
    willing.running[one.uid] = type(one)(**{**_fields(one), **bare})
    willing.runs("b", "n1", 0, age_s=60)
    waits = willing.waits("w", WHOLE)
    assert moved(a_plan(defragment(willing.situation(NEVER_TOO_DEAR), waits))) == [("a", "n1")]


def _fields(one: Any) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__struct_fields__}


def test_files_on_the_node_may_be_given_up_by_the_settings() -> None:
    cluster = Cluster({"n0": 1, "n1": 1})
    cluster.runs("a", "n0", 0, local=True)
    cluster.runs("b", "n1", 0, local=True)
    rules = PlanRules(move=MoveRules(local_storage=True), worth=WorthRules(times=0))
    assert isinstance(defragment(cluster.situation(rules), cluster.waits("w", WHOLE)), PlanSpec)


def test_disruption_budgets_are_respected() -> None:
    cluster = Cluster({"n0": 1, "n1": 1})
    cluster.runs("a", "n0", 0, labels={"app": "a"})
    cluster.runs("b", "n1", 0, labels={"app": "a"})
    waits = cluster.waits("w", WHOLE)
    app = (LabelTest("app", "In", ("a",)),)
    for allowed, possible in ((0, False), (1, True)):
        budget = Disruption(namespace="default", name="b", selector=app, allowed=allowed)
        found = defragment(cluster.situation(NEVER_TOO_DEAR, disruptions=(budget,)), waits)
        assert isinstance(found, PlanSpec) is possible
    both = [
        Disruption(namespace="default", name=name, selector=app, allowed=5) for name in ("b", "c")
    ]
    assert isinstance(defragment(cluster.situation(disruptions=both), waits), str)


@pytest.mark.parametrize(
    "spent",
    [
        Spent(moves=20), Spent(moves=5, by_namespace={"default": 5}),
        Spent(cooling={"owner-of-a": NOW + 1, "owner-of-b": NOW + 1}),
        Spent(busy=frozenset({"uid-default-a", "uid-default-b"})),
        Spent(busy=frozenset({"uid-default-w"})),
    ],
    ids=["hour", "namespace", "cooling", "busy", "planned for"],
)  # fmt: skip
def test_what_was_moved_of_late_counts(spent: Spent) -> None:
    cluster = two_half_full()
    found = defragment(cluster.situation(NEVER_TOO_DEAR, spent=spent), cluster.waits("w", WHOLE))
    assert isinstance(found, str)


def test_a_plan_moves_no_more_than_it_may() -> None:
    def half_full(at_most: int) -> PlanSpec | str:
        cluster = Cluster({"n0": 1, "n1": 1})
        for n in range(4):
            cluster.runs(f"a{n}", "n0", 0, 2000)
        cluster.runs("b", "n1", 0, 8000, age_s=60)
        rules = PlanRules(worth=WorthRules(times=0), budget=BudgetRules(at_most=at_most))
        return defragment(cluster.situation(rules), cluster.waits("w", WHOLE))

    assert isinstance(half_full(3), str)
    assert len(a_plan(half_full(4)).steps) == 4


def test_as_few_move_as_will_do() -> None:
    cluster = Cluster({"n0": 1, "n1": 1})
    for n, mib in enumerate((1000, 1000, 4000, 6000)):
        cluster.runs(f"a{n}", "n0", 0, mib)
    cluster.runs("b", "n1", 0, 9000, age_s=60)
    spec = a_plan(defragment(cluster.situation(NEVER_TOO_DEAR), cluster.waits("w", 10000)))
    assert moved(spec) == [("a3", "n1")]


def test_who_waits_for_its_quota_gets_no_plan() -> None:
    cluster = two_half_full()
    cluster.limit(namespace="default", cards=2)
    found = defragment(cluster.situation(NEVER_TOO_DEAR), cluster.waits("w", WHOLE))
    assert found == (
        "default/w waits for its quota: ResourceQuota q allows 2 cards, 2 are used and 1 asked"
    )


def test_who_fits_gets_no_plan() -> None:
    cluster = two_half_full()
    assert defragment(cluster.situation(), cluster.waits("w", 100)) == "default/w fits without it"


def test_nothing_is_changed_by_reading() -> None:
    cluster = two_half_full()
    waits = cluster.waits("w", WHOLE)
    before = cluster.ledger.generation, cluster.ledger.fleet.cards.memory_used.tolist()
    first = defragment(cluster.situation(), waits)
    assert defragment(cluster.situation(), waits) == first
    after = cluster.ledger.generation, cluster.ledger.fleet.cards.memory_used.tolist()
    assert after == before


def test_a_plan_holds_until_what_it_stands_on_changes() -> None:
    cluster = two_half_full()
    waits = cluster.waits("w", WHOLE)
    spec = a_plan(defragment(cluster.situation(), waits))
    assert stale(cluster.situation(), spec) == ""
    cluster.runs("c", "n0", 0, 4000)
    assert "no longer leave room" in stale(cluster.situation(), spec)
    cluster.ledger.ended("uid-default-c")
    del cluster.running["uid-default-c"]
    assert stale(cluster.situation(), spec) == ""
    cluster.node("n9", 1)
    assert stale(cluster.situation(), spec) == "default/w fits without it"
    del cluster.running["uid-default-b"]
    assert stale(cluster.situation(), spec) == "default/b holds no cards any more"
    del cluster.waiting[waits.pod.metadata.uid]
    assert stale(cluster.situation(), spec) == "default/w no longer waits"


def test_nodes_and_pods_may_come_and_go_while_a_plan_is_sought() -> None:
    cluster = two_half_full()
    for n in range(300):
        cluster.node(f"m{n}", 1)
        cluster.runs(f"p{n}", f"m{n}", 0, 15000, age_s=60)
    cluster.waits("w", WHOLE)
    work = proposing(cluster.situation(NEVER_TOO_DEAR), ProposalRules())
    next(work)
    cluster.ledger.remove_node("m0")
    cluster.ledger.ended("uid-default-p1")
    cluster.ledger.remove_node("n1")
    cluster.node("late", 9)
    assert at_once(work).why_not == {"default/w": "default/w fits without it"}
