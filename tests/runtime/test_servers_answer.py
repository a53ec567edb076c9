import asyncio
import datetime
import io
import socket
import ssl
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tessera_runtime.errors import BadSettings
from tessera_runtime.http.connections import ConnectionLimits
from tessera_runtime.http.handover import streams
from tessera_runtime.http.server import (
    HttpServer,
    HttpSettings,
    PortReporter,
    application,
    serving,
    status_routes,
)
from tessera_runtime.http.tls import TlsSettings, open_tls
from tessera_runtime.metrics import GaugeMetricFamily, MetricsRegistry

SETTINGS = HttpSettings()


async def get(url: str, **more: object) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url, **more) as answer:  # type: ignore[arg-type]
        return answer.status, await answer.text()


async def test_health_readiness_and_metrics_are_served() -> None:
    metrics = MetricsRegistry("test")
    metrics.counter("binds", "Bindings.", ("outcome",)).labels("bound").inc(3)
    problems = ["waiting for pods"]
    app = application(SETTINGS)
    app.add_routes(status_routes(ready=lambda: problems[0], metrics=metrics))
    async with serving(app, SETTINGS) as served:
        assert await get(f"{served.url}/healthz") == (200, "ok\n")
        assert await get(f"{served.url}/readyz") == (503, "waiting for pods\n")
        problems[0] = ""
        assert await get(f"{served.url}/readyz") == (200, "ok\n")
        status, text = await get(f"{served.url}/metrics")
    assert status == 200
    assert 'tessera_test_binds_total{outcome="bound"} 3.0' in text


async def test_large_bodies_are_taken_up_to_the_limit() -> None:
    async def size(request: web.Request) -> web.Response:
        return web.Response(text=str(len(await request.read())))

    settings = HttpSettings(body_bytes=5_000_000)
    app = application(settings)
    app.router.add_post("/", size)
    async with serving(app, settings) as served, aiohttp.ClientSession() as session:
        async with session.post(served.url, data=io.BytesIO(b"x" * 4_999_999)) as answer:
            assert await answer.text() == "4999999"
        async with session.post(served.url, data=io.BytesIO(b"x" * 5_000_001)) as answer:
            assert answer.status == 413


async def test_an_answer_that_streams_outlasts_the_time_of_a_request() -> None:
    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        if request.path == "/streams":
            streams(request)
        for _ in range(30):
            await response.write(b"x")
            await asyncio.sleep(0.1)
        return response

    settings = HttpSettings(limits=ConnectionLimits(request_s=2.0))
    app = application(settings)
    app.add_routes([web.get("/streams", stream), web.get("/lasts", stream)])
    async with serving(app, settings) as served:
        assert await get(f"{served.url}/streams") == (200, "x" * 30)
        with pytest.raises(aiohttp.ClientError):
            await get(f"{served.url}/lasts")


async def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BadSettings, match=f"server extender: .* port {port}: .* free port"):
            async with serving(application(SETTINGS), HttpSettings(port=port), name="extender"):
                pass


async def test_an_address_that_is_not_own_is_named() -> None:
    with pytest.raises(BadSettings, match=r"cannot listen on '203\.0\.113\.1'"):
        async with serving(application(SETTINGS), HttpSettings(host="203.0.113.1")):
            pass


async def test_all_ports_are_reported_in_one_file(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "ports.json"
    ports = PortReporter(file)
    async with (
        serving(application(SETTINGS), SETTINGS, name="http", ports=ports) as one,
        serving(application(SETTINGS), SETTINGS, name="webhook", ports=ports) as two,
    ):
        assert file.read_text() == f'{{"http":{one.port},"webhook":{two.port}}}'
    assert [path.name for path in file.parent.iterdir()] == ["ports.json"]


@pytest.mark.parametrize(
    ("takes_s", "stop_s", "received"), [(0.1, 60, "done"), (1_000_000, 0.1, "cut")]
)
async def test_a_request_that_is_open_may_end_and_one_that_does_not_is_cut(
    takes_s: float, stop_s: float, received: str
) -> None:
    begun = asyncio.Event()

    async def slow(_: web.Request) -> web.Response:
        begun.set()
        await asyncio.sleep(takes_s)
        return web.Response(text="done")

    settings = HttpSettings(stop_s=stop_s)
    app = application(settings)
    app.router.add_get("/", slow)
    async with asyncio.TaskGroup() as group, serving(app, settings) as served:
        asked = group.create_task(text_or_cut(served.url), name="asked")
        await begun.wait()
    assert asked.result() == received


async def text_or_cut(url: str) -> str:
    try:
        return (await get(url))[1]
    except aiohttp.ClientError:
        return "cut"


def test_an_address_of_ipv6_is_written_so() -> None:
    assert HttpServer("a", "::1", 80).url == "http://[::1]:80"


def write_certificate(folder: Path, name: str) -> TlsSettings:
    """A certificate that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "tls.crt").write_bytes(made.public_bytes(pem))
    (folder / "tls.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return TlsSettings(cert_file=folder / "tls.crt", key_file=folder / "tls.key", reload_s=0.05)


async def name_served(served: HttpServer) -> str:
    """Common name of the certificate that a new connection sees."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    _, writer = await asyncio.open_connection(served.host, served.port, ssl=context)
    try:
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        writer.close()
    return str(x509.load_der_x509_certificate(shown).subject.rdns[0].rfc4514_string())


async def until_served(served: HttpServer, name: str) -> None:
    async with asyncio.timeout(60):
        while await name_served(served) != f"CN={name}":
            await asyncio.sleep(0.02)


async def test_a_new_certificate_is_taken_and_open_connections_stay(tmp_path: Path) -> None:
    settings = write_certificate(tmp_path, "old")
    app = application(SETTINGS)
    app.add_routes(status_routes(ready=str, metrics=MetricsRegistry("t")))
    async with open_tls(settings) as tls, serving(app, SETTINGS, tls=tls) as served:
        assert await name_served(served) == "CN=old"
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=False, limit=1)
        ) as session:
            async with session.get(f"{served.url}/healthz") as answer:
                assert answer.status == 200
            write_certificate(tmp_path, "new")
            await until_served(served, "new")
            async with session.get(f"{served.url}/healthz") as answer:
                assert answer.status == 200


@pytest.mark.parametrize("broken", ["", "nonsense"])
async def test_a_certificate_that_cannot_be_used_changes_nothing(
    tmp_path: Path, broken: str
) -> None:
    settings = write_certificate(tmp_path, "old")
    async with (
        open_tls(settings) as tls,
        serving(application(SETTINGS), SETTINGS, tls=tls) as served,
    ):
        good = settings.cert_file.read_text()
        settings.cert_file.write_text(broken)
        await tls.reload()
        assert await name_served(served) == "CN=old"
        settings.cert_file.write_text(good)
        write_certificate(tmp_path, "new")
        await until_served(served, "new")


async def test_a_key_of_another_certificate_changes_nothing(tmp_path: Path) -> None:
    settings = write_certificate(tmp_path, "old")
    (tmp_path / "other").mkdir()
    other = write_certificate(tmp_path / "other", "other")
    async with (
        open_tls(settings) as tls,
        serving(application(SETTINGS), SETTINGS, tls=tls) as served,
    ):
        settings.key_file.write_bytes(other.key_file.read_bytes())
        await tls.reload()
        assert await name_served(served) == "CN=old"


async def test_no_certificate_at_the_start_is_reported(tmp_path: Path) -> None:
    settings = TlsSettings(cert_file=tmp_path / "a", key_file=tmp_path / "b")
    with pytest.raises(BadSettings, match=r"a and .*b: No such file"):
        async with open_tls(settings):
            pass


def test_metrics_are_named_by_their_service() -> None:
    metrics = MetricsRegistry("agent")
    metrics.gauge("cards", "Cards.").set(8)
    metrics.gauge(".their_name", "A name of the field's.").set(1)
    metrics.histogram("prepare_seconds", "Time.").observe(0.02)

    def read() -> list[GaugeMetricFamily]:
        family = GaugeMetricFamily(metrics.full("load"), "Load.", labels=["card"])
        family.add_metric(["g0"], 0.5)
        return [family]

    metrics.collect(read)
    metrics.of_process()
    text = metrics.text().decode()
    assert "tessera_agent_cards 8.0" in text
    assert "\ntheir_name 1.0" in text
    assert 'tessera_agent_prepare_seconds_bucket{le="0.025"} 1.0' in text
    assert 'tessera_agent_load{card="g0"} 0.5' in text
    assert "process_resident_memory_bytes" in text
