"""Where pods go (FIT-I, MUL), end to end."""

from __future__ import annotations

import pytest

from tessera_schema.kube import Pod, Quantity
from tessera_testing.builders import a_container, a_pod
from tests.dialects.iluvatar.setting import (
    LEGACY_LIST,
    counted,
    entry,
    given,
    new,
    old,
    outcome,
    registered,
    why,
)

LIST = "hami.io/MR-V100-devices-allocated"
CARD_POLICY = "hami.io/gpu-scheduler-policy"
TWO = registered(entry("dev-0", 0), entry("dev-1", 1))


def needs(**amounts: Quantity) -> Pod:
    return a_pod(a_container(new(**amounts)))


def holding(text: str, **amounts: Quantity) -> Pod:
    return a_pod(a_container(new(**amounts)), name="bound", node="n", annotations={LIST: text})


def test_of_equal_cards_the_last_is_chosen() -> None:  # FIT-I01
    assert given(outcome(needs(gpu=1, mem=1, core=50), TWO)) == [("c0", "dev-1", 256, 50)]


def test_a_model_keeps_to_its_cards() -> None:  # FIT-I03
    other = registered(entry("dev-0", model="OtherType"))
    assert why(outcome(needs(gpu=1, mem=2), other)) == ["CardTypeMismatch"]


def test_mutex_needs_an_idle_card() -> None:  # FIT-I04
    node = registered(entry("dev-0", slots=2))
    pod = a_pod(
        a_container(new(gpu=1, mem=1, core=50)),
        annotations={"hami.io/gpu-scheduler-policy": "mutex"},
    )
    used = holding("dev-0,MR-V100,0,0:;", gpu=1, mem=1)
    assert why(outcome(pod, node, bound=[used])) == ["ExclusiveDeviceAllocateConflict"]


def test_a_card_in_bad_health_is_not_used() -> None:  # FIT-I05
    node = registered(entry("dev-0", health="false"))
    assert why(outcome(needs(gpu=1, mem=1, core=50), node)) == ["CardNotHealth"]


def test_a_plugin_that_went_away_takes_its_cards_along() -> None:
    gone = registered(entry("dev-0"), capacity=new(gpu=0))
    assert why(outcome(needs(gpu=1), gone)) == ["CardNotHealth"]
    there = registered(entry("dev-0"), capacity=new(gpu=100))
    assert outcome(needs(gpu=1), there).verdict == "placed"


def test_denied_and_listed_cards() -> None:
    denied = a_pod(a_container(new(gpu=1)), annotations={"hami.io/no-use-MR-V100-uuid": "dev-1"})
    assert given(outcome(denied, TWO))[0][1] == "dev-0"
    listed = a_pod(a_container(new(gpu=2)), annotations={"hami.io/use-MR-V100-uuid": "dev-1"})
    assert "CardUuidMismatch" in why(outcome(listed, TWO))


def test_all_cores_of_a_card_need_an_idle_card() -> None:
    used = holding("dev-0,MR-V100,256,0:;", gpu=1, mem=1)
    one = registered(entry("dev-0"))
    assert why(outcome(needs(gpu=1, mem=1, core=100), one, bound=[used])) == [
        "ExclusiveDeviceAllocateConflict"
    ]
    full = holding("dev-0,MR-V100,256,100:;", gpu=1, mem=1, core=100)
    assert why(outcome(needs(gpu=1, mem=1), one, bound=[full])) == ["CardComputeUnitsExhausted"]


def test_several_cards_are_whole_cards() -> None:
    answer = outcome(needs(gpu=2, mem=1), TWO)
    assert given(answer) == [("c0", "dev-1", 32768, 100), ("c0", "dev-0", 32768, 100)]
    assert answer.grant is not None
    assert all(s.exclusive for s in answer.grant.shares)


@pytest.mark.parametrize("cards", [1, 2])
def test_the_older_form_runs_where_it_is_served(cards: int) -> None:
    pod = a_pod(a_container(old(gpu=1, core=50, mem=64)))
    on_counted = outcome(pod, counted(cards))
    assert given(on_counted) == [("c0", f"n-iluvatar-{cards - 1}", 16384, 50)]
    assert why(outcome(pod, TWO)) == ["CardTypeMismatch"]
    gone = registered(entry("dev-0"), capacity=old(gpu=0, core=0, mem=0))
    assert why(outcome(pod, gone)) == ["CardTypeMismatch"]


def test_a_node_that_counts_what_it_registers_serves_both_forms() -> None:
    both = registered(entry("dev-0"), capacity=old(gpu=1, core=100, mem=128))
    for asked in (old(gpu=1, core=50, mem=64), new(gpu=1, core=50, mem=64)):
        assert given(outcome(a_pod(a_container(asked)), both)) == [("c0", "dev-0", 16384, 50)]
    assert why(outcome(a_pod(a_container(new("BI-V150", gpu=1))), both)) == ["CardTypeMismatch"]


def test_a_model_is_not_known_on_a_node_that_only_counts() -> None:
    assert why(outcome(needs(gpu=1), counted(1))) == ["CardTypeMismatch"]


def test_one_container_may_have_cards_of_two_models() -> None:
    node = registered(entry("a", 0), capacity={})
    notes = {
        **node.metadata.annotations,
        "hami.io/node-BI-V150-register": entry("b", 0, model="BI-V150"),
    }
    both = registered()
    both.metadata.annotations.update(notes)
    pod = a_pod(
        a_container({**new(gpu=1), **new("BI-V150", gpu=1)}), a_container(new(gpu=1, mem=1))
    )
    answer = outcome(pod, both)
    assert answer.verdict == "waiting"  # card a is given whole to the first container
    pod = a_pod(
        a_container({**new(gpu=1, mem=4), **new("BI-V150", gpu=1)}), a_container(new(gpu=1, mem=1))
    )
    answer = outcome(pod, both)
    assert answer.annotations[LIST] == "a,MR-V100,1024,0:;a,MR-V100,256,0:;"
    assert answer.annotations["hami.io/BI-V150-devices-allocated"] == "b,BI-V150,32768,0:;;"


@pytest.mark.parametrize(
    ("policy", "cards"),
    [
        pytest.param("spread", ["dev-1", "dev-0"], id="MUL-01-spread"),
        pytest.param("binpack", ["dev-1", "dev-1"], id="binpack"),
    ],
)
def test_containers_go_by_the_policy(policy: str, cards: list[str]) -> None:
    pod = a_pod(
        a_container(new(gpu=1, mem=31, core=30)), a_container(new(gpu=1, mem=4, core=30)),
        annotations={"hami.io/gpu-scheduler-policy": policy},
    )  # fmt: skip
    assert [card for _, card, _, _ in given(outcome(pod, TWO))] == cards
    bare = a_pod(*pod.spec.containers)
    configured = outcome(bare, TWO, gpu_scheduler_policy=policy)
    assert [card for _, card, _, _ in given(configured)] == cards


def test_init_containers_use_the_card_before() -> None:  # MUL-03
    pod = a_pod(
        a_container(new(gpu=1, mem=4, core=30)),
        init=(a_container(), a_container(new(gpu=1, mem=4, core=30))),
    )
    answer = outcome(pod, registered(entry("uuid1", mib=1024)))
    assert answer.annotations[LIST] == ";uuid1,MR-V100,1024,30:;uuid1,MR-V100,1024,30:;"


def test_refusals_of_memory_and_cores_are_reported() -> None:  # MUL-05, MUL-06
    busy = holding("dev-0,MR-V100,0,80:dev-1,MR-V100,0,80:;", gpu=1, mem=1, core=80)
    assert why(outcome(needs(gpu=1, mem=1, core=30), TWO, bound=[busy])) == ["CardInsufficientCore"]
    small = registered(entry("dev-0", mib=50))
    assert why(outcome(needs(gpu=1, mem=4), small)) == ["CardInsufficientMemory"]


def test_an_older_list_on_a_bound_pod_counts() -> None:
    used = a_pod(
        a_container(old(gpu=1, core=80, mem=64)), name="b", node="n",
        annotations={LEGACY_LIST: "n-iluvatar-0,Iluvatar,16384,80:;"},
    )  # fmt: skip
    pod = a_pod(a_container(old(gpu=1, core=30, mem=4)))
    assert why(outcome(pod, counted(1), bound=[used])) == ["CardInsufficientCore"]


def test_the_vendors_plugin_serves_the_container() -> None:
    injection = outcome(needs(gpu=1), TWO).injections["c0"]
    assert (injection.env, injection.mounts, injection.devices) == ({}, (), ())


def test_a_policy_that_needs_links_is_reported_to_be_passed_over() -> None:
    pod = a_pod(a_container(old(gpu=1, mem=4)), annotations={CARD_POLICY: "binpack,topology-aware"})
    (warning,) = outcome(pod, counted(2)).warnings
    assert warning.startswith(f"metadata.annotations[{CARD_POLICY}]: topology-aware: passed over")
