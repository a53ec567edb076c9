"""The reference pages that are made from what they describe: docs/cli.md and docs/crds.md.

    python -m tests.house.reference        writes both; `make generate` does

The first is made from the parsers of the command line, the second from the definitions in
deploy/kustomize/base/crds.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from tessera_cli.__main__ import command_parser

ROOT: Final = Path(__file__).parents[2]
CRDS: Final = ROOT / "deploy/kustomize/base/crds"
_WIDTH: Final = 110
_MADE: Final = "<!-- Made by `make generate`: edit {source} instead. -->\n"
_CLI: Final = """\
# CLI reference

{made}
`tessera` is one command with subcommands. `make sync` installs it at `.venv/bin/tessera`, and
next to it the plugin `kubectl-tessera`: with both on the PATH it is also `kubectl tessera`. It
can be installed [alone](install.md#the-command-line-alone). Keys for k9s are in
[`deploy/k9s/plugins.yaml`](../deploy/k9s/plugins.yaml).
`tessera completion` prints a script for bash, zsh or fish that completes all of this.

Commands that need a cluster find it as kubectl does: `$KUBECONFIG` or `~/.kube/config`, the current
context and its namespace. In a pod they use its service account.

The answer goes to standard output, everything else to standard error. Input that makes no sense
and a cluster that cannot be read are exit status 1. `check` exits with 1 if some check failed
([check.md](check.md)). A wrong call is exit status 2 of `top`, `nodes`, `cards`, `pods` and
`check`, and 1 of commands that are older: `place` exits with 2 if some pod is not placed
([place.md](place.md)), `demo` if some check failed ([demo.md](demo.md)).
"""
_CRDS: Final = """\
# CRD reference

{made}
The custom resources of Tessera, in the group `tessera.dev`. [quota.md](quota.md) explains
AcceleratorQuota, [plans.md](plans.md) explains RebalancePlan. Tessera alone writes
`status`.
"""
Schema = Mapping[str, Any]


def cli_page() -> str:
    """docs/cli.md."""
    parser = command_parser()
    head = _CLI.format(made=_MADE.format(source="the parsers in services/cli"))
    return head + "".join(_sections(parser, ""))


def _sections(parser: argparse.ArgumentParser, says: str) -> Iterator[str]:
    """A section for the command and, in their order, for the commands below it."""
    yield f"\n## `{parser.prog}`\n\n"
    yield f"{textwrap.fill(parser.description or f'{says[:1].upper()}{says[1:]}.', _WIDTH)}\n\n"
    yield f"```\n{_usage(parser)}\n```\n"
    rows = [row for action in parser._actions for row in _row(action)]
    if rows:
        yield "\n| argument | meaning |\n| --- | --- |\n" + "".join(rows)
    if parser.epilog:
        yield f"\n```\n{parser.epilog}\n```\n"
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, command in action.choices.items():
                yield from _sections(command, helps.get(name, ""))


def _usage(parser: argparse.ArgumentParser) -> str:
    """The command with its positional arguments; options are in the table."""
    words = [parser.prog]
    for action in parser._actions:
        if not action.option_strings:
            name = _value(action)
            words.append(f"[{name}]" if action.nargs == "?" else name)
    return " ".join([*words, "[OPTIONS]"])


def _value(action: argparse.Action) -> str:
    """What stands for the argument's value."""
    if isinstance(action.metavar, str):
        return action.metavar
    if isinstance(action, argparse._SubParsersAction):
        return "COMMAND"
    if action.choices is not None:
        return "|".join(map(str, action.choices))
    return action.dest.upper()


def _row(action: argparse.Action) -> Iterator[str]:
    """The row of one argument. None for `--help`, which every command has, and for arguments that
    the usage line alone explains."""
    if "--help" in action.option_strings or not (action.help or _commands(action)):
        return
    takes = "" if action.nargs == 0 else f" {_value(action)}"
    names = [f"`{name}`" for name in action.option_strings[:-1]]
    last = f"{action.option_strings[-1]}{takes}" if action.option_strings else _value(action)
    meaning = _escaped(action.help or _commands(action))
    default = action.default
    if takes and action.option_strings and isinstance(default, str) and default:
        meaning += f" (default: `{default}`)"
    yield f"| {', '.join([*names, f'`{_escaped(last)}`'])} | {meaning} |\n"


def _commands(action: argparse.Action) -> str:
    """The names of the commands below this one."""
    choices = action.choices if isinstance(action, argparse._SubParsersAction) else ()
    return ", ".join(f"`{name}`" for name in choices or ())


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def crds_page() -> str:
    """docs/crds.md."""
    head = _CRDS.format(made=_MADE.format(source="deploy/kustomize/base/crds"))
    found = [yaml.safe_load(file.read_text()) for file in sorted(CRDS.glob("*s.yaml"))]
    return head + "".join("".join(_definition(crd["spec"])) for crd in found)


def _definition(spec: Schema) -> Iterator[str]:
    names = spec["names"]
    for version in spec["versions"]:
        yield f"\n## {names['kind']}\n\n"
        yield f"`apiVersion: {spec['group']}/{version['name']}`, {_SCOPES[spec['scope']]}. "
        yield f"With kubectl: `{names['plural']}`, `{'`, `'.join(names['shortNames'])}`.\n"
        for part in ("spec", "status"):
            schema = version["schema"]["openAPIV3Schema"]["properties"][part]
            yield f"\n### {names['kind']} {part}\n\n"
            yield from _table(tuple(_fields(schema, "")))
        columns = version["additionalPrinterColumns"]
        wide = [f"`{c['name']}`" for c in columns if c.get("priority")]
        plain = [f"`{c['name']}`" for c in columns if not c.get("priority")]
        text = f"`kubectl get` prints {', '.join(plain)}; `-o wide` also {', '.join(wide)}."
        yield f"\n{textwrap.fill(text, _WIDTH, break_on_hyphens=False)}\n"


def _fields(schema: Schema, path: str) -> Iterator[tuple[str, ...]]:
    """Name, type and meaning of each field, those inside objects and lists after it."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        whole = f"{path}{name}"
        must = "Required. " if name in required else ""
        meaning = f"{must}{field.get('description', '')}".strip()
        yield f"`{whole}`", _kind(field), _escaped(meaning)
        yield from _fields(field, f"{whole}.")
        yield from _fields(field.get("items", {}), f"{whole}[].")


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """The rows, without the last column where it is empty."""
    width = 3 if any(meaning for _, _, meaning in rows) else 2
    for row in (("field", "type", "meaning"), ("---",) * 3, *rows):
        yield f"| {' | '.join(row[:width])} |\n"


def _kind(field: Schema) -> str:
    """The type, with what its value may be."""
    if field.get("x-kubernetes-int-or-string"):
        return "integer or string"
    kind = str(field["type"])
    if "enum" in field:
        return f"{kind}: {', '.join(f'`{value}`' if value else 'empty' for value in field['enum'])}"
    if kind == "array":
        return f"list of {_kind(field['items'])}s"
    if "additionalProperties" in field:
        return f"map to {_kind(field['additionalProperties'])}"
    limits = [f"{word} {field[key]}" for word, key in _LIMITS if key in field]
    return " ".join([kind, *limits])


_SCOPES: Final = {"Cluster": "cluster-scoped", "Namespaced": "namespaced"}
_LIMITS: Final = (("from", "minimum"), ("to", "maximum"))
PAGES: Final[Mapping[str, Callable[[], str]]] = {"cli.md": cli_page, "crds.md": crds_page}


def main() -> None:
    """Write the pages."""
    for name, page in PAGES.items():
        (ROOT / "docs" / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
