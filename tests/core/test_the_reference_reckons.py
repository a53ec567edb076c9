"""The second reckoning of the books is right by itself: small cases, worked out by hand."""

import json
from typing import Any

import pytest

from tests.core.reference import Shown, inits_are_over, overfull, sums


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
    total = sums([Shown(a_grant(*shares), "{}")])
    assert total.cards["n", "acme", 0] == {
        "memory": memory, "cores": slots * 12_500, "slots": slots, "alone": 0,
    }  # fmt: skip
    assert total.namespaces["team"] == {"memory": memory, "cores": slots * 12_500, "cards": 1}
    over = sums([Shown(a_grant(*shares), json.dumps(ENDED))])
    assert over.cards["n", "acme", 0]["memory"] == without_init
    both = sums([Shown(a_grant(*shares), json.dumps(ENDED))], init_counts=True)
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
    for shares, wrong in (
        ([a_share(0, 100)], False),
        ([a_share(0, 101)], True),
        ([a_share(0, 1, cores_percent=100.5)], True),
        ([a_share(i, 1) for i in range(3)], True),
        ([a_share(0, 1, exclusive=True)], False),
        ([a_share(0, 1, exclusive=True), a_share(1, 1)], True),
    ):
        assert bool(overfull(sums([Shown(a_grant(*shares))]).cards, has)) is wrong
