"""Where clients are asked for certificates, those without one may send small bodies only."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import aiohttp
import msgspec
import pytest
from msgspec.structs import replace

from tessera_runtime.http.connections import CONNECTIONS_MOST
from tessera_runtime.http.fast_path import STRANGER_BODY_MOST
from tests.runtime.strangers import a_client, still_open, strangers
from tests.runtime.test_servers_answer import write_certificate
from tests.webhook.setting import a_manifest, a_review
from tests.webhook.test_answers_over_https import SETTINGS, Served, a_webhook

SMALL = msgspec.json.encode(a_review(a_manifest()))
LARGE = msgspec.json.encode(a_review(a_manifest() | {"padding": "x" * 2 * STRANGER_BODY_MOST}))


def context(served: Served, folder: Path | None) -> ssl.SSLContext:
    made = ssl.create_default_context(cadata=served.bundle().decode())
    if folder is not None:
        made.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return made


async def status(served: Served, body: bytes, folder: Path | None, **more: str) -> int:
    async with (
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context(served, folder))
        ) as session,
        session.post(f"{served.url}/mutate", data=body, headers=more) as response,
    ):
        return response.status


@pytest.fixture
def clients(tmp_path: Path) -> tuple[Path, Path]:
    """A folder with a certificate that is asked for, and one with another."""
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    for folder in (right, wrong):
        folder.mkdir()
        write_certificate(folder, folder.name)
    return right, wrong


async def test_only_a_client_with_a_certificate_sends_large_bodies(
    clients: tuple[Path, Path],
) -> None:
    right, wrong = clients
    async with a_webhook(settings=replace(SETTINGS, client_ca_file=right / "tls.crt")) as served:
        assert await status(served, SMALL, None) == 200
        assert await status(served, LARGE, None) == 413
        assert await status(served, SMALL, right) == 200
        assert await status(served, LARGE, right) == 200
        with pytest.raises(aiohttp.ClientError):  # where the framework reads, it is cut
            await status(served, LARGE, None, Connection="close")
        with pytest.raises((aiohttp.ClientError, OSError)):
            await status(served, SMALL, wrong)


async def test_without_the_setting_no_certificate_is_requested(clients: tuple[Path, Path]) -> None:
    async with a_webhook() as served:
        assert await status(served, LARGE, None) == 200
        assert await status(served, LARGE, clients[1]) == 200


async def test_a_crowd_of_strangers_does_not_push_out_who_is_known(
    clients: tuple[Path, Path],
) -> None:
    right, _ = clients
    async with a_webhook(settings=replace(SETTINGS, client_ca_file=right / "tls.crt")) as served:
        host, port = served.url.removeprefix("https://").split(":")
        address = (host, int(port))
        async with (
            a_client(address, context(served, right)) as known,
            strangers(address, 2 * CONNECTIONS_MOST) as crowd,
        ):
            await asyncio.sleep(0.05)
            assert (await known.exchange(SMALL, "/mutate"))[0] == 200
            assert await still_open(crowd) == CONNECTIONS_MOST - 1
