"""Which shares could be smaller, and how the pod's own manifest says that."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_core.registry.registry import load
from tessera_core.utilization.dialect_amounts import AmountChange, smaller_amount
from tessera_core.utilization.history import UseHistory
from tessera_core.utilization.patches import kubectl_patch, owner_patch, pod_patch
from tessera_core.utilization.price_list import BadPriceList, read_price_list
from tessera_core.utilization.recording import (
    HolderPod,
    RecordedShare,
    RecordingLine,
    UseDigest,
    WrittenContainer,
)
from tessera_core.utilization.resize_plans import resize_plan
from tessera_core.utilization.right_sizes import LeftAlone, RightSize, SizeRules, right_sizes
from tessera_schema.cards import MIB
from tessera_schema.plans import PlanKind

REGISTRY = load()
GIB = 1 << 30
HOUR = 3600.0


def a_pod(limits: dict[str, Any], name: str = "p", **fields: Any) -> HolderPod:
    container = WrittenContainer(name="c", limits=limits)
    return HolderPod(namespace="team", name=name, containers=(container,), **fields)


def smaller(pod: HolderPod, granted_gib: float, wanted_mib: int) -> AmountChange | str | None:
    return smaller_amount(
        REGISTRY, pod, "c", granted=int(granted_gib * GIB), wanted=wanted_mib * MIB
    )


HAMI = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "40960"}


@pytest.mark.parametrize(
    ("limits", "granted_gib", "name", "after"),
    [
        (HAMI, 40, "nvidia.com/gpumem", "8193"),
        ({"nvidia.com/gpu": "2", "nvidia.com/gpumem-percentage": "50", "nvidia.com/gpucores": "30"},
         40, "nvidia.com/gpumem-percentage", "11"),
        ({"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "40960"}, 40,
         "volcano.sh/vgpu-memory", "8193"),
        ({"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory": "40Gi"}, 40,
         "koordinator.sh/gpu-memory", "9Gi"),
        ({"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory": "42949672960"}, 40,
         "koordinator.sh/gpu-memory", "8193Mi"),
        ({"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50"}, 40,
         "koordinator.sh/gpu-memory-ratio", "11"),
        ({"tencent.com/vcuda-core": "50", "tencent.com/vcuda-memory": "160"}, 40,
         "tencent.com/vcuda-memory", "33"),
        ({"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "64",
          "mthreads.com/sgpu-core": "8"}, 32, "mthreads.com/sgpu-memory", "32"),  # or 16, or 64
        ({"iluvatar.ai/vgpu": "1", "iluvatar.ai/vcuda-memory": "80",
          "iluvatar.ai/vcuda-core": "50"}, 20, "iluvatar.ai/vcuda-memory", "33"),
        ({"aliyun.com/gpu-mem": "40"}, 40, "aliyun.com/gpu-mem", "9"),
    ],
)  # fmt: skip
def test_an_amount_is_rounded_up_in_its_own_unit(
    limits: dict[str, Any], granted_gib: float, name: str, after: str
) -> None:
    change = smaller(a_pod(limits), granted_gib, 8193)
    assert isinstance(change, AmountChange)
    assert (change.name, change.before, change.after) == (name, str(limits[name]), after)
    assert 8193 * MIB <= change.memory_bytes < granted_gib * GIB


@pytest.mark.parametrize(
    ("key", "before", "after"),
    [("gpu-fraction", "0.5", "0.11"), ("gpu-memory", "40960", "8193")],
)
def test_an_annotation_is_changed_where_the_pod_has_one(key: str, before: str, after: str) -> None:
    pod = a_pod({}, annotations={key: before}, scheduler="kai-scheduler")
    change = smaller(pod, 40, 8193)
    assert isinstance(change, AmountChange)
    assert change.annotation
    assert (change.name, change.after) == (key, after)
    assert pod_patch(change) == {"metadata": {"annotations": {key: after}}}


def test_a_pod_of_whole_cards_is_given_an_amount() -> None:
    change = smaller(a_pod({"nvidia.com/gpu": "1"}), 80, 9000)
    assert isinstance(change, AmountChange)
    assert (change.name, change.before, change.after) == ("nvidia.com/gpumem", "", "9000")
    whole = smaller(a_pod({"nvidia.com/gpu": "1", "nvidia.com/gpucores": "100"}), 80, 9000)
    assert isinstance(whole, AmountChange)
    assert whole.whole_cores


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"koordinator.sh/gpu": "50"}, "its dialect, koordinator, has no amount for its memory"),
        ({"nvidia.com/gpu.shared": "1"}, "its dialect, replicas, has no amount for its memory"),
        ({"cpu": "1"}, "it asks for no cards in a dialect that is known here"),
    ],
)
def test_what_a_dialect_cannot_say_is_left(limits: dict[str, Any], why: str) -> None:
    assert str(smaller(a_pod(limits), 40, 9000)).startswith(why)


def test_what_the_api_server_writes_in_thousands_is_counted() -> None:
    """3000 comes back from it as `3k`."""
    change = smaller(a_pod({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "15k"}), 15000 / 1024, 9001)
    assert isinstance(change, AmountChange)
    assert (change.before, change.after) == ("15k", "9001")


def test_an_amount_that_cannot_be_smaller_stays() -> None:
    mthreads = {"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "32",
                "mthreads.com/sgpu-core": "8"}  # fmt: skip
    assert smaller(a_pod(mthreads), 16, 8193) is None  # 16 or 32 units of 512 MiB


def test_percents_are_of_the_card_whatever_a_live_resize_gave() -> None:
    part = RecordedShare(container="c", card="x", memory_bytes=60 * GIB, card_bytes=80 * GIB)
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50"}
    change = smaller(a_pod(limits, shares=(part,)), 60, 8192)
    assert isinstance(change, AmountChange)
    assert change.after == "10"
    assert change.memory_bytes == 8 * GIB


def test_a_manifest_that_is_gone_has_no_patch() -> None:
    pod = HolderPod(namespace="team", name="p")
    assert smaller(pod, 40, 9000) == "its manifest is not known any more"


@given(granted=st.integers(2, 160), part=st.floats(0.01, 0.95), dialect=st.integers(0, 2))
def test_what_comes_out_is_always_enough(granted: int, part: float, dialect: int) -> None:
    limits: dict[str, Any] = (
        {"nvidia.com/gpu": "1", "nvidia.com/gpumem": f"{granted * 1024}"},
        {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory": f"{granted}Gi"},
        {"tencent.com/vcuda-core": "50", "tencent.com/vcuda-memory": f"{granted * 4}"},
    )[dialect]
    wanted = max(int(granted * 1024 * part), 1)
    change = smaller(a_pod(limits), granted, wanted)
    if isinstance(change, AmountChange):
        assert wanted * MIB <= change.memory_bytes < granted * GIB
    else:  # the next larger amount that can be said is what it has
        assert change is None
        assert granted * 1024 - wanted < 1024


def a_history(
    *, pods: int = 12, gib: int = 40, peak_gib: float = 5, hours: int = 168,
    measured: float = 1.0, gaps: tuple[str, ...] = (), kind: str = "Deployment",
    last_hours: int = 0,
) -> UseHistory:  # fmt: skip
    history = UseHistory()
    lines: list[RecordingLine] = []
    for number in range(pods):
        name = f"serve-{number}"
        part = RecordedShare(
            container="c", card=f"card-{number}", memory_bytes=gib * GIB, resizable=number != 0
        )
        lines.append(a_pod(
            {"nvidia.com/gpu": "1", "nvidia.com/gpumem": f"{gib * 1024}"}, name, uid=f"u-{number}",
            node="n", owner_kind=kind, owner="serve", shares=(part,),
        ))  # fmt: skip
        lines.append(UseDigest(
            until=(hours - last_hours) * HOUR, period_s=(hours - last_hours) * HOUR,
            namespace="team", pod=name, container="c", card=f"card-{number}", part=0.5,
            granted_bytes=gib * GIB, held_s=hours * HOUR, measured_s=hours * HOUR * measured,
            peak_bytes=int(peak_gib * GIB) - number * MIB, gaps=gaps,
        ))  # fmt: skip
    history.add_all(lines)
    return history


def one(history: UseHistory, rules: SizeRules | None = None) -> RightSize | LeftAlone | None:
    sizes, left = right_sizes(history, REGISTRY, rules or SizeRules())
    found: list[RightSize | LeftAlone] = [*sizes, *left]
    assert len(found) < 2
    return found[0] if found else None


def test_twelve_pods_hold_480_gib() -> None:
    found = one(a_history())
    assert isinstance(found, RightSize)
    assert (found.holding, found.held_bytes) == (12, 480 * GIB)
    assert found.peak_bytes == 5 * GIB
    assert found.peaks_bytes == 60 * GIB - 66 * MIB
    assert found.change.after == "7680"  # the largest peak and a half
    assert found.frees_bytes == 12 * (40 * GIB - 7680 * MIB)
    assert kubectl_patch("team", "Deployment", "serve", found.change) == (
        "kubectl -n team patch deployment/serve -p "
        '\'{"spec":{"template":{"spec":{"containers":[{"name":"c","resources":{"limits":'
        '{"nvidia.com/gpumem":"7680"},"requests":{"nvidia.com/gpumem":"7680"}}}]}}}}\''
    )


def test_head_room_is_a_part_and_at_least_an_amount() -> None:
    rules = SizeRules(headroom_percent=20, headroom_mib=2048)
    assert rules.enough(20 * GIB) == 24 * GIB
    assert rules.enough(1 * GIB) == 3 * GIB
    assert rules.enough(1) == 2049 * MIB  # whole MiB


@pytest.mark.parametrize(
    ("history", "why"),
    [
        (a_history(hours=1), "it was measured for 12.0 hours, which is less than 24"),
        (a_history(measured=0), "nothing of it was measured"),
        (a_history(measured=0.5), "for 50 % of the time that it held shares"),
        (a_history(gaps=("no-hook",)), "what was measured may not be all of it: no-hook"),
    ],
)
def test_what_was_not_measured_well_has_no_size(history: UseHistory, why: str) -> None:
    found = one(history)
    assert isinstance(found, LeftAlone)
    assert why in found.why


def test_time_that_is_predicted_leaves_memory_as_it_is() -> None:
    assert isinstance(one(a_history(gaps=("time-predicted",))), RightSize)


def test_what_fits_is_left_alone() -> None:
    assert one(a_history(peak_gib=27)) is None


def test_pods_that_ended_hold_nothing() -> None:
    history = a_history(pods=2)
    history.ended += 3 * HOUR
    found = one(history)
    assert isinstance(found, RightSize)
    assert (found.pods, found.holding, found.held_bytes) == (2, 0, 40 * GIB)
    assert resize_plan(history, found) is None


@pytest.mark.parametrize(("hours", "span"), [(1, "60 minutes"), (168, "168 hours")])
def test_a_short_history_is_in_minutes(hours: int, span: str) -> None:
    assert a_history(hours=hours).span == span


def test_a_plan_resizes_the_pods_that_run() -> None:
    history = a_history(pods=3)
    found = one(history)
    assert isinstance(found, RightSize)
    planned = resize_plan(history, found)
    assert planned is not None
    name, spec = planned
    assert name.startswith("right-size-")
    assert spec.kind is PlanKind.RESIZE
    assert [(step.pod.name, step.card, step.memory) for step in spec.steps] == [
        ("serve-1", "card-1", "7680Mi"), ("serve-2", "card-2", "7680Mi"),
    ]  # fmt: skip
    assert planned == resize_plan(history, found)


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("StatefulSet", ["spec", "template"]),
        ("CronJob", ["spec", "jobTemplate", "spec", "template"]),
    ],
)
def test_a_patch_is_of_the_owners_template(kind: str, path: list[str]) -> None:
    found = one(a_history(kind=kind))
    assert isinstance(found, RightSize)
    patch: Any = owner_patch(kind, found.change)
    for key in path:
        patch = patch[key]
    assert patch == pod_patch(found.change)


@pytest.mark.parametrize("kind", ["Job", "Pod", "PyTorchJob"])
def test_what_cannot_be_patched_has_no_patch(kind: str) -> None:
    found = one(a_history(kind=kind))
    assert isinstance(found, RightSize)
    assert owner_patch(kind, found.change) is None
    assert kubectl_patch("team", kind, "serve", found.change) == ""


def test_the_longest_name_of_a_model_has_the_price() -> None:
    prices = read_price_list(
        {"currency": "EUR", "cards": {"a100": 2, "A100-SXM4-80GB": 2.6, "*": 1}}
    )
    assert prices.price_of("NVIDIA A100-SXM4-80GB") == 2.6
    assert prices.price_of("NVIDIA A100-PCIE-40GB") == 2
    assert prices.price_of("MTT S4000") == 1
    assert read_price_list({"currency": "€", "cards": {"A100": 0}}).price_of("T4") is None


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (None, "file: 'None': write a mapping with the keys currency and cards"),
        ({"cards": {"A100": 1}}, "currency: 'None': write a code of three letters"),
        ({"currency": "euros", "cards": {"A100": 1}}, "currency: 'euros': write a code"),
        ({"currency": "EUR"}, "cards: 'None': write a mapping"),
        ({"currency": "EUR", "cards": {}}, "cards: '{}': write a mapping"),
        ({"currency": "EUR", "cards": {"A100": "2 EUR"}}, "cards[A100]: '2 EUR': write the price"),
        ({"currency": "EUR", "cards": {"A100": True}}, "cards[A100]: 'True': write the price"),
        ({"currency": "EUR", "cards": {"A100": -1}}, "cards[A100]: '-1': write a price an hour"),
        ({"currency": "EUR", "cards": {"A100": float("nan")}}, "cards[A100]: 'nan'"),
        ({"currency": "EUR", "cards": {" ": 1}}, "cards[ ]: '1': write a part of the card's model"),
        ({"currency": "EUR", "cards": {"A100": 1}, "card": 1}, "card: '1': unknown key"),
    ],
)
def test_a_price_list_that_makes_no_sense_is_refused(written: Any, said: str) -> None:
    with pytest.raises(BadPriceList) as error:
        read_price_list(written)
    assert str(error.value).startswith(said)
