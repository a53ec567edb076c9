"""Open an API server on this machine: certificates, tokens, a kubeconfig, and what was there."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec
from aiohttp import web

from tessera_embedded.apiserver.access import Access, Account
from tessera_embedded.apiserver.admission.requests import ApiServerEnvironment
from tessera_embedded.apiserver.admission.webhooks import open_webhooks
from tessera_embedded.apiserver.aggregation import open_aggregator, publish
from tessera_embedded.apiserver.certificates import (
    ServerCertificates,
    certificates,
    front_proxy,
    server_tls,
)
from tessera_embedded.apiserver.faults import Faults
from tessera_embedded.apiserver.http import Frontend
from tessera_embedded.apiserver.http_types import ADMIN, AuthenticatedUser
from tessera_embedded.apiserver.objects.write_ahead_log import Journal
from tessera_embedded.apiserver.settings import ApiServerSettings
from tessera_embedded.apiserver.store import Store
from tessera_runtime import atomic_write

_DEFAULTS: Final = ApiServerSettings()


class ApiServer:
    """A running API server: where it is, who may call it, and what can be done to it."""

    def __init__(
        self, store: Store, frontend: Frontend, faults: Faults, folder: Path,
        tokens: Mapping[str, str],
    ) -> None:  # fmt: skip
        self.store, self.faults, self.folder = store, faults, folder
        self.tokens: Mapping[str, str] = tokens
        """Bearer tokens by user name, the administrator's among them."""
        self.url = ""
        self.ca_path = folder / "ca.crt"
        self.kubeconfig = folder / "kubeconfig"
        self._frontend = frontend

    @property
    def token(self) -> str:
        """The administrator's bearer token."""
        return self.tokens[ADMIN.name]

    def cut_watches(self) -> None:
        """Cut the connections of all watches at once."""
        self._frontend.cut_watches()


@asynccontextmanager
async def open_apiserver(
    folder: Path,
    *,
    port: int = 0,
    accounts: Sequence[Account] = (),
    keep: bool = True,
    settings: ApiServerSettings = _DEFAULTS,
    world: ApiServerEnvironment | None = None,
) -> AsyncIterator[ApiServer]:
    """Serve an API on 127.0.0.1 until the context ends.

    Certificates, tokens and the kubeconfig are kept in `folder`, and so is the journal of all
    objects unless `keep` is False: a server opened there again goes on where the last one ended.
    """
    faults, access = Faults(), Access()
    journal = Journal(folder / "journal.jsonl") if keep else None
    store = Store(world, window=settings.window, access=access)
    made, tokens = await asyncio.to_thread(_prepared, folder, settings, accounts)
    shows = await asyncio.to_thread(front_proxy, folder)
    _admit(access, tokens, accounts)
    if journal is not None:
        await asyncio.to_thread(journal.read, store.objects)
        store.objects.on_change = journal.append
    store.open()
    await asyncio.to_thread(publish, store, shows)
    try:
        async with (
            open_webhooks(store.objects) as webhooks,
            open_aggregator(store, shows) as aggregator,
        ):
            frontend = Frontend(store, webhooks, aggregator, faults, settings)
            server = ApiServer(store, frontend, faults, folder, tokens)
            async with _listening(frontend, made, settings, port) as url:
                server.url = url
                await asyncio.to_thread(_write_kubeconfig, server)
                yield server
    finally:
        if journal is not None:
            journal.close()


@asynccontextmanager
async def _listening(
    frontend: Frontend, made: ServerCertificates, settings: ApiServerSettings, port: int
) -> AsyncIterator[str]:
    runner = web.AppRunner(
        frontend.app(), access_log=None, handler_cancellation=True,
        shutdown_timeout=settings.stop_s,
    )  # fmt: skip
    await runner.setup()
    try:
        tls = await asyncio.to_thread(server_tls, made)
        site = web.TCPSite(
            runner, settings.host, port, ssl_context=tls, reuse_address=True, backlog=1024
        )
        await site.start()
        yield f"https://{settings.host}:{runner.addresses[0][1]}"
    finally:
        frontend.end_watches()
        await runner.cleanup()


def _prepared(
    folder: Path, settings: ApiServerSettings, accounts: Sequence[Account]
) -> tuple[ServerCertificates, dict[str, str]]:
    folder.mkdir(parents=True, exist_ok=True)
    made = certificates(folder, settings.host)
    path = folder / "tokens.json"
    tokens: dict[str, str] = {}
    if path.exists():
        tokens = msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    for name in (ADMIN.name, *(account.token_name for account in accounts)):
        tokens.setdefault(name, secrets.token_urlsafe(24))
    atomic_write.replace(path, msgspec.json.format(msgspec.json.encode(tokens)), 0o600)
    return made, tokens


def _admit(access: Access, tokens: Mapping[str, str], accounts: Sequence[Account]) -> None:
    access.give(tokens[ADMIN.name], ADMIN)
    for account in accounts:
        groups = (*account.groups, "system:authenticated")
        user = AuthenticatedUser(account.name, groups=groups, extra=account.extra)
        access.give(tokens[account.token_name], user, account.rules)


def _write_kubeconfig(server: ApiServer) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "embedded",
        "clusters": [{
            "name": "embedded",
            "cluster": {"server": server.url, "certificate-authority": str(server.ca_path)},
        }],
        "users": [{"name": "admin", "user": {"token": server.token}}],
        "contexts": [
            {"name": "embedded", "context": {"cluster": "embedded", "user": "admin"}}
        ],
    }  # fmt: skip
    text = msgspec.json.format(msgspec.json.encode(config)) + b"\n"
    atomic_write.replace(server.kubeconfig, text, 0o600)  # others wait for it, and read it at once
