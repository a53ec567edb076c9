"""The command line with the packages that it declares and none of its extras: those of this
environment, linked into a folder."""

from __future__ import annotations

import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[2]
COMMAND_ALONE: Final = (sys.executable, "-S", "-m", "tessera_cli")
"""Runs with `PYTHONPATH` set to a folder of `packages_alone`."""


def needed(name: str, extras: frozenset[str] = frozenset()) -> frozenset[str]:
    """The packages that are installed with this one."""
    found: set[str] = set()
    todo = [(name, extras)]
    while todo:
        one, wanted = todo.pop()
        found.add(canonicalize_name(one))
        for line in distribution(one).requires or ():
            asked = Requirement(line)
            marker = asked.marker
            applies = not marker or any(marker.evaluate({"extra": e}) for e in ("", *wanted))
            if applies and (asked.extras or canonicalize_name(asked.name) not in found):
                todo.append((asked.name, frozenset(asked.extras)))
    return frozenset(found)


def packages_alone(folder: Path) -> Path:
    """The folder, with the packages that `tessera-cli` needs."""
    for name in needed("tessera-cli"):
        one = distribution(name)
        if name.startswith("tessera-"):
            (source,) = ROOT.glob(f"*/{name.removeprefix('tessera-')}/src/tessera_*")
            (folder / source.name).symlink_to(source)
            continue
        for top in {file.parts[0] for file in one.files or ()} - {"..", "__pycache__"}:
            (folder / top).symlink_to(Path(str(one.locate_file(top))))
    return folder
