"""The aggregated API over TLS, asked as an API server asks it that passes a request on."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from msgspec import Struct

from tessera_core.gang_scheduling.view import QueueView
from tessera_embedded.apiserver import AuthenticatedUser, Rule
from tessera_runtime.http.server import HttpSettings
from tessera_scheduler.explain.explanation import Explainer
from tessera_scheduler.visibility import VisibilitySettings, open_visibility
from tessera_scheduler.webhook.certificates import CertificateSettings
from tessera_scheduler.webhook.settings import WebhookSettings
from tessera_schema.endpoints.queue_states import QUEUES_PLURAL
from tessera_schema.endpoints.visibility import (
    GROUP,
    PLURAL,
    ROOT,
    PodExplanation,
    decode_pod_explanation,
)
from tests.contract.certificates import Authority, Pair
from tests.visibility.ledger import REGISTRY, Scheduler

EDIT = (
    Rule(("get", "list"), (PLURAL, QUEUES_PLURAL), groups=(GROUP,), namespaces=("team",)),
    Rule(("get", "list"), ("pods",), namespaces=("team",)),
)
"""What the role `edit` in one namespace amounts to, as far as this goes."""
ALL = (
    Rule(("get", "list"), (PLURAL, QUEUES_PLURAL), groups=(GROUP,)),
    Rule(("get", "list"), ("pods",)),
)
AUTH = "/api/v1/namespaces/kube-system/configmaps"


class Plane(Scheduler):
    """A scheduler, and an API server that passes requests on."""

    def __init__(self, folder: Path, nodes: int = 2, **more: Any) -> None:
        super().__init__(nodes, **more)
        self.folder = folder
        self.authority = Authority("front-proxy-ca")
        for user, rules in (("edith", EDIT), ("adam", ALL), ("nobody", ())):
            self.store.access.give(f"{user}-token", AuthenticatedUser(user), rules)
        self.publish(self.authority)
        self.leader = ""
        self.queues: Sequence[QueueView] | None = ()

    def publish(self, authority: Authority, names: Sequence[str] = ("front-proxy-client",)) -> None:
        """Write which clients the cluster lets speak for others."""
        data = {
            "requestheader-client-ca-file": authority.certificate.decode(),
            "requestheader-allowed-names": json.dumps(list(names)),
            "requestheader-username-headers": '["X-Remote-User"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        }
        name = "extension-apiserver-authentication"
        body = msgspec.json.encode({"metadata": {"name": name}, "data": data})
        if self.store.handle("PUT", f"{AUTH}/{name}", body=body).code != 200:
            assert self.store.handle("POST", AUTH, body=body).code == 201

    def namespace(self, name: str) -> None:
        """Create one."""
        self._made("/api/v1/namespaces", {"metadata": {"name": name}})

    def hold(self, node: str, gib: int, namespace: str, name: str) -> None:
        """A pod of that namespace holds so much of the node's card."""
        self.pod(name, gib, namespace)
        self.filter_pod(name, namespace)
        entry = next(e for e in self.ledger.entries() if e.grant.name == name)
        assert entry.grant.node == node
        self.ledger.binding_sent(entry.grant.uid)
        self.ledger.resolve_binding(entry.grant.uid, bound=True)


class Answer(Struct, frozen=True):
    """What came back."""

    status: int
    body: Any
    headers: dict[str, str] = {}


class ApiServer:
    """Passes requests on."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url, self._folder = url, folder

    async def send(
        self, path: str, user: str = "edith", *, shows: Pair | None = None, method: str = "GET",
        headers: dict[str, str] | None = None,
    ) -> Answer:  # fmt: skip
        """Send a request of the user with that certificate; `user` may be empty."""
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        if shows is not None:
            file = self._folder / "shown.pem"
            file.write_bytes(shows.key + shows.certificate)
            tls.load_cert_chain(file)
        sent = {"X-Remote-User": user} if user else {}
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                method, self._url + path, headers={**sent, **(headers or {})}, ssl=tls
            ) as response,
        ):
            raw = await response.read()
            body = json.loads(raw) if raw.startswith(b"{") else raw.decode()
            return Answer(response.status, body, dict(response.headers))

    async def until_believed(self, shows: Pair) -> None:
        """Until this certificate is accepted: the server has to read which authority to trust."""
        async with asyncio.timeout(10):
            while True:
                try:
                    if (await self.send("/apis", shows=shows)).status == 200:
                        return
                except aiohttp.ClientError:
                    await asyncio.sleep(0.01)


class Asking:
    """An API server that has the right certificate."""

    def __init__(self, server: ApiServer, shows: Pair) -> None:
        self.server, self.shows = server, shows

    async def get(self, path: str, user: str = "edith", accept: str = "") -> Answer:
        """The answer to that user."""
        headers = {"Accept": accept} if accept else {}
        return await self.server.send(path, user, shows=self.shows, headers=headers)

    async def explain(self, name: str, user: str = "edith", query: str = "") -> PodExplanation:
        """The explanation that the user gets."""
        found = await self.get(f"{ROOT}/namespaces/team/{PLURAL}/{name}{query}", user)
        assert found.status == 200, found
        return decode_pod_explanation(msgspec.json.encode(found.body))


@asynccontextmanager
async def asking(
    plane: Plane, settings: VisibilitySettings | None = None
) -> AsyncGenerator[Asking]:
    """Serve the API on this ledger."""
    explainer = Explainer(
        registry=REGISTRY, ledger=plane.ledger, decisions=plane.decisions, clock=plane.clock,
        other_leader=lambda: plane.leader,
    )  # fmt: skip
    wanted = settings or VisibilitySettings(
        http=HttpSettings(body_bytes=1024), register=False, refresh_s=0.05
    )
    served = plane.authority.server("tessera-scheduler.tessera-system.svc")
    cert, key = plane.folder / "tls.crt", plane.folder / "tls.key"
    cert.write_bytes(served.certificate)
    key.write_bytes(served.key)
    webhook = WebhookSettings(certificate=CertificateSettings(cert_file=cert, key_file=key))
    async with open_visibility(
        wanted, webhook, kube=plane.kube, namespace="tessera-system", explainer=explainer,
        metrics=plane.metrics, queues=lambda: plane.queues,
    ) as listening:  # fmt: skip
        assert listening is not None
        server = ApiServer(listening.url, plane.folder)
        asked = Asking(server, plane.authority.server("front-proxy-client"))
        await server.until_believed(asked.shows)
        yield asked
