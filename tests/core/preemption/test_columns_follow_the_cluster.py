"""Columns that are kept from answer to answer say what columns of one answer say."""

from __future__ import annotations

from tessera_core.preemption.preemption import Preemption, PreemptionPlanner
from tessera_core.preemption.victim_columns import VictimColumns
from tessera_schema.cards import MIB
from tessera_testing.builders import a_card
from tests.core.preemption.scenarios import (
    CARD_MIB,
    NOW,
    SLOTS,
    Party,
    Scenario,
    a_scenario,
    preemptor_of,
    view_of,
)


def test_an_answer_does_not_depend_on_former_ones() -> None:
    columns, named = VictimColumns(view_of(a_scenario(0)).rules), 0
    for seed in range(150):
        view, preemptor = view_of(a_scenario(seed)), preemptor_of(a_scenario(seed))
        found = PreemptionPlanner(view, NOW, columns=columns).preempt(preemptor)
        assert found == PreemptionPlanner(view, NOW).preempt(preemptor)
        named += isinstance(found, Preemption)
    assert named > 20


def test_a_pod_that_leaves_the_ledger_is_no_victim_any_more() -> None:
    scenario = next(s for s in map(a_scenario, range(100)) if len(s.needy) == 1)
    view, columns = view_of(scenario), VictimColumns(view_of(scenario).rules)
    PreemptionPlanner(view, NOW, columns=columns).preempt(preemptor_of(scenario))
    gone = next(iter(view.bound.values()))
    view.ledger.forget(gone.uid)
    again = PreemptionPlanner(view, NOW, columns=columns).preempt(preemptor_of(scenario))
    assert again == PreemptionPlanner(view, NOW).preempt(preemptor_of(scenario))
    nodes = view.ledger.fleet.names
    assert gone not in [victim for node in nodes for victim in columns.on(node)]


def test_a_pod_of_an_overcommitted_card_leaves_all_that_it_takes_of_it() -> None:
    """All of its memory lies on the card, which takes twice as much of what can be granted."""
    running = (Party(name="p0", mib=8, places=((0, 0),)),)
    for members in (1, 2):
        needy = tuple(Party(name=f"m{n}", mib=16 // members, priority=5) for n in range(members))
        scenario = Scenario(((8, 1),), running, needy, {})
        view = view_of(scenario)
        card = a_card("c0-0", 0, mib=CARD_MIB, slots=SLOTS, physical_bytes=CARD_MIB // 2 * MIB)
        view.ledger.put_node("n0", [card])
        found = PreemptionPlanner(view, NOW).preempt(preemptor_of(scenario))
        assert isinstance(found, Preemption)
        assert [victim.pod.metadata.name for victim in found.victims] == ["p0"]
