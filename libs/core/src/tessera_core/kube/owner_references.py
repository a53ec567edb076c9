"""Which object made another one (`metadata.ownerReferences`)."""

from __future__ import annotations

from collections.abc import Iterable

from tessera_schema.kube import ObjectMeta, OwnerRef


def controller_of(references: Iterable[OwnerRef]) -> OwnerRef | None:
    """The owner that made the object and makes it again; None where there is none."""
    return next((one for one in references if one.controller), None)


def owner_of(meta: ObjectMeta) -> str:
    """What is the same for an object and for its successors: its controller's uid, else its own
    namespace and name."""
    controller = controller_of(meta.owner_references)
    if controller is not None and controller.uid:
        return controller.uid
    return f"{meta.namespace or 'default'}/{meta.name}"
