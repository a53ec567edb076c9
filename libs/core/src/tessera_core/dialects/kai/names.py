"""KAI's words, and what may be configured."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

DIALECT: Final = "kai"
VENDOR: Final = "nvidia"
WHOLE: Final = 100
"""Percent."""

FRACTION: Final = "gpu-fraction"
"""Annotation: part of a card's memory, above 0 and below 1."""
MEMORY: Final = "gpu-memory"
"""Annotation: MiB of a card."""
DEVICES: Final = "gpu-fraction-num-devices"
"""Annotation: of how many cards."""
CONTAINER: Final = "gpu-fraction-container-name"
"""Annotation: the container that has the fraction."""
MPS: Final = "mps"
"""Annotation: `true` for pods that use an MPS server of the node."""
CHOICES: Final = frozenset((FRACTION, MEMORY, DEVICES, CONTAINER))

QUEUE_LABELS: Final = ("kai.scheduler/queue", "runai/queue")
"""Labels that name the pod's queue; the second before KAI v0.6.0, and in Run:ai."""
GROUP: Final = "runai-gpu-group"
"""Label of a reservation pod and of the pods with fractions of its card."""
GROUPS: Final = f"{GROUP}/"
"""Begins the labels of a pod with fractions of several cards; the group follows, and is the
value."""
RESERVED: Final = "run.ai/reserve_for_gpu_index"
"""Result: the UUID of the card. KAI writes it on the reservation pod; here it is on the pods that
have the shares, and names all their cards."""
RECEIVED: Final = "received-resource-type"
"""Result: `Fraction` or `Regular`."""
RESULT_KEYS: Final = (RESERVED, RECEIVED)


class KaiOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """Names of schedulers, resources and namespaces."""

    scheduler_names: tuple[str, ...] = ("kai-scheduler", "runai-scheduler")
    """Pods with one of these as their schedulerName are KAI's."""
    whole: str = "nvidia.com/gpu"
    """Resource: whole cards. Read here only in KAI's pods."""
    shares: str = "tessera.dev/gpu-fraction"
    """Resource that admission gives a container with a fraction, 1 for each card: KAI's own pods
    name no resource, and kube-scheduler asks Tessera only about pods that do. No author writes
    it."""
    reservation_namespaces: tuple[str, ...] = ("kai-resource-reservation", "runai-reservation")
    """Where the pods are that hold the shared cards; the second before KAI v0.6.0, and in
    Run:ai."""
    preemptible_is_best_effort: bool = False
    """Pods that KAI may preempt, by their label `kai.scheduler/preemptibility` or else by a
    priority below 100, and that name no class of Tessera's are best-effort: no cores are granted to
    them. Off, since most of KAI's training pods are preemptible, and run at full speed."""

    def __post_init__(self) -> None:
        """Raise ValueError for names that are empty or mean two things."""
        if not self.scheduler_names or "" in self.scheduler_names:
            raise ValueError("scheduler_names: name at least one, or switch the dialect off")
        if not self.whole or not self.shares:
            raise ValueError("whole and shares need a name each")
        if self.whole == self.shares:
            raise ValueError(f"resource {self.whole} is configured twice: rename one of them")
