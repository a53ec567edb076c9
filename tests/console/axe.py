"""axe-core, which finds what stops people from reading or using a page: a package of npm, which
fetches it once, and no part of Tessera."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any, Final

from tests.console.browser import Page

VERSION: Final = "4.14.1"
SHA512: Final = (
    "1477dafa598d8d065f273d6af302aa203c02e83131707b7fa648cd41bd3d6b73"
    "4f8c22a0dab86ee6a6f64b8afbe804b214d36db85a2826965edfb3a0b9d546b5"
)
_FETCH_S: Final = 120
_RUN: Final = """axe.run(document, {resultTypes: ['violations']}).then((found) => ({
  rules: found.passes.length,
  faults: found.violations.map((fault) => ({
    id: fault.id, impact: fault.impact, help: fault.help,
    where: fault.nodes.slice(0, 3).map((node) => node.html.slice(0, 200)),
  })),
}))"""


def npm() -> str | None:
    """Where npm is, if it is installed."""
    return shutil.which("npm")


def script(folder: Path) -> str:
    """The script of axe-core, fetched into the folder. Raises ValueError for another package than
    the one that this names."""
    program = npm()
    assert program is not None
    subprocess.run(
        [program, "pack", f"axe-core@{VERSION}", "--pack-destination", str(folder), "--silent"],
        check=True, capture_output=True, timeout=_FETCH_S,
    )  # fmt: skip
    package = folder / f"axe-core-{VERSION}.tgz"
    if hashlib.sha512(package.read_bytes()).hexdigest() != SHA512:
        raise ValueError(f"{package.name} is not axe-core {VERSION}: its SHA-512 differs")
    with tarfile.open(package) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


async def faults(page: Page, axe: str) -> tuple[int, list[dict[str, Any]]]:
    """How many rules the page passes, and what it does not."""
    await page.evaluate(f"{axe};0")
    found = await page.evaluate(_RUN)
    return found["rules"], found["faults"]


def lines(found: list[dict[str, Any]]) -> str:
    """Faults as lines."""
    return "\n".join(json.dumps(fault) for fault in found)
