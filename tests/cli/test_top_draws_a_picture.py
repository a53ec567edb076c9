"""`tessera top`: what is drawn, at every width, and what keys do."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace
from rich.text import Text

from tessera_cli.cluster_state.amounts import age, duration
from tessera_cli.settings import registry
from tessera_cli.top import snapshot
from tessera_cli.top.bars import ASCII, BLOCKS, memory_bar
from tessera_cli.top.frame import TopSnapshot, frame, nearby, row_count
from tessera_cli.top.keys import keys_in
from tessera_cli.top.view import Place, TopView, first_view, on_key
from tessera_core.occupancy.selection import RowOrder
from tessera_runtime.bus.api import Message
from tessera_runtime.informers.cluster_feed import ClusterFeed
from tests.cli.card_cluster import (
    a100,
    card_node,
    holding_pod,
    node_usage,
    part,
    signed,
    use,
    waiting_pod,
)

NOW_S = 1795521600 + 12 * 60  # twelve minutes after CREATED
HEIGHT = 20
PODS = [
    holding_pod("ml", "infer-7", part("gpu-1", 0, 24, 30)),
    holding_pod("ml", "train-2", part("gpu-1", 0, 16, 40, dialect="koordinator")),
    holding_pod("team-b", "notebook", part("gpu-1", 0, 21, 30)),
    holding_pod("ml", "alone", part("gpu-1", 1, 80, 100, exclusive=True)),
    holding_pod("shop", "web", part("gpu-2", 0, 8, 10)),
    waiting_pod("team-b", "llm-70b", 90000, "0/2 nodes are available: 2 Insufficient memory."),
]


def a_feed() -> ClusterFeed:
    encode = msgspec.json.encode
    feed = ClusterFeed(registry(None))
    nodes = [
        card_node("gpu-1", [a100("gpu-1", i, healthy=i != 2) for i in range(3)]),
        card_node("gpu-2", [a100("gpu-2", 0)]),
    ]
    feed.put_nodes([feed.node(encode(node)) for node in nodes])
    feed.put_pods([feed.pod(encode(pod)) for pod in PODS])
    feed.serves("c")
    usage = node_usage(
        "gpu-1", use(PODS[0], 20.9, 29, limit=30, throttled=4), use(PODS[1], 9.1, 50, limit=50),
        use(PODS[2], 3, 2, limit=30), use(PODS[3], 52.4, 99),
    )  # fmt: skip
    subject, envelope, data = signed(usage, "c")
    feed.take_usage(Message(subject=subject, envelope=envelope, data=data), 0)
    feed.settle()
    assert feed.doubted == 0
    return feed


def test_another_source_on_a_nodes_subject_does_not_take_the_agents_place() -> None:
    feed = a_feed()
    subject, envelope, data = signed(node_usage("gpu-2", use(PODS[4], 1, 7)), "c")
    feed.take_usage(Message(subject=subject, envelope=envelope, data=data), 0)
    for i in range(100):
        another = replace(envelope, source=f"/tessera/agent/{i}", sequence=9)
        feed.take_usage(Message(subject=subject, envelope=another, data=data), 0)
    feed.settle(1)
    [card] = [card for row in feed.occupancy.rows() for card in row.cards if row.name == "gpu-2"]
    assert card.used_percent == 7
    assert feed.doubted == 7


def found(view: TopView) -> TopSnapshot:
    return snapshot.take(a_feed().occupancy, view, name="prod-eu", now_s=NOW_S)


def picture(width: int, view: TopView | None = None, height: int = HEIGHT) -> list[str]:
    wanted = view or first_view("")
    lines = frame(found(wanted), wanted, (width, height), BLOCKS)
    assert len(lines) == height
    assert all(line.cell_len <= width for line in lines)
    return [line.plain.rstrip() for line in lines]


def test_at_140_columns_everything_is_said() -> None:
    lines = picture(140)
    assert lines[0].startswith(
        "TESSERA prod-eu  nodes 2  cards 3/4  memory 62 % granted, 36 % used  "
        "cores 70 % granted, 60 % used  waiting 1 (oldest 12m)  "
    )
    assert lines[1:15] == [
        "1 of 2 nodes are not measured",
        "NODE   CARD       MEMORY used █ granted ▓ free ░                   CORES          SHARES"
        "  NOTE",
        "gpu-1   0 A100-80 ██████▓█▓▓▓▓▓███▓▓░░░░░     61.0/80.0 used 33.0  100 % █▁█      3"
        "       lends 10 % to ml/train-2",
        "        1 A100-80 ███████████████▓▓▓▓▓▓▓▓     80.0/80.0 used 52.4  100 % █        1 whole",
        "        2 A100-80 ✕ unhealthy                  0.0/80.0 used 0.0     0 %          0"
        "       unhealthy",
        "gpu-2   0 A100-80 ▓▓░░░░░░░░░░░░░░░░░░░░░      8.0/80.0 used -      10 % ·        1",
        f" ── pods on gpu-1/0 {'─' * 119}",
        " ml/infer-7                           hami           24.0 GiB used  20.9    30 % used  29"
        "  throttled 4 %",
        " team-b/notebook                      hami           21.0 GiB used   3.0    30 % used   2"
        "  lends 10 % to ml/train-2",
        " ml/train-2                           koordinator    16.0 GiB used   9.1    40 % used  50"
        "  borrows 10 % from team-b/notebook",
        f" ── waiting 1 of 1 {'─' * 120}",
        " team-b/llm-70b                          12m  hami         1 x 87.9 GiB: 0/2 nodes are"
        " available: 2 Insufficient memory.",
        "",
        "",
    ]
    assert lines[-1] == "[c]ards [p]ods [w]aiting  / filter  s sort  ? help  q quit"


def test_at_80_columns_a_card_is_a_line() -> None:
    lines = picture(80)
    assert lines[0] == "2 nodes  3/4 cards  mem 62 %  cores 70 %  waiting 1"
    assert lines[2:14] == [
        "NODE  CARD used █ granted ▓ free ░                             GiB  CORES N",
        "gpu-1    0 ███████████▓▓██▓▓▓▓▓▓▓▓▓█████▓▓▓▓░░░░░░░░░░   61.0/80.0  100 % 3",
        "         1 ████████████████████████████▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓   80.0/80.0  100 % 1",
        "         2 ✕ unhealthy                                    0.0/80.0    0 % 0",
        "gpu-2    0 ▓▓▓▓░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░    8.0/80.0   10 % 1",
        f" ── pods on gpu-1/0 {'─' * 59}",
        " ml/infer-7            20.9/24.0   29/30     throttled 4 %",
        " team-b/notebook        3.0/21.0    2/30     lends 10 %",
        " ml/train-2             9.1/16.0   50/40     borrows 10 %",
        f" ── waiting 1 of 1 {'─' * 60}",
        " team-b/llm-70b          12m  0/2 nodes are available: 2 Insufficient memory.",
        "",
    ]


def test_at_60_columns_nothing_important_is_lost() -> None:
    lines = picture(60)
    assert lines[3] == "gpu-1    0 ██████▓█▓▓▓▓▓███▓▓░░░░░   61.0/80.0  100 % 3"
    assert lines[5].startswith("         2 ✕ unhealthy")
    assert " ml/train-2             9.1/16.0   50/40     borrows 10 %" in lines
    assert any(line.startswith(" team-b/llm-70b          12m  0/2 nodes") for line in lines)


def test_below_60_columns_a_node_is_a_line() -> None:
    lines = picture(40)
    assert lines[2:5] == ["NODE  CARDS by granted memory", "gpu-1  0▆ 1█ 2✕", "gpu-2  0▂"]
    assert lines[5].startswith(" ── pods on gpu-1 ──")
    assert lines[-1] == "c p w  / s ? q"


@pytest.mark.parametrize("width", [1, 7, 20, 59, 60, 99, 100, 300])
@pytest.mark.parametrize("height", [1, 2, 5, 60])
@pytest.mark.parametrize("place", list(Place))
def test_no_terminal_is_too_small(width: int, height: int, place: Place) -> None:
    picture(width, replace(first_view(""), place=place, cursor=3), height)


def test_a_long_list_is_drawn_where_the_cursor_is() -> None:
    encode = msgspec.json.encode
    feed = ClusterFeed(registry(None))
    names = [f"gpu-{n:03}" for n in range(200)]
    feed.put_nodes([feed.node(encode(card_node(n, [a100(n, 0)]))) for n in names])
    view = replace(first_view(""), cursor=150)
    taken = snapshot.take(feed.occupancy, view, name="", now_s=NOW_S)
    lines = frame(taken, view, (100, 20), BLOCKS)
    drawn = [line.plain[:7] for line in lines if line.plain.startswith("gpu-")]
    assert "gpu-150" in drawn
    assert len(drawn) < 20
    assert {"gpu-150"} < nearby(taken, view, 20) < set(names)
    assert row_count(taken, view, 100) == 200


def test_a_filter_leaves_out_cards_and_pods_that_wait() -> None:
    lines = picture(140, first_view("ns=shop"))
    assert any(line.startswith("gpu-2") for line in lines)
    assert not any("gpu-1" in line or "llm-70b" in line for line in lines)
    assert "filter: ns=shop" in lines[1]
    lines = picture(140, first_view("ns=nobody"))
    assert "nothing matches the filter (escape: no filter)" in lines


def test_pods_and_those_that_wait_have_lists_of_their_own() -> None:
    pods = picture(140, replace(first_view("ns=ml"), place=Place.PODS))
    assert [line.split()[0] for line in pods if " GiB used" in line] == [
        "ml/infer-7", "ml/train-2", "ml/alone",
    ]  # fmt: skip
    assert any("gpu-1/1" in line for line in pods)
    waiting = picture(140, replace(first_view(""), place=Place.WAITING))
    assert any("team-b/llm-70b" in line for line in waiting)
    assert "no pods wait for cards" in picture(
        140, replace(first_view("ns=ml"), place=Place.WAITING)
    )


def test_a_bar_is_drawn_to_scale_and_never_longer_than_its_place() -> None:
    [row] = [c for c in found(first_view("")).cards if c.key == ("gpu-1", "GPU-gpu-1-0")]
    assert memory_bar(row, 80, BLOCKS).plain.count("░") == 19
    assert memory_bar(row, 10, ASCII).plain == "###===#=.."
    for width in range(1, 100):
        assert len(memory_bar(row, width, BLOCKS).plain) == width


def pressed(*keys: str, rows: int = 50) -> TopView | None:
    view: TopView | None = first_view("")
    for key in keys:
        assert view is not None
        view = on_key(view, key, rows, 10)
    return view


def test_keys_move_within_the_list() -> None:
    def cursor(*keys: str, rows: int = 50) -> int:
        view = pressed(*keys, rows=rows)
        assert view is not None
        return view.cursor

    assert cursor("up") == 0
    assert cursor("down", "j", "k") == 1
    assert cursor("page-down", "page-down", "page-up") == 10
    assert cursor("end") == 49
    assert cursor("end", "down") == 49
    assert cursor("end", "home") == 0
    assert cursor("down", rows=0) == 0
    assert cursor("down", "p") == 0


def test_a_filter_is_typed_and_a_wrong_one_is_explained() -> None:
    typed = pressed("/", *"ns=mlx", "backspace", "enter")
    assert typed is not None
    assert (typed.written, typed.wanted.namespaces, typed.typing) == ("ns=ml", ("ml",), None)
    wrong = pressed("/", *"foo=q", "enter")
    assert wrong is not None
    assert (wrong.typing, wrong.problem.startswith("foo=q: write ns=")) == ("foo=q", True)
    cleared = on_key(typed, "escape", 50, 10)
    assert cleared is not None
    assert not cleared.wanted


def test_q_quits_unless_it_is_typed() -> None:
    assert pressed("q") is None
    assert pressed("ctrl-c") is None
    assert pressed("/", "q") is not None
    assert pressed("/", "ctrl-c") is None


def test_s_goes_through_all_orders() -> None:
    view: TopView | None = first_view("")
    orders = []
    for _ in RowOrder:
        assert view is not None
        view = on_key(view, "s", 50, 10)
        orders.append(view.order if view else None)
    assert set(orders) == set(RowOrder)


def test_sequences_of_terminals_are_keys() -> None:
    assert keys_in("\x1b[A\x1bOBq\x1b[5~\x7f/é\r\x1b") == [
        "up", "down", "q", "page-up", "backspace", "/", "é", "enter", "escape",
    ]  # fmt: skip
    assert keys_in("\x1b[200~x\x00") == ["x"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"), (119, "119s"), (120, "2m"), (200, "3m20s"), (720, "12m"), (10_800, "3h"),
        (12_000, "3h20m"), (90_000, "25h"), (200_000, "2d7h"), (864_000, "10d"),
        (63_072_000, "2y"), (70_000_000, "2y80d"),
    ],
)  # fmt: skip
def test_ages_are_kubectls(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_what_is_no_time_has_no_age() -> None:
    assert age("soon", 0) == "-"
    assert age("2026-11-24T12:00:00Z", NOW_S) == "12m"


def test_control_characters_of_names_do_not_reach_the_terminal() -> None:
    feed = a_feed()
    bad = holding_pod("ml", "\x1b[31mx", part("gpu-2", 0, 1))
    feed.occupancy.put_pod(feed.pod(msgspec.json.encode(bad)))
    view = replace(first_view(""), place=Place.PODS)
    taken = snapshot.take(feed.occupancy, view, name="", now_s=NOW_S)
    lines: list[Text] = frame(taken, view, (140, 20), BLOCKS)
    assert not any("\x1b" in line.plain for line in lines)
    assert any("\\x1b[31mx" in line.plain for line in lines)
