"""A verdict turned into what the runtime is answered, and into what the hook enforces."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from posixpath import normpath
from stat import S_ISBLK
from typing import Final

from msgspec.structs import replace

from tessera_core.dialect_kit.contract import Dialect, Vendor
from tessera_core.dialect_kit.lending_terms import LendingTerms, WrittenTerms, terms_of
from tessera_core.hook.limits_file import CardLimit, HookLimits, Mode
from tessera_kubelet.nri.types import Adjustment, ContainerInfo, NriDevice, PodSandbox
from tessera_schema.cards import MIB
from tessera_schema.grants import Share
from tessera_schema.injections import Injection, Mount
from tessera_schema.kube import ObjectMeta, Pod

_PERMILLE: Final = 10
_MOST_PERMILLE: Final = 1000


def limits_of(
    pod: PodSandbox, container: str, shares: Sequence[Share], terms: LendingTerms,
    unlimited: Collection[str],
) -> HookLimits:  # fmt: skip
    """What the hook is told. A share without cores, or of a card that is among the `unlimited`, is
    not limited in GPU time, one without memory gets the least that is a limit."""
    cards = tuple(
        CardLimit(
            uuid=share.card, index=share.index, memory_bytes=max(share.memory_bytes, MIB),
            cores_permille=cores_permille(share), priority=terms.priority or 0,
            mode=Mode.OFF if share.card in unlimited or not cores_permille(share) else Mode.HARD,
        )
        for share in shares
    )  # fmt: skip
    return HookLimits(container=f"{pod.namespace}/{pod.name}/{container}", cards=cards)


def terms_in(
    dialects: Mapping[str, Dialect], annotations: Mapping[str, str], shares: Sequence[Share],
    env: Mapping[str, str], given: Injection,
) -> LendingTerms:  # fmt: skip
    """On what terms a container takes part in lending. `annotations` are the pod's; `shares`, `env`
    as it will be, and what it was `given` the container's."""
    pod = Pod(metadata=ObjectMeta(annotations=dict(annotations)))
    written = WrittenTerms(pod=pod, env=env, given=given.env, annotations=given.annotations)
    return terms_of(dialects, [share.dialect for share in shares], written)


def cores_permille(share: Share) -> int:
    """Of the card's time; 0 and 1000 are no limit."""
    return min(round(share.cores_percent * _PERMILLE), _MOST_PERMILLE)


def in_force(shares: Sequence[Share], limits: HookLimits) -> tuple[Share, ...]:
    """The shares as they are held: a limit that is still above what was granted counts."""
    now = {card.uuid: card.memory_bytes for card in limits.cards}
    return tuple(
        replace(share, memory_bytes=now[share.card])
        if now.get(share.card, 0) > max(share.memory_bytes, MIB) else share
        for share in shares
    )  # fmt: skip


def below(shares: Sequence[Share], limits: HookLimits) -> frozenset[str]:
    """Cards of which less of the cores may be used than was granted."""
    now = {card.uuid: card.cores_permille for card in limits.cards}
    return frozenset(
        share.card for share in shares
        if 0 < now.get(share.card, 0) < (cores_permille(share) or _MOST_PERMILLE)
    )  # fmt: skip


def adjustment_of(
    injection: Injection, env: Mapping[str, str], files: Sequence[Mount]
) -> Adjustment:
    """What the runtime is answered for a container that holds shares. Raises OSError where a device
    node is not there."""
    return Adjustment(
        env=env, mounts=(*injection.mounts, *files), annotations=injection.annotations,
        devices=tuple(_device(path) for path in injection.devices),
    )  # fmt: skip


def disarmed(vendor: Vendor, env: Mapping[str, str]) -> dict[str, str]:
    """Variables by which the image or its author would get other devices, emptied."""
    return {
        name: "" for name, harmless in vendor.guarded_env.items()
        if "" in harmless and name in env and env[name] not in harmless
    }  # fmt: skip


def withstands(env: Mapping[str, str], vendor: Vendor, container: ContainerInfo) -> str:
    """The first of these variables that would not become what it should, because the container's
    image and its pod both set it; empty where all do. Taking cards away, any harmless value does.
    """
    for name in sorted(container.set_twice & env.keys()):
        found = container.env[name]
        denied = env[name] == vendor.deny.get(name)
        if found != env[name] and not (denied and found in vendor.guarded_env.get(name, ())):
            return name
    return ""


def card_mount(vendor: Vendor, container: ContainerInfo) -> str:
    """Where the container has the first mount that would show it cards; empty where it has none."""
    for mount in container.mounts:
        path = f"/{normpath(mount.destination).lstrip('/')}"
        if any(path.startswith(f"{folder}/") for folder in vendor.device_mounts):
            return path
    return ""


def sees_cards(vendor: Vendor, env: Mapping[str, str]) -> bool:
    """Whether the variables of a container that holds nothing would show it cards."""
    return any(
        env.get(name, value) not in vendor.guarded_env.get(name, frozenset({value}))
        for name, value in vendor.deny.items()
    )


def _device(path: str) -> NriDevice:
    found = Path(path).stat()
    return NriDevice(
        path=path, major=os.major(found.st_rdev), minor=os.minor(found.st_rdev),
        type="b" if S_ISBLK(found.st_mode) else "c",
    )  # fmt: skip
