"""Lines of a screen as an SVG, which needs nothing from elsewhere."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from typing import Final

from rich.console import Console
from rich.text import Text

_FONT: Final = re.compile(r"@font-face \{.*?\}", re.DOTALL)
"""Fonts of other hosts: without them the reader's own monospace is used."""


def as_svg(lines: Iterable[Text], width: int, title: str) -> str:
    """A picture of a terminal of so many columns."""
    to = Console(
        record=True, width=width, file=io.StringIO(), force_terminal=True,
        color_system="truecolor", highlight=False, markup=False,
    )  # fmt: skip
    for line in lines:
        to.print(line, no_wrap=True)
    return _FONT.sub("", to.export_svg(title=title, unique_id="demo"))
