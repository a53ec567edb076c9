"""Objects of kinds that planning does not read by name: dialects read those that are named like a
node; of the rest some make pods or hold devices, and the others are not needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator

from tessera_cli.input.manifests import Item
from tessera_cli.place.decode import called, convert
from tessera_cli.place.lenient import without_nulls
from tessera_cli.place.unread_objects import holds_devices, makes_pods, unread_notice
from tessera_schema.kube import Custom


class Others:
    """Collects them, to be sorted when all nodes are known."""

    def __init__(self) -> None:
        self._items: list[tuple[str, Item]] = []
        self._skipped: Counter[str] = Counter()
        self._unread: Counter[tuple[str, str]] = Counter()

    def add(self, item: Item) -> None:
        """Take in one object."""
        meta = item.generic().get("metadata")
        cluster_wide = isinstance(meta, dict) and not meta.get("namespace")
        name = meta.get("name") if isinstance(meta, dict) and cluster_wide else ""
        self._items.append((name if isinstance(name, str) else "", item))

    def sort(self, nodes: Container[str]) -> list[Custom]:
        """Those for the dialects. `skipped` and `gaps` then say what the others are. Raises
        Malformed."""
        customs = []
        for name, item in self._items:
            raw = item.generic()
            if name in nodes:
                raw = {**without_nulls(raw), "kind": item.kind}
                customs.append(convert(raw, Custom, called(item, raw)))
            elif makes_pods(item.group, item.kind, raw):
                self._unread["pods", item.kind] += 1
            elif holds_devices(item.group, item.kind, raw):
                self._unread["devices", item.kind] += 1
            else:
                self._skipped[item.kind] += 1
        return customs

    def skipped(self) -> str:
        """Which objects were of no use; empty for none."""
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(self._skipped.items()))
        return f"skipped, not needed for planning: {kinds}" if kinds else ""

    def gaps(self) -> Iterator[str]:
        """A sentence for each kind without which the plan is incomplete."""
        for (what, kind), count in sorted(self._unread.items()):
            yield unread_notice(count, kind, what)
