"""A gang that could not start as a whole gives its cards back, by a plan; one that has started
before does not."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tessera_core.gang_scheduling.incomplete_gangs import (
    AGAIN_S,
    MOST_STEPS,
    WRITTEN_AFTER_S,
    Begin,
    DissolvePlan,
    DissolveStep,
    GangDissolving,
    Propose,
    Withdraw,
)
from tessera_core.gangs.gang import Gang
from tessera_core.machines.gang import GangPhase
from tessera_schema.plans import PlanKind, PlanPhase
from tests.core.gang_scheduling.gang_cluster import GangCluster, started
from tests.core.gang_scheduling.gang_pods import koord_members, members
from tests.core.gangs.setting import a_group, a_member

GROUP = a_group("g", minMember=2)
AFTER_S = 300.0
WALL = 1_700_000_000.0


def incomplete(group: Gang = GROUP, least: int = 2) -> GangCluster:
    """A gang of which one Binding was written, and the others refused; their node is gone."""
    cluster = GangCluster({f"n{n}": 1 for n in range(least)}, [group])
    written: list[str] = []

    def only_one(uid: str) -> bool:
        written.append(uid)
        return len(written) == 1

    cluster.outcome = only_one
    cluster.create(*members("g", *range(1, least + 1)))
    cluster.run(rounds=1)
    (name,) = cluster.bound()
    for node in set(cluster.cards) - {cluster.grants[cluster.uid(name)].node}:
        cluster.lose_node(node)
    cluster.run()
    assert cluster.phase(group) is GangPhase.BROKEN
    return cluster


def steps(
    cluster: GangCluster,
    *plans: DissolvePlan,
    waits: float = 2 * WRITTEN_AFTER_S,
    wall: float = WALL,
    after_s: float = AFTER_S,
    lately: bool = False,
) -> list[DissolveStep]:
    cluster.now += waits
    rules = GangDissolving(after_s, lambda _: lately)
    return list(rules.next_steps(cluster.coordinator.bundles(), plans, cluster.now, wall))


def plan(cluster: GangCluster, **more: Any) -> DissolvePlan:
    uids = frozenset(map(cluster.uid, cluster.bound()))
    return DissolvePlan(
        **{"name": "p", "gang": GROUP.id, "pods": uids, "created": WALL - 10, **more}
    )


def test_a_plan_names_the_pods_that_hold_cards_in_vain() -> None:
    """GC4"""
    cluster = incomplete()
    (step,) = steps(cluster)
    assert isinstance(step, Propose)
    spec = step.spec
    assert (spec.kind, spec.for_gang) == (PlanKind.DISSOLVE, GROUP.id)
    assert [each.pod.name for each in spec.steps] == cluster.bound()
    assert "1 of 2 members have a node" in spec.reason


def test_nothing_is_written_while_the_gang_may_be_whole_in_a_moment() -> None:
    assert steps(incomplete(), waits=0) == []


@pytest.mark.parametrize(
    ("more", "waits_for_more"),
    [({}, True), ({"created": WALL - AFTER_S}, False), ({"decision": "approved"}, False)],
)
def test_pods_leave_after_the_time_or_when_somebody_says_so(
    more: dict[str, Any], *, waits_for_more: bool
) -> None:
    cluster = incomplete()
    expected = [] if waits_for_more else [Begin("p")]
    assert steps(cluster, plan(cluster, **more)) == expected


def test_a_plan_that_was_declined_is_not_made_again() -> None:
    cluster = incomplete()
    no = plan(cluster, decision="declined", created=WALL - 2 * AFTER_S)
    assert steps(cluster, no) == [Withdraw("p", "declined")]
    over = plan(cluster, decision="declined", phase=PlanPhase.DECLINED, ended=WALL - 2 * AGAIN_S)
    assert steps(cluster, over) == []


@pytest.mark.parametrize(("ago", "again"), [(AGAIN_S / 2, False), (AGAIN_S * 2, True)])
def test_a_plan_that_failed_is_made_again_later(ago: float, *, again: bool) -> None:
    cluster = incomplete()
    cluster.coordinator.bundles()[0].attempt.incomplete = False  # another scheduler
    failed = plan(cluster, phase=PlanPhase.FAILED, ended=WALL - ago)
    assert [type(step) for step in steps(cluster, failed)] == ([Propose] if again else [])


def test_a_plan_that_other_pods_of_the_gang_ended_does_not_delay_the_next_one() -> None:
    """Else it is too late for a scheduler that takes over to see that these began a moment ago."""
    cluster = incomplete()
    done = plan(cluster, pods=frozenset({"gone"}), phase=PlanPhase.DONE, ended=WALL - 1)
    assert [type(step) for step in steps(cluster, done)] == [Propose]


def test_a_gang_of_which_somebody_else_starts_a_pod_is_given_up() -> None:
    cluster = GangCluster({"n1": 0}, [GROUP])
    cluster.create(*members("g", 1))
    cluster.run()
    assert cluster.phase(GROUP) is GangPhase.GATHERING
    cluster.create(a_member("g2", "g", node="n1"))
    cluster.run()
    assert cluster.phase(GROUP) is GangPhase.BROKEN
    assert [type(step) for step in steps(cluster, lately=False)] == [Propose]


def test_a_gang_that_is_whole_loses_nobody() -> None:
    cluster = incomplete()
    written = plan(cluster, created=WALL - 2 * AFTER_S)
    del cluster.outcome
    cluster.add_node("more", 1)
    cluster.run(rounds=20)
    assert cluster.phase(GROUP) is GangPhase.STARTED
    assert steps(cluster, written) == [Withdraw("p", "the gang is started")]


def test_a_gang_without_pods_has_no_plan() -> None:
    cluster = incomplete()
    written = plan(cluster)
    for uid in list(cluster.pods):
        cluster.delete(uid)
    cluster.run()
    assert steps(cluster, written) == [Withdraw("p", "the gang has no pods any more")]


def test_a_plan_that_does_not_name_all_is_withdrawn() -> None:
    cluster = incomplete()
    first, second = steps(cluster, plan(cluster, pods=frozenset({"another"}))), steps(cluster)
    assert first == [Withdraw("p", "more of its pods have a node by now")]
    assert [type(step) for step in second] == [Propose]


def test_a_gang_that_has_started_goes_on_with_fewer_pods() -> None:
    cluster = started(GangCluster({"n1": 1, "n2": 1}, [GROUP]), members("g", 1, 2))
    assert cluster.phase(GROUP) is GangPhase.STARTED
    cluster.lose_node(cluster.grants[cluster.uid("g2")].node)
    cluster.create(a_member("successor", "g"))
    cluster.run()
    assert cluster.phase(GROUP) is GangPhase.BROKEN
    assert steps(cluster, lately=True) == []


@pytest.mark.parametrize("lately", [True, False])
def test_a_scheduler_that_takes_over_gives_up_only_what_began_a_moment_ago(*, lately: bool) -> None:
    cluster = incomplete()
    cluster.start_scheduler()
    cluster.run()
    assert cluster.phase(GROUP) is GangPhase.BROKEN
    found = steps(cluster, lately=lately)
    assert [type(step) for step in found] == ([Propose] if lately else [])
    # a plan that there is goes on all the same
    assert steps(cluster, plan(cluster, created=WALL - AFTER_S), lately=False) == [Begin("p")]


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Unknown", "conditions": [{"type": "Scheduled", "status": "True"}]},
        {"phase": "Running"},
    ],
)
def test_a_scheduler_that_takes_over_leaves_a_gang_alone_that_has_started(
    status: dict[str, Any],
) -> None:
    """It lost a member just after its start: the pods alone do not show that."""
    cluster = incomplete(replace(GROUP, started=a_group("g", status=status).started))
    cluster.start_scheduler()
    cluster.run()
    assert cluster.phase(GROUP) is GangPhase.BROKEN
    assert steps(cluster, lately=True) == []


def test_what_this_scheduler_saw_fail_counts_more_than_an_object_that_started_before() -> None:
    cluster = incomplete(replace(GROUP, started=True))
    assert [type(step) for step in steps(cluster)] == [Propose]


def test_switched_off_everything_stays_as_it_is() -> None:
    cluster = incomplete()
    assert steps(cluster, after_s=0) == []
    why = "gangs that are incomplete stay as they are"
    assert steps(cluster, plan(cluster), after_s=0) == [Withdraw("p", why)]


def test_while_its_pods_leave_no_member_gets_cards() -> None:
    cluster = incomplete()
    attempt = cluster.coordinator.bundles()[0].attempt
    attempt.dissolving = True
    del cluster.outcome
    cluster.add_node("more", 2)
    cluster.run(rounds=20)
    assert len(cluster.bound()) == 1
    cluster.delete(cluster.uid(cluster.bound()[0]))
    cluster.create(a_member("successor", "g"))
    cluster.run(rounds=20)
    assert attempt.started
    assert len(cluster.bound()) == 2


def test_members_that_arrive_together_each_time_are_left_alone() -> None:
    cluster = GangCluster({"n1": 3})
    written: list[str] = []

    def only_one(uid: str) -> bool:
        written.append(uid)
        return len(written) == 1

    cluster.outcome = only_one
    cluster.create(*koord_members("g", 3, 3, match_policy="only-waiting"))
    cluster.run(rounds=1)
    assert len(cluster.bound()) == 1
    assert steps(cluster, lately=True) == []


def test_a_plan_has_as_many_steps_as_its_definition_allows() -> None:
    count = MOST_STEPS + 2
    cluster = GangCluster({"n1": count}, [a_group("g", minMember=count)])
    cluster.create(*members("g", *range(count)))
    last = cluster.uid("g7")
    cluster.outcome = lambda uid: uid != last
    cluster.run(rounds=1)
    assert len(cluster.bound()) == count - 1
    cluster.delete(last)
    cluster.run()
    (step,) = steps(cluster)
    assert isinstance(step, Propose)
    assert len(step.spec.steps) == MOST_STEPS
