"""The page in a real Chromium: every place, keyboard, names for screen readers, contrast, a console
that is killed, and a large cluster. `make console-test` runs it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.console import axe
from tests.console.browser import Page, binary, open_page
from tests.console.scene import (
    SETTINGS,
    TENANT,
    TENANT_OF,
    Scene,
    a_console,
    happenings,
    large_scene,
    report,
    small_scene,
)

pytestmark = [
    pytest.mark.chromium,
    pytest.mark.slow,
    pytest.mark.skipif(binary() is None, reason="needs Chromium: apt-get install chromium"),
]
OPEN = replace(SETTINGS, access="open")
PLACES = (
    "/cards",
    "/cards?color=use",
    "/waiting",
    "/card/gpu-1/3",
    "/quotas",
    "/queues",
    "/plans",
    "/events",
)
FRAMES = """new Promise((done) => {
  const times = []; let last = performance.now(); let at = 0;
  const end = document.documentElement.scrollHeight - innerHeight;
  const step = (now) => {
    times.push(now - last); last = now; at += 60; scrollTo(0, at % end);
    if (times.length < 300) requestAnimationFrame(step); else done(times.slice(10));
  };
  requestAnimationFrame(step);
})"""
CONTRAST = """(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
  const rgb = (color) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => {
    const part = (x) => ((x /= 255) <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const color = rgb(getComputedStyle(e).backgroundColor);
      if (color[3] > 250) return color;
    }
    return rgb(getComputedStyle(document.body).backgroundColor);
  };
  const found = [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || element.closest('svg, noscript, .unseen, .skip, option') || !element.checkVisibility()) continue;
    const a = light(rgb(getComputedStyle(element).color)), b = light(behind(element));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.push([element.className, element.textContent.slice(0, 40), ratio.toFixed(2)]);
  }
  return found;
})()"""  # noqa: E501  (JavaScript)
INTERACTIVE = {"link", "button", "textbox", "searchbox", "combobox", "radio", "checkbox"}


@asynccontextmanager
async def a_page(
    scene: Scene, folder: Path, path: str = "/cards", **settings: Any
) -> AsyncGenerator[tuple[Page, str]]:
    """The page at an address, with use and events."""
    async with (
        a_console(scene, replace(OPEN, **settings)) as console,
        open_page(folder) as page,
    ):
        base = f"http://127.0.0.1:{console.served.port}"
        await page.looks(1400, 900)
        await page.open(f"{base}{path}")
        yield page, base


async def test_every_place_is_drawn_named_and_legible(tmp_path: Path) -> None:
    scene = small_scene()
    async with a_page(scene, tmp_path) as (page, base):
        await report(scene)
        await happenings(scene)
        pod = next(key for key in scene.pods if "annotations" in scene.pods[key]["metadata"])
        for path in (*PLACES, f"/pod/{pod}"):
            for width, dark in ((1400, False), (800, True), (390, False)):
                await page.looks(width, 900, dark=dark)
                await page.open(base + path)
                await page.until("document.querySelector('h1, .node')")
                wide = "document.documentElement.scrollWidth - innerWidth"
                assert await page.evaluate(wide) <= 0, (path, width)
                assert await page.evaluate(CONTRAST) == [], (path, width, dark)
            tree = await page.call("Accessibility.getFullAXTree")
            nameless = [
                node for node in tree["nodes"]
                if node.get("role", {}).get("value") in INTERACTIVE
                and not node.get("ignored") and not node.get("name", {}).get("value")
            ]  # fmt: skip
            assert nameless == [], path
        assert page.errors == []


@pytest.mark.skipif(axe.npm() is None, reason="needs npm, which fetches axe-core")
async def test_axe_finds_no_fault(tmp_path: Path) -> None:
    scene = small_scene()
    script = await asyncio.to_thread(axe.script, tmp_path)
    async with a_page(scene, tmp_path / "profile") as (page, base):
        await report(scene)
        await happenings(scene)
        pod = next(key for key in scene.pods if "annotations" in scene.pods[key]["metadata"])
        for path in (*PLACES, f"/pod/{pod}"):
            for width, dark in ((1400, False), (390, True)):
                await page.looks(width, 900, dark=dark)
                await page.open(base + path)
                await page.until("document.querySelector('h2, .node, .table, .event')")
                rules, found = await axe.faults(page, script)
                assert rules > 25, path
                assert found == [], (path, width, axe.lines(found))


async def test_keys_go_from_card_to_card_and_into_one(tmp_path: Path) -> None:
    async with a_page(small_scene(), tmp_path) as (page, _):
        await page.until("document.querySelector('.card')")
        await page.press("Tab")
        assert await page.evaluate("document.activeElement.className") == "skip"
        await page.evaluate("document.querySelector('.card').focus()")
        await page.press("ArrowRight")
        assert await page.evaluate("document.activeElement.dataset.key") == "gpu-1/1"
        assert await page.evaluate("!document.getElementById('tip').hidden")
        await page.press("ArrowDown")
        assert await page.evaluate("document.activeElement.dataset.key") == "gpu-2/1"
        await page.press("Enter")
        await page.until("location.pathname === '/card/gpu-2/1' && document.querySelector('h1')")


async def test_the_legend_is_the_filter_and_has_an_address(tmp_path: Path) -> None:
    async with a_page(small_scene(), tmp_path) as (page, base):
        await page.until("document.querySelector('.chip')")
        assert await page.evaluate("document.querySelectorAll('.node').length") == 6
        await page.evaluate("document.querySelector('.chip[data-key=web]').click()")
        await page.until("document.querySelectorAll('.node').length === 5")
        assert await page.evaluate("location.search") == "?only=web"
        await page.open(f"{base}/cards?only=web&color=namespace")
        await page.until("document.querySelectorAll('.node').length === 5")
        await page.open(f"{base}/cards?q=nothing-of-this-name")
        await page.until("document.querySelector('.empty')")


async def test_a_tenant_signs_in_and_sees_its_own(tmp_path: Path) -> None:
    async with a_page(small_scene(), tmp_path, access="token") as (page, _):
        await page.until("document.querySelector('#token')")
        await page.evaluate(f"document.querySelector('#token').value = '{TENANT}'")
        await page.evaluate("document.querySelector('form button').click()")
        await page.until("document.querySelector('.node')")
        chips = await page.evaluate(
            "[...document.querySelectorAll('.chip[data-key] .name')].map((e) => e.textContent)"
        )
        assert chips == [TENANT_OF, "others' pods"]


async def test_it_comes_back_after_the_console_was_away(tmp_path: Path) -> None:
    scene = small_scene()
    async with open_page(tmp_path) as page:
        async with a_console(scene, OPEN) as console:
            port = console.served.port
            await page.looks(1400, 900)
            await page.open(f"http://127.0.0.1:{port}/cards")
            await page.until("document.querySelector('.node')")
        await page.until("document.body.classList.contains('stale')")
        said = await page.evaluate("document.querySelector('.notice').textContent")
        assert said.startswith("Not up to date since")
        assert await page.evaluate("document.querySelectorAll('.node').length") == 6
        async with a_console(scene, OPEN, port=port):
            await page.until("!document.body.classList.contains('stale')")
            await page.until("!document.querySelector('.notice')")


async def test_a_plan_is_approved_on_the_page(tmp_path: Path) -> None:
    scene = small_scene()
    async with a_page(scene, tmp_path, "/plans", access="token", acts=True) as (page, _):
        await page.until("document.querySelector('#token')")
        await page.evaluate("document.querySelector('#token').value = 'token-of-the-administrator'")
        await page.evaluate("document.querySelector('form button').click()")
        await page.until("document.querySelector('.acts .button')")
        await page.evaluate("document.querySelector('.acts .button').click()")
        await page.until("document.querySelector('main').textContent.includes('approved by admin')")
    plan = "/apis/tessera.dev/v1alpha1/rebalanceplans/defragment-7f3a"
    assert json.loads(scene.store.handle("GET", plan).body)["spec"]["decidedBy"] == "admin"


async def test_a_thousand_nodes_scroll_and_fit(tmp_path: Path) -> None:
    scene = await asyncio.to_thread(large_scene)
    settings = replace(OPEN.stream, every_s=2.0)
    async with a_page(scene, tmp_path, stream=settings) as (page, _):
        await page.until("document.querySelectorAll('.node').length > 3")
        await report(scene)
        await page.until("document.querySelector('.card .right').textContent.includes('%')")
        frames = sorted(await page.evaluate(FRAMES))
        await page.evaluate("gc()")
        heap = await page.evaluate("performance.memory.usedJSHeapSize")
        nodes = await page.evaluate("document.querySelectorAll('*').length")
    median, p95, worst = (frames[int(len(frames) * part)] for part in (0.5, 0.95, 0.999))
    sys.stdout.write(
        f"\n1,000 nodes, 8,000 cards, {len(scene.pods):,} pods: frames of {median:.1f} ms in the "
        f"median, {p95:.1f} at 95 %, {worst:.1f} at most; heap {heap / 1e6:.0f} MB; {nodes} "
        "elements\n"
    )
    assert heap < 100e6
    assert nodes < 6000


async def test_a_pod_that_waits_says_why(tmp_path: Path) -> None:
    async with a_page(small_scene(), tmp_path, "/pod/team-a/big-train") as (page, _):
        await page.until("document.querySelector('.empty h2')")
        text = await page.evaluate("document.querySelector('.empty').textContent")
        assert "It waits" in text
        assert "no card is that large" in text
