"""`tessera nodes`, `cards` and `pods`: their arguments, and what they do. Nothing that needs a
cluster is imported before they run."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tessera_cli import forms, kubeconfig
from tessera_cli.cluster_state.nats_options import add_usage_options, named_bus
from tessera_cli.errors import USAGE_ERROR, CommandError
from tessera_cli.text import print_notice

if TYPE_CHECKING:
    from tessera_cli.cluster_state.feed import ClusterFeed
    from tessera_core.occupancy.rows import NodeRow

    Commands = argparse._SubParsersAction[Any]

T = TypeVar("T")
_FORMS = (forms.TABLE, forms.WIDE, forms.JSON, forms.YAML, forms.NAME)


class NotListed(CommandError):
    """What was named is not there."""


def listing_parsers(commands: Commands, environ: Mapping[str, str]) -> None:
    """Add the commands, with defaults from the environment."""
    nodes = commands.add_parser(
        "nodes",
        help="list nodes that have cards",
        description="List nodes that have cards: how many are healthy, and what of them is "
        "granted.",
        epilog="example: tessera nodes -l pool=training -o wide",
    )
    nodes.add_argument("names", metavar="NODE", nargs="*", help="only these nodes")
    _common(nodes, environ, _nodes, "label selector of nodes, such as pool=training")
    cards = commands.add_parser(
        "cards",
        help="list cards",
        description="List cards: their state, what of each is granted, and to how many pods; wide, "
        "to which.",
        epilog="example: tessera cards gpu-1 -o wide",
    )
    cards.add_argument("names", metavar="NODE", nargs="*", help="only cards of these nodes")
    _common(cards, environ, _cards, "label selector of nodes, such as pool=training")
    pods = commands.add_parser(
        "pods",
        help="list pods that hold cards or wait for them",
        description="List pods that hold cards or wait for them: which cards, how much of them; "
        "wide, also why they wait. To list the pods of one namespace it is enough to be allowed to "
        "list pods there.",
        epilog="example: tessera pods -n ml -o name | xargs kubectl -n ml describe",
    )
    pods.add_argument("names", metavar="POD", nargs="*", help="only these pods")
    _common(pods, environ, _pods, "label selector of pods, such as app=train", namespaced=True)


def _common(
    command: argparse.ArgumentParser,
    environ: Mapping[str, str],
    run: Callable[[argparse.Namespace], int],
    selector: str,
    *,
    namespaced: bool = False,
) -> None:
    command.set_defaults(run=run, usage_error=USAGE_ERROR)
    command.add_argument("-l", "--selector", default="", metavar="SELECTOR", help=selector)
    kubeconfig.add_arguments(command, environ, namespaced=namespaced)
    forms.add_forms(command, environ, _FORMS)
    add_usage_options(command)


def _nodes(options: argparse.Namespace) -> int:
    from tessera_cli.cluster_state import documents
    from tessera_cli.listings import columns, tables

    rows = _node_rows(options)
    wide = options.output == forms.WIDE
    heads = tables.NODE_HEADS_WIDE if wide else tables.NODE_HEADS
    document = {"nodes": [documents.node(row) for row in rows]}
    names = (f"node/{row.name}" for row in rows)
    cells = (tables.node_cells(row, wide=wide) for row in rows)
    return _put(options, document, names, lambda to: columns.print_columns(to, heads, cells), rows)


def _cards(options: argparse.Namespace) -> int:
    from tessera_cli.cluster_state import documents
    from tessera_cli.listings import columns, tables

    rows = [card for node in _node_rows(options) for card in node.cards]
    wide = options.output == forms.WIDE
    heads = tables.CARD_HEADS_WIDE if wide else tables.CARD_HEADS
    document = {"cards": [documents.card(row) for row in rows]}
    names = (f"{row.node}/{row.card.index}" for row in rows)
    cells = (tables.card_cells(row, wide=wide) for row in rows)
    return _put(options, document, names, lambda to: columns.print_columns(to, heads, cells), rows)


def _pods(options: argparse.Namespace) -> int:
    from tessera_cli.cluster_state import documents
    from tessera_cli.listings import columns, tables

    feed = _read(options, pods=options.selector, namespaced=True)
    found = tables.pod_rows(feed.occupancy.rows(), feed.occupancy.waiting())
    rows = _named(options.names, found, lambda row: row.name, "pods")
    wide, everywhere = options.output == forms.WIDE, options.everywhere
    heads: Sequence[str] = tables.POD_HEADS_WIDE if wide else tables.POD_HEADS
    now_s = time.time()
    lines: Iterable[Sequence[str]] = (tables.pod_cells(row, now_s, wide=wide) for row in rows)
    if everywhere:
        heads = ("NAMESPACE", *heads)
        lines = ((row.namespace, *cells) for row, cells in zip(rows, lines, strict=True))
    document = {
        "pods": [documents.pod(row.shares) for row in rows if row.waits is None],
        "waiting": [documents.waiting(row.waits) for row in rows if row.waits is not None],
    }
    names = (f"pod/{row.name}" for row in rows)
    return _put(options, document, names, lambda to: columns.print_columns(to, heads, lines), rows)


def _node_rows(options: argparse.Namespace) -> list[NodeRow]:
    feed = _read(options, nodes=options.selector)
    rows, selected = feed.occupancy.rows(), set(feed.occupancy.node_names())
    if options.selector:  # pods on other nodes were read too
        rows = [row for row in rows if row.name in selected]
    return _named(options.names, rows, lambda row: row.name, "nodes")


def _read(
    options: argparse.Namespace, *, nodes: str = "", pods: str = "", namespaced: bool = False
) -> ClusterFeed:
    from tessera_cli.cluster_state.card_source import CardSource, read_cards

    source = CardSource(
        target=kubeconfig.target(options), bus=named_bus(options),
        agents=options.agents, wait_s=options.wait,
        nodes=nodes, pods=pods, namespaced=namespaced,
    )  # fmt: skip
    feed = asyncio.run(read_cards(source))
    for notice in feed.notices:
        print_notice(notice)
    return feed


def _named(
    names: Sequence[str], rows: Sequence[T], name_of: Callable[[T], str], what: str
) -> list[T]:
    """The rows of these names, of all without any. Raises NotListed."""
    if not names:
        return list(rows)
    known = {name_of(row) for row in rows}
    missing = next((name for name in names if name not in known), None)
    if missing is not None:
        raise NotListed(f'{what} "{missing}" not found among those that have to do with cards')
    return [row for row in rows if name_of(row) in names]


def _put(
    options: argparse.Namespace,
    document: Any,
    names: Iterable[str],
    show: Callable[[Any], None],
    rows: Sequence[object],
) -> int:
    from tessera_cli.cluster_state import documents

    if not rows and options.output in (forms.TABLE, forms.WIDE):
        sys.stderr.write("No resources found\n")
        return 0
    forms.put(options, documents.encoded(document), names, show)
    return 0
