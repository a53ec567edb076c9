"""`tessera events`: follows the message bus, a line a message."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tessera_runtime.bus.api import News
from tessera_runtime.bus.client import open_bus
from tessera_runtime.bus.settings import BusSettings
from tessera_schema.subjects import ROOT


async def follow(
    settings: BusSettings, subject: str, put: Callable[[News], None], *, most: int = 0
) -> None:
    """Give every message from now on to `put`, for ever, or until `most` have come."""
    count = 0
    wanted = subject or f"{ROOT}.{settings.cluster}.>"
    async with open_bus(settings, "cli", "events") as bus, bus.news(wanted) as messages:
        async for news in messages:
            put(news)
            count += 1
            if count == most:
                return


def as_line(news: News) -> str:
    """For people: time, subject, data."""
    return f"{news.envelope.time}  {news.subject}  {news.data.decode(errors='replace')}"


def as_json(news: News) -> str:
    """For programs: the whole message as one JSON object."""
    whole = {
        "subject": news.subject,
        "envelope": msgspec.to_builtins(news.envelope),
        "data": msgspec.Raw(news.data),
    }
    return msgspec.json.encode(whole).decode()
