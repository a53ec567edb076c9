"""What preemption follows, and what it answers."""

from __future__ import annotations

from collections.abc import Iterable

from tessera_core.ledger.ledger import Ledger
from tessera_core.registry.registry import DialectRegistry
from tessera_runtime.clock import Clock
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.reflector import ListWatch
from tessera_scheduler.cache.pod_reader import PodSummary
from tessera_scheduler.cache.reflectors import ReflectorFactory, Watch
from tessera_scheduler.gangs.nodes import GangNodes
from tessera_scheduler.gangs.scheduling import GangScheduling
from tessera_scheduler.preemption.advisor import PreemptionAdvisor
from tessera_scheduler.preemption.cluster_views import ClusterViews
from tessera_scheduler.preemption.running_pods import RunningPods
from tessera_scheduler.preemption.settings import PreemptionSettings


def open_preemption(
    settings: PreemptionSettings,
    *,
    kube: Kube,
    registry: DialectRegistry,
    ledger: Ledger,
    gangs: GangScheduling | None,
    clock: Clock,
) -> SchedulerPreemption | None:
    """Preemption as the settings have it; None where it is off."""
    if not settings.enabled:
        return None
    nodes = GangNodes(registry.resources) if gangs is None else gangs.nodes
    own = nodes if gangs is None else None
    pods = RunningPods(own)
    views = ClusterViews(ledger=ledger, pods=pods, nodes=nodes, gangs=gangs, rules=settings.rules)
    advisor = PreemptionAdvisor(kube, views, gangs, clock, search_s=settings.search_s)
    return SchedulerPreemption(pods, own, advisor)


class SchedulerPreemption:
    """Follows pods and nodes, and answers for pods that wait."""

    def __init__(
        self, pods: RunningPods, nodes: GangNodes | None, advisor: PreemptionAdvisor
    ) -> None:
        """`nodes` are followed by a watch of their own; None where gangs follow them."""
        self.pods = pods
        self.advice = advisor.advice
        self._nodes = nodes

    def watches(self, reflectors: ReflectorFactory, selector: str) -> list[Watch]:
        """A watch of the nodes that the label selector selects, where there is none yet."""
        if self._nodes is None:
            return []
        query = {"labelSelector": selector} if selector else {}
        listed = ListWatch(paths.NODES, self._nodes.read, query)
        return [reflectors.make(listed, self._nodes, "nodes of preemption")]

    def on_pod_list(self, items: Iterable[PodSummary]) -> None:
        """See `RunningPods`."""
        self.pods.on_pod_list(items)

    def on_pod(self, item: PodSummary) -> None:
        """See `RunningPods`."""
        self.pods.on_pod(item)

    def on_pod_gone(self, item: PodSummary) -> None:
        """See `RunningPods`."""
        self.pods.on_pod_gone(item)
