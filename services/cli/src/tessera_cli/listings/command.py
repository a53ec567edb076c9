"""`tessera nodes`, `cards` and `pods`: their arguments, and what they do. Nothing that needs a
cluster is imported before they run."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tessera_cli import forms, kubeconfig
from tessera_cli.cluster_state.nats_options import add_usage_options, named_bus
from tessera_cli.errors import USAGE_ERROR
from tessera_cli.text import print_notice

if TYPE_CHECKING:
    from tessera_cli.cluster_state.card_source import CardSource
    from tessera_cli.listings.listed_rows import ListingView

    Commands = argparse._SubParsersAction[Any]

_FORMS = (forms.TABLE, forms.WIDE, forms.JSON, forms.YAML, forms.NAME)


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
    _common(nodes, environ, "label selector of nodes, such as pool=training")
    cards = commands.add_parser(
        "cards",
        help="list cards",
        description="List cards: their state, what of each is granted, and to how many pods; wide, "
        "to which.",
        epilog="example: tessera cards gpu-1 -o wide",
    )
    cards.add_argument("names", metavar="NODE", nargs="*", help="only cards of these nodes")
    _common(cards, environ, "label selector of nodes, such as pool=training")
    pods = commands.add_parser(
        "pods",
        help="list pods that hold cards or wait for them",
        description="List pods that hold cards or wait for them: which cards, how much of them; "
        "wide, also why they wait. To list the pods of one namespace it is enough to be allowed to "
        "list pods there.",
        epilog="example: tessera pods -n ml -o name | xargs kubectl -n ml describe",
    )
    pods.add_argument("names", metavar="POD", nargs="*", help="only these pods")
    _common(pods, environ, "label selector of pods, such as app=train", namespaced=True)


def _common(
    command: argparse.ArgumentParser,
    environ: Mapping[str, str],
    selector: str,
    *,
    namespaced: bool = False,
) -> None:
    what = command.prog.rpartition(" ")[2]
    command.set_defaults(run=_list, what=what, usage_error=USAGE_ERROR)
    command.add_argument("-l", "--selector", default="", metavar="SELECTOR", help=selector)
    kubeconfig.add_arguments(command, environ, namespaced=namespaced)
    forms.add_forms(command, environ, _FORMS)
    add_usage_options(command)
    command.add_argument(
        "-w", "--watch", action="store_true",
        help="after the list, print each row that changes, until you press Ctrl-C",
    )  # fmt: skip


def _list(options: argparse.Namespace) -> int:
    from tessera_cli.listings.listed_rows import ListingView

    pods = options.what == "pods"
    view = ListingView(
        what=options.what, names=tuple(options.names), wide=options.output == forms.WIDE,
        selected=bool(options.selector) and not pods, everywhere=pods and options.everywhere,
    )  # fmt: skip
    source = _source(options, pods=pods)
    return _watch(options, source, view) if options.watch else _once(options, source, view)


def _source(options: argparse.Namespace, *, pods: bool) -> CardSource:
    from tessera_cli.cluster_state.card_source import CardSource

    return CardSource(
        target=kubeconfig.target(options), bus=named_bus(options),
        agents=options.agents, wait_s=options.wait,
        nodes="" if pods else options.selector, pods=options.selector if pods else "",
        namespaced=pods,
    )  # fmt: skip


def _once(options: argparse.Namespace, source: CardSource, view: ListingView) -> int:
    from tessera_cli.cluster_state import documents
    from tessera_cli.cluster_state.card_source import read_cards
    from tessera_cli.listings import columns, listed_rows

    feed = asyncio.run(read_cards(source))
    for notice in feed.notices:
        print_notice(notice)
    heads, rows = (
        listed_rows.heads(view),
        listed_rows.named(view, listed_rows.rows(feed.occupancy, view)),
    )
    if not rows and options.output in (forms.TABLE, forms.WIDE):
        sys.stderr.write("No resources found\n")
        return 0
    cells = [row.cells for row in rows]
    forms.put(
        options, documents.encoded(listed_rows.document(view, rows)), (row.name for row in rows),
        lambda to: columns.print_columns(to, heads, cells),
    )  # fmt: skip
    return 0


def _watch(options: argparse.Namespace, source: CardSource, view: ListingView) -> int:
    from tessera_cli.listings.watch import watch

    asyncio.run(watch(source, view, options))
    raise AssertionError("a watch never ends")
