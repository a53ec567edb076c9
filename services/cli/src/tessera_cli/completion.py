"""`tessera completion`: a script by which a shell completes commands, options and their values.

It is written from the parser itself, so that it knows every option of this release.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Any]

_EPILOG: Final = """\
bash: source <(tessera completion bash)
zsh:  source <(tessera completion zsh)
fish: tessera completion fish | source"""
PROGRAM: Final = "tessera"
_FILE: Final = "FILE"
"""Metavar of options whose value is a file."""
_BASH: Final = """\
_{name}() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} path={name} words= i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$path ${{COMP_WORDS[i]}}" in
            {paths}) path="$path ${{COMP_WORDS[i]}}" ;;
        esac
    done
    case "$path ${{COMP_WORDS[COMP_CWORD-1]}}" in
{values}
    esac
    case "$path" in
{words}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o filenames -F _{name} {name}
"""
_ZSH: Final = "autoload -U +X bashcompinit && bashcompinit\n"


class _Option(Struct, frozen=True):
    strings: tuple[str, ...]
    choices: tuple[str, ...]
    of_file: bool
    takes_value: bool
    help: str


class _Command(Struct, frozen=True):
    path: tuple[str, ...]
    """The words that lead to it, the program's name first."""
    help: str
    options: tuple[_Option, ...]
    commands: tuple[str, ...]


def completion_parser(commands: Commands, whole: argparse.ArgumentParser) -> None:
    """Add the command; `whole` is the parser that it completes."""
    command = commands.add_parser(
        "completion",
        help="print a script that completes commands and options in a shell",
        description="Print a script for a shell to read, so that it completes commands, options "
        "and their values.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("shell", choices=("bash", "zsh", "fish"))

    def run(options: argparse.Namespace) -> int:
        sys.stdout.write(script(whole, options.shell))
        return 0

    command.set_defaults(run=run)


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script for bash, zsh or fish."""
    known = list(_commands(parser, (PROGRAM,), ""))
    if shell == "fish":
        return "".join(_fish(known))
    return (_ZSH if shell == "zsh" else "") + _bash(known)


def candidates(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    """What the last word may become, and in the last line whether files may do too, as kubectl asks
    the completion of a plugin (the protocol of Cobra's `__complete`: `:0` yes, `:4` no)."""
    *before, current = words or [""]
    known = {command.path: command for command in _commands(parser, (PROGRAM,), "")}
    path: tuple[str, ...] = (PROGRAM,)
    for word in before:
        path = (*path, word) if (*path, word) in known else path
    command = known[path]
    of_value = next((o for o in command.options if before and before[-1] in o.strings), None)
    if of_value is not None and of_value.takes_value:
        found, files = list(of_value.choices), of_value.of_file
    else:
        found = [*command.commands, *(s for option in command.options for s in option.strings)]
        files = False
    return [*(word for word in found if word.startswith(current)), ":0" if files else ":4"]


def _commands(
    parser: argparse.ArgumentParser, path: tuple[str, ...], said: str
) -> Iterator[_Command]:
    options: list[_Option] = []
    inner: list[_Command] = []
    names: tuple[str, ...] = ()
    for action in parser._actions:  # argparse has no public way to list them
        if isinstance(action, argparse._SubParsersAction):
            names = tuple(action.choices)
            helps = {a.dest: a.help or "" for a in action._choices_actions}
            for name, sub in action.choices.items():
                inner += _commands(sub, (*path, name), helps.get(name, ""))
        elif action.option_strings:
            options.append(_option(action))
        elif action.choices is not None:
            names = tuple(map(str, action.choices))
    yield _Command(path, said, tuple(options), names)
    yield from inner


def _option(action: argparse.Action) -> _Option:
    return _Option(
        strings=tuple(action.option_strings), choices=tuple(map(str, action.choices or ())),
        of_file=action.metavar == _FILE, takes_value=action.nargs != 0, help=action.help or "",
    )  # fmt: skip


def _bash(known: Sequence[_Command]) -> str:
    values, words = [], []
    for command in known:
        path = " ".join(command.path)
        for option in command.options:
            if option.takes_value:
                when = "|".join(f'"{path} {string}"' for string in option.strings)
                how = "-f" if option.of_file else f"-W '{' '.join(option.choices)}'"
                values.append(f'{when}) COMPREPLY=($(compgen {how} -- "$cur")); return ;;')
        every = [*command.commands, *(s for o in command.options for s in o.strings)]
        words.append(f'"{path}") words="{" ".join(every)}" ;;')
    return _BASH.format(
        name=known[0].path[0],
        paths="|".join(f'"{" ".join(command.path)}"' for command in known[1:]),
        values="\n".join(f"        {line}" for line in values),
        words="\n".join(f"        {line}" for line in words),
    )


def _fish(known: Sequence[_Command]) -> Iterator[str]:
    name = known[0].path[0]
    yield f"complete -c {name} -f\n"
    for command in known:
        seen = " ".join(f"; and __fish_seen_subcommand_from {w}" for w in command.path[1:])
        when = seen.removeprefix("; and ") or "__fish_use_subcommand"
        start = f"complete -c {name} -n '{when}'"
        helps = {c.path[-1]: c.help for c in known if c.path[:-1] == command.path}
        for word in command.commands:
            yield f"{start} -a {word}{_said(helps.get(word, ''))}\n"
        for option in command.options:
            flags = "".join(
                f" -l {s[2:]}" if s.startswith("--") else f" -s {s[1:]}" for s in option.strings
            )
            value = " -r" if option.takes_value else ""
            value += " -F" if option.of_file else ""
            value += f" -a '{' '.join(option.choices)}'" if option.choices else ""
            yield f"{start}{flags}{value}{_said(option.help)}\n"


def _said(text: str) -> str:
    plain = text.replace("\\", "").replace("'", "")
    return f" -d '{plain}'" if plain else ""
