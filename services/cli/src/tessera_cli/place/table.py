"""The answer as people read it: a row per pod, a bar per share, and why the others wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tessera_cli.place.near_misses import NODES_SHOWN, CardNearMiss, NodeNearMiss, same_refusal
from tessera_cli.place.share_bars import ShareBars, bar
from tessera_cli.screen import Screen
from tessera_cli.text import printable, several
from tessera_core.fleet.fleet import Fleet
from tessera_core.gang_planner.answers import GangOutcome
from tessera_core.gangs.queue_turns import QueueTurn
from tessera_core.shadows.shadow import Shadow
from tessera_schema.verdicts import PlanOutcome, Verdict

_UNBROKEN: Final = ("Pod", "Verdict", "Dialect", "Node")
_MESSAGE: Final = 40
"""Columns that a message needs in order to be read."""
_STYLES: Final[Mapping[Verdict, str]] = {
    Verdict.PLACED: "green",
    Verdict.WAITING: "yellow",
    Verdict.REJECTED: "bold red",
    Verdict.IGNORED: "dim",
}


def show(
    to: Screen,
    outcomes: Sequence[PlanOutcome],
    fleet: Fleet,
    closer: Mapping[int, tuple[NodeNearMiss, ...]] | None,
    advice: Mapping[int, str],
    gangs: Sequence[GangOutcome] = (),
    turns: Sequence[QueueTurn] = (),
) -> None:
    """Print the table, then warnings, then why pods wait and what would help. `closer` is None
    without `--why`; its keys, as those of `advice`, are positions in `outcomes`."""
    if not outcomes:
        return
    bars = ShareBars(outcomes, fleet, to)
    if to.width < _needed(outcomes, bars):
        for outcome in outcomes:
            to.print(_block(outcome, bars))
    else:
        to.print(_table(outcomes, bars, to))
    for line in _of_gangs(gangs, turns):
        to.print(line)
    for text, pods in _warnings(outcomes).items():
        to.print(Text.assemble(("warning ", "yellow"), printable(f"{several(pods)}: {text}")))
    for at, groups in (closer or {}).items():
        to.print(_why(outcomes, at, groups, to))
        if advice.get(at, "") not in ("", outcomes[at].message):
            to.print(_indented(Text(printable(advice[at]), style="italic"), 2))
    to.print(_total(outcomes, with_reasons=closer is not None))


def show_shadow(to: Screen, shadow: Shadow) -> None:
    """Print which cards one that waits for room will get."""
    until = shadow.until or "it starts"
    nodes = (
        f"{len(ids)} card{'s' * (len(ids) > 1)} of {node}"
        for node, ids in sorted(shadow.cards.items())
    )
    said = f"reserved for {shadow.of} until {until}: {', '.join(nodes)}"
    to.print(Text(printable(said)))


def _needed(outcomes: Iterable[PlanOutcome], bars: ShareBars) -> int:
    """Columns below which a table would break bars or squeeze messages."""
    columns = (
        (o.pod.name, o.verdict.value, max(o.dialects, key=len, default=""), o.node)
        for o in outcomes
    )
    widths = [max(map(len, column)) for column in zip(*columns, strict=True)]
    heads = ("Pod", "Verdict", "Dialect", "Node")
    fixed = sum(max(w, len(head)) + 2 for w, head in zip(widths, heads, strict=True))
    waits = any(o.verdict in (Verdict.WAITING, Verdict.REJECTED) for o in outcomes)
    return fixed + max(bars.width(), _MESSAGE if waits else 0) + 2


def _table(outcomes: Iterable[PlanOutcome], bars: ShareBars, to: Screen) -> Table:
    table = to.grid("Pod", "Verdict", "Dialect", "Node", "Cards", unbroken=_UNBROKEN)
    for outcome in outcomes:
        table.add_row(
            Text(outcome.pod.name),
            _verdict(outcome),
            Text("\n".join(outcome.dialects)),
            Text(outcome.node),
            _cell(outcome, bars),
        )
    return table


def _block(outcome: PlanOutcome, bars: ShareBars) -> RenderableType:
    """A pod on a terminal that is too narrow for a table."""
    head = Text.assemble(
        (outcome.pod.name, "bold"), "  ", _verdict(outcome), f"  {', '.join(outcome.dialects)}"
    )
    if outcome.node:
        head.append(f"  on {outcome.node}")
    head.rstrip()
    return Group(head, Padding(_cell(outcome, bars), (0, 0, 0, 2), expand=False))


def _verdict(outcome: PlanOutcome) -> Text:
    style = "yellow" if outcome.unserved else _STYLES[outcome.verdict]
    return Text(outcome.verdict.value, style=style)


def _cell(outcome: PlanOutcome, bars: ShareBars) -> Text:
    lines = bars.lines(outcome)
    if lines:
        return Text("\n").join(lines)
    style = "dim" if outcome.verdict is Verdict.IGNORED and not outcome.unserved else ""
    return Text(printable(outcome.message), style=style)


def _of_gangs(gangs: Iterable[GangOutcome], turns: Sequence[QueueTurn]) -> Iterator[Text]:
    yield from map(_gang, gangs)
    if len(turns) > 1:
        yield Text(printable(_served(turns)))


def _gang(outcome: GangOutcome) -> Text:
    """A gang in one line: how many of it start, or why none does and what would help."""
    never = outcome.verdict is Verdict.REJECTED
    verdict = "can never start" if never else outcome.verdict.value
    said = f": {outcome.message}" + (f": {outcome.remedy}" if outcome.remedy else "")
    return Text.assemble(
        "gang ", (outcome.gang.key, "bold"), " ", (verdict, _STYLES[outcome.verdict]),
        printable(said),
    )  # fmt: skip


def _served(turns: Iterable[QueueTurn]) -> str:
    """Queues in their order, with the part of the cluster that each uses beyond what it
    deserves."""
    said = (
        f"{turn.queue.name} ({turn.share.beyond:.1%} beyond what it deserves, by {turn.by})"
        if turn.by is not None
        else f"{turn.queue.name} (within what it deserves)"
        for turn in turns
    )
    return f"queues in the order in which they would be served: {', '.join(said)}"


def _warnings(outcomes: Iterable[PlanOutcome]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for outcome in outcomes:
        for text in outcome.warnings:
            found.setdefault(text, []).append(outcome.pod.name)
    return found


def _why(
    outcomes: Sequence[PlanOutcome], at: int, groups: Sequence[NodeNearMiss], to: Screen
) -> RenderableType:
    outcome = outcomes[at]
    alike = [o.pod.name for o in outcomes[at:] if same_refusal(o, outcome)]
    lines: list[RenderableType] = [
        Text.assemble(
            "\n",
            (several(alike), "bold"),
            " ",
            _verdict(outcome),
            printable(f": {outcome.message}"),
        )
    ]
    for group in groups[:NODES_SHOWN]:
        if group.nodes[0]:
            lines.append(_indented(Text(several(group.nodes), style="bold"), 2))
            lines += [_indented(Text(printable(message)), 4) for message in group.messages]
        if group.cards and len(group.nodes) > 1:
            lines.append(_indented(Text(f"cards of {group.nodes[0]}:"), 4))
        if group.cards:
            lines.append(_indented(_cards(group.cards, to), 4))
    left = sum(len(group.nodes) for group in groups[NODES_SHOWN:])
    if left:
        lines.append(_indented(Text(f"and {left} more nodes: -o json has them all"), 2))
    return Group(*lines)


def _indented(what: RenderableType, columns: int) -> Padding:
    return Padding(what, (0, 0, 0, columns), expand=False)


def _cards(cards: Iterable[CardNearMiss], to: Screen) -> RenderableType:
    rows = [
        (
            f"card {near.index}",
            printable(near.model),
            f"{max(near.total_mib - near.used_mib, 0)} of {near.total_mib} MiB free",
            f"{max(near.total_percent - near.used_percent, 0):g} of {near.total_percent:g} % free",
            f"{near.sharers}/{near.slots} slots",
        )
        for near in cards
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for near, row in zip(cards, rows, strict=True):
        card, model, memory, cores, slots = (
            text.ljust(width) for text, width in zip(row, widths, strict=True)
        )
        used = near.used_mib / near.total_mib if near.total_mib else 0
        verdict = (near.reason.wire, "yellow") if near.reason is not None else ("fits", "green")
        lines.append(
            Text.assemble(
                f"{card}  {model}  ", bar(1 if near.exclusive else used, to),
                f"  {memory}  {cores}  {slots}  ", verdict,
            )
        )  # fmt: skip
    return Text("\n").join(lines)


def _total(outcomes: Sequence[PlanOutcome], *, with_reasons: bool) -> Text:
    counts = {v: sum(o.verdict is v for o in outcomes) for v in Verdict}
    parts = [Text(f"{n} {v.value}", style=_STYLES[v]) for v, n in counts.items() if n]
    line = Text("\n") + Text(", ").join(parts)
    if not with_reasons and counts[Verdict.WAITING] + counts[Verdict.REJECTED]:
        line.append(" (--why says why)", style="dim")
    return line
