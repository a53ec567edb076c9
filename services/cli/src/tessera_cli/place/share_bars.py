"""A line for each share: its card, a bar for its part of the card, memory and cores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from rich.console import Console
from rich.text import Text

from tessera_cli.place.json_output import number
from tessera_core.fleet.fleet import Fleet
from tessera_schema.grants import Share
from tessera_schema.verdicts import PlanOutcome

_BAR: Final = 8
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"


class _ShareBar(Struct, frozen=True):
    container: str
    """Empty where the pod has bars for one container only."""
    card: str
    part: float
    memory: str
    cores: str


class ShareBars:
    """The bars of all pods, padded so that they stand in columns."""

    def __init__(self, outcomes: Iterable[PlanOutcome], fleet: Fleet, to: Console) -> None:
        """Reads totals of cards from the fleet."""
        self._to = to
        self._of = {id(outcome): _bars(outcome, fleet) for outcome in outcomes if outcome.grant}
        every = [bar for bars in self._of.values() for bar in bars]
        self._card = max((len(t.card) for t in every), default=0)
        self._memory = max((len(t.memory) for t in every), default=0)
        self._cores = max((len(t.cores) for t in every), default=0)

    def lines(self, outcome: PlanOutcome) -> list[Text]:
        """The lines of one pod."""
        bars = self._of.get(id(outcome), [])
        name = max((len(t.container) for t in bars), default=0)
        return [self._line(bar, name) for bar in bars]

    def width(self) -> int:
        """Columns that the longest line takes."""
        name = max((len(t.container) for bars in self._of.values() for t in bars), default=0)
        return self._card + _BAR + self._memory + self._cores + 6 + (name + 2 if name else 0)

    def _line(self, share: _ShareBar, name: int) -> Text:
        parts: list[Text | str | tuple[str, str]] = []
        if name:
            parts += [(share.container.ljust(name), "dim"), "  "]
        parts += [share.card.ljust(self._card), "  ", bar(share.part, self._to)]
        parts += ["  ", share.memory.rjust(self._memory), "  ", share.cores.rjust(self._cores)]
        line = Text.assemble(*parts, no_wrap=False, overflow="fold")
        line.rstrip()
        return line


def bar(part: float, to: Console) -> Text:
    """A bar of a card, filled from the left."""
    full, eighth = divmod(round(min(max(part, 0), 1) * _BAR * 8), 8)
    if to.options.ascii_only:
        return Text("#" * full + "." * (_BAR - full))
    filled = "█" * full + (_EIGHTHS[eighth] if eighth else "")
    rest = _BAR - len(filled)
    if to.color_system is None:
        return Text(filled + "·" * rest)
    return Text.assemble((filled, "cyan on grey23"), (" " * rest, "on grey23"))


def _bars(outcome: PlanOutcome, fleet: Fleet) -> list[_ShareBar]:
    shares: Sequence[Share] = outcome.grant.shares if outcome.grant is not None else ()
    several = len({share.container for share in shares}) > 1
    return [_share_bar(share, outcome.node, fleet, named=several) for share in shares]


def _share_bar(share: Share, node: str, fleet: Fleet, *, named: bool) -> _ShareBar:
    card = fleet.card(node, share.card)
    total = card.memory_mib if card is not None else 0
    memory = share.memory_mib / total if total else 0.0
    cores = f"{number(share.cores_percent):g} %" if share.cores_percent else ""
    cores = "best-effort" if share.best_effort else cores
    return _ShareBar(
        container=share.container if named else "",
        card=f"card {share.index}",
        part=1.0 if share.exclusive else memory or share.cores_percent / 100,
        memory=f"{share.memory_mib}/{total} MiB",
        cores="whole" if share.exclusive else cores,
    )
