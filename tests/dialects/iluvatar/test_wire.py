"""Cards registered and counted, results written and read back (ENC-26 and the older form)."""

from __future__ import annotations

import pytest

from tessera_core.dialect_kit.contract import Placed
from tessera_schema.cards import MIB, Precision
from tessera_schema.grants import Share
from tessera_schema.kube import Pod, Quantity
from tessera_testing.builders import a_card, a_container, a_node, a_pod
from tests.dialects.iluvatar.setting import (
    CORE,
    LEGACY_LIST,
    MEM,
    counted,
    entry,
    made,
    new,
    old,
    outcome,
    registered,
)

IDX = "iluvatar.ai/predicate-gpu-idx-"


def a_share(position: int, card: str, index: int = 0, mib: int = 0, cores: float = 0) -> Share:
    return Share(
        container=f"c{position}", position=position, vendor="iluvatar", dialect="iluvatar",
        card=card, index=index, memory_bytes=mib * MIB, cores_percent=cores,
    )  # fmt: skip


def written(pod: Pod, *shares: Share, now_ns: int = 5_000_000_007) -> dict[str, str]:
    placed = Placed(pod=pod, node="n", shares=shares, cards={}, now_ns=now_ns)
    return dict(made().annotate(placed))


COMMON = {
    "hami.io/vgpu-node": "n",
    "hami.io/vgpu-time": "5",
    "hami.io/bind-phase": "allocating",
    "hami.io/bind-time": "5",
}


def test_a_model_has_its_own_lists() -> None:  # ENC-26
    notes = written(a_pod(a_container(new(gpu=1))), a_share(0, "k8s-gpu-iluvatar-0"))
    assert notes == {
        **COMMON,
        "hami.io/MR-V100-devices-to-allocate": "k8s-gpu-iluvatar-0,MR-V100,0,0:;",
        "hami.io/MR-V100-devices-allocated": "k8s-gpu-iluvatar-0,MR-V100,0,0:;",
    }


def test_the_older_form_has_the_keys_of_gpu_manager() -> None:
    pod = a_pod(a_container(), a_container(old(gpu=2)), a_container(old(gpu=1, mem=4, core=7)))
    notes = written(
        pod,
        a_share(1, "n-iluvatar-2", 2, 32768, 100),
        a_share(1, "n-iluvatar-0", 0, 32768, 100),
        a_share(2, "n-iluvatar-1", 1, 1024, 7),
    )
    two = "n-iluvatar-2,Iluvatar,32768,100:n-iluvatar-0,Iluvatar,32768,100:"
    text = f";{two};n-iluvatar-1,Iluvatar,1024,7:;"
    assert notes == {
        **COMMON,
        "hami.io/iluvatar-vgpu-devices-to-allocate": text,
        "hami.io/iluvatar-vgpu-devices-allocated": text,
        "iluvatar.ai/gpu-assigned": "false",
        "iluvatar.ai/predicate-time": "5000000007",
        f"{IDX}1": "2,0",
        f"{IDX}2": "1",
    }


def test_gpu_manager_counts_no_init_containers() -> None:
    pod = a_pod(a_container(old(gpu=1)), init=(a_container(old(gpu=1, mem=4)),))
    notes = written(pod, a_share(0, "n-iluvatar-1", 1, 1024), a_share(1, "n-iluvatar-3", 3, 32768))
    assert {k: v for k, v in notes.items() if k.startswith(IDX)} == {f"{IDX}0": "3"}


def test_every_result_key_is_stripped_from_new_pods() -> None:
    patterns = made().result_keys
    pods = [a_pod(a_container(old(gpu=1, mem=4))), a_pod(a_container(new(gpu=1, mem=4)))]
    nodes = [counted(), registered(entry("dev-0"))]
    for pod, node in zip(pods, nodes, strict=True):
        keys = set(outcome(pod, node).annotations) - {"tessera.dev/grant"}
        assert keys
        assert all(k in patterns or k.startswith(IDX) for k in keys)
    assert f"{IDX}*" in patterns


def test_capacity_counts_cards() -> None:
    (found,) = made().inventory(counted(2, units=129), ())
    assert found.precision is Precision.COUNTED
    assert [(c.id, c.index, c.slots, c.memory_mib, c.cores_percent) for c in found.cards] == [
        ("n-iluvatar-0", 0, 100, 33024, 100),
        ("n-iluvatar-1", 1, 100, 33024, 100),
    ]


def test_capacity_is_read_under_the_configured_names() -> None:
    node = a_node("n", capacity={"a/core": 100, "a/mem": 4})
    (found,) = made(core="a/core", memory="a/mem").inventory(node, ())
    assert found.cards[0].memory_mib == 1024


@pytest.mark.parametrize(
    ("capacity", "reported"),
    [
        (old(core="many", mem=1), CORE),
        (old(core=100, mem=-1), MEM),
        (old(core=100), MEM),
        (old(core=10**9, mem=10**9), CORE),
    ],
    ids=str,
)
def test_capacity_that_makes_no_sense_is_reported(
    capacity: dict[str, Quantity], reported: str
) -> None:
    (found,) = made().inventory(a_node("n", capacity=capacity), ())
    assert found.cards == ()
    assert f"node n: status.capacity[{reported}]" in found.warnings[0]


def test_the_older_form_can_be_switched_off() -> None:
    assert made(legacy=False).inventory(counted(2), ()) == ()


def test_registered_cards_are_read_entry_by_entry() -> None:
    (found,) = made().inventory(
        registered(entry("a", 3, numa=1, cores=120), "b,10,1024,100,MR-V100,0:", entry("c", 4)), ()
    )
    assert found.precision is Precision.REGISTERED
    assert [(c.id, c.index, c.numa, c.cores_percent) for c in found.cards] == [
        ("a", 3, 1, 120),
        ("c", 4, 0, 100),
    ]
    (warning,) = found.warnings
    assert warning.startswith("node n: annotation hami.io/node-MR-V100-register: 'b,10")


@pytest.mark.parametrize("text", ["", "garbage", ",:", "a,b,c,d,e,f,g:", ":::"])
def test_a_register_that_cannot_be_read_has_no_cards(text: str) -> None:
    (found,) = made().inventory(registered(text), ())
    assert found.cards == ()


def test_an_older_register_has_no_numbers() -> None:
    text = "a,10,1024,100,MR-V100,0,true:b,10,1024,100,MR-V100,0,true:"
    (found,) = made().inventory(registered(text), ())
    assert [(c.id, c.index) for c in found.cards] == [("a", 0), ("b", 1)]


def test_registers_of_two_models_have_no_number_twice() -> None:
    node = registered(entry("a", 0), entry("b", 1))
    node.metadata.annotations["hami.io/node-BI-V150-register"] = entry("c", 0, model="BI-V150")
    (found,) = made().inventory(node, ())
    assert [(c.id, c.index) for c in found.cards] == [("a", 0), ("b", 1), ("c", 2)]


def test_registered_cards_go_before_counted_ones() -> None:
    node = registered(entry("a", 0), entry("b", 1), capacity=old(core=200, mem=256))
    precisions = [i.precision for i in made().inventory(node, ())]
    assert precisions == [Precision.REGISTERED, Precision.COUNTED]
    answer = outcome(a_pod(a_container(old(gpu=1, mem=4))), node)
    assert answer.annotations[LEGACY_LIST] == "b,Iluvatar,1024,0:;"


CARDS = [a_card(f"n-iluvatar-{i}", i, mib=32768, vendor="iluvatar") for i in range(4)]


@pytest.mark.parametrize(
    "pod",
    [
        a_pod(a_container(), a_container(old(gpu=2)), a_container(old(gpu=1, mem=4, core=7))),
        a_pod(a_container(new(gpu=1, mem=4, core=100)), init=(a_container(new(gpu=1, mem=9)),)),
        a_pod(a_container(old(gpu=1, mem=4)), a_container(new(gpu=1, mem=4))),
    ],
    ids=["older", "by-model", "both"],
)
def test_what_was_written_is_read_back(pod: Pod) -> None:
    counts = old(core=400, mem=512)
    node = registered(*(entry(f"n-iluvatar-{i}", i) for i in range(4)), capacity=counts)
    answer = outcome(pod, node)
    assert answer.grant is not None, answer.message
    bound = a_pod(
        *pod.spec.containers, init=pod.spec.init_containers, annotations=answer.annotations
    )
    back = made().recorded(bound, CARDS)
    assert back is not None
    assert back.shares == answer.grant.shares


def running(limits: dict[str, Quantity], notes: dict[str, str]) -> Pod:
    return a_pod(a_container(limits), node="n", annotations=notes)


@pytest.mark.parametrize(
    ("limits", "cards", "shares"),
    [
        (old(core=50, mem=4), "1", [(1, 1024, 50, False)]),
        (old(core=200), "0,2", [(0, 32768, 100, True), (2, 32768, 100, True)]),
        (old(core=100, mem=4), "3", [(3, 32768, 100, True)]),
        (old(core=50), "3", [(3, 32768, 50, False)]),
    ],
    ids=str,
)
def test_card_numbers_alone_are_read_as_gpu_manager_intends_them(
    limits: dict[str, Quantity], cards: str, shares: list[tuple[int, int, float, bool]]
) -> None:
    back = made().recorded(running(limits, {f"{IDX}0": cards}), CARDS)
    assert back is not None
    assert [(s.index, s.memory_mib, s.cores_percent, s.exclusive) for s in back.shares] == shares


@pytest.mark.parametrize(
    "notes",
    [
        {f"{IDX}0": "9"},
        {f"{IDX}0": "one"},
        {f"{IDX}0": ""},
        {f"{IDX}0": "1" * 5000},
        {LEGACY_LIST: "n-iluvatar-9,Iluvatar,1,1:;"},
        {LEGACY_LIST: "n-iluvatar-0,Iluvatar,1:;"},
        {LEGACY_LIST: "n-iluvatar-0,Iluvatar,1,1:;", "hami.io/MR-V100-devices-allocated": "a,b:;"},
    ],
    ids=lambda notes: str(notes)[:60],
)
def test_what_cannot_be_read_is_a_problem(notes: dict[str, str]) -> None:
    back = made().recorded(running(old(gpu=1, core=5, mem=1), notes), CARDS)
    assert back is not None
    assert back.problem
    assert back.shares == ()


def test_pods_without_our_keys_hold_nothing() -> None:
    assert made().recorded(running(old(gpu=1), {}), CARDS) is None
    assert made(legacy=False).recorded(running(old(core=50), {f"{IDX}0": "1"}), CARDS) is None


def test_quota_counts_memory_and_cores_of_both_forms() -> None:
    quota = made().quota
    for name in (MEM, "iluvatar.ai/BI-V150.vMem"):
        assert quota[name].unit == 256 * MIB
    for name in (CORE, "iluvatar.ai/BI-V150.vCore"):
        assert quota[name].unit == 1
