"""Which object made another one (`metadata.ownerReferences`)."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct


class OwnerRef(Struct, frozen=True):
    """An entry of `metadata.ownerReferences`."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


def controller_of(references: Iterable[OwnerRef]) -> OwnerRef | None:
    """The owner that made the object and makes it again; None where there is none."""
    return next((one for one in references if one.controller), None)
