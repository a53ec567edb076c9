"""A dump of a cluster that runs another system, and nothing waits: every card, who holds what of
it, and what could not be read.

The golden files next to the dumps are what the command prints: `tessera place -f hami.json` wide,
with COLUMNS=72 narrow, and with `-o json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.cluster import bound, node, pod, text
from tests.cli.conftest import Tessera

DUMPS = Path(__file__).parent / "dumps"
MIGRATE = Path(__file__).parents[2] / "docs" / "migrate.md"
NOTHING = "tessera: no pod waits for a place: nothing to plan\n"
FULL = bound("full", "GPU-n1-0,NVIDIA,16000,50:;")
SYSTEMS = sorted(path.name.removesuffix(".out.json") for path in DUMPS.glob("*.out.json"))
WARNED = frozenset({"hami", "replicas"})
"""Systems in whose dump something could not be read, or whose plugin writes on no pod."""


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


def document(tessera: Tessera, *arguments: str, stdin: str = "", status: int = 0) -> dict[str, Any]:
    ran = tessera("place", *arguments, "-o", "json", stdin=stdin)
    assert ran.status == status, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    return found


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("form", ["txt", "narrow.txt", "out.json"])
def test_a_dump_of_running_pods_shows_cards_and_holders(
    tessera: Tessera, monkeypatch: pytest.MonkeyPatch, system: str, form: str
) -> None:
    if form == "narrow.txt":
        monkeypatch.setenv("COLUMNS", "72")
    more = ("-o", "json") if form == "out.json" else ()
    ran = tessera("place", "-f", str(DUMPS / f"{system}.json"), *more)
    assert ran.out == (DUMPS / f"{system}.{form}").read_text()
    assert ran.status == (2 if system in WARNED else 0)
    assert ran.err.endswith(NOTHING)
    assert (ran.err == NOTHING) == (system not in WARNED)


@pytest.mark.parametrize("columns", ["", "72"])
def test_pods_that_wait_are_displayed_next_to_card_by_card(
    tessera: Tessera, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    """`--cards --why -f waiting.json` next to HAMi's dump."""
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    both = ("-f", str(DUMPS / "hami.json"), "-f", str(DUMPS / "waiting.json"))
    ran = tessera("place", *both, "--cards", "--why")
    name = "waiting.narrow.txt" if columns else "waiting.txt"
    assert (ran.status, ran.out) == (2, (DUMPS / name).read_text())
    full = [line for line in ran.out.splitlines() if " 0 of " in line and "MiB free" in line]
    assert [line for line in full if line.endswith("fits")] == []


def test_the_sums_are_those_of_the_holders(tessera: Tessera) -> None:
    for system in SYSTEMS:
        status = 2 if system in WARNED else 0
        found = document(tessera, "-f", str(DUMPS / f"{system}.json"), status=status)
        cards = [card for of in found["nodes"] for card in of["cards"]]
        assert sum(len(card["holders"]) for card in cards) >= 4
        for card in cards:
            assert card["memory_held_mib"] == sum(h["memory_mib"] for h in card["holders"])
            assert card["slots_held"] == sum(h["slots"] for h in card["holders"])
            assert {h["dialect"] for h in card["holders"]} <= {system}


def test_what_is_missing_is_a_warning_and_no_success(tessera: Tessera) -> None:
    ran = tessera("place", "-f", str(DUMPS / "hami.json"))
    assert ran.status == 2
    assert (
        "pod web/canary: nothing on it says which cards it holds; it is counted by its own requests"
        in ran.err
    )
    assert "node gpu-3: status.capacity[nvidia.com/gpu]: 8, and nothing on the node says" in ran.err


@pytest.mark.parametrize(
    "manifest", [text(), text(node("a", 0), node("b", 0)), text(node("a", 0), bound("b", "", "a"))]
)
def test_a_dump_in_which_nothing_was_read_does_not_pass_for_success(
    tessera: Tessera, manifest: str
) -> None:
    ran = tessera("place", "-f", "-", stdin=manifest)
    assert ran.status == 2
    assert ran.out == "nothing was read: no card, and no pod that holds any\n"
    assert "tessera: nothing was read: none of " in ran.err
    found = document(tessera, "-f", "-", stdin=manifest, status=2)
    assert any("nothing was read" in warning for warning in found["warnings"])


def test_the_option_shows_cards_next_to_pods_that_wait(tessera: Tessera) -> None:
    manifest = text(node(), FULL, pod("two"))
    plain = tessera("place", "-f", "-", stdin=manifest)
    assert "default/full" not in plain.out
    assert list(document(tessera, "-f", "-", stdin=manifest)) == ["pods"]
    both = tessera("place", "-f", "-", "--cards", stdin=manifest)
    assert both.status == 0
    assert "default/full  hami  16000 MiB  50 %" in both.out
    assert both.out.endswith(plain.out)
    found = document(tessera, "-f", "-", "--cards", stdin=manifest)
    assert list(found) == ["pods", "nodes", "warnings"]
    (held, idle) = found["nodes"][0]["cards"]
    assert [h["name"] for h in held["holders"]] == ["full"]
    assert idle["holders"] == [], "what the planned pod would hold is in `pods`"


def test_a_card_that_only_a_pod_names_is_displayed_as_lost(tessera: Tessera) -> None:
    first = document(tessera, "-f", "-", stdin=text(node(), pod("a", uid="u1")))
    placed = pod("a", uid="u1", annotations=first["pods"][0]["annotations"])
    placed["spec"]["nodeName"] = "n1"
    ran = tessera("place", "-f", "-", stdin=text(placed))
    assert "the node was not given" in ran.out
    assert "default/a" in ran.out
    (lost,) = document(tessera, "-f", "-", stdin=text(placed))["nodes"][0]["lost"]
    assert [(h["name"], h["memory_mib"]) for h in lost["holders"]] == [("a", 3000)]


def test_running_pods_that_would_be_refused_are_named(tessera: Tessera) -> None:
    runs = [bound(f"train-{i}", "GPU-n1-0,NVIDIA,1000,10:;") for i in range(5)]
    for one in runs:
        one["spec"]["hostPID"] = True
    gone = bound("gone", "GPU-n1-0,NVIDIA,1000,10:;")
    gone["spec"]["hostPID"] = True
    gone["metadata"]["deletionTimestamp"] = "2025-05-20T10:02:04Z"
    ran = tessera("place", "-f", "-", stdin=text(node(), *runs, gone))
    assert ran.status == 2
    (line,) = [line for line in ran.err.splitlines() if "refused" in line]
    assert line.startswith(
        "tessera: pod default/train-0, pod default/train-1, pod default/train-2 and 2 more: runs, "
        "and would be refused if created now: spec.hostPID: true"
    )
    assert len(document(tessera, "-f", "-", stdin=text(node(), *runs), status=2)["warnings"]) == 5
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": "default", "labels": {"allow.tessera.dev/host-pid": "true"}}}  # fmt: skip
    ran = tessera("place", "-f", "-", stdin=text(node(), space, *runs))
    assert (ran.status, ran.err) == (0, NOTHING), "the namespace may"


def test_a_pod_that_its_namespace_allows_is_checked_at_card_by_card(tessera: Tessera) -> None:
    waits = pod("waits", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 20000})
    waits["spec"]["hostPID"] = True
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": "default", "labels": {"allow.tessera.dev/host-pid": "true"}}}  # fmt: skip
    ran = tessera("place", "-f", "-", "--why", stdin=text(node(), space, waits))
    assert "CardInsufficientMemory\n" in ran.out
    assert "no card of this cluster is that large" in ran.out


@pytest.mark.parametrize("columns", ["30", "60", "100", "200"])
def test_no_line_is_wider_than_the_terminal_and_none_ends_in_blanks(
    tessera: Tessera, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    ran = tessera("place", "-f", str(DUMPS / "hami.json"))
    lines = ran.out.splitlines()
    assert max(map(len, lines)) <= int(columns)
    assert [line for line in lines if line != line.rstrip()] == []
    assert "ml/train-7c9d-x2v4q" in ran.out


def test_the_page_on_migration_shows_what_is_printed() -> None:
    shown = "".join(f"    {line}\n" if line else "\n" for line in golden("hami.narrow.txt"))
    assert shown.strip("\n") in MIGRATE.read_text()


def golden(name: str) -> list[str]:
    return (DUMPS / name).read_text().splitlines()
