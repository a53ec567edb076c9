"""What is drawn while the demo plays: the cards, the pods that there are, the bus's events."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tessera_cli.top.bars import BLOCKS
from tessera_core.registry.registry import load
from tessera_demo.observations import LAST_EVENTS, Observations
from tessera_demo.progress import Progress
from tessera_demo.promises import Promise
from tessera_demo.scenario import read_scenario
from tessera_demo.screens.picture import PlayedMoment, picture
from tessera_demo.screens.pod_table import pod_rows
from tessera_runtime.bus.api import Message
from tessera_runtime.informers.cluster_feed import ClusterFeed
from tessera_schema.annotation_keys import TRACE_KEY
from tessera_schema.messages.envelope import Envelope
from tests.demo.closing_scene import an_evidence, nodes

_SENT = Envelope(
    id="1", source="/tessera/test/1", type="dev.tessera.test", time="2026-01-01T12:00:00Z",
    epoch=1, sequence=1,
)  # fmt: skip
EMPTY = PlayedMoment(
    step="starting the API server", elapsed_s=1.2, passed=0, promised=0, console="",
    expected=["gpu-1", "gpu-2"], nodes=(), pods=(), events=(),
)  # fmt: skip


def full() -> PlayedMoment:
    return replace(
        EMPTY, step="waiting until 11 pods run and were measured", passed=23, promised=58,
        console="http://127.0.0.1:41073", nodes=nodes(), pods=pod_rows(an_evidence()),
        events=[f"allocation granted   hami/serving-{i} on gpu-1" for i in range(LAST_EVENTS)],
    )  # fmt: skip


def drawn(found: PlayedMoment, width: int, height: int) -> list[str]:
    return [line.plain for line in picture(found, (width, height), BLOCKS)]


@pytest.mark.parametrize("found", [EMPTY, full()], ids=["empty", "full"])
@pytest.mark.parametrize(("width", "height"), [(160, 45), (140, 40), (80, 24), (60, 20), (40, 8)])
def test_it_fills_the_terminal_and_no_more(found: PlayedMoment, width: int, height: int) -> None:
    lines = drawn(found, width, height)
    assert len(lines) == height
    assert max(map(len, lines)) <= width


def test_the_first_picture_says_what_starts() -> None:
    lines = drawn(EMPTY, 80, 24)
    assert "> starting the API server" in lines
    assert "gpu-1 starts" in lines


@pytest.mark.parametrize("width", [160, 100])
def test_it_has_cards_pods_events_and_the_counter(width: int) -> None:
    lines = drawn(full(), width, 45)
    assert lines[0].endswith("23 of 58 checks passed")
    assert "console: http://127.0.0.1:41073" in lines
    text = "\n".join(lines)
    assert "gpu-1       0 VV" in text
    assert "gpumem: 3000" in text
    assert lines[-LAST_EVENTS:] == [
        f"allocation granted   hami/serving-{i} on gpu-1" for i in range(LAST_EVENTS)
    ]


def test_pods_that_have_no_room_are_counted() -> None:
    assert any(line.startswith("and ") and "more" in line for line in drawn(full(), 100, 24))


def a_message(subject: str) -> Message:
    """Of any content: it is shown as not readable, or by its fields."""
    return Message(subject=f"tessera.v1.demo.{subject}", envelope=_SENT, data=b"{}")


def test_events_are_the_last_messages_that_do_not_come_all_the_time() -> None:
    seen = Observations()
    for subject in ("usage.gpu-1", "hint.gpu-1", *(f"plan.p{i}.proposed" for i in range(7))):
        seen.remember(a_message(subject))
    assert len(seen.events) == LAST_EVENTS
    assert all(line.startswith("plan") for line in seen.events)


def test_a_check_has_the_time_when_it_was_first_found_to_hold() -> None:
    now = [10.0]
    progress = Progress(read_scenario(), ClusterFeed(load()), lambda: now[0])
    holds, fails = Promise("runs a", "a runs", kept=True), Promise("runs b", "b runs", kept=False)
    now[0] = 12.0
    progress.note([holds, fails])
    assert (progress.passed, progress.promised) == (1, 2)
    now[0] = 15.0
    first, second = progress.decided([holds, fails])
    assert (first.seconds, second.seconds) == (2.0, 5.0)


def test_a_check_that_holds_no_longer_does_not_count() -> None:
    progress = Progress(read_scenario(), ClusterFeed(load()), lambda: 0.0)
    progress.note([Promise("runs a", "a runs", kept=True)])
    progress.decided([Promise("runs a", "a runs", kept=False)])
    assert (progress.passed, progress.promised) == (0, 1)


@pytest.mark.parametrize(
    ("notes", "trace"),
    [({TRACE_KEY: "00-4bf92f35-00f067aa-01"}, "4bf92f35"), ({TRACE_KEY: "no"}, ""), ({}, "")],
)
def test_a_pod_has_the_trace_that_it_was_given(notes: dict[str, str], trace: str) -> None:
    seen = Observations()
    seen.pods["a/b"] = {"metadata": {"annotations": notes}}
    assert seen.trace_of("a/b") == trace
    assert seen.trace_of("a/gone") == ""
