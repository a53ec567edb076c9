"""Annotations about cards that are not read for the way of sharing that a pod uses: reported, for
a user who writes one relies on it. Volcano passes over them in silence."""

from __future__ import annotations

from typing import Final

from tessera_core.dialect_kit import Pod
from tessera_core.dialects.volcano import names

_OF_VGPU: Final = (
    names.VGPU_MODE,
    names.VGPU_USE_UUID,
    names.VGPU_NOUSE_UUID,
    names.USE_TYPE,
    names.NOUSE_TYPE,
)
_OF_HAMI: Final = {
    "nvidia.com/use-gpuuuid": names.VGPU_USE_UUID,
    "nvidia.com/nouse-gpuuuid": names.VGPU_NOUSE_UUID,
    "nvidia.com/vgpu-mode": names.VGPU_MODE,
}
"""HAMi's keys, whose meaning has other keys here. Those of models are the same in both."""


def by_gpushare(pod: Pod) -> tuple[str, ...]:
    """For pods that ask for gpu-memory or gpu-number."""
    return tuple(
        f"{_said(pod, key)}: is not read: gpushare takes the first cards with room; ask for "
        "vgpu-number to choose among cards, or remove it"
        for key in (*_OF_VGPU, *_OF_HAMI)
        if key in pod.metadata.annotations
    )


def by_vgpu(pod: Pod) -> tuple[str, ...]:
    """For pods that ask for vgpu-number or vgpu-memory."""
    return tuple(
        f"{_said(pod, key)}: is not read: it is HAMi's; write {own_key}"
        for key, own_key in _OF_HAMI.items()
        if key in pod.metadata.annotations
    )


def _said(pod: Pod, key: str) -> str:
    return f"metadata.annotations[{key}]: {pod.metadata.annotations[key][:80]}"
