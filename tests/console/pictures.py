"""Makes the console's pictures of the documentation: `make pictures`.

    python -m tests.console.pictures docs/pictures [--all]

With `--all` each place is drawn in light and dark, 1400, 800 and 390 pixels wide.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from msgspec.structs import replace

from tessera_console.history import points_of
from tests.console.browser import Page, binary, open_page
from tests.console.scene import SETTINGS, Scene, a_console, happenings, report, small_scene

_VIEWS = {
    "cards": "/cards", "cards-use": "/cards?color=use", "waiting": "/waiting",
    "card": "/card/gpu-1/3", "pod": "", "quotas": "/quotas", "plans": "/plans",
    "events": "/events",
}  # fmt: skip
_PUBLISHED = [("cards", False), ("cards", True), ("pod", False), ("plans", False)]
_WIDTHS = {1400: 900, 800: 900, 390: 844}


async def draw(folder: Path, *, everything: bool) -> None:
    """Write the pictures."""
    scene = small_scene()
    settings = replace(SETTINGS, access="open")
    with tempfile.TemporaryDirectory() as profile:
        async with a_console(scene, settings) as console, open_page(Path(profile)) as page:
            cluster = console.cluster
            now = scene.clock.time()
            for turn in range(120):
                await report(scene, turn)
                cluster.feed.settle()
                while cluster.feed.messages < (turn + 1) * 5:
                    await asyncio.sleep(0.01)
                cluster.feed.settle()
                cluster.history.add(now - 30 * (119 - turn), points_of(cluster.rows()))
            await happenings(scene)
            await asyncio.sleep(0.6)
            base = f"http://127.0.0.1:{console.served.port}"
            for name, dark, width in _wanted(everything=everything):
                await _shoot(page, f"{base}{_VIEWS[name] or _pod(scene)}", width, dark=dark)
                suffix = f"-{width}" if everything else ""
                file = folder / f"console-{name}{suffix}{'-dark' if dark else ''}.png"
                await page.picture(file)
                sys.stdout.write(f"{file}\n")
            assert not page.errors, page.errors


def _wanted(*, everything: bool) -> list[tuple[str, bool, int]]:
    if not everything:
        return [(name, dark, 1400) for name, dark in _PUBLISHED]
    return [(name, dark, width) for name in _VIEWS for width in _WIDTHS for dark in (False, True)]


def _pod(scene: Scene) -> str:
    return "/pod/" + next(
        key for key, item in scene.pods.items() if item["spec"].get("nodeName") == "gpu-2"
    )


async def _shoot(page: Page, url: str, width: int, *, dark: bool) -> None:
    await page.looks(width, _WIDTHS[width], dark=dark)
    await page.open(url)
    await page.until("document.querySelector('h1, .node')")
    if url.partition("/card/")[2] or url.partition("/pod/")[2]:
        await page.until("document.querySelector('.chart svg')")
    await asyncio.sleep(0.3)


def main() -> int:
    """Draw, or say why not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--all", action="store_true", dest="everything")
    options = parser.parse_args()
    if binary() is None:
        sys.stderr.write("no Chromium: `apt-get install chromium`\n")
        return 1
    options.folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(draw(options.folder, everything=options.everything))
    return 0


if __name__ == "__main__":
    sys.exit(main())
