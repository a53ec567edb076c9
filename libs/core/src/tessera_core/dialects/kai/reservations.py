"""KAI's reservation pods: one for each shared card, with the whole card as its resource, so that
other schedulers leave the card alone. Its label names a group, its annotation the card's UUID.

Pods with fractions carry the group's label. So a plan reads the pods of a node together: each
fraction gets the card of its group, and a reservation pod that has fractions holds nothing itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from tessera_core.dialect_kit import Container, Node, Pod, Quantity
from tessera_core.dialects.kai.names import GROUP, GROUPS, RESERVED, KaiOptions

PLACE: Final = "#"
"""Between the UUID of a card and its place among the reserved cards of its node: where the node
does not publish UUIDs, its cards are equal, and any of them stands for it."""


def is_reservation(options: KaiOptions, pod: Pod) -> bool:
    """Whether the pod is one of KAI's that hold a shared card."""
    return pod.metadata.namespace in options.reservation_namespaces and GROUP in pod.metadata.labels


def groups_of(pod: Pod) -> tuple[str, ...]:
    """The groups of which the pod has fractions, in the order of their names."""
    labels = pod.metadata.labels
    found = {value for key, value in labels.items() if key == GROUP or key.startswith(GROUPS)}
    return tuple(sorted(found))


def with_cards_of_groups(options: KaiOptions, _node: Node, pods: Sequence[Pod]) -> Sequence[Pod]:
    """The pods of one node, those with fractions with their cards written on them."""
    reserved = {
        pod.metadata.labels[GROUP]: pod.metadata.annotations[RESERVED]
        for pod in pods
        if is_reservation(options, pod) and RESERVED in pod.metadata.annotations
    }
    if not reserved:
        return pods
    places = {card: place for place, card in enumerate(sorted(set(reserved.values())))}
    cards = {group: f"{card}{PLACE}{places[card]}" for group, card in reserved.items()}
    shared = {
        group
        for pod in pods
        if not is_reservation(options, pod) and RESERVED not in pod.metadata.annotations
        for group in groups_of(pod)
    }
    return [_read(options, pod, cards, shared) for pod in pods]


def _read(options: KaiOptions, pod: Pod, cards: Mapping[str, str], shared: set[str]) -> Pod:
    notes = pod.metadata.annotations
    if is_reservation(options, pod):
        group = pod.metadata.labels[GROUP]
        if group in shared:
            return _without_card(options, pod)
        return _with_note(pod, cards[group]) if group in cards else pod
    groups = groups_of(pod)
    if not groups or RESERVED in notes or not set(groups) <= cards.keys():
        return pod
    return _with_note(pod, ",".join(cards[group] for group in groups))


def _with_note(pod: Pod, card: str) -> Pod:
    notes = {**pod.metadata.annotations, RESERVED: card}
    return replace(pod, metadata=replace(pod.metadata, annotations=notes))


def _without_card(options: KaiOptions, pod: Pod) -> Pod:
    def amounts(written: Mapping[str, Quantity]) -> dict[str, Quantity]:
        return {name: q for name, q in written.items() if name != options.whole}

    def container(c: Container) -> Container:
        limits, requests = amounts(c.resources.limits), amounts(c.resources.requests)
        return replace(c, resources=replace(c.resources, limits=limits, requests=requests))

    notes = {key: text for key, text in pod.metadata.annotations.items() if key != RESERVED}
    return replace(
        pod,
        metadata=replace(pod.metadata, annotations=notes),
        spec=replace(pod.spec, containers=tuple(map(container, pod.spec.containers))),
    )
