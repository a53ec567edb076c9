"""The `tessera` command: arguments, streams, exit status.

Exit status of `place`: 0 all pods are placed or ask for nothing, 2 some are not, 1 bad input.
Nothing but the answer goes to standard output.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import time
import traceback
from collections.abc import Sequence
from typing import Final, NoReturn

from tessera_cli import output, table
from tessera_cli.errors import Refused
from tessera_cli.place import place
from tessera_cli.plain import printable

BAD_INPUT: Final = 1
PIPE_CLOSED: Final = 141
INTERRUPTED: Final = 130
_DEBUG: Final = "TESSERA_DEBUG"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Exit status 2 means that pods were not placed; a wrong call is bad input."""
        self.print_usage(sys.stderr)
        self.exit(BAD_INPUT, f"{self.prog}: error: {message}\n")


def main() -> None:
    """Run the command line."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status. No traceback reaches the user."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as e:  # noqa: BLE001  (the last line: a user gets a sentence)
        return _complain(e)
    return status


def _drop_output() -> None:
    """What is still buffered has nowhere to go; the interpreter must not try again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(error: Exception) -> int:
    match error:
        case Refused():
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
    return BAD_INPUT


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="tessera", description="Shares accelerators among pods.")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
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
    command.add_argument("-o", "--output", choices=("table", "json"), default="table")
    command.add_argument(
        "--why", action="store_true", help="tell why pods wait, node by node and card by card"
    )
    command.add_argument(
        "--config", metavar="FILE", help="YAML: dialects: {NAME: {enabled: false, OPTION: ...}}"
    )
    command.set_defaults(run=_place)
    return parser


def _place(options: argparse.Namespace) -> int:
    plan = place(
        options.names,
        config=options.config,
        recursive=options.recursive,
        why=options.why,
        stdin=sys.stdin.buffer if sys.stdin is not None else io.BytesIO(),
        tell=_tell,
        now_ns=time.time_ns(),
    )
    if options.output == "json":
        for chunk in output.chunks(plan.outcomes):
            sys.stdout.buffer.write(chunk)
    else:
        sized = sys.stdout.isatty() or bool(os.environ.get("COLUMNS"))
        table.show(
            table.console(sized=sized), plan.outcomes, plan.planner.ledger.fleet, plan.closer
        )
    return plan.status


def _tell(text: str) -> None:
    sys.stderr.write(f"tessera: {printable(text)}\n")


if __name__ == "__main__":
    main()
