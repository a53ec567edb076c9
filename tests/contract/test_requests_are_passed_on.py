"""Aggregated APIs: an extension server learns who calls, and is called for users alone who may."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from tessera_embedded.ports import reserved_ports
from tests.contract.certificates import Authority
from tests.contract.client import ANSWER_S, Json, open_client
from tests.contract.cluster import Cluster, OpenCluster

APISERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
AUTHENTICATION = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


class Extension:
    """A server that answers with what it was sent."""

    def __init__(self, group: str) -> None:
        self.group = group

    async def answer(self, request: web.Request) -> web.Response:
        """Discovery, or what came."""
        version = f"{self.group}/v1"
        if request.path.rstrip("/") == f"/apis/{version}":
            kind = {"name": "notes", "singularName": "note", "namespaced": True, "kind": "Note",
                    "verbs": ["get", "list"]}  # fmt: skip
            return web.json_response({"kind": "APIResourceList", "apiVersion": "v1",
                                      "groupVersion": version, "resources": [kind]})  # fmt: skip
        if not request.path.startswith(f"/apis/{version}/namespaces/"):
            return web.json_response({"paths": {}}, status=404)
        shown = request.get_extra_info("peercert") or {}
        return web.json_response({
            "kind": "Note", "apiVersion": version, "metadata": {"name": "n"},
            "user": request.headers.get("X-Remote-User"),
            "groups": request.headers.getall("X-Remote-Group", []),
            "token": request.headers.get("Authorization", ""),
            "shown": dict(part[0] for part in shown.get("subject", ())).get("commonName"),
            "query": dict(request.query), "path": request.path,
        })  # fmt: skip


@asynccontextmanager
async def extended(cluster: Cluster, folder: Path) -> AsyncGenerator[str]:
    """An extension server and its APIService; the group's name."""
    group = f"{cluster.own}.example.com"
    found = (await cluster.admin.get(AUTHENTICATION)).done["data"]
    authority, name = Authority("extension"), f"ext.{cluster.own}.svc"
    pair = authority.server(name)
    (folder / "ext.pem").write_bytes(pair.key + pair.certificate)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "ext.pem")
    tls.load_verify_locations(cadata=found["requestheader-client-ca-file"])
    tls.verify_mode = ssl.CERT_OPTIONAL
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", Extension(group).answer)
    runner = web.AppRunner(app)
    await runner.setup()
    with reserved_ports(1) as [port]:
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls, reuse_address=True).start()
        service: Json = {
            "metadata": {"name": "ext"},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        }
        await cluster.make(cluster.path("services"), service)
        body: Json = {
            "metadata": {"name": f"v1.{group}"},
            "spec": {
                "group": group, "version": "v1", "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "service": {"namespace": cluster.own, "name": "ext", "port": port},
                "caBundle": base64.b64encode(authority.certificate).decode(),
            },
        }  # fmt: skip
        await cluster.make(APISERVICES, body)
        try:
            await until(cluster, f"/apis/{group}/v1", 200)
            yield group
        finally:
            await cluster.admin.delete(f"{APISERVICES}/v1.{group}")
            await runner.cleanup()


async def until(cluster: Cluster, path: str, status: int) -> None:
    """Wait for that answer: a server takes a moment to learn of an APIService."""
    async with asyncio.timeout(ANSWER_S):
        while (await cluster.admin.get(path)).status != status:
            await asyncio.sleep(0.05)


async def test_the_extension_server_learns_who_calls(
    open_cluster: OpenCluster, tmp_path: Path
) -> None:
    async with open_cluster() as cluster, extended(cluster, tmp_path) as group:
        path = f"/apis/{group}/v1/namespaces/{cluster.own}/notes/n"
        reported = (await cluster.admin.get(path, cards="true")).done
        allowed = json.loads((await cluster.admin.get(AUTHENTICATION)).done["data"][
            "requestheader-allowed-names"
        ])  # fmt: skip
    assert "system:masters" in reported["groups"]
    assert "system:authenticated" in reported["groups"]
    assert reported["user"]
    assert reported["token"] == ""
    assert reported["shown"] in allowed
    assert (reported["query"], reported["path"]) == ({"cards": "true"}, path)


async def test_who_may_not_is_not_passed_on(open_cluster: OpenCluster, tmp_path: Path) -> None:
    async with open_cluster() as cluster, extended(cluster, tmp_path) as group:
        server = cluster.server
        path = f"/apis/{group}/v1/namespaces/{cluster.own}/notes"
        async with open_client(server.url, server.ca_path, server.tokens["nobody"]) as nobody:
            refused = (await nobody.get(f"{path}/n")).refused(403, "Forbidden")
            many = (await nobody.get(path)).refused(403, "Forbidden")
    assert f'cannot get resource "notes" in API group "{group}"' in refused
    assert f'cannot list resource "notes" in API group "{group}"' in many


async def test_the_group_can_be_found_out(open_cluster: OpenCluster, tmp_path: Path) -> None:
    async with open_cluster() as cluster, extended(cluster, tmp_path) as group:
        groups = (await cluster.admin.get("/apis")).done["groups"]
        one = (await cluster.admin.get(f"/apis/{group}")).done
    assert group in [each["name"] for each in groups]
    assert (one["kind"], one["preferredVersion"]["version"]) == ("APIGroup", "v1")


async def test_a_server_that_is_away_is_503(open_cluster: OpenCluster, tmp_path: Path) -> None:
    async with open_cluster() as cluster, extended(cluster, tmp_path) as group:
        name = f"{APISERVICES}/v1.{group}"
        spec = {"spec": {"service": {"port": 1}}}
        (await cluster.admin.patch(name, spec)).done  # noqa: B018  (checks)
        await until(cluster, f"/apis/{group}/v1/namespaces/{cluster.own}/notes", 503)
