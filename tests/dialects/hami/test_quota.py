"""A namespace's limits on memory and cores: what `limits.nvidia.com/gpumem` counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tessera_core.dialect_kit.contract import Dimension
from tessera_schema.cards import MIB
from tessera_schema.kube import Container, Pod
from tessera_schema.quotas import Limit
from tessera_testing.builders import a_pod
from tessera_testing.plan import plan
from tests.dialects.hami.setting import (
    CARD_POLICY,
    CORE,
    MEM,
    Gpu,
    a_gpu_node,
    made,
    needs,
    picks,
)


def limit(mem: int | None = None, core: float | None = None) -> Limit:
    """A quota as the dialect's units translate it, in MiB and percent."""
    return Limit(
        namespace="default", source="ResourceQuota gpus", vendor="nvidia",
        memory_bytes=None if mem is None else mem * MIB, cores_percent=core,
    )  # fmt: skip


def gpu(**amounts: Any) -> Container:
    return needs({"gpu": 1, **amounts})


USED = a_pod(gpu(mem=500, core=100), gpu(mem=500, core=100), node="n1", name="used")
NODE = a_gpu_node(Gpu("a", mib=40000, cores=1000))


@pytest.mark.parametrize(
    ("init", "app", "denied"),
    [
        pytest.param([], [gpu(mem=1500, core=100)], True, id="QUO-02"),
        pytest.param([], [gpu(mem=1000, core=100)], False, id="just enough"),
        pytest.param([], [gpu(mem=1024)], True, id="QUO-08"),
        pytest.param([gpu(mem=800), gpu(mem=800)], [gpu(mem=500)], False, id="QUO-10"),
        pytest.param([gpu(mem=1500)], [gpu(mem=100)], True, id="QUO-11"),
        pytest.param([], [gpu(pct=10)], True, id="a percentage counts with what it takes"),
    ],
)
def test_a_pod_beyond_the_quota_waits(
    init: Sequence[Container], app: Sequence[Container], *, denied: bool
) -> None:
    pod = a_pod(*app, init=tuple(init))
    (outcome,) = plan([pod], [NODE], bound=[USED], limits=[limit(mem=2000, core=400)])
    assert (outcome.verdict == "waiting") is denied
    if denied:
        assert [w.reason.wire for w in outcome.reasons] == ["ResourceQuotaNotFit"]


def test_a_quota_of_0_blocks() -> None:
    """QUO-05."""
    (outcome,) = plan([a_pod(gpu(mem=500))], [NODE], limits=[limit(mem=0)])
    assert outcome.verdict == "waiting"
    assert "ResourceQuota gpus allows 0 MiB of memory" in outcome.message


CARDS = [Gpu(f"g{i}", mib=mib) for i, mib in enumerate((2000, 8000, 4000, 6000))]


@pytest.mark.parametrize(
    ("limits", "pod", "want"),
    [
        pytest.param(
            limit(4000, 200), a_pod(needs({"gpu": 2, "core": 100, "mem": 2000})), 2, id="QUO-12"
        ),
        pytest.param(limit(2000, 100), a_pod(needs({"gpu": 1})), ["g0"], id="QUO-14"),
    ],
)
def test_quota_is_checked_with_what_each_card_really_takes(
    limits: Limit, pod: Pod, want: int | list[str]
) -> None:
    (outcome,) = plan([pod], [a_gpu_node(*CARDS)], limits=[limits])
    chosen = picks(outcome)
    assert chosen == want if isinstance(want, list) else len(chosen) == want


def test_cards_that_quota_forbids_are_distinguished() -> None:
    """QUO-13: two cards of 3000 MiB are more than 4000."""
    pod = a_pod(needs({"gpu": 2, "core": 60, "mem": 3000}))
    (outcome,) = plan([pod], [a_gpu_node(*CARDS)], limits=[limit(4000, 200)])
    assert outcome.verdict == "waiting"
    assert {w.reason.wire for w in outcome.reasons} == {"ResourceQuotaNotFit"}


def test_init_containers_count_while_they_may_run() -> None:
    """QUO-17."""
    pod = a_pod(gpu(mem=100), init=(gpu(mem=2100),), annotations={CARD_POLICY: "spread"})
    (outcome,) = plan([pod], [a_gpu_node("g0", "g1")], limits=[limit(mem=2048)])
    assert outcome.verdict == "waiting"


def test_memory_cores_and_cards_count() -> None:
    quota = made().quota
    assert {name: unit.dimension for name, unit in quota.items()} == {
        "nvidia.com/gpu": Dimension.CARDS,
        MEM: Dimension.MEMORY,
        CORE: Dimension.CORES,
    }
    assert quota[MEM].unit == MIB


def test_a_unit_of_quota_is_a_unit_of_the_resource() -> None:
    """QUO-04: with a factor of 2, a limit of 2000 units is 4000 MiB; 1000 used, 5000 are asked."""
    assert made(memory_factor=2).quota[MEM].unit == 2 * MIB
    options: Mapping[str, Any] = {"hami": {"memory_factor": 2}}
    pod = a_pod(gpu(mem=2500, core=100))
    bound = a_pod(gpu(mem=500, core=100), node="n1", name="used")
    limits = [limit(mem=4000, core=400)]
    (outcome,) = plan([pod], [NODE], bound=[bound], limits=limits, config=options)
    assert outcome.verdict == "waiting"
