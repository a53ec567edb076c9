"""Containers held back grow; memory that was never used is given back to who waits for it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tessera_core.rebalance.plan_budget import Spent
from tessera_core.rebalance.resize_proposals import ResizeRules, stale
from tessera_core.usage.smoothed import SmoothContainer
from tessera_schema.cards import MIB
from tessera_schema.plans import PlanKind, PlanSpec
from tests.core.rebalance_plans.clusters import HOUR_S, NOW, Cluster, give_back, grow

RULES = ResizeRules()
DAYS_S = 48 * HOUR_S


def used(
    name: str, card: str, *, peak_mib: int = 100, cores: float = 0, waiting: float = 0,
    confidence: float = 1,
) -> SmoothContainer:  # fmt: skip
    return SmoothContainer(
        key=(f"uid-default-{name}", "c0", card),
        cores_percent=cores, cores_peak_percent=cores, cores_limit_percent=30,
        waiting_percent=waiting, memory_bytes=peak_mib * MIB, memory_peak_bytes=peak_mib * MIB,
        confidence=confidence,
    )  # fmt: skip


def throttled_at(**facts: Any) -> Cluster:
    cluster = Cluster({"n0": 1})
    cluster.runs("a", "n0", 0, 4000, cores=30, **facts)
    return cluster


BUSY = used("a", "n0-0", cores=29, waiting=60)


def test_a_container_grows_into_cores_that_are_nobodys() -> None:
    spec = grow(throttled_at().situation(measured=(BUSY,)), RULES)
    assert isinstance(spec, PlanSpec)
    (step,) = spec.steps
    assert (spec.kind, step.container, step.card, step.cores, step.memory) == (
        PlanKind.RESIZE, "c0", "n0-0", 50, "",
    )  # fmt: skip
    assert spec.gain == pytest.approx(0.6 * 0.2 * HOUR_S)
    assert "was held back 60 % of the time by its 30 % of card n0-0" in spec.reason


def test_it_grows_no_further_than_the_card() -> None:
    cluster = throttled_at()
    cluster.runs("b", "n0", 0, 1000, cores=60)
    spec = grow(cluster.situation(measured=(BUSY,)), RULES)
    assert isinstance(spec, PlanSpec)
    assert spec.steps[0].cores == 40


@pytest.mark.parametrize(
    "measured",
    [
        used("a", "n0-0", cores=29, waiting=30), used("a", "n0-0", cores=20, waiting=60),
        used("a", "n0-0", cores=29, waiting=60, confidence=0.5), used("x", "n0-0", waiting=60),
        used("a", "other", cores=29, waiting=60),
    ],
    ids=["hardly waits", "does not use it", "hardly measured", "unknown", "another card"],
)  # fmt: skip
def test_others_do_not_grow(measured: SmoothContainer) -> None:
    found = grow(throttled_at().situation(measured=(measured,)), RULES)
    assert found == "no container is held back by its own cores"


def test_owners_quotas_and_former_plans_stop_growth() -> None:
    unwilling = throttled_at(annotations={"tessera.dev/rebalance": "false"})
    assert isinstance(grow(unwilling.situation(measured=(BUSY,)), RULES), str)
    resized = Spent(resized={"uid-default-a": NOW + 1})
    assert isinstance(grow(throttled_at().situation(measured=(BUSY,), spent=resized), RULES), str)
    limited = throttled_at()
    limited.limit(namespace="default", cores_percent=40)
    assert "quota" in str(grow(limited.situation(measured=(BUSY,)), RULES))


@pytest.mark.parametrize(
    ("facts", "more", "why"),
    [
        ({"annotations": {"tessera.dev/rebalance": "false"}}, {}, "its owner does not want it"),
        ({}, {"busy": frozenset({"uid-default-a"})}, "another plan is about it"),
        ({}, {"resized": {"uid-default-a": NOW + 1}}, "it was resized a short time ago"),
    ],
)
def test_a_plan_that_leaves_a_pod_alone_says_why(
    facts: dict[str, Any], more: dict[str, Any], why: str
) -> None:
    spec = grow(throttled_at().situation(measured=(BUSY,)), RULES)
    assert isinstance(spec, PlanSpec)
    found = stale(throttled_at(**facts).situation(spent=Spent(**more)), spec)
    assert found.startswith(f"default/a is left alone: {why}")


def spacious(**facts: Any) -> Cluster:
    """A pod was granted 12,000 MiB and another waits for 8,000."""
    cluster = Cluster({"n0": 1})
    cluster.runs("a", "n0", 0, 12000, age_s=DAYS_S, **facts)
    cluster.waits("w", 8000)
    return cluster


def shrunk(cluster: Cluster, *, peak_mib: int = 500, **more: Any) -> PlanSpec | str:
    measured = (used("a", "n0-0", peak_mib=peak_mib),)
    situation = cluster.situation(measured=measured, **more)
    return give_back(situation, RULES, cluster.waiting["uid-default-w"])


def test_memory_that_was_never_used_is_given_to_who_waits() -> None:
    spec = shrunk(spacious())
    assert isinstance(spec, PlanSpec)
    (step,) = spec.steps
    assert (step.pod.name, step.memory, step.cores) == ("a", "1524Mi", None)
    assert spec.for_pod is not None
    assert spec.for_pod.name == "w"
    assert spec.gain == 0.5 * HOUR_S
    assert "was granted 12000 MiB of card n0-0 and has used 500 at most" in spec.reason


def test_much_stays_of_what_was_used() -> None:
    spec = shrunk(spacious(), peak_mib=4000)
    assert isinstance(spec, PlanSpec)
    assert spec.steps[0].memory == "6000Mi"
    assert isinstance(shrunk(spacious(), peak_mib=4001), str)


def test_a_peak_of_a_day_counts_however_long_ago() -> None:
    cluster = spacious()
    measured = replace(used("a", "n0-0", peak_mib=500), memory_day_peak_bytes=4000 * MIB)
    spec = give_back(
        cluster.situation(measured=(measured,)), RULES, cluster.waiting["uid-default-w"]
    )
    assert isinstance(spec, PlanSpec)
    assert spec.steps[0].memory == "6000Mi"
    assert "has used 4000 at most" in spec.reason


@pytest.mark.parametrize(
    "facts",
    [
        {"annotations": {"tessera.dev/rebalance": "false"}},
        {"annotations": {"tessera.dev/least-memory": "10Gi"}},
        {"annotations": {"tessera.dev/least-memory": "plenty"}}, {"namespace": "kube-system"},
    ],
)  # fmt: skip
def test_owners_keep_what_they_say_they_need(facts: dict[str, Any]) -> None:
    cluster = Cluster({"n0": 1})
    one = cluster.runs("a", "n0", 0, 12000, age_s=DAYS_S, **facts)
    cluster.waits("w", 8000)
    measured = replace(used("a", "n0-0", peak_mib=500), key=(one.uid, "c0", "n0-0"))
    situation = cluster.situation(measured=(measured,))
    assert isinstance(give_back(situation, RULES, cluster.waiting["uid-default-w"]), str)


def test_who_is_young_keeps_all() -> None:
    cluster = Cluster({"n0": 1})
    cluster.runs("a", "n0", 0, 12000, age_s=HOUR_S)
    cluster.waits("w", 8000)
    assert isinstance(shrunk(cluster), str)


def test_nothing_is_taken_that_does_not_help() -> None:
    cluster = Cluster({"n0": 1})
    cluster.runs("a", "n0", 0, 12000, age_s=DAYS_S)
    cluster.runs("b", "n0", 0, 4000, age_s=60)
    cluster.waits("w", 15000)
    assert shrunk(cluster) == "nobody on a node that would do has so much memory to spare"
