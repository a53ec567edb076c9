"""What a server leaves in its folder, who may call it, and what it takes."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from tessera_embedded.apiserver import (
    Account,
    ApiServer,
    ApiServerSettings,
    Rule,
    open_apiserver,
)
from tests.embedded.apiserver.setting import PODS, a_pod

BINDER = Account(
    "binder",
    (Rule(("get", "list", "watch"), ("pods",)), Rule(("create",), ("pods/binding",))),
)
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


async def said(
    server: ApiServer, token: str, method: str, path: str, **request: Any
) -> tuple[int, dict[str, Any]]:
    """One call with that token."""
    tls = ssl.create_default_context(cafile=server.ca_path)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    headers |= request.pop("headers", {})
    connections = aiohttp.TCPConnector(force_close=True)
    async with (
        aiohttp.ClientSession(connector=connections) as session,
        session.request(method, server.url + path, headers=headers, ssl=tls, **request) as answer,
    ):
        content = await answer.read()
        return answer.status, msgspec.json.decode(content) if content[:1] == b"{" else {}


async def test_a_kubeconfig_says_all_that_a_client_needs(tmp_path: Path) -> None:
    async with open_apiserver(tmp_path) as server:
        config = msgspec.json.decode(server.kubeconfig.read_bytes())
        assert server.url.startswith("https://127.0.0.1:")
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    assert cluster == {"server": server.url, "certificate-authority": str(server.ca_path)}
    assert user == {"token": server.token}
    for secret in ("kubeconfig", "tokens.json", "server.key"):
        assert (tmp_path / secret).stat().st_mode & 0o077 == 0


async def test_who_reads_its_files_while_it_starts_again_has_them_whole(tmp_path: Path) -> None:
    async with open_apiserver(tmp_path):
        names = ("kubeconfig", "tokens.json")
        before = {name: (tmp_path / name).read_bytes() for name in names}
    with ExitStack() as stack:
        readers = {name: stack.enter_context((tmp_path / name).open("rb")) for name in names}
        async with open_apiserver(tmp_path, accounts=[BINDER]):
            assert {name: reader.read() for name, reader in readers.items()} == before
            assert all((tmp_path / name).read_bytes() != before[name] for name in names)


async def test_clients_go_on_after_a_restart(tmp_path: Path) -> None:
    async with open_apiserver(tmp_path, accounts=[BINDER]) as first:
        port = int(first.url.rpartition(":")[2])
        authority = first.ca_path.read_bytes()
    async with open_apiserver(tmp_path, accounts=[BINDER], port=port) as second:
        assert second.url == first.url
        assert second.ca_path.read_bytes() == authority
        assert dict(second.tokens) == dict(first.tokens)
        assert (await said(second, first.token, "GET", PODS))[0] == 200


async def test_an_account_may_do_what_its_rules_say(tmp_path: Path) -> None:
    async with open_apiserver(tmp_path, accounts=[BINDER]) as server:
        token = server.tokens["binder"]
        assert (await said(server, server.token, "POST", PODS, json=a_pod()))[0] == 201
        assert (await said(server, token, "GET", f"{PODS}/p"))[0] == 200
        binding = {"metadata": {"name": "p"}, "target": {"name": "n"}}
        bound = await said(server, token, "POST", f"{PODS}/p/binding", json=binding)
        refused = await said(server, token, "DELETE", f"{PODS}/p")
    assert bound[0] == 201
    assert (refused[0], refused[1]["message"]) == (
        403,
        'pods "p" is forbidden: User "binder" cannot delete resource "pods" in API group "" in '
        'the namespace "default"',
    )


@pytest.mark.parametrize(
    ("token", "path", "status"),
    [
        ("", "/readyz", 200),
        ("", "/version", 200),
        ("", PODS, 403),
        ("", "/apis", 403),
        ("nobody's", "/readyz", 401),
        ("nobody's", PODS, 401),
    ],
)
async def test_strangers_see_that_it_is_well_and_no_more(
    tmp_path: Path, token: str, path: str, status: int
) -> None:
    async with open_apiserver(tmp_path) as server:
        assert (await said(server, token, "GET", path))[0] == status


async def test_a_body_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    small = ApiServerSettings(body_bytes=1000)
    async with open_apiserver(tmp_path, settings=small) as server:
        code, body = await said(server, server.token, "POST", PODS, data=b"x" * 1001)
    assert (code, body["reason"]) == (413, "RequestEntityTooLarge")


async def test_other_languages_than_json_are_not_spoken(tmp_path: Path) -> None:
    async with open_apiserver(tmp_path) as server:
        proto = {"Content-Type": "application/vnd.kubernetes.protobuf"}
        sent = await said(server, server.token, "POST", PODS, data=b"k8s", headers=proto)
        wanted = {"Accept": "application/vnd.kubernetes.protobuf"}
        asked = await said(server, server.token, "GET", PODS, headers=wanted)
    assert (sent[0], asked[0]) == (415, 406)


async def test_people_see_a_table(tmp_path: Path) -> None:
    async with open_apiserver(tmp_path) as server:
        await said(server, server.token, "POST", PODS, json=a_pod("web"))
        asking = {"Accept": TABLE}
        _, table = await said(server, server.token, "GET", PODS, headers=asking)
    names = [column["name"] for column in table["columnDefinitions"]]
    assert table["kind"] == "Table"
    assert dict(zip(names, table["rows"][0]["cells"], strict=True)) | {"Age": ""} == {
        "Name": "web", "Ready": "0/1", "Status": "Pending", "Restarts": 0, "Node": "<none>",
        "Age": "",
    }  # fmt: skip


async def test_what_is_not_stored_is_gone_with_the_server(tmp_path: Path) -> None:
    for _ in range(2):
        async with open_apiserver(tmp_path, keep=False) as server:
            assert (await said(server, server.token, "POST", PODS, json=a_pod()))[0] == 201


@pytest.mark.parametrize("busy", [False, True], ids=["nothing-changes", "others-change"])
async def test_quiet_watches_are_sent_bookmarks(tmp_path: Path, *, busy: bool) -> None:
    quick = ApiServerSettings(bookmark_s=0.3)
    async with open_apiserver(tmp_path, settings=quick) as server, asyncio.TaskGroup() as tasks:
        tls = ssl.create_default_context(cafile=server.ca_path)
        headers = {"Authorization": f"Bearer {server.token}"}
        mine = "fieldSelector=metadata.name%3Dmine"
        url = f"{server.url}{PODS}?watch=1&allowWatchBookmarks=true&{mine}"
        others = tasks.create_task(_keep_changing(server)) if busy else None
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.get(url, ssl=tls) as answer,
        ):
            event = msgspec.json.decode(await answer.content.readline())
        if others is not None:
            others.cancel()
    assert event["type"] == "BOOKMARK"
    version = int(event["object"]["metadata"]["resourceVersion"])
    assert 0 < version <= server.store.objects.version


async def _keep_changing(server: ApiServer) -> None:
    """Pods come far more often than bookmarks do."""
    for i in count():
        await said(server, server.token, "POST", PODS, json=a_pod(name=f"other-{i}"))
