"""Which pods may be moved, and what it costs.

A pod is moved by evicting it: its controller makes another one, which is placed like any new pod.
So a pod is left alone when nobody would make another, when something that is not seen here may
bind it to its node, or when its owner says so. What its containers did since their last checkpoint
is lost.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from tessera_core.admission.pod_groups import group_of
from tessera_schema.annotation_keys import CHECKPOINT_KEY, REBALANCE_KEY
from tessera_schema.grants import Grant
from tessera_schema.kube import Pod
from tessera_schema.plans import PodOfPlan
from tessera_schema.requests import PodRequest

_NODES: Final = ("DaemonSet", "Node")
"""Controllers whose pods belong to their node."""
_ONCE: Final = ("Job",)
"""Controllers that give up after some ends of their pods: an eviction may be the last."""


class MoveRules(Struct, frozen=True, kw_only=True):
    """What protects pods."""

    least_age_s: float = 1800.0
    """Seconds that a pod must have run: who has just started is about to do its work."""
    cool_down_s: float = 14_400.0
    """Seconds for which the pods of a controller are left alone after one of them was moved."""
    start_s: float = 60.0
    """Seconds that a pod is thought to need until it works again elsewhere."""
    most_grace_s: float = 300.0
    """Seconds that a pod may ask for to end; room is not kept for ever for who takes longer."""
    local_storage: bool = False
    """Also pods with files on their node (emptyDir); they lose them."""
    spared: tuple[str, ...] = ("kube-system",)
    """Namespaces whose pods are never moved or resized."""


class RunningPod(Struct, frozen=True, kw_only=True, gc=False):
    """A pod that holds cards."""

    pod: Pod
    request: PodRequest
    grant: Grant
    since: float
    """Unix time at which its node took it."""
    parts: float
    """Cards held, parts counting by the larger of their memory and their cores."""
    owner: str = ""
    """Uid of its controller."""
    owner_kind: str = ""
    local: bool = False
    """It keeps files on its node."""
    grace_s: float = 30.0
    """Seconds that it may take to end."""
    tied: str = ""
    """What may bind it to its node in a way that is not looked at here."""

    @property
    def uid(self) -> str:
        """The pod's."""
        return self.pod.metadata.uid

    @property
    def priority(self) -> int:
        """The pod's."""
        return self.pod.spec.priority or 0

    @property
    def named(self) -> PodOfPlan:
        """As plans name it."""
        meta = self.pod.metadata
        return PodOfPlan(
            namespace=meta.namespace or "default", name=meta.name, uid=meta.uid,
            node=self.grant.node, owner=self.owner,
        )  # fmt: skip


def move_hint(pod: Pod) -> str:
    """What its owner says about changes of the pod: "true", "false", or empty."""
    value = pod.metadata.annotations.get(REBALANCE_KEY, "").strip().lower()
    return value if value in ("true", "false") else ("false" if value else "")


def untouchable(running: RunningPod, rules: MoveRules) -> str:
    """Why the pod is never moved; empty when it may be."""
    said, owner = move_hint(running.pod), running.owner_kind
    never = spared(running, rules) or _never(running, rules)
    if never or said == "true":
        return never
    unless = f"({REBALANCE_KEY}: true moves it)"
    reasons = (
        (not running.owner, f"nobody would make it again, it has no controller {unless}"),
        (running.local and not rules.local_storage, f"it has files on its node {unless}"),
        (owner in _ONCE, f"its {owner} may count it as a failure {unless}"),
    )
    return next((text for holds, text in reasons if holds), "")


def spared(running: RunningPod, rules: MoveRules) -> str:
    """Why plans of every kind leave the pod alone; empty when they need not."""
    namespace = running.named.namespace
    if move_hint(running.pod) == "false":
        return f"its owner does not want it ({REBALANCE_KEY})"
    return f"pods in namespace {namespace} are left alone" if namespace in rules.spared else ""


def _never(running: RunningPod, rules: MoveRules) -> str:
    """What no wish of the owner changes."""
    pod, group = running.pod, group_of(running.pod)
    reasons = (
        (running.owner_kind in _NODES, f"it belongs to its node, by its {running.owner_kind}"),
        (bool(pod.metadata.deletion_timestamp), "it is being deleted"),
        (bool(group), f"it is one of the group {group}, which may stop without it"),
        (
            running.grace_s > rules.most_grace_s,
            f"it may take {running.grace_s:g} s to end, {rules.most_grace_s:g} at most are waited",
        ),
        (bool(running.tied), f"it may not fit elsewhere: {running.tied}"),
    )
    return next((text for holds, text in reasons if holds), "")


def not_now(running: RunningPod, rules: MoveRules, cooling: float, now: float) -> str:
    """Why the pod is not moved just now; `cooling` is until when its controller is left alone."""
    age_s = now - running.since
    if age_s < rules.least_age_s:
        return f"it has run for {age_s:.0f} of {rules.least_age_s:.0f} s"
    if cooling > now:
        return f"a pod of its controller was moved; it is left alone for {cooling - now:.0f} s"
    return ""


def cost(running: RunningPod, rules: MoveRules, now: float) -> float:
    """Card-seconds that moving the pod is thought to lose: its start, and its work since the last
    checkpoint, on average half of the time between two."""
    age_s = max(now - running.since, 0)
    every_s = checkpoint_s(running.pod)
    lost_s = age_s if every_s is None else min(age_s, every_s / 2)
    return running.parts * (rules.start_s + lost_s)


def checkpoint_s(pod: Pod) -> float | None:
    """Seconds between two checkpoints as the owner says; None where it says nothing that makes
    sense."""
    text = pod.metadata.annotations.get(CHECKPOINT_KEY)
    try:
        seconds = float(text) if text is not None else -1.0
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None
