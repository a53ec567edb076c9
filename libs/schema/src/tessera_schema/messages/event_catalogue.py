"""Everything that Tessera publishes on the bus: where, under which type, and what it means.

docs/events.md and docs/asyncapi.json are made from this list. A message that is not in it is not
part of what Tessera promises.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from tessera_schema.cards import Card
from tessera_schema.grants import Grant, Share
from tessera_schema.messages.allocation_events import (
    AllocationGranted,
    AllocationPrepared,
    AllocationRefused,
    AllocationReleased,
    AllocationRunning,
)
from tessera_schema.messages.device_reports import (
    CardLoad,
    CardUse,
    ContainerUse,
    DeviceState,
    NodeUsage,
)
from tessera_schema.messages.gang_events import GangChange, GangChanged
from tessera_schema.messages.hints import CardHint, LendingBound, NodeHints
from tessera_schema.plans import (
    PlanDeclined,
    PlanDone,
    PlanFailed,
    PlanKind,
    PlanProposed,
    PlanStarted,
    PodOfPlan,
)
from tessera_schema.queue_states import QueueAmount, QueueState
from tessera_schema.quotas import QuotaExceeded, QuotaRestored, QuotaThrottled
from tessera_schema.reasons import Reason
from tessera_schema.subjects import DEVICES_BUCKET, HINTS_BUCKET, ROOT

DEVICE_STATE: Final = "dev.tessera.device.state"
USAGE_MEASURED: Final = "dev.tessera.usage.measured"
ALLOCATION_GRANTED: Final = "dev.tessera.allocation.granted"
ALLOCATION_PREPARED: Final = "dev.tessera.allocation.prepared"
ALLOCATION_RUNNING: Final = "dev.tessera.allocation.running"
ALLOCATION_RELEASED: Final = "dev.tessera.allocation.released"
ALLOCATION_REFUSED: Final = "dev.tessera.allocation.refused"
HINT_PUBLISHED: Final = "dev.tessera.hint.told"
QUOTA_EXCEEDED: Final = "dev.tessera.quota.exceeded"
QUOTA_THROTTLED: Final = "dev.tessera.quota.throttled"
QUOTA_RESTORED: Final = "dev.tessera.quota.restored"
PLAN_PROPOSED: Final = "dev.tessera.plan.proposed"
PLAN_STARTED: Final = "dev.tessera.plan.started"
PLAN_DONE: Final = "dev.tessera.plan.done"
PLAN_DECLINED: Final = "dev.tessera.plan.declined"
PLAN_FAILED: Final = "dev.tessera.plan.failed"
GANG_CHANGED: Final[Mapping[GangChange, str]] = {
    what: f"dev.tessera.gang.{what}" for what in GangChange
}
QUEUE_STATE: Final = "dev.tessera.queue.state"

PARAMETERS: Final[Mapping[str, str]] = {
    "cluster": "Name of the cluster, as the services' settings give it.",
    "node": "Name of the node, its dots written as `_`. The message has the name itself.",
    "vendor": "Make of the cards.",
    "namespace": "Namespace of the pod, or of the quota object.",
    "pod_uid": "The pod's uid.",
    "plan": "Name of the RebalancePlan.",
    "gang": "Name of the gang; what is neither letter, digit, `-` nor `_` is written as `_`.",
    "group": "API group of the queue's kind, its dots written as `_`.",
    "queue": "Name of the queue; what is neither letter, digit, `-` nor `_` is written as `_`.",
}

_NAMESPACE: Final = "team-a"
_UID: Final = "5c8f0a52-6a3c-4f0e-9c53-0f8ad21c6a11"
_NODE: Final = "gpu-1.example.org"
_ONE: Final = Card(
    id="GPU-0", index=0, vendor="acme", model="Acme A100", memory_bytes=80 << 30, slots=10
)
_SHARE: Final = Share(
    container="main", position=0, vendor="acme", dialect="hami", card="GPU-0", index=0,
    memory_bytes=8 << 30, cores_percent=25,
)  # fmt: skip


class EventType(Struct, frozen=True, kw_only=True):
    """One kind of message."""

    address: str
    """Subject, with parameters in braces."""
    type: str
    """The header `ce-type`."""
    by: str
    """The service that publishes it."""
    also_by: str = ""
    """Another one, which publishes it of what is its own; empty = there is none."""
    meaning: str
    when: str
    example: Struct
    """A message; its class is the schema."""
    bucket: str = ""
    """Set when it is the last value of a key that stays."""

    @property
    def publishers(self) -> str:
        """The services that publish it, for a sentence."""
        return f"{self.by} and the {self.also_by}" if self.also_by else self.by


_OVER: Final = "AcceleratorQuota gpus allows 8 cards, 10 are used"
_PLAN: Final = "defragment-1f0c9a35"
_MOVED: Final = PodOfPlan(namespace=_NAMESPACE, name="notebook-0", uid=_UID, node=_NODE)
_WAITS: Final = PodOfPlan(
    namespace="team-b", name="train-0", uid="7d1b6f43-2f5e-4a0f-8d6c-52d0f7e0a9b2"
)
_ABOUT: Final = "team-b/train-0 waits 320 s for 1 card; 1 pod moves off gpu-1.example.org"


def _plan(what: str) -> str:
    return f"{ROOT}.{{cluster}}.plan.{{plan}}.{what}"


def _gang(what: GangChange, meaning: str, when: str, bound: int, message: str) -> EventType:
    return EventType(
        address=f"{ROOT}.{{cluster}}.gang.{{namespace}}.{{gang}}.{what}", type=GANG_CHANGED[what],
        by="scheduler", meaning=meaning, when=when,
        example=GangChanged(
            what=what, gang="volcano/team-a/train", namespace=_NAMESPACE, name="train", min=8,
            members=0 if what is GangChange.ENDED else 8, bound=bound, queue="research",
            message=message,
        ),
    )  # fmt: skip


def _quota(what: str) -> str:
    return f"{ROOT}.{{cluster}}.quota.{{namespace}}.{what}"


def _allocation(what: str) -> str:
    return f"{ROOT}.{{cluster}}.allocation.{{namespace}}.{{pod_uid}}.{what}"


CATALOGUE: Final = (
    EventType(
        address=f"{ROOT}.{{cluster}}.device.{{node}}.{{vendor}}", type=DEVICE_STATE,
        by="agent", bucket=DEVICES_BUCKET,
        meaning="Full state of one vendor's cards on one node. A card that is missing is gone.",
        when="On every change, and again when the bus may have lost it.",
        example=DeviceState(node=_NODE, vendor="acme", cards=(_ONE,), driver="550.90.07"),
    ),
    EventType(
        address=_allocation("granted"), type=ALLOCATION_GRANTED, by="scheduler",
        meaning="Cards are held for a pod; the grant says which, and how much of them.",
        when="When the pod's Binding is known to be written.",
        example=AllocationGranted(
            grant=Grant(
                uid=_UID, namespace=_NAMESPACE, name="train-0", node=_NODE, shares=(_SHARE,)
            )
        ),
    ),
    EventType(
        address=_allocation("prepared"), type=ALLOCATION_PREPARED, by="agent",
        meaning="The agent has given a container its cards.",
        when="When the container is created.",
        example=AllocationPrepared(
            namespace=_NAMESPACE, uid=_UID, name="train-0", node=_NODE, container="main"
        ),
    ),
    EventType(
        address=_allocation("running"), type=ALLOCATION_RUNNING, by="agent",
        meaning="A container that holds shares has started.",
        when="When the container's process runs; again for each that an agent finds when it "
        "starts, as a message of one that was killed may be lost.",
        example=AllocationRunning(
            namespace=_NAMESPACE, uid=_UID, name="train-0", node=_NODE, container="main"
        ),
    ),
    EventType(
        address=_allocation("released"), type=ALLOCATION_RELEASED, by="scheduler",
        meaning="A pod's cards are free again.",
        when="When the pod is gone or has ended.",
        example=AllocationReleased(namespace=_NAMESPACE, uid=_UID, node=_NODE),
    ),
    EventType(
        address=_allocation("refused"), type=ALLOCATION_REFUSED, by="scheduler",
        meaning="A pod waits or was rejected. `tessera explain` has the numbers, node by node.",
        when="When the answer to a pod changes.",
        example=AllocationRefused(
            namespace=_NAMESPACE, uid=_UID, reason=Reason.CARD_INSUFFICIENT_MEMORY,
            message="0 of 3 nodes fit: 3 CardInsufficientMemory",
        ),
    ),
    EventType(
        address=f"{ROOT}.{{cluster}}.usage.{{node}}", type=USAGE_MEASURED, by="agent",
        meaning="What the containers with shares on a node use, and its cards as a whole.",
        when="Every ten seconds, and at once when something is new: a container that comes, goes "
        "or waits, much more memory, a gap.",
        example=NodeUsage(
            node=_NODE, vendor="acme", at=1_795_000_000.0, interval_s=10,
            containers=(
                ContainerUse(
                    namespace=_NAMESPACE, pod="train-0", uid=_UID, container="main",
                    cards=(
                        CardUse(
                            card="GPU-0", memory_bytes=5 << 30, memory_limit_bytes=8 << 30,
                            cores_percent=24.5, cores_limit_percent=25, launches=1200, processes=1,
                        ),
                    ),
                ),
            ),
            cards=(CardLoad(card="GPU-0", memory_used_bytes=6 << 30, cores_percent=31),),
        ),
    ),
    EventType(
        address=f"{ROOT}.{{cluster}}.hint.{{node}}", type=HINT_PUBLISHED, by="rebalancer",
        bucket=HINTS_BUCKET,
        meaning="What usage says about a node's cards, and how far agents may lend on them.",
        when="When it says something new, at most every two seconds, and every half minute.",
        example=NodeHints(
            node=_NODE, at=1_795_000_000.0,
            cards=(
                CardHint(
                    card="GPU-0", busy_percent=31, contended_percent=4, idle_cores_percent=19,
                    idle_memory_bytes=3 << 30, trend_percent=-2, confidence=1,
                ),
            ),
            bounds=(
                LendingBound(uid=_UID, container="main", card="GPU-0", most_cores_percent=100),
            ),
        ),
    ),
    EventType(
        address=_quota("exceeded"), type=QUOTA_EXCEEDED, by="quota",
        meaning="A group of pods uses more than its quota allows. Nothing is taken away yet.",
        when="When that begins.",
        example=QuotaExceeded(
            namespace=_NAMESPACE, quota="gpus", message=_OVER, namespaces=(_NAMESPACE,),
            throttles_at="2026-11-21T10:10:00Z",
        ),
    ),
    EventType(
        address=_quota("throttled"), type=QUOTA_THROTTLED, by="quota",
        meaning="The time of grace is over: running pods of these namespaces are to get this "
        "percentage of the cores that they were granted.",
        when="When grace ends, and again every minute while it is so.",
        example=QuotaThrottled(
            namespace=_NAMESPACE, quota="gpus", message=_OVER, cores_percent=50,
            namespaces=(_NAMESPACE,),
        ),
    ),
    EventType(
        address=_quota("restored"), type=QUOTA_RESTORED, by="quota",
        meaning="The group uses what it may again, or its quota is gone: full cores for all.",
        when="When that begins.",
        example=QuotaRestored(
            namespace=_NAMESPACE, quota="gpus", namespaces=(_NAMESPACE,)
        ),
    ),
    EventType(
        address=_plan("proposed"), type=PLAN_PROPOSED, by="rebalancer", also_by="scheduler",
        meaning="A change of running pods that would be worth it. Nothing is done before it is "
        "approved; plans of the scheduler need no approval.",
        when="When its RebalancePlan was created.",
        example=PlanProposed(
            plan=_PLAN, kind=PlanKind.DEFRAGMENT, message=_ABOUT, pods=(_MOVED,), for_pod=_WAITS,
            cost=480, gain=3600,
        ),
    ),
    EventType(
        address=_plan("started"), type=PLAN_STARTED, by="rebalancer", also_by="scheduler",
        meaning="The plan was approved and is being carried out.",
        when="When its first step is about to be done; by the rebalancer again after a restart.",
        example=PlanStarted(
            plan=_PLAN, kind=PlanKind.DEFRAGMENT, pods=(_MOVED,), decided_by="ada",
        ),
    ),
    EventType(
        address=_plan("done"), type=PLAN_DONE, by="rebalancer", also_by="scheduler",
        meaning="Every step of the plan was done.",
        when="When that is so.",
        example=PlanDone(
            plan="preempt-6be21d40c7", kind=PlanKind.PREEMPT, pods=(_MOVED,), cost=7080,
            for_gang="volcano/team-b/train", message="1 pod has left for gang team-b/train",
        ),
    ),
    EventType(
        address=_plan("declined"), type=PLAN_DECLINED, by="rebalancer", also_by="scheduler",
        meaning="The plan ended before anything was done: a person declined it, or what it stood "
        "on has changed.",
        when="When that is so.",
        example=PlanDeclined(
            plan=_PLAN, kind=PlanKind.DEFRAGMENT, message="team-b/train-0 no longer waits"
        ),
    ),
    EventType(
        address=_plan("failed"), type=PLAN_FAILED, by="rebalancer", also_by="scheduler",
        meaning="A step could not be done; what was begun was undone where it can be.",
        when="When that is so.",
        example=PlanFailed(
            plan=_PLAN, kind=PlanKind.DEFRAGMENT, pods=(_MOVED,),
            message="team-a/notebook-0 is not evicted: its disruption budget allows none",
        ),
    ),
    _gang(
        GangChange.WAITING, "A gang waits: too few of its pods exist, or it is not its turn, or "
        "there is no room for all that start together.",
        "When that begins, when the reason becomes another (other numbers are no other reason), "
        "and when a scheduler takes over.",
        0, "gang team-a/train waits: 6 of 8 members like train-0 fit now",
    ),
    _gang(
        GangChange.RESERVED, "Every member that starts has cards in the ledger.",
        "When that is so.", 0, "cards are reserved: 8 members may start",
    ),
    _gang(
        GangChange.MISSED, "A start was given up: a member came late, or cards were lost. It waits "
        "for its next one.",
        "When that is so.", 0, "gang team-a/train waits: 7 of 8 members arrived: time is up",
    ),
    _gang(
        GangChange.STARTED, "As many members have a node as the minimum says.",
        "When that is so.", 8, "8 members have a node, 8 needed",
    ),
    _gang(
        GangChange.BROKEN, "Some members have a node, and fewer than the minimum. The missing ones "
        "are served before all other gangs.",
        "When that is so.", 7, "7 of 8 members have a node",
    ),
    _gang(
        GangChange.ENDED, "The gang has no pods any more.", "When that is so.", 0,
        "it has no pods any more",
    ),
    EventType(
        address=f"{ROOT}.{{cluster}}.queue.{{group}}.{{queue}}.state", type=QUEUE_STATE,
        by="scheduler",
        meaning="What a queue uses, what it may use, its share, and who waits in it, in numbers.",
        when="When that changes, at most every 5 s, and again every minute.",
        example=QueueState(
            group="scheduling.volcano.sh", kind="Queue", name="research", share=0.25, within=2,
            by="cards of acme", waiting_gangs=2, waiting_pods=12, waits_since=1_795_000_000.0,
            amounts=(
                QueueAmount(
                    what="cards", vendor="acme", used=8, guarantee=2, deserved=4, cap=16
                ),
            ),
        ),
    ),
)  # fmt: skip


def sample(event: EventType) -> dict[str, Any]:
    """The values of an address's parameters in its example."""
    values = {
        "cluster": "default", "node": _NODE.replace(".", "_"), "vendor": "acme",
        "namespace": _NAMESPACE, "pod_uid": _UID, "plan": _PLAN,
        "gang": "train", "group": "scheduling_volcano_sh", "queue": "research",
    }  # fmt: skip
    return {name: value for name, value in values.items() if f"{{{name}}}" in event.address}
