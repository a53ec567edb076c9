"""Nodes of a migration as a table with commands for people, and as a document for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from rich.text import Text

from tessera_cli.screen import Screen
from tessera_cli.text import printable
from tessera_core.preflight.migration import ClusterMigration, MigrationState, NodeMigration

MOST: Final = 5
"""Nodes whose details are printed where nobody names any."""
_HEADS: Final = ("State", "Node", "Other plugin", "It says", "Tessera reads", "Held", "Pods")
_STYLES: Final = {
    MigrationState.MOVED: "green",
    MigrationState.READY: "yellow",
    MigrationState.BLOCKED: "bold red",
}


def show(to: Screen, found: ClusterMigration, *, every: bool) -> None:
    """Print a row for each node, below it what is in the way or differs, and the commands: of the
    first node that is ready, or for `every` one."""
    if not found.nodes:
        to.print("no node has cards, or a plugin of another system that gives them")
        return
    table = to.grid(*_HEADS, unbroken=("State", "Node"))
    for node in found.nodes:
        table.add_row(*_row(node))
    to.print(table)
    for line in _notes(found, every=every):
        to.print(Text(printable(line)), soft_wrap=True)
    ready = [node for node in found.nodes if node.state is MigrationState.READY]
    for node in found.nodes if every else ready[:1]:
        _commands(to, f"{node.name} to Tessera", node.commands)
        _commands(to, f"{node.name} back", node.back)
    if every or not ready:
        _commands(to, "after the last node", found.after)
    counts = Counter(node.state for node in found.nodes)
    to.print(", ".join(f"{counts[state]} {state}" for state in MigrationState if counts[state]))


def _row(node: NodeMigration) -> Iterator[Text]:
    yield Text(str(node.state), style=_STYLES[node.state])
    yield Text(printable(node.name))
    yield Text(printable(", ".join(node.plugins)))
    says = (f"{said.system}: {_cards(said.cards, said.memory_mib)}" for said in node.says)
    yield Text(printable(", ".join(says)))
    yield Text(_cards(node.cards, node.memory_mib))
    yield Text(f"{node.held_mib} MiB")
    yield Text(str(len(node.pods)))


def _cards(count: int, memory_mib: int) -> str:
    return f"{count} card{'' if count == 1 else 's'}, {memory_mib} MiB"


def _notes(found: ClusterMigration, *, every: bool) -> Iterator[str]:
    yield from (f"blocked: {blocker}" for blocker in found.blockers)
    yield from (f"first: {command}" for command in found.before)
    yield from found.settings
    noted = [node for node in found.nodes if node.blockers or node.differences]
    for node in noted if every else noted[:MOST]:
        yield from (f"{node.name}: blocked: {blocker}" for blocker in node.blockers)
        yield from (f"{node.name}: {difference}" for difference in node.differences)
    if not every and len(noted) > MOST:
        yield f"and {len(noted) - MOST} more nodes (-o wide has all)"


def _commands(to: Screen, title: str, commands: Sequence[str]) -> None:
    if commands:
        to.print(Text(printable(f"{title}:")))
        for command in commands:
            to.print(Text(printable(f"  {command}")), soft_wrap=True)


def document(found: ClusterMigration) -> bytes:
    """All of it as JSON."""
    return msgspec.json.encode({"blocked": found.blocked, **msgspec.to_builtins(found)}) + b"\n"
