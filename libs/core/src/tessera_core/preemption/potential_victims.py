"""Which bound pods may be evicted for another one at all, and what is lost with each.

What depends on the pod that needs room (its priority, its queue) is in
`tessera_core.preemption.victim_units`.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from tessera_core.gangs.catalog import QUEUE_FIELDS
from tessera_core.gangs.durations import seconds_of
from tessera_core.rebalance.movable_pods import checkpoint_s
from tessera_schema.annotation_keys import CHECKPOINT_KEY, PREEMPTIBLE_KEY
from tessera_schema.kube import Pod

SYSTEM_PRIORITY: Final = 2_000_000_000
"""From here on a priority is Kubernetes' own: `system-cluster-critical` and above."""
_OF_THEIR_NODE: Final = ("DaemonSet", "Node")
_MIRROR: Final = "kubernetes.io/config.mirror"
_VOLCANO: Final = "volcano.sh/preemptable"
_COOLDOWN: Final = "volcano.sh/cooldown-time"
_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")
"""As Volcano reads it: all else is false."""
_KOORDINATOR: Final = (
    ("quota.scheduling.koordinator.sh/preemptible", "false"),
    ("scheduling.koordinator.sh/disable-preemptible", "true"),
)
"""Label and value that protect a pod."""


VICTIM_ANNOTATIONS: Final = (
    PREEMPTIBLE_KEY, CHECKPOINT_KEY, _MIRROR, _VOLCANO, _COOLDOWN,
    *(key for where, key in QUEUE_FIELDS if where == "annotations"),
)  # fmt: skip
"""All that counts here of a pod that names no gang, but for the time of its last checkpoint."""


class PreemptionRules(Struct, frozen=True, kw_only=True):
    """What protects pods, and what an eviction is thought to cost."""

    protect_s: float = 60.0
    """Seconds after its start in which a pod is no victim."""
    start_s: float = 60.0
    """Seconds that an evicted pod is thought to need until it works again."""
    most_grace_s: float = 300.0
    """Seconds that a victim may take to end; one that takes longer goes only where no other
    helps."""
    spared: tuple[str, ...] = ("kube-system", "tessera-system")
    """Namespaces whose pods are never victims."""


class PotentialVictim(Struct, frozen=True, kw_only=True, gc=False):
    """A bound pod, with or without cards, and what its object says of its life."""

    pod: Pod
    since: float = 0
    """Unix time at which its node took it."""
    owner_kind: str = ""
    """Kind of its controller; empty = nobody would make it again."""
    owner: str = ""
    """Its controller's uid."""
    grace_s: float = 30
    """Seconds that it may take to end."""
    checkpointed_at: float | None = None
    """Unix time of its last checkpoint; None = its owner does not say."""
    leaving: bool = False
    """It is being evicted by a plan."""

    @property
    def uid(self) -> str:
        """The pod's."""
        return self.pod.metadata.uid

    @property
    def ending(self) -> bool:
        """Whether it is being deleted, or will be: what it holds comes free without an eviction."""
        return self.leaving or self.pod.metadata.deletion_timestamp is not None


def protected(victim: PotentialVictim, rules: PreemptionRules, now: float) -> str:
    """Why nobody may be given the pod's cards by evicting it, as what follows a number of pods: "3
    without a controller"; empty when somebody may."""
    said = victim.pod.metadata.annotations.get(PREEMPTIBLE_KEY, "").strip().lower()
    age_s = now - victim.since
    reasons = (
        (not victim.owner_kind and said != "true", "without a controller"),
        (age_s < rules.protect_s, f"running for less than {rules.protect_s:g} s"),
        (age_s < settled_s(victim, rules), f"running for less than {_COOLDOWN} says"),
    )
    return never_evicted(victim, rules) or next((text for holds, text in reasons if holds), "")


def settled_s(victim: PotentialVictim, rules: PreemptionRules) -> float:
    """Seconds after its start in which the pod is no victim."""
    meta = victim.pod.metadata
    cooldown = meta.annotations.get(_COOLDOWN, meta.labels.get(_COOLDOWN, ""))
    return max(rules.protect_s, seconds_of(cooldown) or 0)


def never_evicted(victim: PotentialVictim, rules: PreemptionRules) -> str:
    """Why the pod may go for nobody, whatever is short, in the same words; empty when it may."""
    pod = victim.pod
    meta, said = pod.metadata, pod.metadata.annotations.get(PREEMPTIBLE_KEY, "").strip().lower()
    volcano = meta.annotations.get(_VOLCANO, meta.labels.get(_VOLCANO, "true"))
    reasons = (
        ((meta.namespace or "default") in rules.spared, "of a namespace that is left alone"),
        ((pod.spec.priority or 0) >= SYSTEM_PRIORITY, "of a priority of the system"),
        (victim.owner_kind in _OF_THEIR_NODE, "owned by a node"),
        (_MIRROR in meta.annotations, "owned by a node"),
        (said == "false", f"whose owner forbids it ({PREEMPTIBLE_KEY})"),
        (volcano not in _TRUE, f"whose owner forbids it ({_VOLCANO})"),
        *((meta.labels.get(key) == value, f"whose owner forbids it ({key})")
          for key, value in _KOORDINATOR),
    )  # fmt: skip
    return next((text for holds, text in reasons if holds), "")


def lost_s(victim: PotentialVictim, rules: PreemptionRules, now: float) -> float:
    """Seconds of the pod's work that its eviction is thought to lose: those since its last
    checkpoint, or on average half of those between two, or all since its start; and a start."""
    age_s = max(now - victim.since, 0)
    every_s = checkpoint_s(victim.pod)
    if victim.checkpointed_at is not None:
        work_s = min(max(now - victim.checkpointed_at, 0), age_s)
    else:
        work_s = age_s if every_s is None else min(age_s, every_s / 2)
    return rules.start_s + work_s
