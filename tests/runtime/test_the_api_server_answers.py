"""The client over real sockets and TLS: against the embedded API server, and against servers that
break off."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qsl, quote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_embedded.apiserver.faults import Answer, Cut, Hang, InjectedFault
from tessera_embedded.apiserver.server import ApiServer, open_apiserver
from tessera_runtime.errors import (
    ApiBusy,
    ApiConflict,
    ApiExpired,
    ApiForbidden,
    ApiLost,
    ApiNotFound,
    ApiRefused,
    BadSettings,
)
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Body, Kube, Verb
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.settings import KubeSettings

MAPS = "/api/v1/namespaces/default/configmaps"


@asynccontextmanager
async def a_server(folder: Path, **settings: object) -> AsyncGenerator[tuple[ApiServer, Kube]]:
    async with open_apiserver(folder, keep=False) as server:
        token = folder / "token"
        token.write_text(server.token)
        wanted = {"url": server.url, "token_file": token, "ca_file": server.ca_path} | settings
        async with open_kube(KubeSettings(**wanted)) as kube:  # type: ignore[arg-type]
            yield server, kube


def a_map(name: str, **data: str) -> bytes:
    return msgspec.json.encode({"metadata": {"name": name}, "data": data})


async def test_objects_are_written_and_read(tmp_path: Path) -> None:
    async with a_server(tmp_path) as (_, kube):
        await kube.call(Verb.POST, MAPS, body=a_map("a", key="value"))
        answer = msgspec.json.decode(await kube.call(Verb.GET, f"{MAPS}/a"))
    assert answer["data"] == {"key": "value"}


async def test_a_watch_has_lines_of_any_length(tmp_path: Path) -> None:
    async with (
        a_server(tmp_path) as (_, kube),
        kube.stream(MAPS, query={"watch": "1"}) as lines,
    ):
        for name in "abc":
            await kube.call(Verb.POST, MAPS, body=a_map(name, big="x" * 900_000))
        reported = [msgspec.json.decode(await anext(lines))["object"] for _ in range(3)]
    assert [(item["metadata"]["name"], len(item["data"]["big"])) for item in reported] == [
        ("a", 900_000),
        ("b", 900_000),
        ("c", 900_000),
    ]


async def test_what_comes_while_a_watch_gathers_is_reported_in_order(tmp_path: Path) -> None:
    reported = []

    async def listen(lines: AsyncIterator[bytes]) -> None:
        async for line in lines:
            reported.append(msgspec.json.decode(line)["object"]["metadata"]["name"])
            if reported[-1] == "last":
                return

    names = [*(f"n{number}" for number in range(50)), "last"]
    async with (
        a_server(tmp_path, gather_s=0.1) as (_, kube),
        kube.stream(MAPS, query={"watch": "1"}) as lines,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(listen(lines), name="listener")
        for name in names:
            await kube.call(Verb.POST, MAPS, body=a_map(name, big="x" * 10_000))
    assert reported == names


async def test_each_refusal_has_its_error(tmp_path: Path) -> None:
    async with a_server(tmp_path) as (server, kube):
        await kube.call(Verb.POST, MAPS, body=a_map("a"))
        with pytest.raises(ApiConflict, match="AlreadyExists"):
            await kube.call(Verb.POST, MAPS, body=a_map("a"))
        with pytest.raises(ApiNotFound) as missing:
            await kube.call(Verb.GET, f"{MAPS}/none")
        assert missing.value.reason == "NotFound"
        with pytest.raises(ApiRefused) as invalid:
            await kube.call(Verb.POST, MAPS, body=a_map("Not A Name"))
        assert invalid.value.status == 422
        server.store.compact()
        async with kube.stream(MAPS, query={"watch": "1", "resourceVersion": "1"}) as lines:
            assert msgspec.json.decode(await anext(lines))["object"]["code"] == 410
        server.faults.add(InjectedFault("GET", ".*", Answer(429, retry_after_s=7)))
        with pytest.raises(ApiBusy) as busy:
            await kube.call(Verb.GET, MAPS)
        assert busy.value.retry_after_s == 7


@pytest.mark.parametrize(
    ("code", "error"),
    [(403, ApiForbidden), (410, ApiExpired), (500, ApiLost), (503, ApiLost), (504, ApiLost)],
)
async def test_a_status_is_an_error_for_calls_and_watches(
    tmp_path: Path, code: int, error: type[Exception]
) -> None:
    async with a_server(tmp_path) as (server, kube):
        server.faults.add(InjectedFault("*", ".*", Answer(code), times=2))
        with pytest.raises(error):
            await kube.call(Verb.POST, MAPS, body=a_map("a"))
        with pytest.raises(error):
            async with kube.stream(MAPS, query={"watch": "1"}):
                pass
    assert server.faults.waiting == 0


@pytest.mark.parametrize("cut", [Cut(after=False), Cut(after=True)])
@pytest.mark.parametrize("verb", [Verb.POST, Verb.PUT, Verb.PATCH, Verb.DELETE])
async def test_a_write_that_is_cut_off_is_lost_and_not_sent_again(
    tmp_path: Path, verb: Verb, cut: Cut
) -> None:
    async with a_server(tmp_path) as (server, kube):
        if verb is not Verb.POST:
            await kube.call(Verb.POST, MAPS, body=a_map("a"))
        path = MAPS if verb is Verb.POST else f"{MAPS}/a"
        server.faults.add(InjectedFault(verb, ".*", cut))
        body = b"" if verb is Verb.DELETE else a_map("a", k="new")
        kind = Body.MERGE_PATCH if verb is Verb.PATCH else Body.JSON
        with pytest.raises(ApiLost):
            await kube.call(verb, path, body=body, kind=kind)
        done = {
            Verb.POST: lambda: server.store.handle("GET", f"{MAPS}/a").code == 200,
            Verb.PATCH: lambda: b'"new"' in server.store.handle("GET", f"{MAPS}/a").body,
            Verb.PUT: lambda: b'"new"' in server.store.handle("GET", f"{MAPS}/a").body,
            Verb.DELETE: lambda: server.store.handle("GET", f"{MAPS}/a").code == 404,
        }
        assert done[verb]() is cut.after


async def test_no_answer_is_lost_after_the_deadline(tmp_path: Path) -> None:
    async with a_server(tmp_path, call_s=0.3) as (server, kube):
        server.faults.add(InjectedFault("*", ".*", Hang(), times=2))
        with pytest.raises(ApiLost, match=r"no answer in 0\.3 s"):
            await kube.call(Verb.GET, MAPS)
        with pytest.raises(ApiLost, match=r"no answer in 0\.3 s"):
            async with kube.stream(MAPS, query={"watch": "1"}):
                pass


async def test_nobody_there_is_lost_too() -> None:
    async with open_kube(KubeSettings(url="http://127.0.0.1:9")) as kube:
        with pytest.raises(ApiLost, match="GET /api"):
            await kube.call(Verb.GET, "/api")


async def test_a_broken_watch_says_so(tmp_path: Path) -> None:
    async with (
        a_server(tmp_path) as (server, kube),
        kube.stream(MAPS, query={"watch": "1"}) as lines,
    ):
        server.cut_watches()
        with pytest.raises(ApiLost):
            await anext(lines)


async def test_a_new_token_is_used_when_the_old_is_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    async with a_server(tmp_path) as (server, _):
        token.write_text("stale")
        settings = KubeSettings(url=server.url, token_file=token, ca_file=server.ca_path)
        async with open_kube(settings) as kube:
            with pytest.raises(ApiForbidden, match="401"):
                await kube.call(Verb.GET, MAPS)
            token.write_text(f"{server.token}\n")
            await kube.call(Verb.GET, MAPS)


async def test_a_kubeconfig_will_do(tmp_path: Path) -> None:
    async with (
        a_server(tmp_path) as (server, _),
        open_kube(KubeSettings(kubeconfig=str(server.kubeconfig))) as kube,
    ):
        await kube.call(Verb.GET, MAPS)


async def test_what_kubernetes_says_a_pod_will_do(tmp_path: Path) -> None:
    async with a_server(tmp_path) as (server, _):
        settings = KubeSettings(
            host="127.0.0.1",
            port=int(server.url.rpartition(":")[2]),
            token_file=tmp_path / "token",
            ca_file=server.ca_path,
        )
        async with open_kube(settings) as kube:
            await kube.call(Verb.GET, MAPS)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (KubeSettings(), "set KUBECONFIG to the path"),
        (KubeSettings(kubeconfig="/nowhere"), "KUBECONFIG: '/nowhere'"),
        (KubeSettings(url="https://a", token_file=Path("/nowhere")), "kube.token_file: '/nowhere'"),
        (KubeSettings(url="https://a", ca_file=Path("/nowhere")), "kube.ca_file: '/nowhere'"),
        (KubeSettings(host="10.0.0.1"), "kube.token_file: '/var/run/secrets"),
        (KubeSettings(url="http://a:b"), "kube.url: 'http://a:b'"),
    ],
)
async def test_credentials_that_are_missing_are_named(settings: KubeSettings, says: str) -> None:
    with pytest.raises(BadSettings) as caught:
        async with open_kube(settings):
            pass
    assert says in str(caught.value)


async def test_a_kubeconfig_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("apiVersion: v1\nkind: Config\n")
    with pytest.raises(BadSettings, match="KUBECONFIG"):
        async with open_kube(KubeSettings(kubeconfig=str(tmp_path / "config"))):
            pass


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def a_raw_server(answer: bytes) -> AsyncGenerator[Kube]:
    """A server that reads a request, says this, and hangs up."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with open_kube(KubeSettings(url=f"http://127.0.0.1:{port}")) as kube:
            yield kube


def an_answer(status: str, body: str, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
        b"not HTTP at all\r\n\r\n",
        an_answer("302 Found", "", "Location: http://elsewhere/"),
        an_answer("408 Request Timeout", ""),
        an_answer("502 Bad Gateway", "<html>"),
    ],
)
async def test_answers_that_do_not_say_are_lost(answer: bytes) -> None:
    async with a_raw_server(answer) as kube:
        with pytest.raises(ApiLost):
            await kube.call(Verb.POST, MAPS, body=b"{}")


async def test_a_404_of_a_proxy_is_not_the_api_servers() -> None:
    async with a_raw_server(an_answer("404 Not Found", "<html>no such site</html>")) as kube:
        with pytest.raises(ApiNotFound) as caught:
            await kube.call(Verb.GET, paths.pod("default", "a"))
    assert caught.value.reason == ""


async def test_an_event_that_is_cut_in_half_is_no_event() -> None:
    body = b'{"type":"ADDED","object":{}}\n{"type":"AD'
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    answer = head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    async with a_raw_server(answer) as kube, kube.stream(MAPS) as lines:
        assert await anext(lines) == b'{"type":"ADDED","object":{}}'
        with pytest.raises(ApiLost, match="in the middle"):
            await anext(lines)


def test_names_cannot_leave_their_place_in_a_path() -> None:
    assert paths.pod("a/b", "../c", "binding") == "/api/v1/namespaces/a%2Fb/pods/..%2Fc/binding"
    assert paths.in_group("g.io", "v1", "things") == "/apis/g.io/v1/things"


@given(st.text(min_size=1), st.text(min_size=1))
def test_names_are_quoted_as_urls_want_it(namespace: str, name: str) -> None:
    quoted = [quote(text, safe="") for text in (namespace, name)]
    assert paths.pod(namespace, name) == f"/api/v1/namespaces/{quoted[0]}/pods/{quoted[1]}"


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_a_query_says_what_was_put_into_it(query: dict[str, str]) -> None:
    assert dict(parse_qsl(paths.query_string(query), keep_blank_values=True)) == query
