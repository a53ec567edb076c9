"""The `tessera` command: arguments, streams, exit status.

Exit status of `place`: 0 all pods are placed or ask for nothing, 2 some are not or (where cards are
shown) what was read of them is not clear, 1 bad input. Of `demo`: 0 every promise was kept, 2 some
were not, 1 it could not be played. Of `check`: 0 no check failed, 1 one did. Of `migrate`: 0
nothing is in the way, 1 something is. A wrong call is 1 of older commands, 2 of those that say so
(`errors.USAGE_ERROR`). What a command needs is imported when it runs: `place` does not pay for the
demo.
Nothing but the answer goes to standard output.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from tessera_cli import forms, kubeconfig
from tessera_cli.check.command import check_parser
from tessera_cli.completion import PROGRAM, candidates, completion_parser
from tessera_cli.errors import (
    EXTRAS,
    USAGE_ERROR,
    CommandError,
    ExtraMissing,
    NoDemo,
    UsageError,
)
from tessera_cli.explain.command import explain_parser
from tessera_cli.listings.command import listing_parsers
from tessera_cli.local_run.command import MACHINE_TOP, local_parsers
from tessera_cli.migrate.command import migrate_parser
from tessera_cli.place.command import place_parser
from tessera_cli.plan.command import plan_parser
from tessera_cli.queue.command import queue_parser
from tessera_cli.report.command import report_parser
from tessera_cli.text import printable
from tessera_cli.top.command import top_parser
from tessera_schema.version import VERSION

KUBECTL_PLUGIN: Final = "kubectl-tessera"
"""The name by which kubectl finds the same program, as `kubectl tessera`."""
BAD_INPUT: Final = 1
PIPE_CLOSED: Final = 141
INTERRUPTED: Final = 130
"""And the signal's number, as shells have it."""
_DEBUG: Final = "TESSERA_DEBUG"

if TYPE_CHECKING:
    from tessera_runtime.bus.api import Message

    Commands = argparse._SubParsersAction[Any]


class _Parser(argparse.ArgumentParser):
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """A command with a status of its own refuses unknown arguments itself."""
        known, rest = super().parse_known_args(args, namespace)
        if rest and self.get_default("usage_error"):
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return known, rest

    def error(self, message: str) -> NoReturn:
        """A wrong call: 2 where the command has it so, else bad input, for there 2 means that pods
        were not placed."""
        self.print_usage(sys.stderr)
        self.exit(self.get_default("usage_error") or BAD_INPUT, f"{self.prog}: error: {message}\n")


def main() -> None:
    """Run the command line."""
    of_kubectl = Path(sys.argv[0]).name == KUBECTL_PLUGIN
    sys.exit(run(sys.argv[1:], "kubectl tessera" if of_kubectl else PROGRAM))


def complete() -> None:
    """Run `kubectl_complete-tessera`: kubectl gives it the words after `kubectl tessera`."""
    found = candidates(command_parser(), sys.argv[1:])
    sys.stdout.writelines(f"{candidate}\n" for candidate in found)


def run(arguments: Sequence[str], program: str = PROGRAM) -> int:
    """Run one command and return its exit status. No traceback reaches the user."""
    parser = command_parser(program)
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        parser.set_defaults(usage_error=getattr(options, "usage_error", BAD_INPUT))
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return INTERRUPTED
    except ModuleNotFoundError as e:
        missing = (e.name or "").partition(".")[0]
        extra = EXTRAS.get(missing)
        return _complain(ExtraMissing(missing, extra) if extra else e)
    except Exception as e:  # noqa: BLE001  (the last line: a user gets a sentence)
        return _complain(e)
    return status


def _drop_output() -> None:
    """What is still buffered has nowhere to go; the interpreter must not try again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(error: Exception) -> int:
    match error:
        case CommandError():
            text = str(error)
        case RecursionError():
            text = "a manifest is nested too deep: give manifests that Kubernetes takes"
        case OSError():
            _drop_output()
            text = f"the answer cannot be written: {error.strerror or error}: see standard output"
        case MemoryError():
            text = "out of memory: give fewer objects, or use -o json dumps"
        case _:
            kind = f"{type(error).__name__}: {error}".rstrip(": ")
            text = f"internal error, please report it: {kind} ({_DEBUG}=1 shows where)"
    if os.environ.get(_DEBUG):
        traceback.print_exception(error)
    sys.stderr.write(f"tessera: error: {printable(text)}\n")
    return USAGE_ERROR if isinstance(error, UsageError) else BAD_INPUT


def command_parser(program: str = PROGRAM) -> argparse.ArgumentParser:
    """The parser of `tessera` with all its commands. Usage lines begin with `program`."""
    parser = _Parser(prog=program, description="Shares accelerators among pods.")
    parser.add_argument("--version", action="version", version=f"tessera {VERSION}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    place_parser(commands, os.environ)
    _demo_parser(commands)
    local_parsers(commands, os.environ)
    explain_parser(commands, os.environ)
    top_parser(commands, os.environ, MACHINE_TOP)
    listing_parsers(commands, os.environ)
    _events_parser(commands)
    _quota_parser(commands)
    queue_parser(commands, os.environ)
    plan_parser(commands, os.environ)
    check_parser(commands, os.environ)
    migrate_parser(commands, os.environ)
    report_parser(commands, os.environ)
    completion_parser(commands, parser)
    return parser


def _demo_parser(commands: Commands) -> None:
    command = commands.add_parser(
        "demo",
        help="run everything on this machine, on simulated cards",
        description="Start a small control plane, NATS, the services and simulated nodes, "
        "create pods of every dialect, and show what becomes of them. Nothing stays afterwards.",
    )
    command.add_argument(
        "--pictures", type=Path, metavar="FOLDER", help="write its screens as SVG files there"
    )
    command.add_argument("--checks", action="store_true", help="list every check at the end")
    command.add_argument(
        "--plain", action="store_true",
        help="print a line for each step instead of a full screen; so it is where the output is no "
        "terminal",
    )  # fmt: skip
    command.add_argument(
        "--json", action="store_true", help="print JSON, in the form of place -o json"
    )
    command.add_argument(
        "--kill", action="store_true", help="kill each process once in the middle (kill -9)"
    )
    command.add_argument(
        "--keep", action="store_true", help="go on until interrupted, so that you can look around"
    )
    command.set_defaults(run=_demo)


def _events_parser(commands: Commands) -> None:
    command = commands.add_parser(
        "events",
        help="follow the message bus",
        description="Print every message of the bus from now on, one line each; -o json prints "
        "whole messages.",
    )
    command.add_argument("--url", default="nats://127.0.0.1:4222", help="address of NATS")
    command.add_argument("--cluster", default="", help="refuse a bus that serves another cluster")
    command.add_argument(
        "--subject", default="", help="only messages on this subject, such as tessera.v1.*.usage.>"
    )
    command.add_argument("--creds", default="", metavar="FILE", help="file with NATS credentials")
    command.add_argument(
        "--user", default="", help="NATS user, such as viewer; needs --password-file"
    )
    command.add_argument(
        "--password-file", default="", metavar="FILE", help="file with the user's password"
    )
    command.add_argument("--count", type=int, default=0, help="stop after this many messages")
    command.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="one line each, or JSON"
    )
    command.set_defaults(run=_events)


def _quota_parser(commands: Commands) -> None:
    command = commands.add_parser(
        "quota",
        help="show what namespaces use of their quotas",
        description="Show every AcceleratorQuota: what it allows, what is used, waits and was "
        "measured, and whether its cores are lowered.",
    )
    kubeconfig.add_arguments(command, os.environ)
    forms.add_forms(command, os.environ)
    command.set_defaults(run=_quota)


def _demo(options: argparse.Namespace) -> int:
    try:
        from tessera_demo import command
    except ModuleNotFoundError as e:
        raise NoDemo(e.name or "tessera_demo") from e
    return command.run(options, os.environ)


def _events(options: argparse.Namespace) -> int:
    from tessera_cli import bus_connection, event_lines, events
    from tessera_runtime.bus.settings import BusSettings

    settings = BusSettings(
        url=options.url,
        cluster=options.cluster or "default",
        creds_file=options.creds,
        user=options.user,
        password_file=options.password_file,
        arrange=False,
        tidy=False,
        idle_s=events.IDLE_S,
    )
    bus_connection.check(settings)
    shown = events.as_json if options.output == "json" else event_lines.as_line

    def put(message: Message) -> None:
        sys.stdout.write(shown(message) + "\n")
        sys.stdout.flush()

    cluster, most = options.cluster, options.count
    asyncio.run(events.follow(settings, options.subject, put, cluster=cluster, most=most))
    return 0


def _quota(options: argparse.Namespace) -> int:
    from tessera_cli import quota

    found = asyncio.run(quota.list_quotas(kubeconfig.target(options)))
    names = (one.name for one in found)
    forms.put(options, [quota.document(found)], names, lambda to: quota.show(to, found))
    return 0


if __name__ == "__main__":
    main()
