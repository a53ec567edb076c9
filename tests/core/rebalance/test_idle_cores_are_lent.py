"""Idle cores are lent to busy neighbours, and taken back when their owner launches."""

from collections.abc import Iterator, Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from tessera_core.node.core_lending import (
    FULL,
    CounterSample,
    Lender,
    LendingDecision,
    LendingTimings,
)

TICK_S = 0.1
SECOND = 1_000_000_000
PACE = LendingTimings()


class Doing(Struct, frozen=True):
    """What a container does in one tick."""

    use: int = 0
    """Permille of the card."""
    throttled: bool = False
    kernel_s: float = 0.001
    """How long one launch takes."""


IDLE = Doing()


class Card:
    """A card whose containers do as the test says, and a lender that looks at them."""

    def __init__(self, *containers: CounterSample) -> None:
        self.now = {c.key: c for c in containers}
        self.at_s = 0.0
        self.lender = Lender(PACE)
        self.decided = self.lender.decide(containers, 0.0)

    def tick(self, **doing: Doing) -> LendingDecision:
        """A tenth of a second, then a look."""
        self.at_s += TICK_S
        for key, what in doing.items():
            self.now[key] = done(self.now[key], what)
        self.decided = self.lender.decide(tuple(self.now.values()), self.at_s)
        for key, loan in self.decided.loans.items():
            self.now[key] = replace(self.now[key], lent_permille=loan)
        return self.decided

    def ticks(self, seconds: float, **doing: Doing) -> LendingDecision:
        for _ in range(round(seconds / TICK_S)):
            self.tick(**doing)
        return self.decided


def done(before: CounterSample, what: Doing) -> CounterSample:
    ns = what.use * TICK_S * SECOND / FULL
    launches = round(ns / SECOND / what.kernel_s) if what.use else 0
    return replace(
        before, gpu_ns=before.gpu_ns + int(ns),
        launches=before.launches + max(launches, 1 if what.use else 0),
        throttled_ns=before.throttled_ns + (SECOND // 20 if what.throttled else 0),
    )  # fmt: skip


def a(key: str, granted: int, **more: object) -> CounterSample:
    return CounterSample(key=key, granted_permille=granted, **more)  # type: ignore[arg-type]  # a test's


def test_a_busy_container_gets_what_its_neighbour_leaves() -> None:
    card = Card(a("owner", 500), a("busy", 300))
    card.ticks(1.0, busy=Doing(use=300, throttled=True))
    assert card.decided.loans == {"owner": 0, "busy": 700}


def test_cores_that_nobody_was_granted_are_lent_at_once() -> None:
    card = Card(a("owner", 500), a("busy", 300))
    card.tick(busy=Doing(use=300, throttled=True))
    assert 200 <= card.decided.loans["busy"] <= 230


def test_all_of_it_is_taken_back_with_the_owners_first_launch() -> None:
    card = Card(a("owner", 500), a("busy", 300))
    card.ticks(3.0, busy=Doing(use=900, throttled=True))
    assert card.decided.loans["busy"] == 700
    card.tick(busy=Doing(use=900, throttled=True), owner=Doing(use=1))
    assert card.decided.loans["busy"] == 200


def test_an_owner_that_rested_and_works_again_lends_nothing_of_what_it_uses() -> None:
    """The second in which it rested does not make it look like one that uses little"""
    card = Card(a("owner", 950), rest("batch"))
    card.ticks(3.0, batch=Doing(use=900, throttled=True))
    assert card.decided.loans["batch"] == FULL
    for _ in range(20):
        card.tick(batch=Doing(use=50, throttled=True), owner=Doing(use=940))
        assert card.decided.loans["batch"] == 50


def test_an_owner_that_uses_little_lends_the_rest_after_a_while() -> None:
    card = Card(a("owner", 500), a("busy", 500))
    card.ticks(6.0, busy=Doing(use=500, throttled=True), owner=Doing(use=100))
    assert 290 <= card.decided.loans["busy"] <= 330
    card.tick(busy=Doing(use=500, throttled=True), owner=Doing(use=450, throttled=True))
    assert card.decided.loans["busy"] == 0


def rest(key: str, **more: object) -> CounterSample:
    return a(key, 0, rest=True, **more)


HUNGRY = Doing(use=10, throttled=True)


def test_best_effort_has_all_that_an_idle_owner_leaves_and_nothing_from_its_launch_on() -> None:
    card = Card(a("owner", 1000), rest("rest"))
    card.ticks(2.0, rest=HUNGRY)
    assert card.decided.loans == {"owner": 0, "rest": 1000}
    card.tick(rest=Doing(use=1000), owner=Doing(use=1))
    assert card.decided.loans["rest"] == 0


def test_best_effort_shares_in_equal_parts() -> None:
    card = Card(a("owner", 400), rest("one"), rest("two"), rest("calm"))
    busy = {"owner": Doing(use=400, throttled=True), "one": HUNGRY, "two": HUNGRY}
    assert card.ticks(2.0, **busy).loans == {"owner": 600, "one": 0, "two": 0, "calm": 0}
    busy["owner"] = Doing(use=400)
    loans = card.ticks(4.0, **busy).loans
    assert loans["one"] == loans["two"] > 200
    assert loans["calm"] == 0


def test_best_effort_comes_after_neighbours_that_were_granted_cores() -> None:
    card = Card(a("owner", 500), a("busy", 300), rest("rest"))
    card.ticks(1.0, busy=Doing(use=300, throttled=True), rest=HUNGRY)
    assert card.decided.loans == {"owner": 0, "busy": 700, "rest": 0}
    bounded = Card(a("owner", 500), a("busy", 300, most_permille=500), rest("rest"))
    bounded.ticks(1.0, busy=Doing(use=300, throttled=True), rest=HUNGRY)
    assert bounded.decided.loans == {"owner": 0, "busy": 200, "rest": 500}


def test_best_effort_holds_nobody() -> None:
    card = Card(rest("rest", priority=0), a("owner", 500, priority=1))
    assert card.ticks(1.0, rest=HUNGRY, owner=Doing(use=100)).held == frozenset()
    other = Card(rest("rest", priority=1), a("owner", 500, priority=0))
    assert other.ticks(1.0, rest=HUNGRY, owner=Doing(use=100)).held == {"rest"}


def test_who_is_not_paused_is_lent_nothing() -> None:
    card = Card(a("owner", 500), a("calm", 300))
    card.ticks(3.0, calm=Doing(use=100))
    assert card.decided.loans == {"owner": 0, "calm": 0}


def test_a_loan_shrinks_to_what_is_used_of_it() -> None:
    card = Card(a("owner", 500), a("busy", 200))
    card.ticks(3.0, busy=Doing(use=900, throttled=True))
    card.ticks(6.0, busy=Doing(use=400))
    assert 240 <= card.decided.loans["busy"] <= 300


def test_a_bound_holds_and_one_at_its_own_gets_nothing() -> None:
    card = Card(a("owner", 400), a("bound", 200, most_permille=300), a("hard", 200,
                most_permille=200))  # fmt: skip
    hungry = Doing(use=200, throttled=True)
    card.ticks(2.0, bound=hungry, hard=hungry)
    assert card.decided.loans == {"owner": 0, "bound": 100, "hard": 0}


def test_an_owner_that_was_paused_before_it_rested_takes_no_part_of_what_is_lent() -> None:
    card = Card(a("owner", 500), a("busy", 300))
    hungry = Doing(use=300, throttled=True)
    card.ticks(2.0, busy=hungry, owner=Doing(use=600, throttled=True))
    assert card.decided.loans["owner"] > 0
    card.ticks(0.7, busy=hungry)
    assert card.decided.loans == {"owner": 0, "busy": 700}


def test_who_does_not_lend_keeps_all_of_its_own() -> None:
    card = Card(a("keeper", 500, lends=False), a("busy", 300))
    card.ticks(5.0, busy=Doing(use=300, throttled=True))
    assert card.decided.loans == {"keeper": 0, "busy": 200}


def test_several_share_by_what_they_were_granted() -> None:
    card = Card(a("owner", 400), a("large", 400), a("small", 200))
    hungry = Doing(use=300, throttled=True)
    card.ticks(2.0, large=hungry, small=hungry)
    assert card.decided.loans == {"owner": 0, "large": 260, "small": 130}


def test_who_has_no_limit_needs_no_loan_and_keeps_others_from_it() -> None:
    card = Card(a("free", 0), a("busy", 300))
    card.ticks(1.0, busy=Doing(use=300, throttled=True))
    assert card.decided.loans == {"free": 0, "busy": 700}
    card.tick(busy=Doing(use=300, throttled=True), free=Doing(use=1))
    assert card.decided.loans == {"free": 0, "busy": 0}


def test_long_kernels_are_not_taken_for_idleness_twice() -> None:
    card = Card(a("owner", 500), a("busy", 500))
    hungry = Doing(use=500, throttled=True)
    long = Doing(use=500, kernel_s=2.0)
    for _ in range(3):
        card.tick(busy=hungry, owner=replace(long, use=10_000))  # ended: counted all at once
        card.ticks(1.9, busy=hungry)
    assert card.decided.loans["busy"] <= 50


def test_counters_that_go_back_are_those_of_another_life() -> None:
    card = Card(a("owner", 500), a("busy", 300))
    card.ticks(2.0, busy=Doing(use=300, throttled=True), owner=Doing(use=100))
    card.now["owner"] = a("owner", 500)
    card.tick(busy=Doing(use=300, throttled=True))
    assert card.decided.loans["busy"] == 200


def test_low_priority_waits_while_high_priority_is_active() -> None:
    card = Card(a("high", 300, priority=0), a("low", 300, priority=1), a("none", 300))
    busy = Doing(use=300, throttled=True)
    assert card.tick(high=busy, low=busy, none=busy).held == {"low"}
    assert card.ticks(PACE.active_s, none=busy).held == set()
    assert card.tick(high=Doing(use=1), none=busy).held == {"low"}


def test_equal_priorities_do_not_hold_each_other() -> None:
    card = Card(a("one", 300, priority=1), a("other", 300, priority=1))
    busy = Doing(use=300, throttled=True)
    assert card.ticks(1.0, one=busy, other=busy).held == set()


def test_cores_of_the_paused_are_lent() -> None:
    card = Card(a("high", 300, priority=0), a("low", 700, priority=1))
    card.ticks(1.0, high=Doing(use=300, throttled=True))
    assert card.decided.loans == {"high": 700, "low": 0}


# -- priorities of other namespaces


A_THIRD = PACE.most_held_s / (PACE.most_held_s + PACE.rest_s) + PACE.most_held_s / 120
"""In the long run; two minutes may begin and end with a hold."""


def test_a_priority_stops_at_its_namespace() -> None:
    assert share_paused(Doing(use=1)) == 0


def test_where_an_administrator_allows_it_an_owner_waits_a_third_of_the_time() -> None:
    assert 0.2 < share_paused(Doing(use=1), reaches=True) <= A_THIRD


def test_nor_does_it_wait_longer_for_one_that_holds_it_in_pieces() -> None:
    pieces = [Doing(use=1)] * 60 + [IDLE] * 60
    assert 0.2 < share_paused(*pieces, reaches=True) <= A_THIRD


def test_who_was_promised_no_cores_waits_as_long_as_others_work() -> None:
    assert share_paused(Doing(use=1), reaches=True, granted=0) > 0.95


def test_in_its_own_namespace_it_holds_as_long_as_it_works() -> None:
    assert share_paused(Doing(use=1), namespace="victims") > 0.95


def test_launches_that_the_driver_did_not_see_hold_nobody() -> None:
    assert share_paused(Doing(use=1), namespace="victims", works=False) == 0


def share_paused(
    *doing: Doing, namespace: str = "attackers", granted: int = 900, **more: bool
) -> float:
    """The part of 1,200 looks in which an owner is held by a neighbour with 1 percent of the cores
    and the highest priority, that launches once in two seconds of what it does."""
    card = Card(
        replace(a("attacker", 10, priority=0), namespace=namespace, **more),
        replace(a("victim", granted, priority=1), namespace="victims"),
    )
    busy, held = Doing(use=500), 0
    for look in range(1200):
        launches = doing[look % len(doing)] if look % 20 == 0 or len(doing) > 1 else IDLE
        held += "victim" in card.tick(attacker=launches, victim=busy).held
    return held / 1200


# -- whatever they do

doings = st.builds(
    Doing, use=st.integers(0, 1000), throttled=st.booleans(),
    kernel_s=st.sampled_from([0.001, 0.05, 1.0]),
)  # fmt: skip


@st.composite
def cards(draw: st.DrawFn) -> list[CounterSample]:
    left, made = FULL, []
    for name in "abcde"[: draw(st.integers(1, 5))]:
        rest = draw(st.booleans())
        granted = draw(st.integers(0, min(left, 20) if rest else left))
        left -= granted
        most, priority = draw(st.integers(0, 1200)), draw(st.none() | st.integers(0, 2))
        made.append(a(name, granted, rest=rest, most_permille=most, priority=priority))
    return made


def states(
    readings: Sequence[CounterSample], plays: Sequence[Mapping[str, Doing]]
) -> Iterator[Card]:
    card = Card(*readings)
    for play in plays:
        card.tick(**{key: doing for key, doing in play.items() if key in card.now})
        yield card


@given(cards(), st.lists(st.dictionaries(st.sampled_from("abcde"), doings), max_size=25))
def test_never_more_than_the_card_is_promised(
    readings: list[CounterSample], plays: list[dict[str, Doing]]
) -> None:
    for card in states(readings, plays):
        loans, held = card.decided.loans, card.decided.held
        claims = sum(card.lender.claim(key) for key in card.now if key not in held)
        assert not sum(loans.values()) or claims + sum(loans.values()) <= FULL + 1e-6
        for key, loan in loans.items():
            granted, most = card.now[key].granted_permille, card.now[key].most_permille
            assert loan == 0 or granted < granted + loan <= min(most, FULL)
            assert loan == 0 or key not in held


@given(cards(), st.lists(st.dictionaries(st.sampled_from("abcde"), doings), max_size=20))
def test_who_wakes_finds_all_of_its_own(
    readings: list[CounterSample], plays: list[dict[str, Doing]]
) -> None:
    card = Card(*readings)
    for play in plays:
        card.tick(**{key: doing for key, doing in play.items() if key in card.now})
    card.ticks(10.0)
    for owner in readings:
        bound = not owner.rest and 0 < owner.granted_permille < FULL
        if bound and owner.key not in card.decided.held:
            card.tick(**{owner.key: Doing(use=1)})
            others = sum(loan for key, loan in card.decided.loans.items() if key != owner.key)
            assert others <= FULL - owner.granted_permille
            break


@given(cards(), st.lists(st.dictionaries(st.sampled_from("abcde"), doings), max_size=15))
def test_the_same_reading_twice_decides_the_same(
    readings: list[CounterSample], plays: list[dict[str, Doing]]
) -> None:
    first, second = (
        [card.decided for card in states(readings, plays)] for _ in range(2)
    )  # fmt: skip
    assert first == second
