"""A PodGroup as its status is written: what its spec asks for, what its status says, and who wrote
it. Volcano's and Koordinator's kinds have no status subresource: status is a part of the object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from tessera_core.gangs.gang import GangOrigin
from tessera_core.machines.gang import GangPhase
from tessera_schema.kube import ObjectMeta, Quantity

WRITTEN: Final = (GangOrigin.VOLCANO, GangOrigin.KOORDINATOR)
"""Whose PodGroups have their status from their scheduler, and from Tessera in its place."""


class FieldsWriter(Struct, frozen=True, rename="camel"):
    """An entry of `metadata.managedFields`."""

    manager: str = ""
    time: str = ""
    fields_v1: dict[str, Any] = {}


class StatusMeta(ObjectMeta, frozen=True, rename="camel"):
    """Metadata with those who wrote the object."""

    managed_fields: tuple[FieldsWriter, ...] = ()


class StatusGroupSpec(Struct, frozen=True, rename="camel"):
    """What of a PodGroup's spec decides its status."""

    min_member: int = 0
    min_task_member: dict[str, int] = {}
    min_resources: dict[str, Quantity] | None = None
    """None: the group is let in whatever its queue uses."""
    queue: str = ""


class StatusGroup(Struct, frozen=True):
    """A PodGroup whose status is Tessera's to write."""

    metadata: StatusMeta = StatusMeta()
    spec: StatusGroupSpec = StatusGroupSpec()
    status: dict[str, Any] = {}
    origin: GangOrigin = GangOrigin.VOLCANO

    @property
    def namespace(self) -> str:
        """The object's namespace."""
        return self.metadata.namespace or "default"

    @property
    def id(self) -> str:
        """The same as that of its gang."""
        return f"{self.origin.value}/{self.namespace}/{self.metadata.name}"

    @property
    def phase(self) -> str:
        """As the status says it; empty for none."""
        phase = self.status.get("phase")
        return phase if isinstance(phase, str) else ""

    @property
    def conditions(self) -> tuple[Mapping[str, Any], ...]:
        """Those of the status that can be read."""
        found = self.status.get("conditions")
        items = found if isinstance(found, list) else ()
        return tuple(each for each in items if isinstance(each, dict))

    def status_with(self, phase: str, counts: Mapping[str, int]) -> dict[str, Any]:
        """The status with another phase and other counts; a count of 0 that it does not have is
        left out."""
        kept = {name: n for name, n in counts.items() if n or name in self.status}
        return {**self.status, "phase": phase, **kept}

    def of(self, origin: GangOrigin) -> StatusGroup:
        """The same as an object of that system."""
        return replace(self, origin=origin)


class GangSituation(Struct, frozen=True, kw_only=True):
    """How the scheduler stands with a gang."""

    phase: GangPhase
    reason: str = ""
    """Why it waits, as its pods say it; empty for one that does not."""
    tried: bool = False
    """Whether room was searched for it, or its members waited for each other, in vain."""

    @property
    def unschedulable(self) -> bool:
        """Whether the last attempt, or the look at its pods, said that it cannot start now."""
        waits = self.phase in (GangPhase.QUEUED, GangPhase.BROKEN)
        return self.phase is GangPhase.GATHERING or (waits and self.tried)


NO_GANG: Final = GangSituation(phase=GangPhase.OVER)
"""Of a group without pods, or one whose pods go one by one."""
