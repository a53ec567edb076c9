"""Plans: changes that the rebalancer proposes, as objects of the API server (`RebalancePlan`).

The spec says what, why and what it should gain, and carries the decision of the approver; the
status says how far it has come. The process that carries a plan out writes each step into the
status before it is done, so that a plan interrupted by a crash is finished or undone.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final, Literal

import msgspec
from msgspec import Struct

from tessera_schema.grants import Share
from tessera_schema.json_codec import decoder
from tessera_schema.subjects import plan

PLAN_KIND: Final = "RebalancePlan"
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
    PREEMPT = "Preempt"
    """Pods of lower priority are evicted so that a pod that waits fits; the scheduler's to do."""
    RECLAIM = "Reclaim"
    """Pods of queues that use more than they deserve are evicted so that a pod of another queue
    fits; the scheduler's to do."""
    DISSOLVE = "Dissolve"
    """Pods of a gang that could not start as a whole are evicted; the scheduler's to do."""


REBALANCING: Final = frozenset({PlanKind.RESIZE, PlanKind.MOVE, PlanKind.DEFRAGMENT})
"""Kinds that the rebalancer proposes and carries out."""


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
    owner: str = ""
    """Uid of its controller, which makes another pod when it is gone; empty = it has none."""
    gang: str = ""
    """Key of the gang that goes whole with it; empty for a pod by itself."""


class PlanStep(Struct, frozen=True, kw_only=True, rename="camel"):
    """One pod's part. With a container it is a resize, else the pod moves."""

    pod: PodOfPlan
    to_node: str = ""
    """Where there is room for it; where it really goes the scheduler decides."""
    container: str = ""
    card: str = ""
    """Whose share it is; of a move, the card that it is to relieve."""
    memory: str = ""
    """What it shall have, a Kubernetes quantity; empty = as it is."""
    cores: float | None = None
    """Percent of the card; null = as it is."""


class PlanSeat(Struct, frozen=True, kw_only=True):
    """What one pod will get."""

    pod: PodOfPlan
    """With its node."""
    shares: tuple[Share, ...]
    """As in its grant."""


class PlanPromise(Struct, frozen=True, kw_only=True):
    """Cards that nobody else of no higher priority gets while pods leave for those that wait."""

    priority: int
    seats: tuple[PlanSeat, ...]
    """Of the pod that waits, or of each member of the gang that asks for cards."""


class PlanSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is proposed, and what was decided about it."""

    kind: PlanKind
    reason: str
    """One sentence with numbers."""
    steps: tuple[PlanStep, ...]
    for_pod: PodOfPlan | None = None
    """The waiting pod that shall fit afterwards."""
    for_gang: str = ""
    """Id of the gang that it is done for, as `volcano/team-a/training`; empty = for none."""
    promise: PlanPromise | None = None
    """What they will get; null = nothing is promised card by card."""
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
    before: float = 0
    """Contention of the first step's card, percent, when it started."""
    placed: str = ""
    """When the pod for which room was made got its node, RFC 3339."""


class Reservation(Struct, frozen=True, kw_only=True):
    """Room that a plan makes for a waiting pod, as an annotation of that pod (`keys.RESERVE_KEY`).

    Until then nobody of no higher priority is placed on the node's cards of the make that the pod
    asks for. It falls earlier when the pod is bound or gone.
    """

    node: str
    until: float
    """Unix time in seconds."""
    plan: str = ""
    """For messages."""


class _Event(Struct, frozen=True, kw_only=True, tag_field="what"):
    plan: str
    """Name of the RebalancePlan."""
    kind: PlanKind
    message: str = ""
    """Why, in numbers."""
    pods: tuple[PodOfPlan, ...] = ()
    """Those that are moved, evicted or resized."""
    for_pod: PodOfPlan | None = None
    for_gang: str = ""
    """Id of the gang, as in the plan; empty = it is for none."""
    cost: float = 0
    """Card-seconds, as in the plan."""
    gain: float = 0


class PlanProposed(_Event, frozen=True, kw_only=True, tag="proposed"):
    """A change that would be worth it; somebody, or the policy, has to approve it."""

    dry_run: bool = False


class PlanStarted(_Event, frozen=True, kw_only=True, tag="started"):
    """It was approved and is being carried out."""

    decided_by: str = ""


class PlanDone(_Event, frozen=True, kw_only=True, tag="done"):
    """All of it was done."""


class PlanDeclined(_Event, frozen=True, kw_only=True, tag="declined"):
    """Nothing of it was done: a person said no, or what it stood on has changed."""


class PlanFailed(_Event, frozen=True, kw_only=True, tag="failed"):
    """A step could not be done; what was begun was undone where it can be."""


PlanEvent = PlanProposed | PlanStarted | PlanDone | PlanDeclined | PlanFailed

_encode: Final = msgspec.json.Encoder().encode
_decode_reservation: Final = decoder(Reservation)
_decode: Final[Callable[[bytes | str], PlanEvent]] = decoder(PlanEvent)


def encode_reservation(held: Reservation) -> str:
    """The annotation's value."""
    return _encode(held).decode()


def decode_reservation(text: str) -> Reservation:
    """Raises msgspec.DecodeError."""
    return _decode_reservation(text)


def encode_plan(event: PlanEvent) -> bytes:
    """The message's data."""
    return _encode(event)


def decode_plan(data: bytes) -> PlanEvent:
    """Raises msgspec.DecodeError."""
    return _decode(data)


def plan_subject(cluster: str, event: PlanEvent) -> str:
    """The subject that the event is published on."""
    return plan(cluster, event.plan, str(event.__struct_config__.tag))
