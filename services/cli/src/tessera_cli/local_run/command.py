"""`tessera run`, `ps` and `share`: their arguments, and what they do."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tessera_cli import forms
from tessera_cli.errors import USAGE_ERROR
from tessera_cli.top.command import MachineTop

if TYPE_CHECKING:
    from tessera_cli.top.view import TopView
    from tessera_schema.local_shares import ShareWanted

    Commands = argparse._SubParsersAction[Any]

_FORMS: Final = (forms.TABLE, forms.WIDE, forms.JSON, forms.YAML, forms.NAME)
_BEST_EFFORT: Final = "best-effort"
_FOREVER: Final = "forever"


def local_parsers(commands: Commands, environ: Mapping[str, str]) -> None:
    """Add the commands, with defaults from the environment."""
    run = commands.add_parser(
        "run",
        help="run a program with a share of this machine's cards; needs no Kubernetes",
        description="Run a program with a share of this machine's cards, for as long as it runs. "
        "Without --memory it has whole cards.",
        epilog="example: tessera run --memory 8Gi --cores 30 -- python train.py",
    )
    _common(run, environ)
    _amounts(run)
    run.add_argument("program", nargs=argparse.REMAINDER, metavar="-- PROGRAM", help="what to run")
    run.set_defaults(run=_run)
    ps = commands.add_parser(
        "ps",
        help="list the shares of this machine that tessera run gave",
        description="List the shares of this machine that tessera run and tessera share gave: who "
        "holds them, and what of them is used.",
    )
    _common(ps, environ)
    ps.add_argument(
        "-w", "--watch", action="store_true", help="go on, and print each row that changes"
    )
    forms.add_forms(ps, environ, _FORMS)
    ps.set_defaults(run=_ps)
    share = commands.add_parser(
        "share",
        help="reserve a share of this machine for containers of docker or podman",
        description="Reserve a share of this machine for containers: they get it as the CDI device "
        "tessera.dev/share=NAME, until it is removed.",
    )
    actions = share.add_subparsers(title="commands", required=True, metavar="COMMAND")
    create = actions.add_parser(
        "create",
        help="reserve a share and write its CDI specification",
        description="Reserve a share and write its CDI specification.",
        epilog="example: tessera share create train --memory 8Gi --cores 30",
    )
    _share(create, environ, _create)
    _amounts(create)
    remove = actions.add_parser(
        "remove",
        help="free a reserved share and remove its CDI specification",
        description="Free a reserved share and remove its CDI specification. It is refused while a "
        "process uses the share.",
    )
    _share(remove, environ, _remove)


def _share(
    command: argparse.ArgumentParser,
    environ: Mapping[str, str],
    run: Callable[[argparse.Namespace], int],
) -> None:
    _common(command, environ)
    command.set_defaults(run=run)
    command.add_argument("name", metavar="NAME", help="what the share is called")
    command.add_argument(
        "--cdi-folder", type=Path, default=Path("/var/run/cdi"), metavar="FOLDER",
        help="where the container runtime reads CDI specifications (/var/run/cdi)",
    )  # fmt: skip


def _common(command: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    command.set_defaults(usage_error=USAGE_ERROR, environ=environ)
    command.add_argument(
        "--simulated", action="store_true", help="share simulated cards, on a machine without"
    )
    command.add_argument(
        "--folder", type=Path, help="folder of the daemon to ask, instead of this machine's"
    )


def _amounts(command: argparse.ArgumentParser) -> None:
    command.add_argument("--memory", metavar="AMOUNT", help="memory of each card, such as 8Gi")
    command.add_argument(
        "--cores", metavar="PERCENT", help="percent of each card's time; without it, no limit"
    )
    command.add_argument("--cards", type=int, default=1, metavar="N", help="how many cards (1)")
    command.add_argument(
        "--card", action="append", default=[], metavar="CARD",
        help="only this card, by number or id; can be repeated",
    )  # fmt: skip
    command.add_argument("--model", default="", help="only cards whose model's name contains this")
    command.add_argument(
        "--class", dest="class_", choices=(_BEST_EFFORT,),
        help="no cores are promised: it has the time that others leave",
    )  # fmt: skip
    command.add_argument(
        "--wait", nargs="?", const=_FOREVER, default="0", metavar="DURATION",
        help="wait until there is room, at most so long, such as 90s, 10m or 2h",
    )  # fmt: skip


def _run(options: argparse.Namespace) -> int:
    from tessera_cli.local_run import run

    program = options.program[1:] if options.program[:1] == ["--"] else options.program
    return run.run(program, _wanted(options, " ".join(program)), options)


def _wanted(options: argparse.Namespace, command: str, name: str = "") -> ShareWanted:
    from tessera_cli.local_run.amounts import cores_percent, memory_bytes, wait_s
    from tessera_schema.local_shares import ShareWanted

    return ShareWanted(
        memory_bytes=memory_bytes(options.memory, alone=not (options.cores or options.class_)),
        cores_percent=cores_percent(options.cores, best_effort=bool(options.class_)),
        count=options.cards, cards=tuple(options.card), model=options.model,
        best_effort=options.class_ == _BEST_EFFORT,
        wait_s=None if options.wait == _FOREVER else wait_s(options.wait),
        name=name, command=command[:200],
    )  # fmt: skip


def _ps(options: argparse.Namespace) -> int:
    from tessera_cli.local_run import ps

    return ps.list_shares(options)


def _create(options: argparse.Namespace) -> int:
    from tessera_cli.local_run import share

    return share.create(_wanted(options, "", options.name), options)


def _remove(options: argparse.Namespace) -> int:
    from tessera_cli.local_run import share

    return share.remove(options)


def _is_running(options: argparse.Namespace) -> bool:
    from tessera_cli.local_run import client

    return client.is_running(options)


def _show(options: argparse.Namespace, view: TopView) -> int:
    from tessera_cli.local_run import machine_top

    return machine_top.show(options, view)


MACHINE_TOP: Final = MachineTop(_is_running, _show)
