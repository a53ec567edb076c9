"""`tessera place` lets a gang grow when a scheduler would: once others have their minimum."""

from __future__ import annotations

from typing import Any

from tests.cli.cluster import node, pod
from tests.cli.conftest import Tessera
from tests.cli.gang_manifests import CARD, group, holder, members, placed, planned, queue


def two_gangs(first: dict[str, Any] | None = None, second: dict[str, Any] | None = None) -> Any:
    """Of four members each, of which two start together; the first comes first."""
    return (
        group("a", minMember=2, **(first or {})), *members("a", 4),
        group("b", minMember=2, **(second or {})), *members("b", 4),
    )  # fmt: skip


def test_two_jobs_start_before_one_grows(tessera: Tessera) -> None:
    ran = planned(tessera, node(cards=4), *two_gangs())
    assert placed(ran) == {"a1", "a2", "b1", "b2"}


def test_once_nobody_waits_for_a_minimum_the_last_one_starts_with_all_and_the_first_one_grows(
    tessera: Tessera,
) -> None:
    ran = planned(tessera, node(cards=7), *two_gangs())
    assert placed(ran) == {"a1", "a2", "a3", "b1", "b2", "b3", "b4"}
    messages = {gang[-1]: answer["message"] for gang, answer in ran.gangs.items()}
    assert messages == {
        "a": "2 of 4 members together, 1 one by one, 1 waits: the minimum runs without",
        "b": "4 of 4 members together",
    }


def test_what_is_left_goes_to_the_one_whose_turn_is_next_by_its_name(tessera: Tessera) -> None:
    ran = planned(tessera, node(cards=5), *two_gangs())
    assert placed(ran) == {"a1", "a2", "b1", "b2", "b3"}
    third = (group("c", minMember=3), *members("c", 3))
    ran = planned(tessera, node(cards=8), *two_gangs(), *third)
    assert placed(ran) == {"a1", "a2", "a3", "b1", "b2", "c1", "c2", "c3"}


def test_a_gang_of_higher_priority_grows_before_one_that_comes_first(tessera: Tessera) -> None:
    ran = planned(tessera, node(cards=6), *two_gangs(second={"priority": 5}))
    assert placed(ran) == {"a1", "a2", "b1", "b2", "b3", "b4"}


def test_of_higher_priority_it_grows_at_once(tessera: Tessera) -> None:
    ran = planned(tessera, node(cards=4), *two_gangs(first={"priority": 5}))
    assert placed(ran) == {"a1", "a2", "a3", "a4"}


def test_queues_of_smaller_share_grow_first_and_take_turns(tessera: Tessera) -> None:
    """One queue uses three cards already; then both grow in turns."""
    queues = (queue("q1", weight=1), queue("q2", weight=1))
    running = [holder(f"r{n}", n) for n in range(3)]
    for each in running:
        each["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] = "q1"
    gangs = two_gangs({"queue": "q1"}, {"queue": "q2"})
    for cards, grown in ((8, {"b3"}), (9, {"b3", "b4"}), (10, {"b3", "b4", "a3"})):
        ran = planned(tessera, node(cards=cards), *queues, *running, *gangs)
        assert placed(ran) == {"a1", "a2", "b1", "b2", *grown}, cards


def test_a_gang_that_finds_no_room_lets_others_grow(tessera: Tessera) -> None:
    large = (group("b", minMember=9), *members("b", 9))
    ran = planned(tessera, node(cards=4), group("a", minMember=2), *members("a", 4), *large)
    assert placed(ran) == {"a1", "a2", "a3", "a4"}


def test_members_of_a_gang_that_runs_wait_for_others_as_well(tessera: Tessera) -> None:
    running = [holder(f"a{n}", n) for n in range(2)]
    for each in running:
        each["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "a"
    more = [each for each in members("a", 4) if each["metadata"]["name"] in ("a3", "a4")]
    other = (group("b", minMember=2), *members("b", 2))
    ran = planned(tessera, node(cards=5), group("a", minMember=2), *running, *more, *other)
    assert placed(ran) - {"a0", "a1"} == {"a3", "b1", "b2"}


def test_single_pods_go_before_them_and_answers_stay_in_the_order_of_the_input(
    tessera: Tessera,
) -> None:
    single = pod("single", CARD)
    ran = planned(tessera, node(cards=7), *two_gangs(), single)
    names = [each["name"] for each in ran.pods]
    assert names == [*(f"a{n}" for n in range(1, 5)), *(f"b{n}" for n in range(1, 5)), "single"]
    assert placed(ran) == {"a1", "a2", "b1", "b2", "b3", "b4", "single"}
