"""The scheduling gate of Tessera: which new pods get it, and what shows that a pod has it.

kube-scheduler makes no attempt for a pod with a gate. A gate can be given at creation only, and
cannot be closed again. Whether a gang starts whole does not depend on it: a pod without a gate
waits in filter.
"""

from __future__ import annotations

from enum import StrEnum

from tessera_core.gangs.catalog import queue_named
from tessera_core.gangs.group_names import ADMISSION_GATE, NamedGroup, named_group
from tessera_schema.kube import Pod


class GatedPods(StrEnum):
    """Which new pods get the gate."""

    GANGS_AND_QUEUES = "gangs+queues"
    """Those that name a gang or a queue."""
    GANGS = "gangs"
    """Those that name a gang."""
    WHILE_OTHERS_WAIT = "while-others-wait"
    """Those that name a gang or a queue, as long as a gang or a pod waits for room or for its
    turn; of the others those without cards, which nobody else holds back."""
    NONE = "none"


def names_gang(pod: Pod) -> bool:
    """Whether the pod names one gang."""
    return isinstance(named_group(pod), NamedGroup)


def gets_gate(pod: Pod, gated: GatedPods) -> bool:
    """Whether a new pod, which Tessera is to place, gets the gate where others wait. One that has a
    node already, or names two gangs, does not."""
    if gated is GatedPods.NONE or pod.spec.node_name:
        return False
    group = named_group(pod)
    if group is not None:
        return isinstance(group, NamedGroup)
    return gated is not GatedPods.GANGS and bool(queue_named(pod)[0])


def is_gated(pod: Pod) -> bool:
    """Whether the pod has the gate and can be given a node."""
    return not pod.spec.node_name and any(
        gate.name == ADMISSION_GATE for gate in pod.spec.scheduling_gates
    )
