"""`LatestBySource` against repeats, late messages and sources that started again."""

from msgspec.structs import replace

from tessera_runtime.bus.latest_by_source import LatestBySource
from tests.bus.buses import an_envelope


def test_a_late_or_repeated_message_changes_nothing() -> None:
    latest: LatestBySource[str] = LatestBySource()
    assert latest.offer("n", an_envelope(2), "second")
    assert not latest.offer("n", an_envelope(1), "first")
    assert not latest.offer("n", an_envelope(2), "second again")
    assert latest.get("n") == "second"


def test_a_source_that_started_again_counts_from_one() -> None:
    latest: LatestBySource[str] = LatestBySource()
    latest.offer("n", an_envelope(900), "old life")
    assert latest.offer("n", replace(an_envelope(1), epoch=2), "new life")
    assert not latest.offer("n", an_envelope(901), "late from the old life")
    assert latest.get("n") == "new life"


def test_of_two_sources_the_younger_is_believed() -> None:
    latest: LatestBySource[str] = LatestBySource()
    old, new = (
        an_envelope(500, source="/tessera/agent/a"),
        an_envelope(1, source="/tessera/agent/b"),
    )
    latest.offer("n", replace(new, epoch=7), "successor")
    assert latest.offer("n", old, "predecessor")
    assert latest.get("n") == "successor"


def test_keys_are_apart_and_can_be_forgotten() -> None:
    latest: LatestBySource[int] = LatestBySource()
    latest.offer("a", an_envelope(5), 1)
    assert latest.offer("b", an_envelope(4), 2)
    latest.forget("a")
    assert (latest.get("a"), latest.get("b"), latest.keys()) == (None, 2, ("b",))
