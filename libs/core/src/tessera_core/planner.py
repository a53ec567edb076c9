"""Plans pods on a cluster as it stands: admission, placement, the ledger and annotations in one.

The scheduler does the same steps spread over its webhook, filter and bind; `tessera place` and
tests do them here, in memory, so that a user can see the answer before anything is installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from msgspec.structs import replace

from tessera_core.admission.admit import AdmittedPod, admit, claims_on, strip_results
from tessera_core.admission.allowances import allowed_by, without_effect
from tessera_core.admission.exempt_pods import LEFT_OUT, left_alone, left_to_others, scope_of
from tessera_core.admission.foreign_resources import foreign_resources
from tessera_core.admission.readmission import readmission
from tessera_core.dialect_kit.contract import Rejected
from tessera_core.explain.card_holders import ListedNode, listing, unpublished
from tessera_core.explain.reasons import explain, summary
from tessera_core.explain.remedies import advise, memory_unit
from tessera_core.fleet.arrays import Bools
from tessera_core.fleet.charges import init_is_over
from tessera_core.fleet.cores import percent
from tessera_core.grants.result_annotations import injections, written_annotations
from tessera_core.inventory.merge import node_cards_with_allocations
from tessera_core.inventory.node_settings import with_settings
from tessera_core.inventory.served_names import ServedNames
from tessera_core.kube.scheduler_filters import KubeSchedulerFilters
from tessera_core.ledger.entries import ObservedPod
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.placer import Placer
from tessera_core.placement.screen_cache import ScreenCache
from tessera_core.recovery.adopt import adopt
from tessera_core.recovery.cluster import Cluster
from tessera_core.recovery.estimate import estimate_shares
from tessera_core.recovery.node_statements import with_node_statements
from tessera_core.registry.registry import DialectRegistry
from tessera_core.scheduling.reserve import Unschedulable, try_reserve
from tessera_schema.grants import Grant
from tessera_schema.kube import Custom, Pod
from tessera_schema.reasons import Reason
from tessera_schema.requests import PodRequest
from tessera_schema.verdicts import PlanOutcome, UnmetReason, Verdict

Refusals = Mapping[str, tuple[Reason, str]]
"""Node -> why it is out for other reasons than cards."""

_NOTHING_WRITTEN: Final = "nothing on it says which cards it holds"


class Planner:
    """A cluster's ledger, and the pods that are planned on top of it."""

    def __init__(self, registry: DialectRegistry, cluster: Cluster) -> None:
        """Takes in nodes, limits and bound pods. `warnings` then has what did not make sense."""
        self.registry = registry
        self.ledger = Ledger()
        self._placer = Placer(self.ledger.fleet, ScreenCache())
        self.warnings = [w for d in registry.dialects.values() for w in d.warnings]
        self._kubefit = KubeSchedulerFilters(cluster.nodes, cluster.bound, registry.resources)
        self.warnings += self._kubefit.warnings
        self._explained: dict[object, tuple[UnmetReason, ...]] = {}
        self._explained_at = -1
        self._scope = scope_of(registry, left_out=LEFT_OUT)
        self._nodes = cluster.nodes
        self._limits = cluster.limits
        self._idle: tuple[Ledger, KubeSchedulerFilters] | None = None
        self._estimated: set[str] = set()
        self._served = ServedNames(registry)
        customs: dict[str, list[Custom]] = {}
        for custom in cluster.customs:
            customs.setdefault(custom.metadata.name, []).append(custom)
        for node in cluster.nodes:
            published = node_cards_with_allocations(registry, node, customs, labelled=True)
            if cluster.settings is not None:
                published = with_settings(registry, cluster.settings, node, published)
            self.warnings += published.warnings
            self.ledger.fleet.missing[node.name] = published.missing
            self.ledger.put_node(node.name, published.cards)
            self._served.put(node, published)
        self._namespaces: dict[str, Mapping[str, str]] = {
            **{_namespace(pod): {} for pod in cluster.bound},
            **cluster.namespaces,
        }
        self.warnings += [
            f"namespace {name}: {message.removeprefix('namespace ')}"
            for name, labels in cluster.namespaces.items()
            for message in without_effect(labels)
        ]
        self.ledger.set_namespaces(self._namespaces)
        self.ledger.set_limits(cluster.limits)
        self._running = running = with_node_statements(
            registry, cluster.nodes, [pod for pod in cluster.bound if not pod.terminal]
        )
        unread = [
            (pod, problem) for pod in running if (problem := self._take_over(pod)) is not None
        ]
        for pod, problem in unread:
            self._count_by_requests(pod, problem)
        self._warn_of_overgrants()

    def plan(self, pod: Pod, now_ns: int) -> PlanOutcome:
        """Plan one pod; a placed one holds its cards from then on."""
        admission = self.examine(pod)
        if isinstance(admission, PlanOutcome):
            return admission
        return self._place(pod, admission, now_ns)

    def examine(self, pod: Pod) -> AdmittedPod | PlanOutcome:
        """The pod as it is admitted, or the answer for one that is given no cards whatever is
        free."""
        if _namespace(pod) not in self._namespaces:
            self._namespaces[_namespace(pod)] = {}
            self.ledger.set_namespaces(self._namespaces)
        labels = self._namespaces[_namespace(pod)]
        left = left_alone(self.registry, self._scope, pod, labels)
        if left:
            return PlanOutcome(
                pod=pod, verdict=Verdict.IGNORED, message=left, unserved=True,
                dialects=tuple(claims_on(self.registry, pod)),
            )  # fmt: skip
        admission = self.admitted(pod)
        if admission is None:
            unserved = self._unserved(pod)
            return PlanOutcome(
                pod=pod, verdict=Verdict.IGNORED, unserved=bool(unserved),
                message=unserved or "asks for no accelerator",
            )  # fmt: skip
        if isinstance(admission, Rejected):
            why = UnmetReason(reason=admission.reason, message=admission.message)
            return PlanOutcome(
                pod=pod, verdict=Verdict.REJECTED, message=admission.message, reasons=(why,),
                dialects=tuple(claims_on(self.registry, pod)),
            )  # fmt: skip
        if not admission.request.containers:
            return _outcome(pod, admission, Verdict.IGNORED, "asks for 0 cards")
        return admission

    def left_to_others(self, pod: Pod) -> str:
        """Why Tessera does not place the pod, whatever it asks for; empty where it does."""
        labels = self._namespaces.get(_namespace(pod), {})
        return left_to_others(self._scope, pod, labels)

    @property
    def filters(self) -> KubeSchedulerFilters:
        """The nodes as kube-scheduler sees them, with what was planned so far."""
        return self._kubefit

    def idle(self) -> tuple[Ledger, KubeSchedulerFilters]:
        """The same nodes and limits, and no pod anywhere."""
        if self._idle is None:
            ledger, fleet = Ledger(), self.ledger.fleet
            for node, row in fleet.rows.items():
                ledger.put_node(node, fleet.facts[row])
            ledger.fleet.missing.update(fleet.missing)
            ledger.set_limits(self._limits)
            filters = KubeSchedulerFilters(self._nodes, (), self.registry.resources)
            self._idle = ledger, filters
        self._idle[0].set_namespaces(self._namespaces)
        return self._idle

    def listing(self) -> tuple[tuple[ListedNode, ...], tuple[str, ...]]:
        """Who holds what of each node's cards now, and warnings about nodes whose cards nobody
        publishes."""
        listed = listing(self.ledger, self._estimated)
        return listed, tuple(unpublished(self.registry, self._nodes, listed))

    def refused_again(self) -> Iterator[str]:
        """A warning for each bound pod that would be refused if it were created now."""
        yield from readmission(self.registry, self._scope, self._running, self._namespaces)

    def admitted(self, pod: Pod) -> AdmittedPod | Rejected | None:
        """The pod as admission in its namespace sees it; None where it names none of Tessera's
        resources."""
        labels = self._namespaces.get(_namespace(pod), {})
        return admit(self.registry, pod, allowed=allowed_by(labels))

    def advise(self, pod: Pod) -> str:
        """What would help a pod that waits, in a sentence; empty for one that does not, and where
        there is nothing to say."""
        admission = self.admitted(pod)
        if not isinstance(admission, AdmittedPod) or not admission.request.containers:
            return ""
        request, ledger = admission.request, self.ledger
        return advise(
            ledger.fleet, ledger.on, request, ledger.allowance(request.namespace),
            rows=self._candidates(self._kubefit.refusals(pod)),
            unit=memory_unit(self.registry.dialects, pod),
        ).sentence()  # fmt: skip

    def _unserved(self, pod: Pod) -> str:
        """What the pod asks for by names that are nobody's here; empty for nothing."""
        for name in self.registry.readers.keys() - self.registry.dialects.keys():
            if self.registry.readers[name].claim(pod).fields:
                return f"asks for accelerators in dialect {name}, which is switched off"
        return "; ".join(foreign_resources(self.registry, pod))

    # -- planning

    def _place(self, pod: Pod, admission: AdmittedPod, now_ns: int) -> PlanOutcome:
        request, fleet = admission.request, self.ledger.fleet
        refused = self._kubefit.refusals(pod)
        decided = try_reserve(
            self.ledger, self._placer, request, self._candidates(refused), now_ns / 1e9
        )
        if isinstance(decided, Unschedulable):
            warnings = (*admission.warnings, *self._unknown_ids(request))
            whys = self._explain(request, decided, refused)
            message = decided.over or summary(whys, len(fleet.rows))
            waiting = _outcome(pod, admission, Verdict.WAITING, message)
            return replace(waiting, reasons=whys, warnings=warnings)
        message = f"placed on {decided.grant.node}, of {decided.feasible} with room"
        return self.placed(pod, admission, decided.grant, message, now_ns)

    def placed(
        self, pod: Pod, admission: AdmittedPod, grant: Grant, message: str, now_ns: int
    ) -> PlanOutcome:
        """The answer for a pod whose cards the ledger holds. It counts on its node from now on."""
        fleet = self.ledger.fleet
        self._kubefit.take(pod, grant.node)
        clean, _ = strip_results(self.registry, pod)
        cards = fleet.facts[fleet.rows[grant.node]]
        written = written_annotations(self.registry, clean, grant, cards, now_ns)
        return replace(
            _outcome(pod, admission, Verdict.PLACED, message),
            node=grant.node, grant=grant,
            warnings=(
                *admission.warnings, *self._unknown_ids(admission.request),
                *self._served.lacking(grant, admission.containers),
            ),
            annotations={**admission.annotations, **written},
            injections=injections(self.registry, clean, grant, cards, now_ns),
        )  # fmt: skip

    def _candidates(self, refused: Refusals) -> Bools:
        fleet = self.ledger.fleet
        candidates = np.zeros(len(fleet.names), np.bool_)
        candidates[[row for node, row in fleet.rows.items() if node not in refused]] = True
        return candidates

    def _explain(
        self, request: PodRequest, waiting: Unschedulable, refused: Refusals
    ) -> tuple[UnmetReason, ...]:
        """Pods of one shape share their explanation while the ledger does not change."""
        if waiting.over:
            return (UnmetReason(reason=Reason.RESOURCE_QUOTA_NOT_FIT, message=waiting.over),)
        if self._explained_at != self.ledger.generation:
            self._explained, self._explained_at = {}, self.ledger.generation
        allowance = self.ledger.allowance(request.namespace)
        namespace = request.namespace if allowance.limits else ""
        shape = (namespace, request.containers, frozenset(refused.items()))
        if shape not in self._explained:
            self._explained[shape] = explain(self.ledger.fleet, waiting.units, allowance, refused)
        return self._explained[shape]

    def _unknown_ids(self, request: PodRequest) -> list[str]:
        asked = dict.fromkeys(i for c in request.containers for r in c.requests for i in r.ids)
        return [
            f"card {card} is on no node: use an id that a node publishes, or drop it from the list"
            for card in asked
            if not self.ledger.fleet.places(card)
        ]

    # -- bound pods

    def _take_over(self, pod: Pod) -> str | None:
        """Count a bound pod by what was written on it; what is missing where that cannot be
        done."""
        node = pod.spec.node_name
        row = self.ledger.fleet.rows.get(node)
        adopted = adopt(self.registry, pod, () if row is None else self.ledger.fleet.facts[row])
        if adopted.unknown_version:
            self.ledger.block_node(node, pod.metadata.uid, 0)
            self._warn(pod, f"{adopted.problem}: node {node} takes no more pods")
            return None
        if adopted.grant is not None:
            self._hold(pod, adopted.grant)
            return None
        return adopted.problem or _NOTHING_WRITTEN

    def _count_by_requests(self, pod: Pod, problem: str) -> None:
        counted = estimate_shares(self.registry, self.ledger.fleet, pod)
        if counted.closes:
            self.ledger.block_node(pod.spec.node_name, pod.metadata.uid, 0)
            self._warn(pod, f"{problem}, {counted.note}")
        elif counted.note:
            self._warn(pod, f"{problem}; {counted.note}")
        elif problem != _NOTHING_WRITTEN:
            self._warn(pod, f"{problem}; it asks for no card, so none is counted")
        if counted.grant is not None:
            self._estimated.add(pod.metadata.uid)
            self._hold(pod, counted.grant)

    def _hold(self, pod: Pod, grant: Grant) -> None:
        seen = ObservedPod(uid=pod.metadata.uid, grant=grant, init_over=init_is_over(pod))
        self.ledger.observe(seen, 0)

    def _warn_of_overgrants(self) -> None:
        fleet = self.ledger.fleet
        c = fleet.cards
        over = (
            (c.memory_used > c.memory_total)
            | (c.cores_used > c.cores_total)
            | (c.sharers > c.slots)
        )
        for row, column in np.argwhere(over):
            card, at = fleet.facts[row][column], (row, column)
            self.warnings.append(
                f"node {fleet.names[row]}: card {card.id} is granted beyond what it has: "
                f"{c.memory_used[at] >> 20} of {card.memory_mib} MiB, "
                f"{percent(c.cores_used[at]):g} of {card.cores_percent:g} %, "
                f"{c.sharers[at]} of {card.slots} slots; it takes no more pods until some leave"
            )

    def _warn(self, pod: Pod, text: str) -> None:
        self.warnings.append(f"pod {pod.name}: {text}")


def _namespace(pod: Pod) -> str:
    return pod.metadata.namespace or "default"


def _outcome(pod: Pod, admission: AdmittedPod, verdict: Verdict, message: str) -> PlanOutcome:
    return PlanOutcome(
        pod=pod, verdict=verdict, message=message, dialects=admission.dialects,
        containers=admission.containers, annotations=admission.annotations,
        warnings=admission.warnings,
    )  # fmt: skip
