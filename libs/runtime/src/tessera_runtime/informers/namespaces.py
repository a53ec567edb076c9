"""Namespaces' labels, by which quotas may select them, and by which an administrator allows what
pods that share cards may not have elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from tessera_core.admission.allowances import allowed_by
from tessera_core.ledger.ledger import Ledger
from tessera_runtime.kube import paths
from tessera_runtime.kube.reflector import ListWatch, WatchEventType
from tessera_schema.json_codec import decoder
from tessera_schema.kube import ObjectMeta


class NamespaceSummary(Struct, frozen=True):
    """A namespace: its name and labels."""

    name: str
    labels: Mapping[str, str]


class _Namespace(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


_namespace = decoder(_Namespace)


def watched() -> ListWatch[NamespaceSummary]:
    """What to list and watch."""
    return ListWatch(paths.NAMESPACES, read)


def read(raw: bytes) -> NamespaceSummary:
    """Raises msgspec.DecodeError."""
    meta = _namespace(raw).metadata
    return NamespaceSummary(meta.name, meta.labels)


class LedgerNamespaces:
    """A handler that keeps the ledger's namespaces."""

    def __init__(self, ledger: Ledger, changed: Callable[[], None]) -> None:
        """`changed` is called when labels change what is limited, or allowed."""
        self._ledger = ledger
        self._changed = changed
        self._known: dict[str, Mapping[str, str]] = {}

    def on_list(self, items: list[NamespaceSummary], started: float, now: float) -> None:
        """See `Handler.on_list`."""
        del started, now
        before, self._known = self._known, {item.name: item.labels for item in items}
        names = before.keys() | self._known.keys()
        self._notify(allowed=any(self._allows(before, name) for name in names))

    def on_event(self, change: WatchEventType, item: NamespaceSummary, now: float) -> None:
        """See `Handler.on_event`."""
        del now
        before = {item.name: self._known.get(item.name, {})}
        if change is WatchEventType.DELETED:
            self._known.pop(item.name, None)
        elif self._known.get(item.name) == item.labels:
            return
        else:
            self._known[item.name] = item.labels
        self._notify(allowed=self._allows(before, item.name))

    def _allows(self, before: Mapping[str, Mapping[str, str]], name: str) -> bool:
        """Whether the namespace allows other things than before."""
        return allowed_by(before.get(name, {})) != allowed_by(self._known.get(name, {}))

    def _notify(self, *, allowed: bool) -> None:
        if self._ledger.set_namespaces(self._known) or allowed:
            self._changed()
