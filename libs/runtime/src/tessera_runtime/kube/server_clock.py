"""The API server's clock, by the `Date` of an answer."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Final

import aiohttp

from tessera_runtime.errors import ApiLost
from tessera_runtime.kube.credentials import KubeCredentials

_PATH: Final = "/version"
"""Answered to everybody."""
_TRUNCATED_S: Final = 0.5
"""A date has whole seconds: half of one is missing on average."""


async def read_server_time(who: KubeCredentials, *, call_s: float) -> float | None:
    """Unix seconds by the API server's clock, within half a second; None where its answer has no
    date that can be read. Raises ApiLost."""
    connector = aiohttp.TCPConnector(ssl=who.tls if who.tls is not None else True)
    try:
        async with (
            aiohttp.ClientSession(
                connector=connector, timeout=aiohttp.ClientTimeout(total=call_s)
            ) as session,
            session.get(
                f"{who.url}{_PATH}",
                headers=await who.headers(),
                proxy=who.proxy,
                server_hostname=who.server_name,
                allow_redirects=False,
            ) as response,
        ):
            date = response.headers.get("Date", "")
    except (aiohttp.ClientError, OSError, TimeoutError) as e:
        raise ApiLost(f"GET {_PATH}: {type(e).__name__}: {e}") from e
    try:
        return parsedate_to_datetime(date).timestamp() + _TRUNCATED_S
    except ValueError:
        return None
