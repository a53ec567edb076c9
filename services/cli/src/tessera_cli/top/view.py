"""What of the picture is wanted: the place, the row, the filter. Pure: a key in, a view out."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tessera_core.occupancy.selection import BadRowFilter, RowFilter, RowOrder, parse_filter


class Place(StrEnum):
    """Which list is drawn."""

    CARDS = "cards"
    PODS = "pods"
    WAITING = "waiting"
    HELP = "help"


class TopView(Struct, frozen=True, kw_only=True):
    """What somebody at the terminal wants to see."""

    place: Place = Place.CARDS
    cursor: int = 0
    """Row of the list, from 0."""
    written: str = ""
    """The filter as it was typed."""
    wanted: RowFilter = RowFilter()
    order: RowOrder = RowOrder.NAME
    typing: str | None = None
    """The filter that is being typed; None = keys are commands."""
    problem: str = ""
    """What is wrong with it."""


_PLACES: Final = {
    "c": Place.CARDS, "n": Place.CARDS, "p": Place.PODS, "w": Place.WAITING, "?": Place.HELP,
}  # fmt: skip
_ORDERS: Final = tuple(RowOrder)


def first_view(written: str, order: RowOrder = RowOrder.NAME) -> TopView:
    """The view at the start. Raises BadRowFilter."""
    return TopView(written=written, wanted=parse_filter(written), order=order)


def on_key(view: TopView, key: str, rows: int, page: int) -> TopView | None:
    """The view after a key; None = quit. The list has so many `rows`, of which a `page` is drawn.

    Keys are characters, or `up`, `down`, `page-up`, `page-down`, `home`, `end`, `enter`, `escape`,
    `backspace`, `ctrl-c`.
    """
    if key == "ctrl-c" or (view.typing is None and key == "q"):
        return None
    if view.typing is not None:
        return _typed(view, view.typing, key)
    if key in _PLACES:
        return replace(view, place=_PLACES[key], cursor=0)
    return _changed(view, key, rows, page)


def _changed(view: TopView, key: str, rows: int, page: int) -> TopView:
    match key:
        case "/":
            return replace(view, typing=view.written, problem="")
        case "s":
            after = _ORDERS[(_ORDERS.index(view.order) + 1) % len(_ORDERS)]
            return replace(view, order=after, cursor=0)
        case "escape" if view.place is Place.HELP:
            return replace(view, place=Place.CARDS, cursor=0)
        case "escape":
            return replace(view, written="", wanted=RowFilter(), cursor=0, problem="")
        case _:
            return replace(view, cursor=_moved(view.cursor, key, rows, page))


def _moved(cursor: int, key: str, rows: int, page: int) -> int:
    wanted = {
        "up": cursor - 1, "k": cursor - 1, "down": cursor + 1, "j": cursor + 1,
        "page-up": cursor - page, "page-down": cursor + page, "home": 0, "end": rows - 1,
    }.get(key, cursor)  # fmt: skip
    return min(max(wanted, 0), max(rows - 1, 0))


def _typed(view: TopView, text: str, key: str) -> TopView:
    match key:
        case "escape":
            return replace(view, typing=None, problem="")
        case "enter":
            try:
                wanted = parse_filter(text)
            except BadRowFilter as e:
                return replace(view, problem=str(e))
            return replace(view, typing=None, written=text, wanted=wanted, cursor=0, problem="")
        case "backspace":
            return replace(view, typing=text[:-1], problem="")
        case _ if len(key) == 1 and key.isprintable():
            return replace(view, typing=text + key, problem="")
    return view
