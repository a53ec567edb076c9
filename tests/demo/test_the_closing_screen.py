"""The closing screen: whole on terminals of 140, 80 and 60 columns, and in at most 45 lines."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from tessera_cli.top.bars import ASCII, BLOCKS
from tessera_core.registry.registry import load
from tessera_demo.promises import Promise
from tessera_demo.screens.card_bars import dialect_bar, node_lines
from tessera_demo.screens.closing import MOST_LINES, check_lines, closing
from tessera_demo.screens.palette import marks
from tessera_demo.screens.pod_table import pod_rows, table
from tessera_demo.screens.svg import as_svg
from tessera_demo.screens.waterfall import in_brief, waterfall
from tests.demo.closing_scene import CAPTURES, WIDTHS, a_trace, an_evidence, captured, facts, nodes

FAILED = Promise("memory hami/serving main", "it sees 3000 MiB", kept=False, measured="it saw 0")


@pytest.mark.parametrize("width", WIDTHS)
def test_it_is_drawn_as_captured(width: int) -> None:
    """`python -m tests.demo.closing_scene --write` captures it again."""
    assert captured(width) == (CAPTURES / f"{width}.txt").read_text()


@pytest.mark.parametrize("width", [200, *WIDTHS, 45])
@pytest.mark.parametrize("failures", [0, 1, 30])
def test_it_has_at_most_45_lines_and_no_line_is_too_long(width: int, failures: int) -> None:
    found = facts(*(replace(FAILED, name=f"memory {i}") for i in range(failures)))
    lines = closing(found, width, BLOCKS)
    assert len(lines) <= MOST_LINES
    assert max(len(line) for line in lines[:-3]) <= width  # what is to be copied is not cut


@pytest.mark.parametrize("width", WIDTHS)
def test_every_pod_has_its_row(width: int) -> None:
    text = captured(width)
    for pod in pod_rows(an_evidence()):
        assert pod.name[:15] in text


def test_failed_checks_are_said_first_with_what_was_measured() -> None:
    head, second, *_ = closing(facts(FAILED), 140, BLOCKS)
    assert "3 of 4 checks passed in 47 s" in head.plain
    assert second.plain == "FAILED it sees 3000 MiB: it saw 0"


def test_what_is_to_be_copied_is_never_cut() -> None:
    long = "export KUBECONFIG=/tmp/tessera-demo-of-somebody/with/a/long/name/api/kubeconfig"
    lines = closing(replace(facts(), next=[long]), 60, BLOCKS)
    assert long in [line.plain for line in lines]


def test_every_dialect_has_a_letter_of_its_own() -> None:
    assert marks().keys() == set(load().dialects)
    assert len({mark.letter for mark in marks().values()}) == len(marks())
    assert len({mark.style for mark in marks().values()}) == len(marks())


def test_a_card_is_drawn_to_scale_in_letters() -> None:
    shared, half = nodes()[0].cards[:2]
    assert dialect_bar(half, 12, BLOCKS).plain == "KKK▓▓▓░░░░░░"
    assert dialect_bar(shared, 12, BLOCKS).plain == "VV░░░░░░░░░░"
    assert dialect_bar(half, 12, ASCII).plain == "KKK===......"


def test_cards_that_do_not_fit_go_on_in_the_next_line() -> None:
    (wide,) = node_lines(nodes()[:1], 140, BLOCKS)
    narrow = node_lines(nodes()[:1], 30, BLOCKS)
    assert wide.plain.startswith("gpu-1")
    assert len(narrow) > 1
    assert max(len(line) for line in narrow) <= 30


def test_a_pod_that_does_not_run_says_why_in_the_words_of_its_answer() -> None:
    rows = {row.name: row for row in pod_rows(an_evidence())}
    assert rows["gpumanager/one-and-a-half"].words.startswith("refused: 150: write a multiple")
    assert rows["hami/too-large-for-now"].words.startswith("waits: no card of this cluster")


def test_a_request_stands_in_the_words_of_the_yaml() -> None:
    lines = [line.plain for line in table(pod_rows(an_evidence()), 140, folded=True)]
    (serving,) = (line for line in lines if line.startswith("hami/serving"))
    assert "nvidia.com/gpu: 1, gpumem: 3000, gpucores: 30" in serving
    assert "sees 2.9, used 1.5 GiB, 30 %" in serving


def test_a_waterfall_begins_where_the_span_begins() -> None:
    first, *_, last = waterfall(a_trace(), 100, bar="█")
    assert first.plain.index("█") < last.plain.index("█")
    assert last.plain.endswith("0.2 ms at   993")


def test_a_span_that_failed_says_so() -> None:
    (line,) = waterfall([replace(a_trace()[0], failed=True)], 80, bar="█")
    assert line.plain.endswith("FAILED")


def test_a_trace_in_one_line_says_when_its_last_step_began() -> None:
    assert in_brief(a_trace()).startswith("admit 0.8  validate 0.2")
    assert in_brief(a_trace()).endswith("first usage at 993 ms")
    assert in_brief(()) == ""


def test_checks_are_listed_by_what_they_promise() -> None:
    other = Promise("runs hami/serving", "hami/serving runs", kept=True, measured="on gpu-1")
    lines = [line.plain for line in check_lines([FAILED, other, replace(FAILED, name="memory x")])]
    failed = "FAILED it sees 3000 MiB: it saw 0"
    assert lines == ["memory", failed, failed, "runs", "ok     hami/serving runs: on gpu-1"]


def test_a_picture_of_it_needs_nothing_from_elsewhere() -> None:
    found = as_svg(closing(facts(), 140, BLOCKS), 140, "make demo")
    assert "checks&#160;passed" in found
    assert set(re.findall(r"https?://[^\"' )]+", found)) == {
        "http://www.w3.org/2000/svg", "https://www.textualize.io",
    }  # fmt: skip
    assert len(found) < 200 * 1024
