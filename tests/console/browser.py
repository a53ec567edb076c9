"""Chromium, driven over its DevTools protocol: a WebSocket with JSON, and no package more."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp

from tessera_embedded.parent import ends_with_parent

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
START_S: Final = 60.0
WAIT_S: Final = 60.0
_FLAGS: Final = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-extensions", "--disable-background-networking", "--hide-scrollbars",
    "--enable-precise-memory-info", "--remote-debugging-port=0", "--remote-allow-origins=*",
    "--force-color-profile=srgb", "--js-flags=--expose-gc",
)  # fmt: skip


def binary() -> str | None:
    """Where Chromium is, if it is installed."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Page:
    """One page."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.errors: list[str] = []
        """What the page's scripts, or its policy, complained of."""
        self._socket = socket
        self._id = 0
        self._answers: dict[int, asyncio.Future[Any]] = {}

    async def run(self) -> None:
        """Read what the browser says, until it hangs up."""
        async for message in self._socket:
            said = json.loads(message.data)
            if "id" in said:
                answer = self._answers.pop(said["id"], None)
                if answer is not None and not answer.done():
                    answer.set_result(said)
            elif said["method"] == "Runtime.exceptionThrown":
                details = said["params"]["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description", str(details)))
            elif said["method"] == "Log.entryAdded":
                entry = said["params"]["entry"]
                if entry["level"] == "error":
                    self.errors.append(f"{entry['text']} {entry.get('url', '')}")

    async def call(self, method: str, **params: Any) -> Any:
        """One command of the protocol."""
        self._id += 1
        number = self._id
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        async with asyncio.timeout(WAIT_S):
            said = await answer
        assert "error" not in said, (method, said["error"])
        return said["result"]

    async def evaluate(self, script: str) -> Any:
        """The value of an expression, awaited where it is a promise."""
        result = await self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    async def until(self, script: str) -> None:
        """Wait until an expression is true."""
        async with asyncio.timeout(WAIT_S):
            while True:
                found = await self.evaluate(f"!!({script})")
                if found:
                    return
                await asyncio.sleep(0.05)

    async def open(self, url: str) -> None:
        """Go to an address."""
        await self.call("Page.navigate", url=url)
        await self.until("document.readyState === 'complete'")

    async def looks(self, width: int, height: int, *, dark: bool = False) -> None:
        """Of which size the window is, and whether it prefers dark."""
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
            mobile=width < 500,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])

    async def press(self, key: str) -> None:
        """Press and release a key."""
        code = {"Tab": 9, "Enter": 13, "ArrowRight": 39, "ArrowDown": 40, "Escape": 27}.get(key, 0)
        more = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            await self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key,
                windowsVirtualKeyCode=code, **(more if kind == "keyDown" else {}),
            )  # fmt: skip

    async def picture(self, file: Path) -> None:
        """Write what is seen as a PNG."""
        answer = await self.call("Page.captureScreenshot", format="png")
        await asyncio.to_thread(file.write_bytes, base64.b64decode(answer["data"]))


@asynccontextmanager
async def open_page(folder: Path) -> AsyncGenerator[Page]:
    """A Chromium of its own with one page, until left."""
    found = binary()
    assert found is not None
    process = await asyncio.create_subprocess_exec(
        found, *_FLAGS, f"--user-data-dir={folder}", "about:blank",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True, preexec_fn=ends_with_parent(),
    )  # fmt: skip
    try:
        ports = folder / "DevToolsActivePort"
        async with asyncio.timeout(START_S):
            while not ports.exists() or "\n" not in ports.read_text():
                await asyncio.sleep(0.05)
        port = ports.read_text().split("\n")[0]
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json") as answer:
                pages = await answer.json()
            url = next(p["webSocketDebuggerUrl"] for p in pages if p["type"] == "page")
            async with (
                session.ws_connect(url, max_msg_size=2**28) as socket,
                asyncio.TaskGroup() as group,
            ):
                page = Page(socket)
                reading = group.create_task(page.run(), name="browser")
                for domain in ("Page", "Runtime", "Log"):
                    await page.call(f"{domain}.enable")
                yield page
                reading.cancel()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
