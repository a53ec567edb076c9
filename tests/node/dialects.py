"""What pods of the dialects for simulated NVIDIA cards of 16 GiB ask for."""

MIB_OF_CARD = 16384
ISOLATED = {"koordinator.sh/gpu-isolation-provider": "HAMi-core"}
DIALECTS: dict[str, tuple[dict[str, str], int]] = {
    "hami": (
        {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "20"}, 3000,
    ),
    "volcano": (
        {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "2500",
         "volcano.sh/vgpu-cores": "10"}, 2500,
    ),
    "volcano-gpushare": ({"volcano.sh/gpu-memory": "1024"}, 1024),
    "koordinator": (
        {"koordinator.sh/gpu.shared": "1", "koordinator.sh/gpu-core": "20",
         "koordinator.sh/gpu-memory-ratio": "20"}, MIB_OF_CARD // 5,
    ),
    "tencent": ({"tencent.com/vcuda-core": "20", "tencent.com/vcuda-memory": "8"}, 2048),
    "inspur": ({"inspur.com/vcuda-core": "10", "inspur.com/vcuda-memory": "4"}, 1024),
}  # fmt: skip
"""Dialect -> what a container asks for, and how many MiB that is."""
RESULTS = {
    "hami": "hami.io/vgpu-devices-allocated",
    "volcano": "volcano.sh/vgpu-ids-new",
    "volcano-gpushare": "volcano.sh/gpu-index",
    "koordinator": "scheduling.koordinator.sh/device-allocated",
    "tencent": "tencent.com/predicate-gpu-idx-0",
    "inspur": "inspur.com/predicate-gpu-idx-0",
}
"""Dialect -> an annotation by which other tools know what it got."""
