"""Admission: from what containers write to canonical requests.

Koordinator adds up the containers of a pod, gives the cards to the pod, and lets every container
see all of them. Here each container that asks gets its own cards, with its own limits; the
result annotation has what the sum would have had, one entry per card. Two things are kept from
the sum: its rule of which names go together, and that a pod whose containers never use two cards
at once lives on one card.
"""

from __future__ import annotations

from collections.abc import Mapping

from tessera_core.dialect_kit import (
    Admitted,
    BadQuantity,
    CardKey,
    Choice,
    Claim,
    Container,
    ContainerChange,
    ContainerRequest,
    InvalidField,
    NodeOrder,
    Pod,
    Policy,
    Quantity,
    Rejected,
    Request,
    Role,
    claim_by_name,
    invalid_field,
    quantity_value,
    roles,
)
from tessera_core.dialects.koordinator.amounts import Ask, read
from tessera_core.dialects.koordinator.combinations import (
    VALID,
    PerCard,
    check,
    completed,
    per_card,
)
from tessera_core.dialects.koordinator.hints import CardDemands, card_demands
from tessera_core.dialects.koordinator.names import (
    DEPRECATED,
    DIALECT,
    ISOLATION_HAMI,
    ISOLATION_LABEL,
    UNPLACED,
    VENDOR,
    KoordinatorOptions,
    ResourceKind,
    isolated,
)


def claim(options: KoordinatorOptions, pod: Pod) -> Claim:
    """Koordinator's own names, and whole cards in pods that are Koordinator's by another sign:
    one of those names, the scheduler, or the isolation label."""
    own = frozenset((*options.names.values(), *DEPRECATED.values())) - {options.resource_whole}
    fields = claim_by_name(pod, own | {options.resource_whole}).fields
    insists = (
        any(name in own for name in fields)
        or pod.spec.scheduler_name == options.scheduler_name
        or ISOLATION_LABEL in pod.metadata.labels
    )
    return Claim(fields, insists=True) if fields and insists else Claim()


def admit(options: KoordinatorOptions, pod: Pod) -> Admitted | Rejected:
    """Requests per card of every container that asks, and the containers as Koordinator's
    webhook leaves them."""
    names = options.names
    asks: dict[int, Ask] = {}
    try:
        for position, _, _ in roles(pod):
            ask = read(pod, position, names)
            if ask:
                check(ask)
                asks[position] = completed(ask, names)
                check(asks[position])
        _check_together(asks)
        others = claim_by_name(pod, UNPLACED).fields
        wished = (
            card_demands(pod.metadata.annotations, others=bool(others)) if asks else CardDemands()
        )
    except InvalidField as e:
        return e.rejected
    return Admitted(
        containers=_requests(options, pod, {i: per_card(ask) for i, ask in asks.items()}, wished),
        changes={
            container.name: change
            for position, container, _ in roles(pod)
            if position in asks and (change := _change(container, asks[position], names))
        },
        warnings=(*wished.warnings, *_warnings(pod)) if asks else (),
    )


def _check_together(asks: Mapping[int, Ask]) -> None:
    """The scheduler's rule holds for all names of a pod, whichever container writes them."""
    seen: dict[ResourceKind, str] = {}
    for ask in asks.values():
        if frozenset((*seen, *ask)) not in VALID:
            odd = next(w for kind, w in ask.items() if kind not in seen)
            names = ", ".join(sorted(set(seen.values())))
            remedy = (
                "goes with no other container of this pod, which ask for "
                f"{names}; ask in the same way in all of them."
            )
            raise invalid_field(odd.field, odd.text, remedy)
        seen |= {kind: w.name for kind, w in ask.items()}


def _requests(
    options: KoordinatorOptions, pod: Pod, wanted: Mapping[int, PerCard], wished: CardDemands
) -> tuple[ContainerRequest, ...]:
    asking = [(i, c, role) for i, c, role in roles(pod) if i in wanted]
    together = len(asking) > 1 and _peak([(role, wanted[i].count) for i, _, role in asking]) == 1
    most = options.scoring_strategy == "MostAllocated"
    policy = Policy(
        node=NodeOrder.MOST_ALLOCATED if most else NodeOrder.LEAST_ALLOCATED,
        cards=(CardKey.MOST_ALLOCATED if most else CardKey.LEAST_ALLOCATED,),
        choice=Choice.SCOPES,
        scope=wished.scope,
        grouping=wished.grouping,
        labels=wished.labels,
    )
    return tuple(
        ContainerRequest(
            container=container.name,
            position=position,
            role=role,
            requests=(_request(wanted[position], policy, together=together),),
        )
        for position, container, role in asking
    )


def _request(wanted: PerCard, policy: Policy, *, together: bool) -> Request:
    return Request(
        vendor=VENDOR,
        dialect=DIALECT,
        count=wanted.count,
        memory_bytes=wanted.memory_bytes,
        memory_percent=wanted.memory_percent,
        memory_unit=1,
        cores_percent=wanted.cores_percent,
        exclusive=wanted.exclusive,
        needs_free_cores=False,
        together=together,
        policy=policy,
    )


def _peak(counts: list[tuple[Role, int]]) -> int:
    """The most cards that the pod's containers use at one time, in Kubernetes' way of adding."""
    running = highest = 0
    for role, count in counts:
        highest = max(highest, running + count)
        if role is not Role.INIT:
            running += count
    return highest


def _change(
    container: Container, ask: Ask, names: Mapping[ResourceKind, str]
) -> ContainerChange | None:
    resources = container.resources
    after = {w.name: w.text for w in ask.values()}
    limits, requests = (
        {name: text for name, text in after.items() if _differs(amounts.get(name), text)}
        for amounts in (resources.limits, resources.requests)
    )
    old = {s for kind, s in DEPRECATED.items()} | {names[ResourceKind.GPU]}
    removed = frozenset(old & {*resources.limits, *resources.requests})
    if not (limits or requests or removed):
        return None
    return ContainerChange(limits=limits, requests=requests, removed=removed)


def _differs(written: Quantity | None, text: str) -> bool:
    try:
        return written is None or quantity_value(written) != quantity_value(text)
    except BadQuantity:
        return True


def _warnings(pod: Pod) -> tuple[str, ...]:
    labels = pod.metadata.labels
    warnings = [
        f"{field} is not placed here: another scheduler or device plugin must give it"
        for field in claim_by_name(pod, UNPLACED).fields.values()
    ]
    if ISOLATION_LABEL in labels and not isolated(labels):
        warnings.append(
            f"metadata.labels[{ISOLATION_LABEL}]: {labels[ISOLATION_LABEL]} is unknown; "
            f"the known provider is {ISOLATION_HAMI}"
        )
    return tuple(warnings)
