"""The table, wide and narrow, with and without colour, and `--why`."""

from __future__ import annotations

import pytest

from tests.cli.cluster import bound, node, pod, text
from tests.cli.conftest import Tessera

TWO = pod("two", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8000, "nvidia.com/gpucores": 25})
FULL = bound("full", "GPU-n1-0,NVIDIA,16000,50:;")
HUGE = pod("huge", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 20000})
BAD = pod("bad", {"inspur.com/vcuda-core": 150})


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


def test_a_row_says_pod_verdict_dialect_node_and_share(tessera: Tessera) -> None:
    out = tessera("place", "-f", "-", stdin=text(node(), TWO)).out
    (row,) = [line for line in out.splitlines() if "default/two" in line]
    assert " ".join(row.split()) == (
        "default/two placed hami n1 card 1 ███▉···· 8000/16384 MiB 25 %"
    )
    assert out.endswith("\n1 placed\n")


def test_through_a_pipe_there_is_no_colour(tessera: Tessera) -> None:
    assert "\x1b" not in tessera("place", "-f", "-", stdin=text(node(), TWO)).out


def test_no_color_is_respected_and_colour_can_be_forced(
    tessera: Tessera, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[32mplaced" in tessera("place", "-f", "-", stdin=text(node(), TWO)).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in tessera("place", "-f", "-", stdin=text(node(), TWO)).out


@pytest.mark.parametrize("columns", ["30", "60", "80", "120", "200"])
def test_no_line_is_wider_than_the_terminal(
    tessera: Tessera, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    manifest = text(node(), FULL, TWO, HUGE, BAD, pod("none", {"cpu": 1}))
    ran = tessera("place", "-f", "-", "--why", stdin=manifest)
    assert max(len(line) for line in ran.out.splitlines()) <= int(columns)
    for word in ("default/two", "placed", "waiting", "rejected", "ignored"):
        assert word in ran.out


def test_why_says_card_by_card_what_is_free(tessera: Tessera) -> None:
    ran = tessera("place", "-f", "-", "--why", stdin=text(node(), node("n2"), FULL, HUGE, BAD))
    assert ran.status == 2
    section = ran.out[ran.out.index("\ndefault/huge waiting") :]
    lines = [" ".join(line.split()) for line in section.splitlines()]
    assert "n1, n2" in lines
    assert "cards of n1:" in lines
    assert (
        "card 0 NVIDIA-A100 ███████▊ 384 of 16384 MiB free 50 of 100 % free 1/10 slots "
        "CardInsufficientMemory" in lines
    )
    assert any(
        line.startswith("default/bad rejected: spec.containers[0].resources") for line in lines
    )
    assert "(--why says why)" not in ran.out


def test_each_card_of_a_node_with_too_few_says_its_own_reason(tessera: Tessera) -> None:
    many = pod("many", {"nvidia.com/gpu": 4, "nvidia.com/gpumem": 2000})
    out = tessera("place", "-f", "-", "--why", stdin=text(node(), FULL, many)).out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "main asks for 4 nvidia cards, the node has 2" in lines
    full, empty = (line for line in lines if " slots " in line)
    assert full.endswith("384 of 16384 MiB free 50 of 100 % free 1/10 slots CardInsufficientMemory")
    assert empty.endswith("16384 of 16384 MiB free 100 of 100 % free 0/10 slots fits")


def test_why_is_reported_for_the_moment_at_which_the_pod_was_planned(tessera: Tessera) -> None:
    first, later = pod("first", {"nvidia.com/gpu": 3}), TWO
    out = tessera("place", "-f", "-", "--why", stdin=text(node(), first, later)).out
    assert "first asks" not in out
    assert "main asks for 3 nvidia cards, the node has 2" in out


def test_pods_and_nodes_that_say_the_same_are_reported_together(tessera: Tessera) -> None:
    nodes = [node(f"n{i}") for i in range(6)]
    pods = [pod(f"huge-{i}", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 20000}) for i in range(5)]
    out = tessera("place", "-f", "-", "--why", stdin=text(*nodes, *pods)).out
    assert "default/huge-0, default/huge-1, default/huge-2 and 2 more waiting: " in out
    assert "n0, n1, n2 and 3 more" in out
    assert out.count("CardInsufficientMemory: main asks 20000 MiB") == 1


def test_why_of_hundreds_of_different_nodes_is_cut(tessera: Tessera) -> None:
    nodes = [node(f"n{i}", 1, mib=1000 + i) for i in range(40)]
    out = tessera("place", "-f", "-", "--why", stdin=text(*nodes, HUGE)).out
    assert "and 28 more nodes: -o json has them all" in out


def test_warnings_of_a_pod_stand_below_the_table(tessera: Tessera) -> None:
    loose = pod("loose", annotations={"a": 50})
    out = tessera("place", "-f", "-", stdin=text(node(), loose)).out
    assert "warning default/loose: metadata.annotations[a]: 50 is a number" in out


def test_warnings_about_the_cluster_are_reported_together_on_standard_error(
    tessera: Tessera,
) -> None:
    pods = [bound(f"b{i}", "", on="gone") for i in range(9)]
    ran = tessera("place", "-f", "-", stdin=text(node(), *pods, TWO))
    (line,) = ran.err.splitlines()
    assert line.startswith("tessera: pod default/b0, pod default/b1, pod default/b2 and 6 more: ")


def test_control_characters_of_a_manifest_do_not_reach_the_terminal(tessera: Tessera) -> None:
    evil = pod("evil", {"nvidia.com/gpu": "\x1b[2J"}, annotations={"hami.io/x": "\x1b[31m"})
    unhealthy = node("sick", cards=0, annotations={"hami.io/node-nvidia-register": "\x1b[2J"})
    ran = tessera("place", "-f", "-", "--why", stdin=text(node(), unhealthy, evil))
    assert "\x1b" not in ran.out + ran.err
    assert "\\x1b[2J" in ran.out


def test_why_ends_with_what_would_help(tessera: Tessera) -> None:
    large = pod("large", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 15000})
    two, four = node("n2", 1), node("n1", 1)
    full = bound("full", "GPU-n1-0,NVIDIA,10000,50:;")
    other = bound("other", "GPU-n2-0,NVIDIA,4000,50:;", on="n2")
    ran = tessera("place", "-f", "-", "--why", stdin=text(four, two, full, other, HUGE, large))
    said = " ".join(ran.out.split())
    assert (
        "no card of this cluster is that large (largest: 16384 MiB, NVIDIA-A100): "
        "ask for at most nvidia.com/gpumem: 16384" in said
    )
    assert (
        "the largest free part is 12.1 GiB on n2: ask for at most nvidia.com/gpumem: 12384, "
        "or wait for default/other" in said
    )
    assert "largest" not in tessera("place", "-f", "-", stdin=text(four, HUGE)).out


def test_programs_get_what_would_help_too(tessera: Tessera) -> None:
    huge = [{**HUGE, "metadata": {"name": name}} for name in ("a", "b")]
    manifest = text(node(cards=1), *huge, TWO)
    ran = tessera("place", "-f", "-", "--why", "-o", "json", stdin=manifest)
    first, second, placed = (p["advice"] for p in ran.pods)
    assert first == second
    assert first.startswith("no card of this cluster is that large")
    assert placed == ""


def test_what_would_help_is_said_in_the_words_of_each_dialect(tessera: Tessera) -> None:
    other = pod("other", {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 20000})
    ran = tessera("place", "-f", "-", "--why", "-o", "json", stdin=text(node(), HUGE, other))
    first, second = (p["advice"].rpartition("ask for at most ")[2] for p in ran.pods)
    assert (first, second) == ("nvidia.com/gpumem: 16384", "volcano.sh/vgpu-memory: 16384")
