"""Queues as a tree in a table, and the waiting list of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from rich.text import Text

from tessera_cli.cluster_state.amounts import gib
from tessera_cli.screen import Screen
from tessera_cli.text import printable
from tessera_schema.endpoints.queue_states import ListedQueue, ListedQueues
from tessera_schema.queue_states import QueueAmount, QueueState

HEADS: Final = (
    "Queue", "Resource", "Guaranteed", "Deserved", "Cap", "Used", "Borrowed", "Share", "Waiting"
)  # fmt: skip
LINE_HEADS: Final = ("Position", "Kind", "Name", "Pods", "Since", "Expected", "Why")
_LEAST: Final = 0.005
"""Parts of a weight below it are 0%."""
HIDDEN: Final = "(another namespace)"


def names(found: ListedQueues, name: str) -> Iterator[str]:
    """Names of queues; of one queue, those that wait in it."""
    for each in found.items:
        if not name:
            yield f"{each.state.kind.lower()}/{each.metadata.name}"
        else:
            yield from (
                f"{one.kind.lower()}/{one.namespace}/{one.name}" for one in each.waiting if one.name
            )


def show(to: Screen, found: ListedQueues, name: str, *, wide: bool) -> None:
    """Print the tree; of one queue, what it uses and who waits."""
    if not found.items:
        to.print("no queues")
        return
    levels = _levels(found)
    rows = (row for each in found.items for row in _rows(each, levels, wide=wide))
    notes = ((each.metadata.name, each.state.problem) for each in found.items if each.state.problem)
    to.print_rows(HEADS, rows, notes, unbroken=HEADS)
    if name:
        for each in found.items:
            to.print_rows(LINE_HEADS, _line(each), _rest(each), unbroken=LINE_HEADS[:-1])


def _levels(found: ListedQueues) -> Mapping[tuple[str, str], int]:
    """How far below its root each queue is; parents come before their children."""
    levels: dict[tuple[str, str], int] = {}
    for each in found.items:
        above = levels.get((each.state.group, each.state.parent), -1)
        levels[each.state.group, each.state.name] = above + 1
    return levels


def _rows(
    each: ListedQueue, levels: Mapping[tuple[str, str], int], *, wide: bool
) -> Iterator[tuple[Text, ...]]:
    state = each.state
    indent = "  " * levels[state.group, state.name]
    head, share, waits = f"{indent}{state.name}", _share(state), _waits(state)
    shown = [amount for amount in state.amounts if wide or amount.what == "cards"]
    for amount in shown or [QueueAmount(what="")]:
        borrowed = max(amount.used - amount.deserved, 0)
        cap = "-" if amount.cap is None else _amount(amount, amount.cap)
        cells = (
            head, f"{amount.vendor} {amount.what}".strip() or "-",
            _amount(amount, amount.guarantee), _amount(amount, amount.deserved), cap,
            _amount(amount, amount.used), _amount(amount, borrowed), share, waits,
        )  # fmt: skip
        yield tuple(Text(printable(cell)) for cell in cells)
        head, share, waits = "", "", ""


def _amount(of: QueueAmount, amount: float) -> str:
    if of.what == "memory":
        return f"{gib(round(amount))} GiB"
    if of.what == "cpu" and not of.vendor:
        return f"{amount / 1000:g}"
    return f"{amount:g}%" if of.what == "cores" and of.vendor else f"{amount:g}"


def _share(state: QueueState) -> str:
    share = f"+{state.share:.1%}" if state.share else "within"
    lost = state.weight_lost
    return share if lost < _LEAST else f"{share}, weight -{lost:.0%}"


def _waits(state: QueueState) -> str:
    if not state.waiting_pods and not state.waiting_gangs:
        return "0"
    return f"{state.waiting_gangs} gangs, {state.waiting_pods} pods"


def _line(each: ListedQueue) -> Iterator[tuple[Text, ...]]:
    for one in each.waiting:
        cells = (
            f"{one.position}", one.kind, f"{one.namespace}/{one.name}" if one.name else HIDDEN,
            f"{one.pods}", one.waits_since, one.expected_start or "-", one.reason or "-",
        )  # fmt: skip
        yield tuple(Text(printable(cell)) for cell in cells)


def _rest(each: ListedQueue) -> Iterator[tuple[str, str]]:
    if each.more_waiting:
        yield each.metadata.name, f"{each.more_waiting} more wait"
