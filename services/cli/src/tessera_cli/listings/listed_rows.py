"""The rows of `tessera nodes`, `cards` and `pods`: their cells, and the same as JSON."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from tessera_cli.cluster_state import documents
from tessera_cli.errors import CommandError
from tessera_cli.listings import tables
from tessera_cli.listings.tables import PodRow
from tessera_core.occupancy.occupancy import Occupancy
from tessera_core.occupancy.rows import CardRow, NodeRow, WaitingRow


class NotListed(CommandError):
    """What was named is not there."""


class ListingView(Struct, frozen=True, kw_only=True):
    """What is listed, and how."""

    what: str
    """`nodes`, `cards` or `pods`."""
    names: tuple[str, ...] = ()
    """Of nodes, or of pods; empty = all."""
    wide: bool = False
    selected: bool = False
    """Nodes were read by a selector: pods on others say nothing of those."""
    everywhere: bool = False
    """Pods of all namespaces."""


class ListedRow(Struct, frozen=True, kw_only=True):
    """A row."""

    of: NodeRow | CardRow | PodRow
    namespace: str = ""
    """Of a pod."""
    chosen_by: str
    """Name of the node or of the pod."""
    name: str
    """As `-o name` prints it."""
    cells: tuple[str, ...]


def heads(view: ListingView) -> Sequence[str]:
    """The heads of the columns."""
    match view.what:
        case "nodes":
            return tables.NODE_HEADS_WIDE if view.wide else tables.NODE_HEADS
        case "cards":
            return tables.CARD_HEADS_WIDE if view.wide else tables.CARD_HEADS
        case _:
            of_pods = tables.POD_HEADS_WIDE if view.wide else tables.POD_HEADS
            return ("NAMESPACE", *of_pods) if view.everywhere else of_pods


def rows(occupancy: Occupancy, view: ListingView) -> list[ListedRow]:
    """The rows that were asked for, as the cluster is now."""
    found: Iterable[ListedRow]
    match view.what:
        case "nodes":
            found = _nodes(_selected(occupancy, view), wide=view.wide)
        case "cards":
            found = _cards(_selected(occupancy, view), wide=view.wide)
        case _:
            found = _pods(occupancy, view)
    return [row for row in found if not view.names or row.chosen_by in view.names]


def named(view: ListingView, found: list[ListedRow]) -> list[ListedRow]:
    """The rows, if each name that was given has one. Raises NotListed."""
    known = {row.chosen_by for row in found}
    missing = next((name for name in view.names if name not in known), None)
    if missing is not None:
        what = "pods" if view.what == "pods" else "nodes"
        raise NotListed(f'{what} "{missing}" not found among those that have to do with cards')
    return found


def document(view: ListingView, found: Iterable[ListedRow]) -> dict[str, Any]:
    """All rows as one document."""
    if view.what != "pods":
        return {view.what: [row_document(row) for row in found]}
    parts: dict[str, list[dict[str, Any]]] = {"pods": [], "waiting": []}
    for row in found:
        waits = isinstance(row.of, PodRow) and row.of.waits is not None
        parts["waiting" if waits else "pods"].append(row_document(row))
    return parts


def row_document(row: ListedRow) -> dict[str, Any]:
    """One row as a document."""
    match row.of:
        case NodeRow():
            return documents.node(row.of)
        case CardRow():
            return documents.card(row.of)
        case PodRow(waits=WaitingRow() as waits):
            return documents.waiting(waits)
        case PodRow():
            return documents.pod(row.of.shares)


def _selected(occupancy: Occupancy, view: ListingView) -> list[NodeRow]:
    selected = set(occupancy.node_names()) if view.selected else None
    return [row for row in occupancy.rows() if selected is None or row.name in selected]


def _nodes(found: Iterable[NodeRow], *, wide: bool) -> Iterable[ListedRow]:
    for row in found:
        cells = tuple(tables.node_cells(row, wide=wide))
        yield ListedRow(of=row, chosen_by=row.name, name=f"node/{row.name}", cells=cells)


def _cards(found: Iterable[NodeRow], *, wide: bool) -> Iterable[ListedRow]:
    for row in (card for node in found for card in node.cards):
        cells = tuple(tables.card_cells(row, wide=wide))
        yield ListedRow(
            of=row, chosen_by=row.node, name=f"{row.node}/{row.card.index}", cells=cells
        )


def _pods(occupancy: Occupancy, view: ListingView) -> Iterable[ListedRow]:
    now_s = time.time()
    for row in tables.pod_rows(occupancy.rows(), occupancy.waiting()):
        cells = tuple(tables.pod_cells(row, now_s, wide=view.wide))
        yield ListedRow(
            of=row, namespace=row.namespace, chosen_by=row.name, name=f"pod/{row.name}",
            cells=(row.namespace, *cells) if view.everywhere else cells,
        )  # fmt: skip
