"""Commands say which shares are best-effort ones."""

from __future__ import annotations

import json

import msgspec
import pytest
from msgspec.structs import replace

from tessera_cli.explain.text import whole
from tessera_cli.top.lines import share_line
from tessera_core.occupancy.rows import ShareRow
from tessera_schema.endpoints.visibility import (
    GrantedShareView,
    GrantView,
    Meta,
    PodExplanation,
)
from tests.cli.conftest import Tessera
from tests.cli.test_settings_of_cards_are_planned_with import NODE, a_pod, dumped

ROW = ShareRow(
    namespace="ml", name="rest", uid="u", node="n", card="c", index=0, dialects=("hami",),
    memory_bytes=1 << 30, cores_percent=0, slots=1, exclusive=False, best_effort=True,
)  # fmt: skip
SHARE = GrantedShareView(
    container="c", card="GPU-0", index=0, memory_mib=1000, cores_percent=0, best_effort=True
)


def test_place_names_it(tessera: Tessera) -> None:
    pod = a_pod("rest", "1000")
    pod["metadata"]["annotations"] = {"tessera.dev/class": "best-effort"}
    ran = tessera("place", "-f", "-", stdin=dumped(NODE, pod))
    assert "best-effort" in ran.out
    ran = tessera("place", "-f", "-", "-o", "json", stdin=dumped(NODE, pod, a_pod("own", "1000")))
    cards = [card for one in json.loads(ran.out)["pods"] for card in one["cards"]]
    assert [card.get("best_effort") for card in cards] == [True, None]


@pytest.mark.parametrize("width", [80, 160])
def test_top_names_it(width: int) -> None:
    assert "best-effort" in share_line(ROW, width).plain
    assert "best-effort" not in share_line(replace(ROW, best_effort=False), width).plain


def test_top_and_explain_name_what_is_lent() -> None:
    assert "best-effort, lent" in share_line(replace(ROW, lent=True), 160).plain
    assert "lent" not in share_line(ROW, 160).plain
    shares = (replace(SHARE, lent=True),)
    held = GrantView(node="n", phase="Bound", since="2026-01-01T00:00:00Z", shares=shares)
    found = PodExplanation(
        metadata=Meta(name="rest", namespace="ml", uid="u"), verdict="placed", message="", held=held
    )
    assert "card 0 GPU-0: 1000 MiB lent, best-effort" in "\n".join(whole(found))


def test_explain_names_it() -> None:
    held = GrantView(node="n", phase="Bound", since="2026-01-01T00:00:00Z", shares=(SHARE,))
    found = PodExplanation(
        metadata=Meta(name="rest", namespace="ml", uid="u"), verdict="placed", message="", held=held
    )
    assert "card 0 GPU-0: 1000 MiB, best-effort" in "\n".join(whole(found))
    assert b"bestEffort" not in msgspec.json.encode(replace(SHARE, best_effort=msgspec.UNSET))
