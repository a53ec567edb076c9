import io
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tessera_runtime import logs
from tessera_runtime.logs import LogLevel, open_logs
from tessera_runtime.tracing import tracing

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Odd:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __repr__(self) -> str:
        return "<odd>"


class Thing(Struct):
    a: int


def lines(text: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.getvalue().splitlines()]


def test_a_line_is_an_event_with_fields() -> None:
    out = io.StringIO()
    with open_logs("tessera-agent", stream=out):
        logs.named("tessera.agent").info("bound", pod="ns/p", cards=2, name="n", args=[1], msg="m")
    [line] = lines(out)
    assert {"service", "logger", "event", "level", "time"} <= line.keys()
    assert (line["event"], line["level"], line["service"]) == ("bound", "info", "tessera-agent")
    assert (line["pod"], line["cards"], line["name"], line["args"]) == ("ns/p", 2, "n", [1])
    assert line["time"].endswith("+00:00")


def test_fields_cannot_take_the_place_of_the_lines_own() -> None:
    out = io.StringIO()
    with open_logs("s", stream=out):
        logs.named("x").info("e", level="mine", time=1)
    assert lines(out)[0]["level"] == "info"
    assert lines(out)[0]["level_"] == "mine"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (Odd(), "<odd>"),
        (Thing(1), {"a": 1}),
        (Path("/x"), "/x"),
        (float("nan"), None),
        ({1: {2}}, {"1": [2]}),
        ("\ud800", "?"),
        (b"\xff", "/w=="),
    ],
)
def test_any_field_gives_a_line(value: object, written: object) -> None:
    out = io.StringIO()
    with open_logs("s", stream=out):
        logs.named("x").info("e", field=value)
    assert lines(out)[0]["field"] == written


def test_long_text_is_cut() -> None:
    out = io.StringIO()
    with open_logs("s", stream=out):
        logs.named("x").info("e", field="x" * 1_000_000, many=["y"] * 1_000_000)
    assert len(out.getvalue()) < 50_000
    assert lines(out)[0]["field"].endswith("(1000000 characters)")


def test_other_peoples_lines_take_the_same_form() -> None:
    out = io.StringIO()
    with open_logs("s", stream=out):
        logging.getLogger("theirs").warning("went %s", "wrong")
        logging.getLogger("theirs").warning("bad %d format", "x")
        logging.getLogger("theirs").info("50% of {it}")
    assert [line["event"] for line in lines(out)] == [
        "went wrong",
        "bad %d format ('x',)",
        "50% of {it}",
    ]


def test_the_level_decides_and_is_put_back() -> None:
    out, before = io.StringIO(), logging.getLogger().level
    with open_logs("s", LogLevel.WARNING, stream=out):
        logs.named("x").info("quiet")
        logs.named("x").warning("loud")
    assert [line["event"] for line in lines(out)] == ["loud"]
    assert logging.getLogger().level == before


def test_an_error_comes_with_its_traceback() -> None:
    out = io.StringIO()
    with open_logs("s", stream=out):
        try:
            raise KeyError("k")  # noqa: TRY301  (it is to be caught here)
        except KeyError as e:
            logs.named("x").alert("failed", exc=e)
    assert lines(out)[0]["error"] == "KeyError: 'k'"
    assert "test_log_lines" in lines(out)[0]["traceback"]


def test_the_trace_is_named() -> None:
    out = io.StringIO()
    with open_logs("s", stream=out), tracing.span("a", parent=TRACE):
        logs.named("x").info("e")
    assert lines(out)[0]["trace_id"] == TRACE[3:35]
