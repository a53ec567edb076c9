"""Begins the search of places for the members of a gang, on ledger and nodes as they are."""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import partial
from typing import Final, NamedTuple

from tessera_core.admission.admit import AdmittedPod
from tessera_core.admission.allowances import Allowed
from tessera_core.admission.cache import AdmissionCache
from tessera_core.admission.exempt_pods import ManagedPods
from tessera_core.bounded_cache import Cache
from tessera_core.dialect_kit.contract import Rejected
from tessera_core.gang_scheduling.registry import GangBundle
from tessera_core.gangs.gang import GangMember
from tessera_core.gangs.queue_usage import amounts_of
from tessera_core.gangs.queues import QueueDimension
from tessera_core.gangs.reservation import GangReservation
from tessera_core.gangs.scratch import MemberRequest
from tessera_core.ledger.ledger import Ledger
from tessera_core.quota.allowance import minimum_usage
from tessera_core.registry.registry import DialectRegistry
from tessera_core.scheduling.in_flight import InFlightPods
from tessera_core.shadows.search import SeatsLaterSearch
from tessera_scheduler.gangs.nodes import GangNodes
from tessera_schema.kube import Pod

MOST_MEMBERS: Final = 10_000
"""Members whose requests are remembered, about 1 KB each."""


class _Known(NamedTuple):
    pod: Pod
    """As a watch showed it: another object is another version."""
    allowed: Allowed
    request: MemberRequest | str


class GangPlaces:
    """Makes searches."""

    def __init__(
        self,
        registry: DialectRegistry,
        ledger: Ledger,
        nodes: GangNodes,
        in_flight: InFlightPods,
        scope: ManagedPods,
    ) -> None:
        """All are shared with the rest of the scheduler; `scope` says which schedulers' pods are
        Tessera's."""
        self.dialects = registry
        self._admissions = AdmissionCache(registry)
        self._known = Cache[_Known](MOST_MEMBERS)
        self._resources, self._keys = registry.resources, registry.request_keys
        self._ledger = ledger
        self._nodes = nodes
        self._in_flight = in_flight
        self._scope = scope

    def requests_cards(self, pod: Pod) -> bool:
        """Whether the pod asks for cards, valid or not."""
        return not self._keys.isdisjoint(pod.metadata.annotations) or any(
            not self._resources.isdisjoint(amounts)
            for container in pod.all_containers
            for amounts in (container.resources.limits, container.resources.requests)
        )

    def bar(self, pod: Pod) -> str:
        """Why Tessera does not place a pod that asks for cards; empty when it does. One without
        cards may name any scheduler."""
        name = pod.spec.scheduler_name
        if name in self._scope.schedulers or not self.requests_cards(pod):
            return ""
        return f"spec.schedulerName: {name or 'none'}: it is another scheduler's pod"

    def requested(self, pod: Pod) -> dict[QueueDimension, float]:
        """What the pod counts in queues at the least; what makes no sense counts for nothing."""
        found = self._request(pod)
        request = None if isinstance(found, str) else found.request
        return amounts_of(pod, {} if request is None else minimum_usage(request))

    def search(self, bundle: GangBundle, members: Sequence[GangMember]) -> GangReservation | str:
        """A search of places for all of these; or why they have none whatever is free."""
        requests = self.requests(members)
        if isinstance(requests, str):
            return requests
        return GangReservation(
            self._ledger, self._nodes.filters(), requests, domains=self.domains(bundle),
            withheld=partial(self._ledger.withheld_from, bundle.ids, bundle.priority),
        )  # fmt: skip

    def later(self, bundle: GangBundle, members: Sequence[GangMember]) -> SeatsLaterSearch | str:
        """A search of places that all of these get once others have ended."""
        requests = self.requests(members)
        if isinstance(requests, str):
            return requests
        return SeatsLaterSearch(
            self._ledger, self._nodes.filters(), requests, self.domains(bundle),
            self._ledger.withheld_from(bundle.ids, bundle.priority, all_gone=True),
        )  # fmt: skip

    def requests(self, members: Sequence[GangMember]) -> list[MemberRequest] | str:
        """What all of these ask for; or why one of them is not placed whatever is free."""
        requests: list[MemberRequest] = []
        for member in members:
            found = self._request(member.pod)
            if isinstance(found, str):
                return found
            requests.append(found)
        return requests

    def _request(self, pod: Pod) -> MemberRequest | str:
        """It is worked out once for each version of a pod: a gang that waits is searched for again
        and again."""
        uid, allowed = (
            pod.metadata.uid,
            self._ledger.allowed_in(pod.metadata.namespace or "default"),
        )
        known = self._known.get(uid)
        if known is not None and known.pod is pod and known.allowed == allowed:
            return known.request
        request = self._admitted(pod, allowed)
        self._known.keep(uid, _Known(pod, allowed, request), 1)
        return request

    def _admitted(self, pod: Pod, allowed: Allowed) -> MemberRequest | str:
        admission = self._admissions.admit(pod, allowed)
        if isinstance(admission, Rejected):
            return f"member {pod.name}: {admission.message}"
        request = admission.request if isinstance(admission, AdmittedPod) else None
        return MemberRequest(pod, request if request is not None and request.containers else None)

    def domains(self, bundle: GangBundle) -> list[Set[str]] | None:
        """Groups of nodes of which one has to take all. Nodes whose device plugin gives cards are
        in none: there equal pods start one after another, and members start together."""
        apart = self._in_flight.nodes()
        domain = next((each.gang.domain for each in bundle.gangs if each.gang.domain), None)
        if domain is None or not domain.required:
            return [self._nodes.names() - apart] if apart else None
        near = {m.pod.spec.node_name for each in bundle.gangs for m in each.bound}
        groups = self._nodes.domains(domain.key).values()
        return [nodes - apart for nodes in groups if not near or near & nodes]
