"""What a reader learns of pods that changed, from the places up to which it has read."""

from __future__ import annotations

from tessera_core.ledger.change_log import MOST_CHANGES, ChangeLog
from tessera_core.ledger.ledger import Ledger
from tessera_schema.cards import MIB
from tessera_schema.grants import Grant, Share
from tessera_testing.builders import a_card


def test_the_difference_of_two_places_is_what_changed_between_them() -> None:
    log = ChangeLog()
    log.add("a")
    before = log.here()
    for uid in ("b", "c", "b"):
        log.add(uid)
    assert log.here().since(before) == {"b", "c"}
    assert before.since(log.here()) == {"b", "c"}
    assert before.since(before) == set()


def test_all_may_have_changed_since_a_place_in_no_log_or_another_one() -> None:
    log = ChangeLog()
    assert log.here().since(None) is None
    assert log.here().since(ChangeLog().here()) is None


def test_after_a_log_that_has_become_long_another_begins() -> None:
    log = ChangeLog()
    before = log.here()
    for _ in range(MOST_CHANGES):
        log.add("a")
    assert log.here().since(before) == {"a"}
    log.add("a")
    assert log.here().since(before) is None


def test_a_copy_of_the_ledger_stays_at_the_place_where_it_was_made() -> None:
    ledger = Ledger()
    ledger.put_node("n1", [a_card("c0", mib=16)])
    ledger.assume([_a_grant("a")], 0)
    first = ledger.snapshot()
    ledger.assume([_a_grant("b")], 0)
    ledger.ended("a")
    second = ledger.snapshot()
    assert second.changes.since(first.changes) == {"a", "b"}
    assert first.snapshot().changes.since(first.changes) == set()
    assert ledger.changes.since(second.changes) == set()


def _a_grant(uid: str) -> Grant:
    share = Share(
        container="c0", position=0, vendor="acme", dialect="acme", card="c0", index=0,
        memory_bytes=MIB, cores_percent=20,
    )  # fmt: skip
    return Grant(uid=uid, namespace="default", name=uid, node="n1", shares=(share,))
