"""`tessera plan`: its arguments, and what each of its verbs does.

Nothing that needs a cluster is imported before it runs.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tessera_cli import forms, kubeconfig

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Any]


def plan_parser(commands: Commands, environ: Mapping[str, str]) -> None:
    """Add the command, with defaults from the environment."""
    command = commands.add_parser(
        "plan",
        help="show, approve or decline changes that the rebalancer proposes",
        description="Show RebalancePlans: what would be moved or resized, why, what it costs and "
        "should gain, how far it has come and what it really gained; approve or decline one.",
    )
    verbs = command.add_subparsers(title="verbs", required=True)
    shown = verbs.add_parser("list", help="show a row for each plan")
    kubeconfig.add_arguments(shown, environ, namespaced=False)
    forms.add_forms(shown, environ)
    shown.set_defaults(run=_list)
    one = verbs.add_parser("show", help="show everything about one plan")
    one.add_argument("plan", metavar="PLAN", help="name of the plan")
    _common(one, environ)
    one.set_defaults(run=_show)
    for decision, text in (
        ("approve", "have one plan carried out"), ("decline", "refuse one plan: nothing is done"),
    ):  # fmt: skip
        verb = verbs.add_parser(decision, help=text)
        verb.add_argument("plan", metavar="PLAN", help="name of the plan")
        verb.add_argument(
            "--dry-run", action="store_true", help="show what would be decided, decide nothing"
        )
        _common(verb, environ)
        verb.set_defaults(run=_decide, decision=f"{decision}d")


def _common(verb: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    kubeconfig.add_arguments(verb, environ, namespaced=False)
    verb.add_argument(
        "-o", "--output", choices=("table", "json", "yaml"), default="table",
        help="a table, or all of it as JSON or YAML",
    )  # fmt: skip


def _list(options: argparse.Namespace) -> int:
    from tessera_cli.plan import plans

    found = asyncio.run(plans.list_plans(kubeconfig.target(options)))
    names = (one.metadata.name for one in found)
    forms.put(options, [plans.document(found)], names, lambda to: plans.show(to, found))
    return 0


def _show(options: argparse.Namespace) -> int:
    from tessera_cli.plan import plans

    return _print_one(
        options, asyncio.run(plans.read_plan(kubeconfig.target(options), options.plan))
    )


def _decide(options: argparse.Namespace) -> int:
    from tessera_cli.plan import plans

    decided = plans.decide(
        kubeconfig.target(options), options.plan, options.decision, dry_run=options.dry_run
    )
    return _print_one(options, asyncio.run(decided))


def _print_one(options: argparse.Namespace, plan: Any) -> int:
    from tessera_cli.plan import plans
    from tessera_cli.screen import console

    if options.output == "table":
        plans.detail(console(sized=False), plan)
    else:
        forms.put_document(options.output, [plans.document([plan])])
    return 0
