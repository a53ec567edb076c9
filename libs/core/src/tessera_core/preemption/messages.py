"""What preemption would do, in words: one wording for every command."""

from __future__ import annotations

from typing import Final

from tessera_core.preemption.preemption import NoPreemption, Preemption
from tessera_core.preemption.victim_units import VictimUnit

NOT_DONE: Final = "not done: preemption is only shown"
_UNITS: Final = ((3600, "card-hours"), (60, "card-minutes"), (1, "card-seconds"))
_NAMED: Final = 4


def sentence(found: Preemption | NoPreemption) -> str:
    """Who would have to go, or why nobody would."""
    if isinstance(found, NoPreemption):
        return f"nobody would be evicted for it: {found.message}"
    if not found.units:
        return "it fits once the pods that are being deleted have gone"
    who = ", ".join(_named(unit, found) for unit in found.units[:_NAMED])
    more = len(found.units) - _NAMED
    others = f" and {more} more" if more > 0 else ""
    cheaper = "; there may be a cheaper choice: the search ended early" if found.exhausted else ""
    return f"would fit if {_counted(found)} left: {who}{others}{cheaper}"


def lost(card_s: float) -> str:
    """Work that is lost, in a unit that suits it."""
    unit, name = next((each for each in _UNITS if card_s >= 2 * each[0]), _UNITS[-1])
    return f"{card_s / unit:.3g} {name}"


def why(unit: VictimUnit, found: Preemption) -> str:
    """Why it may go."""
    lender = found.lenders.get(unit.pods[0].uid)
    parts = [f"queue {lender} gives back"] if lender else [f"priority {unit.priority}"]
    if unit.surplus_of:
        parts.append(f"beyond the minimum of gang {unit.surplus_of.partition('/')[2]}")
    if unit.gang:
        parts.append(f"gang {unit.gang} stops")
    return ", ".join(parts)


def _named(unit: VictimUnit, found: Preemption) -> str:
    card_s = sum(found.card_s[victim.uid] for victim in unit.pods)
    return f"{unit.name} ({why(unit, found)}, {lost(card_s)} lost)"


def _counted(found: Preemption) -> str:
    pods, gangs = len(found.victims), found.cost.gangs
    text = "1 pod" if pods == 1 else f"{pods} pods"
    return f"{text} and with them {gangs} gang{'s' * (gangs > 1)}" if gangs else text
