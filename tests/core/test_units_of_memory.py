"""Memory in a wrong unit is answered with what was probably meant, in every dialect alike."""

from __future__ import annotations

import pytest

from tessera_core.admission.admit import admit
from tessera_core.dialect_kit.contract import Rejected
from tessera_core.dialect_kit.memory_units import LEAST_CARD_BYTES, MOST_CARD_BYTES, MemoryUnit
from tessera_core.registry.registry import load
from tessera_schema.cards import MIB
from tessera_schema.kube import Quantity
from tessera_testing.builders import a_container, a_pod

REGISTRY = load()
MIBS, BLOCKS, BYTES = MemoryUnit(MIB), MemoryUnit(256 * MIB), MemoryUnit(1)


def refused(limits: dict[str, Quantity]) -> str:
    answer = admit(REGISTRY, a_pod(a_container(limits, limits)))
    assert isinstance(answer, Rejected), answer
    return answer.remedy


@pytest.mark.parametrize(
    ("limits", "written", "remedy"),
    [
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem": "1Gi"}, "1Gi is 1073741824", "1024"),
        ({"volcano.sh/gpu-memory": "1Gi"}, "1Gi is 1073741824", "1024"),
        ({"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": "1Gi"}, "1Gi is ", "1024"),
        ({"tencent.com/vcuda-core": 50, "tencent.com/vcuda-memory": "1Gi"}, "1Gi is ", "4"),
        ({"iluvatar.ai/vgpu": 1, "iluvatar.ai/vcuda-memory": "1Gi"}, "1Gi is ", "4"),
        ({"iluvatar.ai/MR-V100-vgpu": 1, "iluvatar.ai/MR-V100.vMem": "1Gi"}, "1Gi is ", "4"),
        ({"mthreads.com/vgpu": 1, "mthreads.com/sgpu-memory": "1Gi"}, "1Gi is ", "2"),
    ],
)
def test_a_gib_is_refused_wherever_other_units_are_counted(
    limits: dict[str, Quantity], written: str, remedy: str
) -> None:
    reported = refused(limits)
    assert reported.startswith(written)
    assert reported.endswith(f"no card has that much. For 1 GiB write {remedy}.")


def test_bytes_are_refused_where_mib_were_meant() -> None:
    assert refused({"koordinator.sh/gpu-memory": 8192}) == (
        "8192 is 8192 bytes: write 8Gi or 8192Mi if MiB were meant."
    )


def test_most_and_least_are_taken() -> None:
    taken: tuple[dict[str, Quantity], ...] = (
        {"nvidia.com/gpu": 1, "nvidia.com/gpumem": MOST_CARD_BYTES // MIB},
        {"koordinator.sh/gpu-memory": "4Ti"},
        {"koordinator.sh/gpu-memory": LEAST_CARD_BYTES},
        {"koordinator.sh/gpu.shared": 2, "koordinator.sh/gpu-memory": "8Ti"},
        {"tencent.com/vcuda-core": 3200, "tencent.com/vcuda-memory": 32 * 16384},
        {"iluvatar.ai/vgpu": 2, "iluvatar.ai/vcuda-memory": 2 * 16384},
        {"mthreads.com/vgpu": 2, "mthreads.com/sgpu-memory": 2 * 8192},
    )
    for limits in taken:
        assert not isinstance(admit(REGISTRY, a_pod(a_container(limits, limits))), Rejected), limits


@pytest.mark.parametrize(
    ("unit", "written", "reported"),
    [
        (MIBS, "500Mi", "For 500 MiB write 500."),
        (MIBS, "0.5Gi", "For 0.5 GiB write 512."),
        (MIBS, "8G", "For 8 GB write 7630, rounded up."),
        (MIBS, 8 << 30, "Write at most 4194304; if bytes were meant, 8192."),
        (MIBS, 99999999999999999, "Write at most 4194304."),
        (MIBS, "5Pi", "Write at most 4194304."),
        (BLOCKS, "100Mi", "For 100 MiB write 1, rounded up."),
        (BLOCKS, "32768", "Write at most 16384; if MiB were meant, 128."),
        (BYTES, "9Pi", "Write at most 4Ti."),
    ],
)
def test_too_much_is_converted_from_what_was_written(
    unit: MemoryUnit, written: Quantity, reported: str
) -> None:
    remedy = unit.too_much(written, 1 << 40)
    assert remedy.endswith(
        f"this resource counts {unit.words}, and no card has that much. {reported}"
    )


@pytest.mark.parametrize(
    ("written", "reported"),
    [
        ("8GB", "For 8 GB write 7630, rounded up."),
        ("8 GiB", "For 8 GiB write 8192."),
        ("500m", "For 500 MiB write 500."),
    ],
)
def test_what_is_no_amount_may_still_be_a_size(written: str, reported: str) -> None:
    limits: dict[str, Quantity] = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": written}
    assert refused(limits).endswith(f"This resource counts MiB. {reported}")


@pytest.mark.parametrize("written", ["lots", "-1", "1.5", ""])
def test_else_the_unit_is_said(written: str) -> None:
    limits: dict[str, Quantity] = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": written}
    assert refused(limits).endswith("This resource counts MiB, so 16 GiB is 16384.")
