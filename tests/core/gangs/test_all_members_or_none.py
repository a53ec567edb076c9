"""Cards for all members of a gang or for none, whatever the cluster and the gang are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tessera_core.fleet.columns import USAGE
from tessera_core.gangs.reservation import (
    GangReservation,
    GangReserved,
    GangUnschedulable,
    reserve_gang,
)
from tessera_core.gangs.scratch import MemberRequest, ScratchCluster
from tessera_core.kube.scheduler_filters import KubeSchedulerFilters
from tessera_core.ledger.ledger import Ledger
from tessera_schema.grants import Grant
from tests.core.gangs.small_clusters import (
    CLUSTERS,
    DEMANDS,
    Demand,
    SmallCluster,
    can_be_placed,
    ledger_of,
    member,
    members_of,
)

GANGS = st.lists(DEMANDS, min_size=1, max_size=4)
FREE = (0, 0)
ONE_NODE = SmallCluster(nodes=((6, (FREE, FREE)),))


def state(ledger: Ledger) -> tuple[object, object]:
    """All that a ledger holds."""
    columns = {name: getattr(ledger.fleet.cards, name).tolist() for name in USAGE}
    return holders(ledger), columns


def holders(ledger: Ledger) -> Mapping[str, Grant]:
    return {entry.grant.uid: entry.grant for entry in ledger.entries()}


def check_whole(
    ledger: Ledger, filters: KubeSchedulerFilters, members: Sequence[MemberRequest]
) -> bool:
    """Reserve, and hold the answer to what the ledger then has; True when the gang is placed."""
    before = state(ledger)
    answer = reserve_gang(ledger, filters, members, 0)
    uids = {each.pod.metadata.uid for each in members if each.request is not None}
    if isinstance(answer, GangUnschedulable):
        assert state(ledger) == before
        assert uids.isdisjoint(holders(ledger))
        return False
    assert set(answer.seats) == {each.pod.metadata.uid for each in members}
    assert uids <= holders(ledger).keys()
    assert all(ledger.entry(uid) is not None for uid in uids)
    assert ledger.fleet.cards.overgranted() == 0
    for each in members:  # what kube-scheduler counts has room too
        node = answer.seats[each.pod.metadata.uid].node
        assert node not in filters.refusals(each.pod)
        filters.take(each.pod, node)
    return True


@settings(max_examples=300, deadline=None)
@given(CLUSTERS, GANGS)
@example(SmallCluster(nodes=((2, (FREE,)),)), [Demand(cores=0), Demand(cores=100)])
@example(ONE_NODE, [Demand(mib=5), Demand(mib=4), Demand(mib=3), Demand(mib=8), Demand(mib=8)])
def test_a_gang_is_placed_if_and_only_if_some_arrangement_takes_it(
    cluster: SmallCluster, demands: list[Demand]
) -> None:
    ledger, filters = ledger_of(cluster)
    assert check_whole(ledger, filters, members_of(demands)) is can_be_placed(cluster, demands)


@settings(max_examples=150, deadline=None)
@given(CLUSTERS, DEMANDS, st.integers(1, 6))
def test_equal_members_by_counting_as_one_by_one(
    cluster: SmallCluster, demand: Demand, number: int
) -> None:
    """The count is exact for one card a member, and never too low for several."""
    unlimited = SmallCluster(cluster.nodes)
    ledger, filters = ledger_of(unlimited)
    members = members_of([demand] * number)
    counted = ScratchCluster(ledger, filters).copies(members[0], number)
    fitting = max(n for n in range(number + 1) if can_be_placed(unlimited, [demand] * n))
    assert counted >= fitting
    if demand.cards <= 1 and demand.cores:
        assert counted == fitting
    assert check_whole(ledger, filters, members) is (fitting == number)


@settings(max_examples=100, deadline=None)
@given(CLUSTERS, GANGS, st.integers(1, 7))
def test_slices_change_no_answer(cluster: SmallCluster, demands: list[Demand], steps: int) -> None:
    ledger, filters = ledger_of(cluster)
    whole = reserve_gang(ledger, filters, members_of(demands), 0)
    other, filters = ledger_of(cluster)
    search = GangReservation(other, filters, members_of(demands))
    before, answer = state(other), search.advance(steps, 0)
    while answer is None:
        assert state(other) == before  # a gang that is searched for holds nothing
        answer = search.advance(steps, 0)
    assert answer == whole
    assert holders(ledger) == holders(other)


def test_a_search_begins_again_when_the_ledger_has_changed() -> None:
    ledger, filters = ledger_of(SmallCluster(nodes=((6, (FREE,)),)))
    search = GangReservation(ledger, filters, members_of([Demand(mib=8)] * 2))
    assert search.advance(3, 0) is None  # both of them are found to fit, by themselves
    assert isinstance(
        reserve_gang(ledger, filters, [member("other", Demand(mib=8))], 0), GangReserved
    )
    answer = None
    while answer is None:
        answer = search.advance(3, 0)
    assert isinstance(answer, GangUnschedulable)
    assert (answer.fitting, answer.of) == (1, 2)
    assert holders(ledger).keys() == {"uid-default-other"}


def test_two_cards_each_are_found_where_the_best_cards_for_the_first_leave_none() -> None:
    """One card has room for two more shares, two have room for one: as pairs they are two."""
    nodes = ((6, ((0, 0), (12, 0), (12, 0))),)
    demands = [Demand(cards=2, mib=4, cores=0)] * 2
    ledger, filters = ledger_of(SmallCluster(nodes))
    assert check_whole(ledger, filters, members_of(demands))


def test_members_without_cards_are_part_of_the_plan() -> None:
    """GB9: the launcher has no room next to the workers, so nobody starts"""
    demands = [Demand(cards=0, cpu=3), Demand(cpu=2), Demand(cpu=2)]
    ledger, filters = ledger_of(SmallCluster(nodes=((6, (FREE, FREE)),)))
    answer = reserve_gang(ledger, filters, members_of(demands), 0)
    assert isinstance(answer, GangUnschedulable)
    assert holders(ledger) == {}
    ledger, filters = ledger_of(SmallCluster(nodes=((7, (FREE, FREE)),)))
    assert check_whole(ledger, filters, members_of(demands))


def test_a_quota_counts_the_whole_gang() -> None:
    """GE4: a gang that exceeds by its last member does not get its first"""
    ledger, filters = ledger_of(SmallCluster(nodes=((9, (FREE,) * 4),), limit=3))
    answer = reserve_gang(ledger, filters, members_of([Demand()] * 4), 0)
    assert isinstance(answer, GangUnschedulable)
    assert answer.over == "quota allows 3 cards, 0 are used and 4 asked"
    assert check_whole(ledger, filters, members_of([Demand()] * 3))


def test_one_domain_takes_all_and_the_tightest_that_does() -> None:
    nodes = ((9, (FREE, FREE)), (9, (FREE,)), (9, (FREE, FREE, FREE)))
    ledger, filters = ledger_of(SmallCluster(nodes))
    domains = [{"n0"}, {"n1"}, {"n2"}]
    answer = reserve_gang(ledger, filters, members_of([Demand(mib=16)] * 2), 0, domains=domains)
    assert isinstance(answer, GangReserved)
    assert {seat.node for seat in answer.seats.values()} == {"n0"}
    answer = reserve_gang(ledger, filters, members_of([Demand(mib=16)] * 4), 0, domains=domains)
    assert isinstance(answer, GangUnschedulable)
    assert (answer.fitting, answer.of) == (3, 4)


def test_a_gang_of_four_thousand_is_answered() -> None:
    ledger, filters = ledger_of(SmallCluster(nodes=((9, (FREE, FREE)),)))
    answer = reserve_gang(ledger, filters, members_of([Demand()] * 4000), 0)
    assert isinstance(answer, GangUnschedulable)
    assert (answer.fitting, answer.of) == (8, 4000)
