"""A gang: pods of which so many start together, or none does. One noun for what five systems say.

`tessera_core.gangs.pod_groups` and `tessera_core.gangs.catalog` read users' objects into it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from tessera_schema.kube import Pod

FEWEST: int = 2
"""Members from which on a group is a gang: with a minimum of 0 or 1 its pods go one by one."""


class GangOrigin(StrEnum):
    """Whose way of naming a gang it is."""

    VOLCANO = "volcano"
    KOORDINATOR = "koordinator"
    COSCHEDULING = "coscheduling"
    """The plugin of scheduler-plugins; HAMi reads its label too."""
    KUBERNETES = "kubernetes"
    KUEUE = "kueue"


class MatchPolicy(StrEnum):
    """Which pods count for the minimum."""

    ONCE = "once"
    """Those that start together; after the first start members go one by one."""
    ARRIVING = "arriving"
    """Only those that start together, each time."""
    PRESENT = "present"
    """Those that start together and those that have started."""


class PreemptibleMembers(StrEnum):
    """Which members another pod may push out."""

    ALL = "all"
    SURPLUS = "surplus"
    NONE = "none"


class TopologyDomain(Struct, frozen=True):
    """Nodes of equal label: the members lie in one such group of nodes."""

    key: str
    required: bool = True
    """False: preferred only."""


class Gang(Struct, frozen=True, kw_only=True):
    """What one gang asks for, whatever system it is written for."""

    origin: GangOrigin
    namespace: str
    name: str
    min: int
    """Members that start together. 0 and 1: no gang."""
    total: int = 0
    """Members that there will be; `min` where nobody says."""
    roles: Mapping[str, int] = {}
    """Role -> how many of its members are part of the minimum."""
    bundle: tuple[str, ...] = ()
    """`namespace/name` of the gangs that start together with it, in order, itself among them."""
    match: MatchPolicy = MatchPolicy.PRESENT
    patience_s: float | None = None
    """How long an incomplete start may hold its place; None = as long as it takes."""
    queue: str = ""
    """Name of its queue; empty = it names none."""
    queue_field: str = ""
    """Where the queue is named."""
    priority: int | None = None
    """Of the gang itself; None = the highest of its members'."""
    priority_class: str = ""
    preemptible: PreemptibleMembers = PreemptibleMembers.ALL
    domain: TopologyDomain | None = None
    created: str = ""
    """RFC 3339; empty = not known."""
    started: bool = False
    """Whether its object says that it has started once."""
    source: str = ""
    """The field that sets the minimum, as messages print it: `PodGroup team/a: spec.minMember`."""
    problem: str = ""
    """Why it does not start as it is written, whatever is free: field, value and remedy."""
    warnings: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def id(self) -> str:
        """`origin/namespace/name`: the same in every process."""
        return f"{self.origin.value}/{self.key}"

    @property
    def together(self) -> bool:
        """Whether members have to start together at all."""
        return self.min >= FEWEST or len(self.bundle) > 1


class GangMember(Struct, frozen=True):
    """A pod of a gang."""

    pod: Pod
    role: str = ""
    index: int = 0
    """Its number in its role or in the gang; 0 where nobody says."""

    @property
    def order(self) -> tuple[int, int, str]:
        """Which members come first: higher priority, lower index, name."""
        return -(self.pod.spec.priority or 0), self.index, self.pod.metadata.name


class GangMembers(Struct, frozen=True, kw_only=True):
    """A gang with its pods, as they are now."""

    gang: Gang
    waiting: tuple[GangMember, ...] = ()
    """Pods without a node that may be placed, first comes first."""
    barred: Mapping[str, str] = {}
    """Name of a pod without a node that cannot be placed yet -> why."""
    bound: tuple[GangMember, ...] = ()
    """Pods that have a node and have not ended."""
    succeeded: int = 0
    """Pods that have ended well."""
