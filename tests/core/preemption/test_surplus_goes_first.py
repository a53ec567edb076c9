"""Members beyond a gang's minimum are the first to go: before a gang stops, and among them those of
lower priority, then the youngest."""

from __future__ import annotations

from tessera_core.preemption.preemption import Preemption, PreemptionPlanner
from tests.core.preemption.scenarios import NOW, Party, Scenario, preemptor_of, view_of

HIGH = Party(name="high", mib=16, priority=10)


def member(name: str, card: int, gang: str = "a", priority: int = 0, age_s: int = 600) -> Party:
    return Party(
        name=name, mib=16, gang=gang, priority=priority, age_s=age_s, checkpoint_s=600,
        places=((0, card),),
    )  # fmt: skip


def gone(minima: dict[str, int], *running: Party, needy: tuple[Party, ...] = (HIGH,)) -> list[str]:
    """Names of the victims on a node that is full."""
    cards = 1 + max(card for party in running for _, card in party.places)
    scenario = Scenario(nodes=((64, cards),), running=running, needy=needy, minima=minima)
    found = PreemptionPlanner(view_of(scenario), NOW).preempt(preemptor_of(scenario))
    assert isinstance(found, Preemption), found
    return sorted(victim.pod.metadata.name for victim in found.victims)


def test_a_job_shrinks_before_another_one_stops_even_if_more_work_is_lost() -> None:
    whole = [member(f"b{n}", 3 + n, "b", age_s=61) for n in range(2)]
    job = [member(f"a{n}", n, age_s=900_000) for n in range(3)]
    (victim,) = gone({"a": 2, "b": 2}, *job, *whole)
    assert victim in {"a0", "a1", "a2"}


def test_a_job_shrinks_to_its_minimum_and_then_goes_whole() -> None:
    job = [member(f"a{n}", n) for n in range(4)]
    two, three = (
        tuple(Party(name=f"h{n}", mib=16, priority=10, gang="h") for n in range(count))
        for count in (2, 3)
    )
    assert len(gone({"a": 2, "h": 2}, *job, needy=two)) == 2
    assert len(gone({"a": 2, "h": 3}, *job, needy=three)) == 4


def test_of_members_that_lose_as_much_the_lowest_priority_goes() -> None:
    job = [member("a0", 0, priority=2), member("a1", 1, priority=1), member("a2", 2, priority=2)]
    assert gone({"a": 2}, *job) == ["a1"]


def test_of_members_of_one_priority_the_youngest_goes() -> None:
    job = [member("a0", 0, age_s=2000), member("a1", 1, age_s=4000), member("a2", 2, age_s=1000)]
    assert gone({"a": 2}, *job) == ["a2"]
