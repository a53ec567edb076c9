"""The webhook's certificate: made once, renewed early, and always checkable with what is known."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from tessera_embedded.apiserver.store import Store as Objects
from tessera_runtime.errors import BadSettings
from tessera_runtime.kube.create_or_update import UnexpectedContent
from tessera_scheduler.webhook.certificate_authority import CertificateLifetimes, Issued, due
from tessera_scheduler.webhook.certificates import CertificateSettings, open_certificates
from tessera_testing.clock import START, LoopClock
from tessera_testing.kube import FakeKube, a_store

HOME = "tessera-system"
NAMES = ("tessera-scheduler.tessera-system.svc", "127.0.0.1")
DAY = 86400.0
LIVES = CertificateLifetimes(authority_s=900 * DAY, serving_s=90 * DAY, overlap_s=DAY)
SECRET = f"/api/v1/namespaces/{HOME}/secrets/tessera-webhook-certificate"
SOON = CertificateSettings(refresh_s=0.02, overlap_s=3600)


def checks(issued: Issued, bundle: str, at: float) -> bool:
    """Whether somebody who knows `bundle` accepts the certificate."""
    known = Store(x509.load_pem_x509_certificates(bundle.encode()))
    verifier = (
        PolicyBuilder().store(known).time(datetime.fromtimestamp(at, UTC))
        .build_server_verifier(x509.DNSName(NAMES[0]))
    )  # fmt: skip
    try:
        verifier.verify(x509.load_pem_x509_certificate(issued.cert.encode()), [])
    except VerificationError:
        return False
    return True


def test_nothing_is_done_before_it_is_due() -> None:
    first = due(None, NAMES, START, LIVES)
    assert checks(first, first.bundle, START)
    for day in range(60):
        assert due(first, NAMES, START + day * DAY, LIVES) is first


def test_it_is_renewed_when_a_third_is_left() -> None:
    first = due(None, NAMES, START, LIVES)
    now = START + 60 * DAY
    second = due(first, NAMES, now, LIVES)
    assert second.cert != first.cert
    assert second.authorities == first.authorities
    assert checks(second, first.bundle, now)


def test_other_names_need_another_certificate() -> None:
    first = due(None, NAMES, START, LIVES)
    second = due(first, ("other",), START, LIVES)
    assert second.cert != first.cert
    assert second.names == ("other", *NAMES)
    assert checks(second, first.bundle, START)


def test_replicas_with_other_names_do_not_make_certificates_in_turn() -> None:
    first = due(None, NAMES, START, LIVES)
    second = due(first, ("other",), START, LIVES)
    assert due(second, NAMES, START, LIVES) is second
    assert due(second, ("other",), START, LIVES) is second


def test_a_client_that_learns_a_day_late_always_accepts() -> None:
    issued = due(None, NAMES, START, LIVES)
    seen: list[tuple[Issued, str]] = []
    now, roots = START, {issued.authorities[0].cert}
    for _ in range(3000):
        issued = due(issued, NAMES, now, LIVES)
        seen.append((issued, issued.bundle))
        roots.update(a.cert for a in issued.authorities)
        if len(seen) > 1:
            before, bundle_before = seen[-2]
            assert issued is before or checks(issued, bundle_before, now)
            assert before.bundle == issued.bundle or checks(before, issued.bundle, now)
        assert issued.until > now + 20 * DAY
        assert len(issued.authorities) <= 2
        now += DAY
    assert len(roots) > 3


async def content(file: Path) -> bytes:
    return await asyncio.to_thread(file.read_bytes)


def mode(file: Path) -> int:
    return file.stat().st_mode & 0o777


def a_cluster() -> Objects:
    store = a_store(LoopClock())
    store.handle(
        "POST", "/api/v1/namespaces", body=msgspec.json.encode({"metadata": {"name": HOME}})
    )
    return store


def stored(store: Objects) -> Any:
    return msgspec.json.decode(store.handle("GET", SECRET).body)["data"]


async def test_two_replicas_serve_the_same_certificate() -> None:
    store, served = a_cluster(), set[bytes]()

    async def replica() -> None:
        async with open_certificates(FakeKube(store), HOME, NAMES, SOON, LoopClock()) as made:
            await asyncio.sleep(0.1)
            served.add(await content(made.cert_file))

    async with asyncio.TaskGroup() as group:
        for i in range(4):
            group.create_task(replica(), name=f"replica {i}")
    assert len(served) == 1


async def test_a_renewed_certificate_reaches_the_other_replica() -> None:
    store, clock = a_cluster(), LoopClock()
    async with (
        open_certificates(FakeKube(store), HOME, NAMES, SOON, clock) as one,
        open_certificates(FakeKube(store), HOME, NAMES, SOON, clock) as other,
    ):
        before = await content(one.cert_file)
        assert await asyncio.to_thread(mode, one.key_file) == 0o600
        clock.jump(61 * DAY)
        async with asyncio.timeout(60):
            while before in (await content(one.cert_file), await content(other.cert_file)):
                await asyncio.sleep(0.01)
        assert await content(one.cert_file) == await content(other.cert_file)
        assert one.bundle == other.bundle
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        await asyncio.to_thread(context.load_cert_chain, one.cert_file, one.key_file)


async def test_nothing_is_left_in_the_file_system() -> None:
    store = a_cluster()
    async with open_certificates(FakeKube(store), HOME, NAMES, SOON, LoopClock()) as made:
        folder = made.cert_file.parent
    assert not await asyncio.to_thread(folder.exists)


async def test_a_secret_that_cannot_be_read_is_named() -> None:
    store = a_cluster()
    body = {"metadata": {"name": "tessera-webhook-certificate"}, "data": {"issued.json": "e30="}}
    store.handle("POST", f"/api/v1/namespaces/{HOME}/secrets", body=msgspec.json.encode(body))
    with pytest.raises(
        UnexpectedContent, match=r"tessera-webhook-certificate: data\[issued.json\]"
    ):
        async with open_certificates(FakeKube(store), HOME, NAMES, SOON, LoopClock()):
            pass


async def test_given_files_are_followed(tmp_path: Path) -> None:
    settings = CertificateSettings(
        cert_file=tmp_path / "tls.crt",
        key_file=tmp_path / "tls.key",
        ca_file=tmp_path / "ca.crt",
        refresh_s=0.02,
    )
    await asyncio.to_thread((tmp_path / "ca.crt").write_text, "one")
    store = a_cluster()
    kube = FakeKube(store)
    async with open_certificates(kube, HOME, NAMES, settings, LoopClock()) as given:
        assert (given.cert_file, given.bundle) == (tmp_path / "tls.crt", b"one")
        await asyncio.to_thread((tmp_path / "ca.crt").write_text, "two")
        async with asyncio.timeout(60):
            while given.bundle != b"two":
                await asyncio.sleep(0.01)
    assert kube.calls == []


@pytest.mark.parametrize(
    ("settings", "begins"),
    [
        (CertificateSettings(cert_file=Path("a")), "certificates.cert_file and "),
        (CertificateSettings(overlap_s=60), "certificates.overlap_s: 60: "),
        (CertificateSettings(authority_s=100 * DAY), "certificates.serving_s: "),
    ],
    ids=["half a pair", "overlap", "authority"],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(
    settings: CertificateSettings, begins: str
) -> None:
    with pytest.raises(BadSettings) as caught:
        settings.check()
    assert str(caught.value).startswith(begins)
