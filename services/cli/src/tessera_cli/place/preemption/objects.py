"""What `--preempt` needs in addition: priority classes, disruption budgets, and of bound pods when
they started, whose they are and how long they may take to end."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from tessera_cli.errors import Malformed
from tessera_cli.input.manifests import BAD_JSON, Item, named
from tessera_cli.place.decode import called, convert
from tessera_cli.place.lenient import without_nulls
from tessera_core.gangs.catalog import GangCatalog
from tessera_core.gangs.gang import GangMembers
from tessera_core.kube.label_selectors import BadSelector, parse_selector
from tessera_core.kube.owner_references import controller_of
from tessera_core.preemption.potential_victims import PotentialVictim
from tessera_core.rebalance.disruption_budgets import Disruption
from tessera_runtime.kube.timestamps import parse_time
from tessera_schema.annotation_keys import CHECKPOINTED_KEY
from tessera_schema.kube import ObjectMeta, OwnerRef, Pod

PRIORITY_CLASS: Final = ("scheduling.k8s.io", "PriorityClass")
BUDGET: Final = ("policy", "PodDisruptionBudget")
_SYSTEM: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
"""Classes that every cluster has."""


class _OwnedMeta(Struct, frozen=True, rename="camel"):
    owner_references: tuple[OwnerRef, ...] = ()


class _EndingSpec(Struct, frozen=True, rename="camel"):
    termination_grace_period_seconds: float = 30


class _Facts(Struct, frozen=True):
    metadata: _OwnedMeta = _OwnedMeta()
    spec: _EndingSpec = _EndingSpec()


class _PriorityClass(Struct, frozen=True, rename="camel"):
    metadata: ObjectMeta
    value: int
    global_default: bool = False
    preemption_policy: str = ""


class _BudgetSpec(Struct, frozen=True):
    selector: dict[str, Any] | None = None


class _BudgetStatus(Struct, frozen=True, rename="camel"):
    disruptions_allowed: int | None = None


class _Budget(Struct, frozen=True):
    metadata: ObjectMeta
    spec: _BudgetSpec = _BudgetSpec()
    status: _BudgetStatus = _BudgetStatus()


_decode_facts: Final = msgspec.json.Decoder(_Facts).decode


class PreemptionObjects:
    """Collects them."""

    def __init__(self) -> None:
        self.budgets: list[Disruption] = []
        self._classes: dict[str, _PriorityClass] = {}
        self._default: _PriorityClass | None = None
        self._facts: dict[str, _Facts] = {}

    def add_class(self, item: Item) -> None:
        """Take in a PriorityClass. Raises Malformed."""
        raw = without_nulls(item.generic())
        found = convert(raw, _PriorityClass, called(item, raw))
        self._classes[found.metadata.name] = found
        if found.global_default:
            self._default = found

    def add_budget(self, item: Item) -> None:
        """Take in a PodDisruptionBudget; one that no cluster has counted yet lets no pod go. Raises
        Malformed."""
        raw = without_nulls(item.generic())
        where = called(item, raw)
        found = convert(raw, _Budget, where)
        if found.spec.selector is None:  # guards no pod
            return
        try:
            selector = parse_selector(found.spec.selector)
        except BadSelector as e:
            value = named(found.spec.selector)
            raise Malformed(where, "spec.selector", value, str(e)) from e
        self.budgets.append(
            Disruption(
                namespace=found.metadata.namespace or "default", name=found.metadata.name,
                selector=selector, allowed=found.status.disruptions_allowed or 0,
            )
        )  # fmt: skip

    def add_bound(self, pod: Pod, item: Item) -> None:
        """Take in what a bound pod's manifest says of its life; one of an odd form says nothing."""
        content = item.content
        try:
            self._facts[pod.metadata.uid] = (
                _decode_facts(content)
                if isinstance(content, Raw)
                else msgspec.convert(without_nulls(content), _Facts)
            )
        except BAD_JSON:
            return

    # -- what they say

    def with_priority(self, pod: Pod) -> Pod:
        """The pod as the API server would complete it by its priority class."""
        spec = pod.spec
        found = self._classes.get(spec.priority_class_name)
        if not spec.priority_class_name:
            found = self._default
        elif found is None and spec.priority_class_name in _SYSTEM:
            meta = ObjectMeta(name=spec.priority_class_name)
            found = _PriorityClass(meta, _SYSTEM[spec.priority_class_name])
        if found is None:
            return pod
        spec = replace(
            spec, priority=found.value if spec.priority is None else spec.priority,
            preemption_policy=spec.preemption_policy or found.preemption_policy or None,
        )  # fmt: skip
        return replace(pod, spec=spec)

    def unknown_class(self, pod: Pod) -> str:
        """What is to be said of a pod whose priority is in no object that was read; empty for
        nothing."""
        name = pod.spec.priority_class_name
        if pod.spec.priority is not None or not name or name in {*self._classes, *_SYSTEM}:
            return ""
        return (
            f"spec.priorityClassName: {name}: no PriorityClass of this name was read, so its "
            "priority counts as 0: show it too (kubectl get priorityclasses -o json)"
        )

    def with_priorities(self, catalog: GangCatalog) -> GangCatalog:
        """The gangs with the priorities that their classes and those of their pods mean."""
        gangs = {key: self._prioritized(members) for key, members in catalog.gangs.items()}
        return replace(catalog, gangs=gangs)

    def victim(self, pod: Pod) -> PotentialVictim:
        """A bound pod as preemption sees it."""
        facts = self._facts.get(pod.metadata.uid, _Facts())
        owner = controller_of(facts.metadata.owner_references)
        created = parse_time(pod.metadata.creation_timestamp)
        return PotentialVictim(
            pod=self.with_priority(pod),
            since=parse_time(pod.status.start_time) or created or 0,
            owner_kind=owner.kind if owner else "",
            grace_s=facts.spec.termination_grace_period_seconds,
            checkpointed_at=parse_time(pod.metadata.annotations.get(CHECKPOINTED_KEY)),
        )

    def _prioritized(self, members: GangMembers) -> GangMembers:
        gang = members.gang
        of_gang = self._classes.get(gang.priority_class)
        if gang.priority is None and of_gang is not None:
            gang = replace(gang, priority=of_gang.value)
        waiting, bound = (
            tuple(replace(each, pod=self.with_priority(each.pod)) for each in pods)
            for pods in (members.waiting, members.bound)
        )
        return replace(members, gang=gang, waiting=waiting, bound=bound)
