"""The cluster as preemption sees it, as it is now."""

from __future__ import annotations

from tessera_core.gangs.catalog import GangCatalog, read_gangs
from tessera_core.gangs.gang import GangMembers
from tessera_core.gangs.queue_usage import ClusterQueues
from tessera_core.ledger.ledger import Ledger
from tessera_core.preemption.potential_victims import PreemptionRules
from tessera_core.preemption.preemption import PreemptionView
from tessera_core.rebalance.disruption_budgets import Disruption
from tessera_core.slices import Slices
from tessera_scheduler.gangs.nodes import GangNodes
from tessera_scheduler.gangs.scheduling import GangScheduling
from tessera_scheduler.preemption.running_pods import RunningPods


class ClusterViews:
    """Puts views together."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        pods: RunningPods,
        nodes: GangNodes,
        gangs: GangScheduling | None,
        rules: PreemptionRules,
        reclaims: bool,
    ) -> None:
        """With `reclaims` queues give back what they borrow. Without `gangs` neither PodGroups nor
        queues are read: pods of gangs whose minimum is not on the pods themselves stay where they
        are, and pods are in the queues that they name."""
        self._ledger = ledger
        self._pods = pods
        self._nodes = nodes
        self._gangs = gangs
        self._rules = rules
        self._reclaims = reclaims

    def view(self, budgets: tuple[Disruption, ...]) -> Slices[PreemptionView]:
        """The cluster at the end of the last slice, with these disruption budgets."""
        catalog = yield from self._catalog()
        filters = yield from self._nodes.copied_filters()
        lending = None
        if self._gangs is not None:
            lending = self._gangs.queues.lending(self._gangs.clock.time())
        return PreemptionView(
            ledger=self._ledger.snapshot(), filters=filters, catalog=catalog, budgets=budgets,
            rules=self._rules, bound=self._pods.all(), bound_at=self._pods.changes.here(),
            queues=ClusterQueues(()) if lending is None else lending.queues,
            lending=lending if self._reclaims else None,
        )  # fmt: skip

    def _catalog(self) -> Slices[GangCatalog]:
        if self._gangs is None:
            yield
            return read_gangs(self._pods.grouped(), ())
        found: dict[str, GangMembers] = {}
        of_pod: dict[str, str] = {}
        registry = self._gangs.registry
        for gang_id in registry.populated():
            yield
            for members in registry.bundle(gang_id).gangs:
                if members.gang.id in found:
                    continue
                found[members.gang.id] = members
                pods = (each.pod for each in (*members.waiting, *members.bound))
                of_pod |= {pod.metadata.uid: members.gang.id for pod in pods}
        return GangCatalog(gangs=found, of_pod=of_pod, refused={})
