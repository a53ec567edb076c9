"""`tessera ps`: the shares of this machine, as a table or a document, once or as they change."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NoReturn

import msgspec
from msgspec import Struct

from tessera_cli import forms
from tessera_cli.listings.columns import GrowingTable, print_columns
from tessera_cli.local_run.client import shares_of
from tessera_cli.screen import console
from tessera_schema.local_shares import LocalShare, LocalWaiting, SharesListed

_HEADS: Final = (
    "NAME", "USER", "PID", "STATUS", "CARD", "MEMORY", "USED", "CORES", "AGE", "COMMAND",
)  # fmt: skip
_UNSTEADY: Final = "AGE"
"""A column that changes though nothing happened."""
_RUNNING, _RESERVED, _WAITING, _ENDED = "Running", "Reserved", "Waiting", "Ended"
_GIB: Final = 1 << 30
_MIB: Final = 1 << 20
_TICK_S: Final = 1.0


class _Row(Struct, frozen=True, kw_only=True):
    """A share's part of a card, or a process that waits."""

    of: LocalShare | LocalWaiting
    name: str
    cells: Mapping[str, str]

    @property
    def key(self) -> tuple[str, str, str]:
        """Which it is."""
        return self.name, self.cells["PID"], self.cells["CARD"]

    @property
    def steady(self) -> Sequence[str]:
        """What changes when something happened."""
        return [text for head, text in self.cells.items() if head != _UNSTEADY]

    def document(self) -> dict[str, object]:
        """As JSON."""
        found: dict[str, object] = msgspec.to_builtins(self.of)
        return found | {"status": self.cells["STATUS"].lower()}


def list_shares(options: argparse.Namespace) -> int:
    """Print them. Raises NoLocalDaemon."""
    if options.watch:
        _watch(options)
    listed = shares_of(options)
    rows = list(_rows(listed, options))
    if not rows and options.output in (forms.TABLE, forms.WIDE):
        sys.stderr.write("No shares found\n")
        return 0
    document = {
        "cards": listed.cards, "shares": listed.shares, "waiting": listed.waiting,
        "queue": listed.queue,
    }  # fmt: skip
    forms.put(
        options, _encoded(document), (one.name for one in listed.shares),
        lambda to: print_columns(to, _heads(options), [tuple(row.cells.values()) for row in rows]),
    )  # fmt: skip
    return 0


def _watch(options: argparse.Namespace) -> NoReturn:
    """First all rows, then each row that has changed, for ever. Raises NoLocalDaemon."""
    screen = console(sized=False, headers=not options.no_headers)
    table, known = GrowingTable(_heads(options)), dict[tuple[str, str, str], _Row]()
    first = True
    while True:
        now = {row.key: row for row in _rows(shares_of(options), options)}
        changed = [row for key, row in now.items() if _differs(known.get(key), row)]
        ended = [_ended(row) for key, row in known.items() if key not in now]
        known = now
        if changed or ended or first:
            _put([*changed, *ended], options.output, lambda cells: table.print_rows(screen, cells))
        first = False
        time.sleep(_TICK_S)  # noqa: TID251  (a command without a loop)


def _put(
    rows: Sequence[_Row], form: str, show: Callable[[Iterable[Sequence[str]]], None]
) -> None:  # fmt: skip
    match form:
        case forms.JSON | forms.YAML:
            for row in rows:
                sys.stdout.write("---\n" if form == forms.YAML else "")
                sys.stdout.flush()
                forms.put_document(form, [msgspec.json.encode(row.document()), b"\n"])
        case forms.NAME:
            sys.stdout.writelines(f"{row.name}\n" for row in rows)
        case _:
            show([tuple(row.cells.values()) for row in rows])
    sys.stdout.flush()


def _differs(before: _Row | None, row: _Row) -> bool:
    return before is None or before.steady != row.steady


def _ended(row: _Row) -> _Row:
    return _Row(of=row.of, name=row.name, cells={**row.cells, "STATUS": _ENDED})


def _encoded(document: object) -> Iterator[bytes]:
    yield msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _heads(options: argparse.Namespace) -> Sequence[str]:
    return (*_HEADS, "LENT", "ID") if options.output == forms.WIDE else _HEADS


def _rows(listed: SharesListed, options: argparse.Namespace) -> Iterator[_Row]:
    now_s, heads = time.time(), _heads(options)
    for one in listed.shares:
        cores = "best-effort" if one.best_effort else f"{one.cores_percent:g}%"
        cells = (
            one.name, one.user, str(one.pid or ""), _RUNNING if one.pid else _RESERVED,
            str(one.index), _size(one.memory_bytes), _size(one.used_bytes),
            cores if one.cores_percent or one.best_effort else "",
            _age(max(now_s - one.since, 0)), one.command, f"{one.lent_percent:g}%", one.card,
        )  # fmt: skip
        yield _Row(of=one, name=one.name, cells=dict(zip(heads, cells, strict=False)))
    for waits in listed.queue:
        wanted = waits.wanted
        cores = "best-effort" if wanted.best_effort else f"{wanted.cores_percent:g}%"
        cells = (
            wanted.name, waits.user, str(waits.pid), _WAITING, "",
            _size(wanted.memory_bytes) if wanted.memory_bytes else "all", "",
            cores if wanted.cores_percent or wanted.best_effort else "",
            _age(max(now_s - waits.since, 0)), wanted.command, "", "",
        )  # fmt: skip
        yield _Row(of=waits, name=wanted.name, cells=dict(zip(heads, cells, strict=False)))


def _size(count: int) -> str:
    return f"{count / _GIB:.4g}Gi" if count >= _GIB else f"{count // _MIB}Mi"


def _age(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"
