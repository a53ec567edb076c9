"""A dialect's variables and annotations are read by the dialect alone: another reader would have
its own default for them."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("services/agent", "services/rebalancer", "libs/core/src/tessera_core/rebalance")
WORDS = (
    "CUDA_TASK_PRIORITY", "GPU_CORE_UTILIZATION_POLICY", "CUDA_DEVICE_", "CUDA_DISABLE_CONTROL",
    "CUDA_OVERSUBSCRIBE", "vcuda-", "hami.io/", "volcano.sh/", "koordinator.sh/",
    "nvidia.com/", "tencent.com/", "inspur.com/", "iluvatar.ai/", "mthreads.com/",
)  # fmt: skip


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_variable_or_annotation_of_a_dialect_is_spelled(folder: str) -> None:
    spelled = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in (ROOT / folder).rglob("*.py")
        if "readers" not in path.parts
        for word in WORDS
        if word in path.read_text(encoding="utf-8")
    ]
    assert spelled == []
