"""The last hour and the last events, in memory of a known size."""

from __future__ import annotations

from collections.abc import Hashable
from math import isnan

from hypothesis import given
from hypothesis import strategies as st

from tessera_console.event_log import EventLog
from tessera_console.history import UsePoint, UseRecord
from tessera_console.rights import CallerScope
from tessera_runtime.bus.api import Message
from tessera_schema.messages.allocation_events import (
    AllocationEvent,
    AllocationRunning,
    encode_event,
    subject,
)
from tessera_schema.messages.envelope import Envelope

ALL = CallerScope(everything=True, plans=True)


def point(mib: float) -> UsePoint:
    return UsePoint(granted_mib=100, used_mib=mib, granted_cores=10)


@given(st.lists(st.sets(st.sampled_from("abc")), max_size=12), st.integers(1, 5))
def test_a_series_has_the_last_points_in_order(turns: list[set[str]], points: int) -> None:
    history = UseRecord(points, most=10)
    expected: dict[str, list[float]] = {}
    for at, keys in enumerate(turns):
        found: dict[Hashable, UsePoint] = {key: point(at) for key in keys}
        history.add(at, found)
        for key in set(expected) - keys:
            del expected[key]
        for key in keys:
            expected.setdefault(key, []).append(at)
    for key in "abc":
        series = history.of(key)
        wanted = [at for at in expected.get(key, []) if at >= len(turns) - points]
        assert list(series.at) == wanted
        assert list(series.used_mib) == wanted


def test_series_beyond_the_bound_are_left_out_and_counted() -> None:
    history = UseRecord(4, most=1)
    history.add(0, {"a": point(1), "b": point(1)})
    assert (len(history), history.left_out) == (1, 1)
    assert history.of("b").at == ()


def test_what_was_not_measured_is_no_number() -> None:
    history = UseRecord(4, most=1)
    history.add(0, {"a": UsePoint(granted_mib=1, granted_cores=2)})
    assert isnan(history.of("a").used_mib[0])


def message(event: AllocationEvent) -> Message:
    envelope = Envelope(
        id="i", source="s", type="t", time="2026-11-24T12:00:00Z", epoch=1, sequence=1
    )
    return Message(subject=subject("c", event), envelope=envelope, data=encode_event(event))


def running(namespace: str, name: str) -> AllocationRunning:
    return AllocationRunning(
        namespace=namespace, uid=f"uid-{name}", name=name, node="n", container="main"
    )


def test_events_are_bounded_and_come_after_a_number() -> None:
    log = EventLog(2)
    for n in range(3):
        log.take(message(running("a", f"p{n}")))
    assert [event.name for event in log.after(0, ALL)] == ["p1", "p2"]
    assert [event.name for event in log.after(2, ALL)] == ["p2"]
    assert log.after(3, ALL) == []


def test_events_of_others_stay_out() -> None:
    log = EventLog(8)
    log.take(message(running("a", "mine")))
    log.take(message(running("b", "foreign")))
    scope = CallerScope(namespaces=frozenset({"a"}))
    assert [event.name for event in log.after(0, scope)] == ["mine"]


def test_what_is_no_event_is_counted() -> None:
    log = EventLog(8)
    event = message(running("a", "p"))
    log.take(Message(subject=event.subject, envelope=event.envelope, data=b"{"))
    assert (log.count, log.unreadable) == (0, 1)
