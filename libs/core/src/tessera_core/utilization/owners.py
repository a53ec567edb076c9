"""Who a pod belongs to, as people name it: the Deployment, and not its ReplicaSet."""

from __future__ import annotations

from collections.abc import Mapping

from tessera_schema.kube import OwnerRef


def topmost(owner: OwnerRef, parents: Mapping[str, OwnerRef]) -> OwnerRef:
    """The owner's owner, as far as is known; `parents` are by the uid of what they own."""
    seen = {owner.uid}
    while (above := parents.get(owner.uid)) is not None and above.uid not in seen:
        owner = above
        seen.add(owner.uid)
    return owner
