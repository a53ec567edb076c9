"""Where pods go (FIT-M, PRB-11, PRB-13, PRB-16), end to end."""

from __future__ import annotations

import pytest

from tessera_schema.kube import Container
from tessera_schema.requests import Role
from tessera_testing.builders import a_container, a_pod
from tests.dialects.mthreads.setting import (
    a_slice,
    bound,
    cards,
    given,
    named,
    needs,
    outcome,
    why,
)


def test_of_equal_cards_the_last_is_chosen() -> None:  # FIT-M01
    assert given(outcome(a_pod(a_slice(2, 8)), cards(2))) == [("c0", 1, 1024, 50)]


def test_promised_cores_are_not_promised_twice() -> None:  # FIT-M02
    full = bound("full", "n-mthreads-0,Mthreads,0,16:;", needs(gpu=1, mem=2, core=16))
    answer = outcome(a_pod(a_slice(2, 8)), cards(1), bound=[full])
    assert why(answer) == ["CardInsufficientCore"]


def test_a_denied_card_is_left_alone() -> None:  # FIT-M04
    pod = a_pod(a_slice(2, 8), annotations={"mthreads.ai/nouse-gpuuuid": "n-mthreads-0"})
    assert why(outcome(pod, cards(1))) == ["CardUuidMismatch"]
    assert given(outcome(pod, cards(2)))[0][1] == 1


def test_only_listed_cards_are_used() -> None:
    pod = a_pod(a_slice(2, 8), annotations={"mthreads.ai/use-gpuuuid": "n-mthreads-0"})
    assert given(outcome(pod, cards(2)))[0][1] == 0


def test_all_cores_of_a_card_need_an_idle_card() -> None:  # FIT-M05
    others = [bound(f"p{i}", "n-mthreads-0,Mthreads,0,0:;", needs(gpu=1, mem=2)) for i in range(20)]
    answer = outcome(a_pod(a_slice(2, 16)), cards(1), bound=others)
    assert why(answer) == ["ExclusiveDeviceAllocateConflict"]


def test_more_cards_than_are_free_are_reported_by_their_number() -> None:  # FIT-M06
    half = bound("half", "n-mthreads-2,Mthreads,1024,2:;", a_slice(2, 2))
    answer = outcome(a_pod(needs(gpu=3)), cards(3), bound=[half])
    assert answer.verdict == "waiting"
    reported = {w.reason.wire: w.message for w in answer.reasons}
    assert reported["AllocatedCardsInsufficientRequest"].startswith("2/3 ")


def test_more_cards_than_a_node_has_are_reported() -> None:  # PRB-16
    assert why(outcome(a_pod(needs(gpu=3)), cards(2))) == ["NodeInsufficientDevice"]


def test_all_containers_of_a_pod_share_one_card() -> None:  # PRB-11, FIT-M08
    pod = a_pod(a_slice(32, 4), a_slice(32, 4))
    assert given(outcome(pod, cards(2))) == [("c0", 1, 16384, 25), ("c1", 1, 16384, 25)]


def test_a_card_must_hold_all_containers_of_a_pod() -> None:  # FIT-M08
    taken = bound("taken", "n-mthreads-1,Mthreads,24576,4:;", a_slice(32, 4))
    pod = a_pod(a_slice(32, 4), a_slice(32, 4))
    assert {card for _, card, _, _ in given(outcome(pod, cards(2), bound=[taken]))} == {0}
    other = bound("other", "n-mthreads-0,Mthreads,24576,4:;", a_slice(32, 4))
    assert outcome(pod, cards(2), bound=[taken, other]).verdict == "waiting"


def test_the_order_of_containers_does_not_matter() -> None:
    plain, greedy = needs(gpu=1, mem=32), a_slice(32, 16)
    for pod in (a_pod(plain, greedy), a_pod(greedy, plain)):
        assert len(given(outcome(pod, cards(1)))) == 2


def test_init_containers_use_the_same_card_before() -> None:
    pod = a_pod(a_slice(32, 4), init=(needs(gpu=1),))
    answer = outcome(pod, cards(2))
    assert given(answer) == [("init0", 1, 49152, 100), ("c0", 1, 16384, 25)]
    assert answer.annotations["mthreads.com/gpu-index"] == "1"


def test_an_init_container_may_have_several_cards_before() -> None:
    answer = outcome(a_pod(a_slice(32, 4), init=(needs(gpu=2),)), cards(2))
    assert given(answer) == [
        ("init0", 1, 49152, 100),
        ("init0", 0, 49152, 100),
        ("c0", 1, 16384, 25),
    ]
    assert answer.annotations["mthreads.com/gpu-index"] == "1"


def test_a_sidecar_shares_the_card_too() -> None:
    sidecar = a_container(named(gpu=1, mem=2, core=2), sidecar=True)
    answer = outcome(a_pod(a_slice(32, 4), init=(sidecar,)), cards(1))
    assert answer.grant is not None
    assert [s.role for s in answer.grant.shares] == [Role.SIDECAR, Role.APP]


@pytest.mark.parametrize("containers", [[needs(gpu=2), a_slice()]], ids=["PRB-13"])
def test_pods_that_never_fit_one_card_do_not_wait(containers: list[Container]) -> None:
    answer = outcome(a_pod(*containers), cards(2))
    assert answer.verdict == "rejected"
    assert why(answer) == ["CardNotFoundCustomFilterRule"]


@pytest.mark.parametrize(
    ("units", "mib"), [(48, 24576), (64, 32768), (96, 49152), (160, 81920)], ids=str
)
def test_whole_cards_are_whole_whatever_their_size(units: int, mib: int) -> None:
    answer = outcome(a_pod(needs(gpu=2)), cards(2, units=units))
    assert given(answer) == [("c0", 1, mib, 100), ("c0", 0, mib, 100)]
    listed = f"n-mthreads-1,Mthreads,{mib},16:n-mthreads-0,Mthreads,{mib},16:;"
    assert answer.annotations["hami.io/mthreads-vgpu-devices-allocated"] == listed
    assert answer.annotations["mthreads.com/request-gpu-num"] == "2"


def test_nobody_joins_a_whole_card() -> None:
    whole = bound("whole", "n-mthreads-0,Mthreads,49152,16:;", needs(gpu=1))
    answer = outcome(a_pod(needs(gpu=1, mem=2)), cards(1, units=160), bound=[whole])
    assert why(answer) == ["CardComputeUnitsExhausted"]


def test_mutex_takes_an_idle_card() -> None:
    used = bound("used", "n-mthreads-1,Mthreads,1024,2:;", a_slice())
    notes = {"hami.io/gpu-scheduler-policy": "mutex"}
    answer = outcome(a_pod(a_slice(), annotations=notes), cards(2), bound=[used])
    assert given(answer)[0][1] == 0


@pytest.mark.parametrize(("policy", "card"), [("spread", 0), ("binpack", 1)])
def test_the_default_policy_can_be_configured(policy: str, card: int) -> None:
    used = bound("used", "n-mthreads-1,Mthreads,1024,2:;", a_slice())
    answer = outcome(a_pod(a_slice()), cards(2), bound=[used], gpu_scheduler_policy=policy)
    assert given(answer)[0][1] == card


def test_the_vendors_toolkit_serves_the_container() -> None:
    injection = outcome(a_pod(a_slice()), cards(1)).injections["c0"]
    assert (injection.env, injection.mounts, injection.devices) == ({}, (), ())
