"""Columns that are kept from answer to answer say what columns of one answer say."""

from __future__ import annotations

from tessera_core.preemption.preemption import Preemption, PreemptionPlanner
from tessera_core.preemption.victim_columns import VictimColumns
from tests.core.preemption.scenarios import NOW, a_scenario, preemptor_of, view_of


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
