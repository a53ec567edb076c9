"""Plans: changes that the rebalancer proposes, as objects of the API server (`RebalancePlan`).

The spec says what, why and what it should gain, and carries the decision of whoever approves; the
status says how far it has come. Whoever carries a plan out writes each step into the status before
it is done, so that a plan interrupted by a crash is finished or undone.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal

from msgspec import Struct

PLANS: Final = "/apis/tessera.dev/v1alpha1/rebalanceplans"
"""Cluster-wide objects."""

Decision = Literal["", "approved", "declined"]


class PlanKind(StrEnum):
    """What is done to pods."""

    RESIZE = "Resize"
    """Shares of running pods become larger or smaller."""
    MOVE = "Move"
    """Pods are evicted so that they start elsewhere."""
    DEFRAGMENT = "Defragment"
    """Pods are moved so that a pod that waits fits."""


class PlanPhase(StrEnum):
    """How far it has come."""

    PROPOSED = "Proposed"
    STARTED = "Started"
    DONE = "Done"
    DECLINED = "Declined"
    """By a person, or because what it stood on has changed."""
    FAILED = "Failed"
    """A step could not be done; what had been begun was undone where it can be."""


class PodOfPlan(Struct, frozen=True, kw_only=True):
    """A pod at a moment; another uid is another pod."""

    namespace: str
    name: str
    uid: str
    node: str = ""


class PlanStep(Struct, frozen=True, kw_only=True):
    """One pod's part. With a container and card it is a resize, else the pod moves."""

    pod: PodOfPlan
    to_node: str = ""
    """Where there is room for it; where it really goes the scheduler decides."""
    container: str = ""
    card: str = ""
    memory: str = ""
    """What it shall have, a Kubernetes quantity; empty = as it is."""
    cores: float | None = None
    """Percent of the card; null = as it is."""


class PlanSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is proposed, and what was decided about it."""

    kind: PlanKind
    reason: str
    """One sentence with numbers."""
    steps: tuple[PlanStep, ...]
    for_pod: PodOfPlan | None = None
    """The waiting pod that shall fit afterwards."""
    cost: float = 0
    """Card-seconds of work that are thought to be lost."""
    gain: float = 0
    """Card-seconds that are thought to be won within the horizon that the settings state."""
    dry_run: bool = False
    """It is only shown."""
    decision: Decision = ""
    decided_by: str = ""


class PlanStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """Written by who carries it out."""

    phase: PlanPhase = PlanPhase.PROPOSED
    message: str = ""
    steps_begun: int = 0
    steps_done: int = 0
    started: str = ""
    """RFC 3339."""
    ended: str = ""
    gained: float | None = None
    """Card-seconds that came, measured over the same horizon; null = not known yet."""
