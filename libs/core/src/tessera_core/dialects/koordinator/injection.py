"""What koordlet's hook adds to a container, limited to containers that ask.

Koordinator gives every container of a pod all of the pod's cards, and the first card's limits.
Here a container sees its own cards; each card's limit is given as well where there are several.
"""

from __future__ import annotations

from typing import Final

from tessera_core.dialect_kit import HOOK_LIBRARY_HOST, Container, Injection, Mount, Placed
from tessera_core.dialects.koordinator.names import KoordinatorOptions, isolated
from tessera_core.dialects.koordinator.result_annotations import percent, requested_percents

LOCKS: Final = "/tmp/vgpulock"  # noqa: S108  (the path that libvgpu.so opens)


def inject(options: KoordinatorOptions, placed: Placed, container: Container) -> Injection:
    """The cards by minor number; limits and library only for a part of a card in a pod whose
    label asks for isolation."""
    shares = placed.of(container.name)
    if not shares:
        return Injection()
    cards = [placed.cards[s.card] for s in shares]
    env = {"NVIDIA_VISIBLE_DEVICES": ",".join(str(c.device_minor) for c in cards)}
    first = percent(shares[0], cards[0], requested_percents(options, placed.pod))
    if not isolated(placed.pod.metadata.labels) or first >= 100:
        return Injection(env=env)
    env["CUDA_DEVICE_MEMORY_LIMIT"] = str(shares[0].memory_bytes)
    if len(shares) > 1:
        for i, share in enumerate(shares):
            env[f"CUDA_DEVICE_MEMORY_LIMIT_{i}"] = str(share.memory_bytes)
    if shares[0].cores_percent:
        env["CUDA_DEVICE_SM_LIMIT"] = f"{shares[0].cores_percent:g}"
    env["LD_PRELOAD"] = options.isolation_library
    mounts = (
        Mount(destination=options.isolation_library, source=HOOK_LIBRARY_HOST),
        Mount(destination=LOCKS, source=LOCKS, read_only=False),
    )
    return Injection(env=env, mounts=mounts)
