"""How far a container may grow into cores that rest."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from tessera_core.registry.registry import load
from tessera_core.usage.hints import HintBuilder
from tessera_core.usage.lending_bounds import LendingRules
from tessera_core.usage.lending_terms import GrantedShare, Holders, granted_shares_of
from tessera_core.usage.smoothed import Key
from tessera_core.usage.smoother import Smoother
from tessera_schema.grants import Grant, Share
from tessera_schema.kube import Pod
from tessera_schema.messages.device_reports import ContainerUse
from tessera_testing.builders import a_container, a_pod
from tests.core.rebalance.measured import GIB, NODE, a_use, granted, key, measure

REGISTRY = load()


def bounds_of(
    holders: Holders, *uses: ContainerUse, rules: LendingRules | None = None
) -> dict[str, float]:
    """Pod -> its bound."""
    smoother = Smoother()
    now = measure(smoother, *uses)
    seen = smoother.node(NODE, now)
    assert seen is not None
    reported = HintBuilder(rules).build(seen, holders).bounds
    return {bound.uid.removeprefix("uid-"): bound.most_cores_percent for bound in reported}


def with_(holders: dict[Key, GrantedShare], name: str, **fields: object) -> dict[Key, GrantedShare]:
    return holders | {key(name): replace(holders[key(name)], **fields)}


def test_all_that_rests_on_the_card_may_be_lent() -> None:
    assert bounds_of(granted(a=30, b=50), a_use("a", 30), a_use("b", 0)) == {"a": 100, "b": 100}


def test_an_operator_may_bound_it() -> None:
    rules = LendingRules(most_cores_percent=60)
    assert bounds_of(granted(a=30, b=70), a_use("a"), a_use("b"), rules=rules) == {"a": 60, "b": 70}


def test_or_switch_it_off() -> None:
    rules = LendingRules(on=False)
    assert bounds_of(granted(a=30, b=70), a_use("a"), a_use("b"), rules=rules) == {"a": 30, "b": 70}


def test_best_effort_is_bounded_as_well_and_fills_no_card() -> None:
    holders = with_(granted(a=30, b=70, rest=0), "rest", best_effort=True)
    uses = (a_use("a", 0), a_use("b", 0), a_use("rest", 97))
    assert bounds_of(holders, *uses) == {"a": 100, "b": 100, "rest": 100}
    assert bounds_of(holders, a_use("a", 30), a_use("b", 68), a_use("rest", 2))["rest"] == 0
    assert bounds_of(holders, *uses, rules=LendingRules(on=False))["rest"] == 0


def test_containers_without_a_limit_need_no_bound() -> None:
    assert bounds_of(granted(a=0, b=100, c=30), a_use("a"), a_use("b"), a_use("c")) == {"c": 100}


def test_who_takes_no_part_is_lent_nothing_and_lends_nothing() -> None:
    holders = with_(granted(a=30, b=50), "b", lends=False)
    assert bounds_of(holders, a_use("a"), a_use("b")) == {"a": 50, "b": 50}


def test_who_matters_less_borrows_nothing_of_who_matters_more() -> None:
    holders = with_(with_(granted(a=30, b=50), "a", priority=1), "b", priority=0)
    assert bounds_of(holders, a_use("a"), a_use("b")) == {"a": 50, "b": 100}


def test_a_priority_takes_nothing_from_another_namespace() -> None:
    holders = with_(granted(a=30, b=50), "a", priority=1, namespace="x")
    holders = with_(holders, "b", priority=0, namespace="y")
    assert bounds_of(holders, a_use("a"), a_use("b")) == {"a": 100, "b": 100}


def test_a_ceiling_of_its_author_holds() -> None:
    holders = with_(granted(a=30, b=50), "a", most_cores_percent=45)
    assert bounds_of(holders, a_use("a"), a_use("b")) == {"a": 45, "b": 100}
    holders = with_(granted(a=30, b=50), "a", most_cores_percent=0)
    assert bounds_of(holders, a_use("a"), a_use("b")) == {"a": 30, "b": 100}


def test_nothing_is_lent_on_a_card_that_its_holders_fill() -> None:
    assert bounds_of(granted(a=50, b=50), a_use("a", 49), a_use("b", 48)) == {"a": 50, "b": 50}


def test_what_is_borrowed_does_not_count_as_filling() -> None:
    assert bounds_of(granted(a=30, b=70), a_use("a", 95), a_use("b", 1)) == {"a": 100, "b": 100}


def test_lending_begins_again_only_when_there_is_clearly_room() -> None:
    smoother, hinting = Smoother(), HintBuilder()
    holders, now, reported = granted(a=50, b=50), 0.0, []
    for use in (50, 45, 40):
        now = measure(smoother, a_use("a", 50), a_use("b", use), since=now)
        seen = smoother.node(NODE, now)
        assert seen is not None
        reported.append(hinting.build(seen, holders).bounds[0].most_cores_percent)
    assert reported == [50, 50, 50]
    now = measure(smoother, a_use("a", 50), a_use("b", 30), since=now)
    seen = smoother.node(NODE, now)
    assert seen is not None
    assert hinting.build(seen, holders).bounds[0].most_cores_percent == 100


# -- what a pod says


def share_of(
    dialect: str, annotations: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None, limits: Mapping[str, str] | None = None,
) -> GrantedShare:  # fmt: skip
    pod: Pod = a_pod(
        a_container(limits, name="c", env=env), annotations=annotations, node=NODE, name="p"
    )
    share = Share(
        container="c", position=0, vendor="acme", dialect=dialect, card="GPU-0", index=0,
        memory_bytes=GIB, cores_percent=30,
    )  # fmt: skip
    grant = Grant(uid="u", namespace="default", name="p", node=NODE, shares=(share,))
    [found] = granted_shares_of(grant, pod, REGISTRY).values()
    return found


def test_a_grant_is_what_a_pod_has() -> None:
    assert share_of("hami") == GrantedShare(
        namespace="default", memory_bytes=GIB, cores_percent=30, priority=1
    )


ASKS = {"tencent.com/vcuda-core": "30", "tencent.com/vcuda-memory": "4"}


@pytest.mark.parametrize(
    ("annotations", "most"),
    [
        ({"tencent.com/vcuda-core-limit": "60"}, 60),
        ({}, 0),
        ({"tencent.com/vcuda-core-limit": "many"}, 0),
        ({"inspur.com/vcuda-core-limit": "60"}, 0),
    ],
)
def test_gpu_managers_ceiling_is_its_bound_and_without_one_its_limit_is_hard(
    annotations: Mapping[str, str], most: float
) -> None:
    assert share_of("gpumanager", annotations, limits=ASKS).most_cores_percent == most
