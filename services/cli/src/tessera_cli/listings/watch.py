"""Lists that go on: first all rows, then each row that has changed, as `kubectl get -w` does.

Rows are compared once a second, so a change that is taken back within it is not seen.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NoReturn

from msgspec.structs import replace

from tessera_cli import forms
from tessera_cli.cluster_state import documents
from tessera_cli.cluster_state.card_source import CardSource, following
from tessera_cli.listings import columns, listed_rows
from tessera_cli.listings.listed_rows import ListedRow, ListingView
from tessera_cli.screen import console
from tessera_cli.settings import registry
from tessera_cli.text import print_notice
from tessera_runtime.informers.cluster_feed import ClusterFeed

TICK_S: Final = 1.0
_UNSTEADY: Final = frozenset({"AGE"})
"""Columns that change though nothing happened."""
_STATUS: Final = "STATUS"
DELETED: Final = "Deleted"
"""Status of a row that is gone."""


class RowChanges:
    """What has changed between one list and the next."""

    def __init__(self, heads: Sequence[str]) -> None:
        """Nothing was listed yet."""
        self._status = heads.index(_STATUS)
        self._steady = [i for i, head in enumerate(heads) if head not in _UNSTEADY]
        self._known: dict[tuple[str, str], ListedRow] = {}

    def take(self, rows: Iterable[ListedRow]) -> list[ListedRow]:
        """Rows that are new or have other cells, then those that are gone, their status Deleted."""
        now = {(row.namespace, row.name): row for row in rows}
        changed = [row for key, row in now.items() if self._differs(self._known.get(key), row)]
        gone = [self._deleted(row) for key, row in self._known.items() if key not in now]
        self._known = now
        return changed + gone

    def _differs(self, before: ListedRow | None, row: ListedRow) -> bool:
        return before is None or any(before.cells[i] != row.cells[i] for i in self._steady)

    def _deleted(self, row: ListedRow) -> ListedRow:
        cells = (*row.cells[: self._status], DELETED, *row.cells[self._status + 1 :])
        return replace(row, cells=cells)


async def watch(source: CardSource, view: ListingView, options: argparse.Namespace) -> NoReturn:
    """Print rows for ever. Raises as `following` does, and NotListed for a name without a row."""
    feed, loop = ClusterFeed(registry(None)), asyncio.get_running_loop()
    heads = listed_rows.heads(view)
    changes, put = RowChanges(heads), _printer(options, heads)
    first = feed.occupancy.node_names if source.bus is None else tuple
    async with following(source, feed, first):
        if source.bus is not None:
            from tessera_cli.cluster_state import bus_reader

            await bus_reader.until_reported(feed, source.wait_s)
        for notice in feed.notices:
            print_notice(notice)
        put(changes.take(listed_rows.named(view, listed_rows.rows(feed.occupancy, view))))
        while True:
            await asyncio.sleep(TICK_S)
            feed.occupancy.expire(loop.time())
            put(changes.take(listed_rows.rows(feed.occupancy, view)))


def _printer(
    options: argparse.Namespace, heads: Sequence[str]
) -> Callable[[Sequence[ListedRow]], None]:
    """Prints rows in the form that was asked for: lines of a table, JSON a document a line, YAML
    documents, or names."""
    screen = console(sized=False, headers=not options.no_headers)
    table, status = columns.GrowingTable(heads), heads.index(_STATUS)

    def put(rows: Sequence[ListedRow]) -> None:
        match options.output:
            case forms.JSON | forms.YAML as form:
                for row in rows:
                    gone = {"deleted": True} if row.cells[status] == DELETED else {}
                    sys.stdout.write("---\n" if form == forms.YAML else "")
                    sys.stdout.flush()
                    forms.put_document(
                        form, documents.encoded(listed_rows.row_document(row) | gone)
                    )
            case forms.NAME:
                sys.stdout.writelines(f"{row.name}\n" for row in rows)
            case _:
                table.print_rows(screen, [row.cells for row in rows])
        sys.stdout.flush()

    return put
