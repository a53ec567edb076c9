"""`tessera events`: follows the message bus, a line a message."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from tessera_cli.errors import BadSettings, Unreadable
from tessera_runtime import errors
from tessera_runtime.bus.api import News
from tessera_runtime.bus.client import open_bus
from tessera_runtime.bus.settings import BusSettings
from tessera_schema.subjects import ROOT

_OPTIONS: Final = {
    "url": "--url", "cluster": "--cluster", "user": "--user", "creds_file": "--creds",
}  # fmt: skip


def check(settings: BusSettings) -> None:
    """See whether one could connect so. Raises BadSettings, and Unreadable for a file of
    credentials: a service would wait for it, nobody at a terminal would."""
    if bool(settings.user) != bool(settings.password_file):
        raise BadSettings("--user: give it with --password-file, or neither")
    try:
        settings.check()
    except errors.BadSettings as e:
        text = str(e)
        for field, option in _OPTIONS.items():
            text = text.replace(f"bus.{field}", option)
        raise BadSettings(text) from e
    for name in filter(None, (settings.password_file, settings.creds_file)):
        try:
            Path(name).read_bytes()
        except OSError as e:
            raise Unreadable(name, e.strerror or str(e), "give a file that you may read") from e


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
