"""`tessera place`: its arguments, and how its answer is written. Nothing that plans is imported
before it runs."""

from __future__ import annotations

import argparse
import io
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tessera_cli import forms
from tessera_cli.text import print_notice

if TYPE_CHECKING:
    from tessera_cli.place.place import Plan
    from tessera_cli.screen import Screen

    Commands = argparse._SubParsersAction[Any]


def place_parser(commands: Commands, environ: Mapping[str, str]) -> None:
    """Add the command, with defaults from the environment."""
    command = commands.add_parser(
        "place",
        help="plan pods on a cluster, before anything is installed",
        description="Plan the pods that wait, in order, on the nodes that manifests or a dump "
        "of a cluster describe. Nothing is changed anywhere.",
        epilog="example: kubectl get nodes,pods -A -o json | tessera place -f - -f mine.yaml",
    )
    command.add_argument(
        "-f", "--filename", action="append", required=True, metavar="FILE", dest="names",
        help="manifest, folder of manifests, or - for standard input; may be repeated",
    )  # fmt: skip
    command.add_argument(
        "-R", "--recursive", action="store_true", help="also read the folders in a folder"
    )
    forms.add_forms(command, environ)
    command.add_argument(
        "--why", action="store_true",
        help="say why pods wait, node by node and card by card, and what would help",
    )  # fmt: skip
    command.add_argument(
        "--cards", action="store_true",
        help="also show every node's cards and which pods hold what of them (shown by itself "
        "where no pod waits)",
    )  # fmt: skip
    command.add_argument(
        "--preempt", action="store_true",
        help="say which running pods of lower priority would have to go for those that wait; "
        "nothing is evicted",
    )  # fmt: skip
    command.add_argument(
        "--reclaim", action="store_true",
        help="the same, and those of any priority in queues that use more than they deserve",
    )  # fmt: skip
    command.add_argument(
        "--config", metavar="FILE", help="YAML: dialects: {NAME: {enabled: false, OPTION: ...}}"
    )
    command.set_defaults(run=_place)


def _place(options: argparse.Namespace) -> int:
    from tessera_cli.place import json_output
    from tessera_cli.place.place import place

    plan = place(
        options.names,
        config=options.config,
        recursive=options.recursive,
        why=options.why,
        cards=options.cards,
        preempt=options.preempt,
        reclaim=options.reclaim,
        stdin=sys.stdin.buffer if sys.stdin is not None else io.BytesIO(),
        notify=print_notice,
        now_ns=time.time_ns(),
    )
    names = (outcome.pod.name for outcome in plan.outcomes)
    forms.put(options, json_output.chunks(plan), names, lambda to: _show(to, plan))
    return plan.status


def _show(to: Screen, plan: Plan) -> None:
    from tessera_cli.place import cards_table, table
    from tessera_cli.place.preemption.table import show_preemptions

    if plan.listed is not None:
        cards_table.show(to, plan.listed.nodes)
    fleet = plan.planner.ledger.fleet
    table.show(to, plan.outcomes, fleet, plan.closer, plan.advice, plan.gangs, plan.turns)
    for shadow in plan.shadows:
        table.show_shadow(to, shadow)
    show_preemptions(to, plan)
