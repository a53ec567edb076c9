"""What the coordinator says about a member, and what has to be done."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from tessera_schema.kube import Pod


class GoesAlone(Struct, frozen=True):
    """The pod is placed as a pod of no gang."""


class GoesTo(Struct, frozen=True):
    """The ledger holds the pod's cards on this node."""

    node: str


class WaitsForGang(Struct, frozen=True):
    """The pod gets no node now."""

    message: str


MemberAnswer = GoesAlone | GoesTo | WaitsForGang


class GangEffects(Struct, frozen=True, kw_only=True):
    """What follows from what has happened since it was read last."""

    released: tuple[str, ...] = ()
    """Uids of pods whose bind calls go on now."""
    failed: Mapping[str, str] = {}
    """Uid of a pod whose bind call is answered an error -> that error."""
    opened: tuple[Pod, ...] = ()
    """Pods whose scheduling gate is to be opened; said again until a watch shows it open."""
    requeue: bool = False
    """kube-scheduler has to try pods again that it was refused."""
