"""How far the variables of containers reach: a priority, or that a container gives its limit of
cores up, are variables that every author of a pod may set.

They count within the container's own namespace. An administrator lets those of a namespace count on
cards that others share by a label of the namespace. Until the API server has shown the labels, and
where they cannot be read, there are none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from tessera_agent.containers.holdings import ContainerRegistry
from tessera_core.dialect_kit.lending_terms import LendingTerms
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.reflector import ListWatch, Reflector, WatchEventType
from tessera_runtime.kube.settings import KubeSettings
from tessera_schema.annotation_keys import ACROSS_NAMESPACES_LABEL
from tessera_schema.json_codec import decoder


class _Meta(Struct, frozen=True):
    name: str = ""


class _Namespace(Struct, frozen=True):
    metadata: _Meta = _Meta()


_decode: Final = decoder(_Namespace)


class LabelledNamespaces:
    """The namespaces that carry the label; a handler for their watch."""

    def __init__(self) -> None:
        self._names: frozenset[str] = frozenset()

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def on_list(self, items: list[str], started: float, now: float) -> None:
        """Replace all names."""
        del started, now
        self._names = frozenset(items)

    def on_event(self, change: WatchEventType, item: str, now: float) -> None:
        """Add or remove one. A namespace that loses the label is deleted from this list."""
        del now
        others = self._names - {item}
        self._names = others if change is WatchEventType.DELETED else others | {item}


class NamespaceAllowances:
    """Decides where the variables of this node's containers count."""

    def __init__(self, holdings: ContainerRegistry, labelled: LabelledNamespaces) -> None:
        self._holdings = holdings
        self._labelled = labelled

    def count_elsewhere(self, namespace: str) -> bool:
        """Whether the variables of its containers count in other namespaces."""
        return namespace in self._labelled

    def unlimited_cards(
        self, namespace: str, terms: LendingTerms, cards: Iterable[str]
    ) -> frozenset[str]:
        """The cards, of these, on which a container with these terms has no limit of cores."""
        if terms.unlimited_by_operator or (terms.unlimited and self.count_elsewhere(namespace)):
            return frozenset(cards)
        if not terms.unlimited:
            return frozenset()
        sharing = self._holdings.namespaces_by_card()
        return frozenset(card for card in cards if sharing.get(card, set()) <= {namespace})


def _name(raw: bytes) -> str:
    return _decode(raw).metadata.name


def watcher(kube: Kube, labelled: LabelledNamespaces, settings: KubeSettings) -> Reflector[str]:
    """Watches the namespaces that carry the label."""
    query = {"labelSelector": f"{ACROSS_NAMESPACES_LABEL}=true"}
    return Reflector(kube, ListWatch(paths.NAMESPACES, _name, query), labelled, settings=settings)
