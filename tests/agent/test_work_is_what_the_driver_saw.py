"""A container's launches are its own words; whether it works is what the driver saw."""

from tessera_agent.usage.driver_evidence import DriverEvidence
from tessera_core.node.usage_rates import DriverSample

CARD, KEY, VALID_S = "GPU-0a", "0a", 6.0


def works(one: DriverSample | None, *, timed: bool = False, after_s: float = 0) -> bool:
    evidence = DriverEvidence(VALID_S)
    evidence.note({"c": {KEY: one}} if one else {}, {KEY} if timed else set(), 10)
    return evidence.works("c", CARD, 10 + after_s)


def test_busy_time_is_work() -> None:
    assert works(DriverSample(processes=1, busy_ns=1), timed=True)


def test_a_process_is_none_where_the_driver_has_times() -> None:
    assert not works(DriverSample(processes=1, busy_ns=0), timed=True)
    assert not works(DriverSample(processes=1), timed=True)  # no newer figure: the card was idle


def test_a_process_has_to_do_where_it_has_none() -> None:
    assert works(DriverSample(processes=1))
    assert not works(DriverSample())
    assert not works(None)


def test_evidence_counts_for_a_while() -> None:
    assert works(DriverSample(processes=1), after_s=VALID_S)
    assert not works(DriverSample(processes=1), after_s=VALID_S + 1)


def test_another_containers_and_another_cards_work_is_not_its_own() -> None:
    evidence = DriverEvidence(VALID_S)
    evidence.note({"c": {KEY: DriverSample(processes=1)}}, set(), 10)
    assert not evidence.works("other", CARD, 10)
    assert not evidence.works("c", "GPU-1b", 10)
