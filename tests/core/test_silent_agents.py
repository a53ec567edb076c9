"""Agents that do not renew their Lease, and what is placed on their cards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_core.explain.node_reasons import node_reasons
from tessera_core.inventory.agent_liveness import (
    LOOP_STARTS,
    MAX_STEP_S,
    PROOF_S,
    AgentLiveness,
    AgentRenewal,
)
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.packing.packer import Packer
from tessera_core.placement.place import Placement
from tessera_core.placement.placer import Placer
from tessera_core.placement.screen_cache import ScreenCache
from tessera_core.placement.units import units
from tessera_core.quota.allowance import NO_LIMITS
from tessera_core.scheduling.reserve import Reserved, try_reserve
from tessera_schema.cards import MIB
from tessera_schema.reasons import Reason
from tessera_schema.requests import ContainerRequest, PodRequest, Request, Role
from tessera_testing.builders import a_card

LASTS_S = 45.0
EVERY_S = 2.0
"""Seconds between two deliveries of the watch: the leader renews its own Lease."""


class Watch:
    """A watch of one node's Lease, on a clock of its own."""

    def __init__(self) -> None:
        self.agents = AgentLiveness()
        self.now = 1_000.0
        self.stamp = 0
        self.starts = 1
        self.skew_s = 0.0

    def expect(self) -> None:
        self.agents.expect("n1", {"nvidia": LASTS_S}, self.now)

    def lease(self) -> AgentRenewal:
        return AgentRenewal(
            node="n1", vendor="nvidia", stamp=str(self.stamp),
            renewed_at=self.now + self.skew_s, starts=self.starts,
        )  # fmt: skip

    def renew(self) -> None:
        self.stamp += 1
        self.agents.deliver(self.now)
        self.agents.renew(self.lease(), self.now)

    def start(self) -> None:
        self.starts += 1
        self.renew()

    def wait(self, seconds: float, *, renewing_every_s: float | None = None) -> None:
        """Time passes; the watch delivers others' Leases."""
        until, next_at = self.now + seconds, self.now + (renewing_every_s or 0)
        while self.now < until:
            self.now = min(self.now + EVERY_S, until)
            self.agents.deliver(self.now)
            if renewing_every_s is not None and self.now >= next_at:
                self.renew()
                next_at += renewing_every_s

    @property
    def silent(self) -> bool:
        self.agents.expire()
        return "nvidia" in self.agents.silent("n1")


@pytest.fixture
def watch() -> Watch:
    watch = Watch()
    watch.expect()
    watch.renew()
    return watch


def test_an_agent_that_renews_is_not_silent(watch: Watch) -> None:
    watch.wait(600, renewing_every_s=20)
    assert not watch.silent


def test_an_agent_that_stops_is_silent_within_a_minute(watch: Watch) -> None:
    watch.wait(600, renewing_every_s=20)
    watch.wait(44)
    assert not watch.silent
    watch.wait(4)
    assert watch.silent
    assert "the nvidia agent of n1 has not renewed its Lease for" in watch.agents.describe(
        "n1", "nvidia"
    )


def test_an_agent_that_comes_back_counts_with_its_first_renewal(watch: Watch) -> None:
    watch.wait(300)
    assert watch.silent
    watch.start()
    assert not watch.silent
    assert watch.agents.describe("n1", "nvidia") == ""


def test_an_agent_that_was_never_there_is_silent_after_as_long() -> None:
    watch = Watch()
    watch.expect()
    watch.agents.deliver(watch.now)
    watch.wait(LASTS_S)
    assert not watch.silent
    watch.wait(EVERY_S)
    assert watch.silent


def test_nothing_is_expected_of_an_agent_that_names_no_heartbeat(watch: Watch) -> None:
    watch.wait(300)
    assert watch.silent
    watch.agents.expect("n1", {}, watch.now)
    assert watch.agents.expire() == {"n1"}
    assert watch.agents.silent("n1") == frozenset()


def test_no_agent_is_silent_because_the_watch_was_away(watch: Watch) -> None:
    watch.wait(30)
    watch.now += 3_600  # the API server was away, and nobody could renew
    watch.agents.deliver(watch.now)
    assert not watch.silent
    watch.wait(LASTS_S - 30 - MAX_STEP_S)
    assert not watch.silent
    watch.wait(EVERY_S)
    assert watch.silent


@pytest.mark.parametrize("skew_s", [-7_200.0, 7_200.0])
def test_a_clock_that_is_off_does_not_matter(watch: Watch, skew_s: float) -> None:
    watch.skew_s = skew_s
    watch.wait(600, renewing_every_s=20)
    assert not watch.silent
    watch.wait(LASTS_S + EVERY_S)
    assert watch.silent


def test_a_scheduler_that_starts_does_not_believe_a_lease_that_is_old() -> None:
    watch = Watch()
    watch.skew_s = -LASTS_S - 1
    watch.renew()  # the Lease is read before the node
    watch.expect()
    assert watch.silent
    watch.renew()
    assert not watch.silent


def test_an_agent_whose_time_is_no_time_has_to_renew_first() -> None:
    watch = Watch()
    watch.expect()
    watch.agents.renew(
        AgentRenewal(node="n1", vendor="nvidia", stamp="soon", renewed_at=None, starts=1),
        watch.now,
    )
    assert watch.silent


def test_an_agent_that_starts_again_and_again_has_to_prove_itself(watch: Watch) -> None:
    for _ in range(LOOP_STARTS - 1):
        watch.start()
        assert not watch.silent
        watch.wait(100)
    watch.start()
    assert watch.silent
    assert "has started 3 times or more within 600 s" in watch.agents.describe("n1", "nvidia")
    watch.wait(PROOF_S - EVERY_S, renewing_every_s=20)
    assert watch.silent
    watch.wait(EVERY_S * 2, renewing_every_s=20)
    assert not watch.silent
    watch.start()  # the loop is over: one more start is one
    assert not watch.silent


def test_one_that_renews_between_its_starts_does_not_loop(watch: Watch) -> None:
    for _ in range(LOOP_STARTS + 1):
        watch.start()
        assert not watch.silent
        watch.wait(PROOF_S + 2 * EVERY_S, renewing_every_s=20)
        watch.wait(LASTS_S + EVERY_S)
        assert watch.silent


def test_a_loop_is_over_once_it_renews_for_a_minute(watch: Watch) -> None:
    for _ in range(LOOP_STARTS - 1):
        watch.start()
    watch.wait(PROOF_S + 2 * EVERY_S, renewing_every_s=20)
    for _ in range(LOOP_STARTS - 1):
        watch.start()
        assert not watch.silent
    watch.start()
    assert watch.silent


def test_a_loop_that_dies_each_time_is_never_placed_on(watch: Watch) -> None:
    for _ in range(LOOP_STARTS):
        watch.start()
        watch.wait(60)
    for _ in range(20):
        watch.start()
        for _ in range(29):
            watch.wait(1)
            assert watch.silent
        watch.wait(271)


def test_two_upgrades_in_a_quarter_of_an_hour_are_no_loop(watch: Watch) -> None:
    for _ in range(2):
        watch.start()
        watch.wait(450, renewing_every_s=20)
        assert not watch.silent


def test_a_node_that_is_gone_is_forgotten(watch: Watch) -> None:
    watch.wait(300)
    assert watch.silent
    watch.agents.forget_node("n1")
    assert watch.agents.count() == 0
    assert watch.agents.expire() == {"n1"}


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["wait", "renew", "start", "outage"]),
            st.floats(min_value=0.1, max_value=200),
        ),
        max_size=60,
    )
)
def test_silence_is_what_was_observed(steps: list[tuple[str, float]]) -> None:
    """Whatever happens: who renewed within `LASTS_S` observed seconds is silent only if it loops;
    who did not is silent, always."""
    watch = Watch()
    watch.expect()
    watch.renew()
    observed = last = 0.0
    starts: list[float] = []
    for what, seconds in steps:
        if what == "wait":
            began = watch.now
            watch.wait(seconds)
            observed += watch.now - began
        elif what == "outage":
            watch.now += seconds
            watch.agents.deliver(watch.now)
            observed += min(seconds, MAX_STEP_S)
        else:
            watch.start() if what == "start" else watch.renew()
            last = observed
            if what == "start":
                starts.append(observed)
        age = observed - last
        if age > LASTS_S + 1e-6:
            assert watch.silent
        elif age < LASTS_S - 1e-6 and len(starts) < LOOP_STARTS:
            assert not watch.silent


def a_request(vendor: str = "acme") -> PodRequest:
    request = Request(vendor=vendor, dialect="acme", memory_bytes=1000 * MIB)
    container = ContainerRequest(container="c", position=0, role=Role.APP, requests=(request,))
    return PodRequest(namespace="d", name="p", uid="u", containers=(container,))


def a_ledger(*silent: str) -> Ledger:
    """Two nodes with cards of two vendors each."""
    ledger = Ledger()
    for node in ("n1", "n2"):
        ledger.put_node(
            node,
            [a_card(f"{node}-a", 0, vendor="acme"), a_card(f"{node}-o", 1, vendor="other")],
        )
    if silent:
        ledger.set_silent({node: frozenset({"acme"}) for node in silent})
    return ledger


@pytest.mark.parametrize("packer", [None, Packer()])
def test_pods_go_where_the_agent_is_not_silent(packer: Packer | None) -> None:
    ledger = a_ledger()
    placer = Placer(ledger.fleet, ScreenCache(), packer)
    for silent, other in (("n1", "n2"), ("n2", "n1")):
        ledger.set_silent({silent: frozenset({"acme"}), other: frozenset()})
        for _ in range(3):  # a unit that is asked for again is kept
            found = placer.place(a_request(), NO_LIMITS)
            assert isinstance(found, Placement)
            assert found.node == other


def test_where_all_are_silent_the_pod_waits_and_each_node_says_why() -> None:
    ledger = a_ledger("n1", "n2")
    wanted = units(a_request())
    assert not isinstance(Placer(ledger.fleet).place(a_request(), NO_LIMITS), Placement)
    assert node_reasons(ledger.fleet, wanted)[:2] == ["AgentSilent", "AgentSilent"]


def test_cards_of_another_vendor_on_the_node_take_pods() -> None:
    ledger = a_ledger("n1", "n2")
    assert isinstance(Placer(ledger.fleet).place(a_request("other"), NO_LIMITS), Placement)


def test_shares_stay_and_the_node_may_be_published_again_meanwhile() -> None:
    ledger = a_ledger()
    reserved = try_reserve(ledger, Placer(ledger.fleet), a_request(), None, 0)
    assert isinstance(reserved, Reserved)
    node = reserved.grant.node
    ledger.binding_sent("u")
    ledger.resolve_binding("u", bound=True)
    shares, before = dict(ledger.charges_on(node)), ledger.generation
    ledger.set_silent({node: frozenset({"acme"})})
    assert ledger.generation > before
    assert ledger.charges_on(node) == shares
    ledger.put_node(node, [a_card(f"{node}-a", 0, vendor="acme", slots=7)])
    assert ledger.charges_on(node) == shares
    assert ledger.fleet.cards.blocked[ledger.fleet.rows[node], 0] == Reason.AGENT_SILENT
    ledger.set_silent({node: frozenset()})
    assert ledger.fleet.cards.blocked[ledger.fleet.rows[node], 0] == 0


def test_a_snapshot_keeps_what_it_saw() -> None:
    ledger = a_ledger()
    snapshot = ledger.fleet.snapshot()
    ledger.set_silent({"n1": frozenset({"acme"})})
    assert not snapshot.cards.blocked.any()
