"""Who a pod belongs to, as people name it: the Deployment, and not its ReplicaSet."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class OwnerRef(Struct, frozen=True):
    """An entry of `metadata.ownerReferences`."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


def controller_of(references: tuple[OwnerRef, ...]) -> OwnerRef | None:
    """The owner that made the object and makes it again; None where there is none."""
    return next((one for one in references if one.controller), None)


def topmost(owner: OwnerRef, parents: Mapping[str, OwnerRef]) -> OwnerRef:
    """The owner's owner, as far as is known; `parents` are by the uid of what they own."""
    seen = {owner.uid}
    while (above := parents.get(owner.uid)) is not None and above.uid not in seen:
        owner = above
        seen.add(owner.uid)
    return owner
