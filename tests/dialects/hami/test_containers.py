"""Several containers in a pod, init containers, and what they cost the cards together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tessera_core.dialect_kit.hami_format import DeviceListEntry, encode_lists
from tessera_core.fleet.charges import Charge, charges
from tessera_core.fleet.cores import milli
from tessera_schema.cards import MIB
from tessera_schema.kube import Pod
from tessera_testing.builders import a_card, a_container, a_pod
from tessera_testing.plan import plan
from tests.dialects.hami.setting import (
    ALLOCATED,
    CARD_POLICY,
    Gpu,
    a_gpu_node,
    bound,
    counted,
    lists_of,
    made,
    needs,
    planned,
)

Used = tuple[str, int, int]


@pytest.mark.parametrize(
    ("inits", "lists", "init_over", "want"),
    [
        pytest.param(
            0, [[("g0", 100, 10)], [("g0", 200, 20)]], False, (300, 30, 2), id="USE-01"
        ),
        pytest.param(
            2, [[("g0", 100, 10)], [("g0", 200, 30)]], False, (200, 30, 1), id="USE-02"
        ),
        pytest.param(
            1, [[("g0", 999, 99)], [("g0", 100, 10)], [("g0", 200, 20)]], True, (300, 30, 2),
            id="USE-06",
        ),
    ],
)  # fmt: skip
def test_a_pod_costs_a_card_its_busiest_moment(
    inits: int, lists: Sequence[Sequence[Used]], want: tuple[int, int, int], *, init_over: bool
) -> None:
    pod = bound([[DeviceListEntry(c, "NVIDIA", mib, cores) for c, mib, cores in x] for x in lists],
                inits=inits)  # fmt: skip
    held = made().recorded(pod, [a_card("g0", vendor="nvidia")])
    assert held is not None
    mib, cores, slots = want
    assert charges(held.shares, init_over=init_over) == {
        "g0": Charge(mib * MIB, milli(cores), slots, resident_bytes=mib * MIB)
    }


def pod_with_init(restart: str, *, init_done: bool) -> Pod:
    lists = [
        [DeviceListEntry("g0", "NVIDIA", 20000, 10)],
        [DeviceListEntry("g0", "NVIDIA", 10000, 5)],
    ]
    return bound(lists, inits=1, restart_policy=restart, init_done=init_done)


@pytest.mark.parametrize(
    ("pod", "free_mib"),
    [
        pytest.param(pod_with_init("Never", init_done=False), 12768, id="USE-07 before"),
        pytest.param(pod_with_init("Never", init_done=True), 22768, id="USE-07 after"),
        pytest.param(
            pod_with_init("Always", init_done=True), 12768, id="init may run again after a reboot"
        ),
        pytest.param(
            bound([[DeviceListEntry("g0", "NVIDIA", 10000, 5)]], phase="Succeeded"),
            32768,
            id="USE-08",
        ),
    ],
)
def test_memory_of_ended_containers_is_free_again(pod: Pod, free_mib: int) -> None:
    node = a_gpu_node(Gpu("g0", mib=32768))
    fits = a_pod(needs({"gpu": 1, "mem": free_mib}))
    over = a_pod(needs({"gpu": 1, "mem": free_mib + 1}))
    assert plan([over], [node], bound=[pod])[0].verdict == "waiting"
    assert plan([fits], [node], bound=[pod])[0].verdict == "placed"


def gpu(**amounts: Any) -> Any:
    return needs({"gpu": 1, **amounts})


@pytest.mark.parametrize(
    ("policy", "gpus", "init", "app", "want"),
    [
        pytest.param(
            "spread", [Gpu("uuid1", mib=8000), Gpu("uuid2", mib=8000)], [],
            [gpu(mem=8000, core=30), gpu(mem=1000, core=30)], [["uuid2"], ["uuid1"]], id="MUL-01",
        ),
        pytest.param(
            "spread", [Gpu("uuid1")], [a_container(), gpu(mem=1000, core=30)],
            [gpu(mem=1000, core=30)], [[], ["uuid1"], ["uuid1"]], id="MUL-03",
        ),
        pytest.param(
            "binpack", [Gpu("uuid1"), Gpu("uuid2")], [needs({"gpu": 2, "mem": 1000})],
            [gpu(mem=1000)], [["uuid2", "uuid1"], ["uuid2"]], id="MUL-04",
        ),
        pytest.param(
            "binpack", [Gpu("uuid1"), Gpu("uuid2")], [], [gpu(mem=10), gpu(mem=10)],
            [["uuid2"], ["uuid2"]], id="packed on one card",
        ),
        pytest.param(
            "spread", [Gpu("uuid1", slots=1)], [gpu(mem=8000)], [gpu(mem=8000)],
            [["uuid1"], ["uuid1"]], id="one after the other",
        ),
    ],
)  # fmt: skip
def test_each_container_gets_its_own_cards(
    policy: str, gpus: Sequence[Gpu], init: Sequence[Any], app: Sequence[Any],
    want: list[list[str]],
) -> None:  # fmt: skip
    pod = a_pod(*app, init=tuple(init), annotations={CARD_POLICY: policy})
    assert lists_of(planned(pod, *gpus)) == want


@pytest.mark.parametrize(
    ("gpus", "init", "app", "want"),
    [
        pytest.param(
            [Gpu("a", used=1, used_cores=80), Gpu("b", used=1, used_cores=80)],
            [gpu(mem=1, core=30)], [gpu(mem=1, core=10)], "2/2 CardInsufficientCore", id="MUL-05",
        ),
        pytest.param([Gpu("a", mib=50)], [], [gpu(mem=1000)], "1/1 CardInsufficientMemory",
                     id="MUL-06"),
    ],
)  # fmt: skip
def test_one_container_that_does_not_fit_stops_the_pod(
    gpus: Sequence[Gpu], init: Sequence[Any], app: Sequence[Any], want: str
) -> None:
    assert counted(planned(a_pod(*app, init=tuple(init)), *gpus)) == {"n1": want}


def test_a_sidecar_runs_next_to_the_app_containers() -> None:
    """HAMi takes it for an init container and gives its memory away twice."""
    pod = a_pod(gpu(mem=5000), init=(needs({"gpu": 1, "mem": 5000}, sidecar=True),))
    assert planned(pod, Gpu("a", mib=8192)).verdict == "waiting"


def test_a_finished_init_container_without_cards_frees_nothing() -> None:
    """HAMi's compacted lists have the app's cards forgotten here."""
    pod = a_pod(
        gpu(mem=8192), init=(a_container(),), init_done=True, node="n1", name="held",
        annotations={ALLOCATED: encode_lists([[DeviceListEntry("a", "NVIDIA", 8192, 0)]])},
    )  # fmt: skip
    (outcome,) = plan([a_pod(gpu(mem=1))], [a_gpu_node("a")], bound=[pod])
    assert counted(outcome) == {"n1": "1/1 CardInsufficientMemory"}


def test_a_pod_on_unknown_cards_is_counted_by_its_own_requests() -> None:
    pod = bound([[DeviceListEntry("gone", "NVIDIA", 8192, 0)]])
    (outcome,) = plan([a_pod(gpu(mem=1))], [a_gpu_node("a")], bound=[pod])
    assert outcome.verdict == "waiting"
