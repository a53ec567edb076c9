"""The second reckoning of the ledger is right by itself: small cases, worked out by hand."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tessera_core.fleet.charges import charges
from tessera_schema.grants import Grant, Share, encode_grant
from tessera_schema.requests import Role
from tests.core.reckoning import counts
from tests.core.reference import ObservedPod, inits_are_over, overfull, sums


def a_share(position: int, mib: int, role: str = "app", **more: Any) -> dict[str, Any]:
    return {
        "container": f"c{position}", "position": position, "role": role, "vendor": "acme",
        "dialect": "acme", "card": "a", "index": 0, "memory_bytes": mib, "cores_percent": 12.5,
        **more,
    }  # fmt: skip


def a_grant(*shares: dict[str, Any]) -> str:
    return json.dumps({"uid": "u", "namespace": "team", "node": "n", "shares": shares})


ENDED: dict[str, Any] = {
    "spec": {"restartPolicy": "Never", "initContainers": [{"name": "c0"}]},
    "status": {"initContainerStatuses": [{"name": "c0", "state": {"terminated": {"exitCode": 0}}}]},
}


@pytest.mark.parametrize(
    ("shares", "memory", "slots", "without_init"),
    [
        ([a_share(0, 100), a_share(1, 50)], 150, 2, 150),
        ([a_share(0, 100, "init"), a_share(1, 50)], 100, 1, 50),
        ([a_share(0, 30, "init"), a_share(1, 20, "init"), a_share(2, 50)], 50, 1, 50),
        ([a_share(0, 70, "sidecar"), a_share(1, 60, "init"), a_share(2, 50)], 130, 2, 120),
        ([a_share(0, 60, "init"), a_share(1, 70, "sidecar"), a_share(2, 50)], 120, 2, 120),
    ],
)
def test_containers_that_live_at_the_same_time_are_added_up(
    shares: list[dict[str, Any]], memory: int, slots: int, without_init: int
) -> None:
    total = sums([ObservedPod(a_grant(*shares), "{}")])
    assert total.cards["n", "acme", 0] == {
        "memory": memory, "cores": slots * 12_500, "slots": slots, "alone": 0,
    }  # fmt: skip
    assert total.namespaces["team"] == {"memory": memory, "cores": slots * 12_500, "cards": 1}
    over = sums([ObservedPod(a_grant(*shares), json.dumps(ENDED))])
    assert over.cards["n", "acme", 0]["memory"] == without_init
    both = sums([ObservedPod(a_grant(*shares), json.dumps(ENDED))], init_counts=True)
    assert both == total


def test_init_containers_that_may_run_again_are_not_over() -> None:
    assert inits_are_over(ENDED)
    again = {**ENDED, "spec": {**ENDED["spec"], "restartPolicy": "OnFailure"}}
    failed = {
        **ENDED,
        "status": {"initContainerStatuses": [
            {"name": "c0", "state": {"terminated": {"exitCode": 1}}}
        ]},
    }  # fmt: skip
    assert not any(map(inits_are_over, ({}, again, failed, {"spec": ENDED["spec"]})))


def test_a_card_is_overfull_in_any_of_its_dimensions() -> None:
    has = {("n", "acme", 0): {"memory": 100, "cores": 100_000, "slots": 2}}
    alone = a_share(0, 1, exclusive=True)
    for pods, wrong in (
        ([[a_share(0, 100)]], False),
        ([[a_share(0, 101)]], True),
        ([[a_share(0, 1, cores_percent=100.5)]], True),
        ([[a_share(i, 1)] for i in range(3)], True),
        ([[alone]], False),
        ([[alone, a_share(1, 1)]], False),
        ([[alone], [a_share(0, 1)]], True),
    ):
        assert bool(overfull(sums([ObservedPod(a_grant(*p)) for p in pods]), has)) is wrong


shares = st.builds(
    Share,
    container=st.just("c"),
    position=st.integers(0, 5),
    role=st.sampled_from(Role),
    vendor=st.just("acme"),
    dialect=st.just("acme"),
    card=st.sampled_from(["a", "b"]),
    index=st.just(0),
    memory_bytes=st.integers(0, 1 << 40),
    cores_percent=st.integers(0, 400).map(lambda quarters: quarters / 4),
    exclusive=st.booleans(),
)


@given(st.lists(shares, max_size=8, unique_by=lambda share: (share.position, share.card)))
def test_the_ledger_charges_what_the_reference_reckons(held: list[Share]) -> None:
    """Each container has one role; app containers come after all others."""
    roles = {share.position: share.role for share in held}
    last = {Role.APP: 10, Role.INIT: 0, Role.SIDECAR: 0}
    ordered = tuple(
        replace(s, role=roles[s.position], position=s.position + last[roles[s.position]])
        for s in held
    )
    grant = Grant(uid="u", namespace="team", name="p", node="n", shares=ordered)
    for over in (False, True):
        shown = ObservedPod(encode_grant(grant), json.dumps(ENDED) if over else "{}")
        found = {("n", card): counts(c) for card, c in charges(ordered, init_over=over).items()}
        assert sums([shown]).ids == found
