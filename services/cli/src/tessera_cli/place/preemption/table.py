"""Who would have to go, as people read it: a row for each pod or gang that waits for room."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from rich.text import Text

from tessera_cli.place.place import Plan
from tessera_cli.place.preemption.preemptions import PreemptionAnswer
from tessera_cli.screen import Screen
from tessera_cli.text import printable
from tessera_core.gangs.scratch import MemberSeat
from tessera_core.preemption.messages import lost, sentence, why
from tessera_core.preemption.preemption import NoPreemption
from tessera_schema.grants import Grant

_HEADS: Final = ("Pod", "Would be placed", "Would have to go", "Lost", "Why these")
_NOT_DONE: Final = (
    "preemption is only shown: nobody is evicted, each answer is as if it were the only one"
)


def show_preemptions(to: Screen, plan: Plan) -> None:
    """Print the table, where preemption was asked for and something waits for room."""
    answers = list(_answers(plan))
    if not answers:
        return
    table = to.grid(*_HEADS, unbroken=("Pod",))
    notes = []
    for name, found in answers:
        if isinstance(found, NoPreemption) or not found.units:
            notes.append((name, sentence(found)))
            continue
        rows = [
            (
                victim.pod.name,
                _on(plan, victim.uid),
                lost(found.card_s[victim.uid]),
                why(unit, found),
            )
            for unit in found.units
            for victim in unit.pods
        ]
        going, gone, reasons = (
            [f"{victim}{on}" for victim, on, _, _ in rows],
            [loses for _, _, loses, _ in rows],
            [reason for _, _, _, reason in rows],
        )
        table.add_row(
            Text(printable(name)), *map(_lines, (map(_seat, found.seats.values()), going, gone,
                                                 reasons)),
        )  # fmt: skip
        if found.exhausted:
            notes.append((name, "the search ended early: there may be a cheaper choice"))
    to.print(Text(""))
    if table.row_count:
        to.print(table)
    for name, note in notes:
        to.print(Text(printable(f"{name}: {note}")))
    to.print(Text(_NOT_DONE, style="dim"))


def _answers(plan: Plan) -> Iterator[tuple[str, PreemptionAnswer]]:
    for at, found in (plan.preemptions or {}).items():
        yield plan.outcomes[at].pod.name, found
    for outcome in plan.gangs:
        of_gang = plan.gang_preemptions.get(outcome.gang.id)
        if of_gang is not None:
            yield f"gang {outcome.gang.key}", of_gang


def _on(plan: Plan, uid: str) -> str:
    entry = plan.planner.ledger.entry(uid)
    return "" if entry is None else f" on {_place(entry.grant)}"


def _seat(seat: MemberSeat) -> str:
    return seat.node if seat.grant is None else _place(seat.grant)


def _place(grant: Grant) -> str:
    indexes = sorted({share.index for share in grant.shares})
    cards = ", ".join(map(str, indexes))
    return f"{grant.node}, card{'s' * (len(indexes) > 1)} {cards}"


def _lines(lines: Iterable[str]) -> Text:
    return Text("\n".join(map(printable, lines)))
