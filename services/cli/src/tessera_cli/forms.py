"""The forms of an answer: a table for people, JSON or YAML for programs, names for scripts.

What draws a table or writes YAML is imported when one is wanted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from tessera_cli.screen import Screen

TABLE: Final = "table"
JSON: Final = "json"
YAML: Final = "yaml"
NAME: Final = "name"
WIDE: Final = "wide"
_FORMS: Final = (TABLE, JSON, YAML, NAME)
_SAID: Final = {
    TABLE: "a table", WIDE: "one with more columns", JSON: "all of it as JSON", YAML: "or YAML",
    NAME: "or names alone",
}  # fmt: skip


def add_forms(
    command: argparse.ArgumentParser, environ: Mapping[str, str], some: Sequence[str] = _FORMS
) -> None:
    """Add the options that choose among these forms."""
    command.set_defaults(sized=bool(environ.get("COLUMNS")))
    said = "a table, all of it as JSON or YAML, or names alone"
    if tuple(some) != _FORMS:
        said = ", ".join(_SAID[form] for form in some).replace(", or", " or", 1)
    command.add_argument("-o", "--output", choices=some, default=TABLE, help=said)
    command.add_argument(
        "--no-headers", action="store_true", help="a table without the heads of its columns"
    )


def put(
    options: argparse.Namespace,
    document: Iterable[bytes],
    names: Iterable[str],
    show: Callable[[Screen], None],
) -> None:
    """Write an answer to standard output in the form that was asked for. `document` is its JSON, in
    pieces."""
    match options.output:
        case "json" | "yaml":
            put_document(options.output, document)
        case "name":
            sys.stdout.writelines(f"{name}\n" for name in names)
        case _:
            from tessera_cli.screen import console

            sized = sys.stdout.isatty() or options.sized
            show(console(sized=sized, headers=not options.no_headers))


def put_document(form: str, document: Iterable[bytes]) -> None:
    """Write a document as JSON, or the same as YAML."""
    if form == YAML:
        import yaml

        whole = msgspec.json.decode(b"".join(document))
        yaml.safe_dump(whole, sys.stdout, sort_keys=False, allow_unicode=True, width=100)
        return
    for piece in document:
        sys.stdout.buffer.write(piece)
