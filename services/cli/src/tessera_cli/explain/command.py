"""`tessera explain`: its arguments, and what it does. Nothing that needs a cluster is imported
before it runs."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from tessera_cli import forms, kubeconfig
from tessera_cli.errors import CommandError
from tessera_cli.text import printable

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Any]


class NotAPod(CommandError):
    """What was named is no pod."""


def explain_parser(commands: Commands, environ: Mapping[str, str]) -> None:
    """Add the command, with defaults from the environment."""
    command = commands.add_parser(
        "explain",
        help="ask why a pod waits",
        description="Say in numbers why a pod waits and what would help, or what it holds. Without "
        "POD, list the pods of the namespace that ask for cards and have no node yet. The command "
        "asks the cluster's API server; the role view in the pod's namespace is enough.",
        epilog="example: tessera explain train-0 --cards",
    )
    command.add_argument("pod", metavar="POD", nargs="?", default="", help="NAME or pod/NAME")
    command.add_argument(
        "--cards", action="store_true", help="also show each card, and which pods have parts of it"
    )
    kubeconfig.add_arguments(command, environ)
    command.add_argument(
        "-o", "--output", choices=("text", "json", "yaml"), default="text",
        help="text, or all of it as JSON or YAML",
    )  # fmt: skip
    command.set_defaults(run=_explain)


def _explain(options: argparse.Namespace) -> int:
    from tessera_cli.explain import explanations, text

    target, name = kubeconfig.target(options), _name(options.pod)
    if name and target.everywhere:
        raise NotAPod(f"{options.pod} with -A", "name a namespace with -n, or no pod")
    if name:
        one = asyncio.run(explanations.read_explanation(target, name, cards=options.cards))
        found, lines = msgspec.json.encode(one), text.whole(one)
    else:
        some = asyncio.run(explanations.list_explanations(target))
        found, lines = msgspec.json.encode(some), text.table(some, target.everywhere)
    if options.output == "text":
        sys.stdout.writelines(f"{printable(line)}\n" for line in lines)
    else:
        forms.put_document(options.output, [found + b"\n"])
    return 0


def _name(pod: str) -> str:
    """The pod's name, as kubectl lets one write it."""
    kind, slash, name = pod.partition("/")
    if not slash:
        return pod
    if kind not in ("pod", "pods", "po") or not name or "/" in name:
        raise NotAPod(pod, "write NAME or pod/NAME; the namespace by -n")
    return name
