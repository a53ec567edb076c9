"""`/debug/profile`: where a process spends its time, sampled while somebody waits for the answer.

    curl "http://<pod>:8080/debug/profile?seconds=30" > profile.txt     # flamegraph.pl profile.txt

The answer has a line for each stack of calls that was seen, the outermost call first, and how often
it was: what flame graphs are drawn of. The stacks of all threads are looked at a hundred times a
second; a thread that waits counts as well, so look for what stands above `run_once` of the loop.
Profiling is off unless a setting opens it: anybody who reaches the port could slow the process
down. One profile is taken at a time.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Annotated, Final

from aiohttp import web
from msgspec import Meta, Struct

PATH: Final = "/debug/profile"
_EVERY_S: Final = 0.01
_LEAST_S: Final = 0.1


class ProfileSettings(Struct, frozen=True, kw_only=True):
    """Profiling on demand."""

    enabled: bool = False
    """Whether `/debug/profile` is answered, on the port of health and metrics, to anybody who
    reaches it."""
    most_s: Annotated[float, Meta(gt=0)] = 60.0
    """The longest profile, in seconds."""


def route(
    settings: ProfileSettings, take: Callable[[float], Counter[str]] | None = None
) -> web.RouteDef:
    """The route for a service's server; it says how to open it where it is closed. `take` samples
    for so many seconds; None = `sample`."""
    take = sample if take is None else take
    turn = asyncio.Lock()

    async def profile(request: web.Request) -> web.Response:
        if not settings.enabled:
            return _refused(403, "profiling is off: set TESSERA_PROFILE_ENABLED=true")
        text = request.query.get("seconds", "10")
        seconds = _seconds(text, settings.most_s)
        if seconds is None:
            return _refused(
                400, f"seconds: {text!r}: write a number from {_LEAST_S:g} to {settings.most_s:g}"
            )
        if turn.locked():
            return _refused(429, "another profile is being taken: ask again")
        async with turn:
            stacks = await asyncio.to_thread(take, seconds)
        return web.Response(text="".join(f"{stack} {n}\n" for stack, n in stacks.most_common()))

    return web.get(PATH, profile)


def sample(seconds: float) -> Counter[str]:
    """The stacks of all other threads, and how often each was seen. Blocks for as long."""
    own, stacks = threading.get_ident(), Counter[str]()
    waiting = threading.Event()
    for _ in range(max(round(seconds / _EVERY_S), 1)):
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        for thread, frame in sys._current_frames().items():
            if thread != own:
                stacks[";".join([names.get(thread, "thread"), *_calls(frame)])] += 1
        waiting.wait(_EVERY_S)
    return stacks


def _calls(frame: FrameType | None) -> list[str]:
    """Outermost first: `module.function`."""
    found = []
    while frame is not None:
        found.append(f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_qualname}")
        frame = frame.f_back
    return found[::-1]


def _seconds(text: str, most_s: float) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if _LEAST_S <= seconds <= most_s else None


def _refused(status: int, why: str) -> web.Response:
    return web.Response(status=status, text=f"{why}\n")
