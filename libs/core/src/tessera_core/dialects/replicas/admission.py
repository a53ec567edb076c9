"""Admission: replicas become equal parts of so many different cards.

The plugin spreads the replicas of one container over cards as far as they go, and lets it see each
card once. More than one replica of one card gives a container nothing, as NVIDIA's page says: here
each replica is a part of another card.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from tessera_core.dialect_kit import (
    MIB,
    SCHEDULER,
    Admitted,
    CardKey,
    Choice,
    Claim,
    ContainerChange,
    ContainerRequest,
    LabelTest,
    NodeOrder,
    Pod,
    Policy,
    Request,
    claim_by_name,
    complete_resources,
    find_amount,
    invalid_field,
    parse_amount,
    roles,
)
from tessera_core.dialects.replicas.names import (
    DIALECT,
    PRODUCT,
    SHARED_SUFFIX,
    SHARING,
    STRATEGY,
    VENDOR,
    ReplicasOptions,
)

_ON_ANY_CARD: Final = Policy(node=NodeOrder.BINPACK, cards=(CardKey.FEWEST_SHARERS,))
"""The plugin's preferred allocation is the card with the fewest replicas in use."""
_ON_SHARED_CARDS: Final = replace(
    _ON_ANY_CARD, choice=Choice.SCOPES, labels=(LabelTest(STRATEGY, "In", SHARING),)
)
"""The same among cards that are known to be shared: the others are in no parts."""
_HINT: Final = "It counts replicas: equal parts of a card."
_DEFAULT_SCHEDULERS: Final = ("", "default-scheduler", SCHEDULER)


def claim(options: ReplicasOptions, pod: Pod) -> Claim:
    """Replicas by their own name; by the name of whole cards in pods that select shared cards, and
    with `plain` in those that name no other system's scheduler."""
    fields = claim_by_name(pod, frozenset((options.shared, options.whole))).fields
    plain = options.plain and pod.spec.scheduler_name in _DEFAULT_SCHEDULERS
    insists = options.shared in fields or plain or selects_shared_cards(pod)
    return Claim(fields, insists=True) if fields and insists else Claim()


def selects_shared_cards(pod: Pod) -> bool:
    """Whether the pod's node selector names labels that only nodes of shared cards have."""
    selector = pod.spec.node_selector
    return (
        selector.get(PRODUCT, "").endswith(SHARED_SUFFIX) or selector.get(STRATEGY, "") in SHARING
    )


def admit(options: ReplicasOptions, pod: Pod) -> Admitted:
    """The pod admitted. Raises InvalidField for what can never run as meant."""
    containers: list[ContainerRequest] = []
    changes: dict[str, ContainerChange] = {}
    warnings: list[str] = []
    for position, container, role in roles(pod):
        name, count = _replicas(options, pod, position)
        if not count:
            continue
        request = Request(
            vendor=VENDOR, dialect=DIALECT, count=count, memory_unit=MIB,
            equal_parts=options.replicas,
            policy=_ON_ANY_CARD if options.replicas else _ON_SHARED_CARDS,
        )  # fmt: skip
        containers.append(
            ContainerRequest(
                container=container.name, position=position, role=role, requests=(request,)
            )
        )
        change = complete_resources(container, {name: count})
        if change is not None:
            changes[container.name] = change
        if count > 1:
            field, _ = find_amount(pod, position, name) or (name, count)
            warnings.append(
                f"{field}: {count}: a part of each of {count} different cards is given, not "
                f"{count} parts of one"
            )
    return Admitted(containers=tuple(containers), changes=changes, warnings=tuple(warnings))


def _replicas(options: ReplicasOptions, pod: Pod, position: int) -> tuple[str, int]:
    """The name that the container uses, and how many; 0 where it names neither.

    Raises InvalidField for amounts that are none, for both names, and for several replicas where
    the plugin would refuse them.
    """
    found = [
        (name, count)
        for name in (options.shared, options.whole)
        if (count := parse_amount(pod, position, name, hint=_HINT))
    ]
    if not found:
        return options.shared, 0
    name, count = found[0]
    field, written = find_amount(pod, position, name) or (name, count)
    if len(found) > 1:
        raise invalid_field(
            field, written,
            f"a container has a part of a card or whole cards: keep it, or {options.whole}.",
        )  # fmt: skip
    if count > 1 and options.fail_requests_greater_than_one:
        raise invalid_field(
            field, written,
            "more than one replica gives no more of a card: write 1, or name amounts of memory and "
            "cores.",
        )  # fmt: skip
    return name, count
