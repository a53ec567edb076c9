"""Authority and certificate are renewed while the API server calls for pod after pod."""

from __future__ import annotations

import asyncio
import base64
import ssl
from pathlib import Path
from typing import Final

import msgspec
import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from tessera_runtime.clock import SystemClock
from tessera_runtime.http.server import HttpServer, HttpSettings
from tessera_runtime.kube.api import Verb
from tessera_runtime.kube.create_or_update import secret, to_secret
from tessera_scheduler.webhook import WebhookSettings
from tessera_scheduler.webhook.certificate_authority import CertificateLifetimes, Issued, due
from tessera_scheduler.webhook.certificates import ENTRY, SECRET, CertificateSettings
from tessera_scheduler.webhook.registration import RegistrationSettings
from tessera_testing.clock import LoopClock
from tests.contract.client import Json
from tests.webhook.cluster import HOME, Cluster, open_cluster, the_webhook

pytestmark = pytest.mark.slow
DAY: Final = 86400.0
HOUR: Final = 3600.0
LIVES: Final = CertificateLifetimes(authority_s=270 * DAY, serving_s=90 * DAY, overlap_s=HOUR)
REGISTRATION: Final = RegistrationSettings(host="127.0.0.1", refresh_s=0.2)
SETTINGS: Final = WebhookSettings(
    http=HttpSettings(),
    registration=REGISTRATION,
    certificate=CertificateSettings(
        authority_s=LIVES.authority_s, serving_s=LIVES.serving_s, overlap_s=LIVES.overlap_s,
        refresh_s=0.2,
    ),
)  # fmt: skip
DUE_S: Final = 2 * HOUR
"""Seconds until the certificate is renewed; the authority is, at once."""
PATIENCE_S: Final = 60.0
PODS = "/api/v1/namespaces/team/pods"
CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/tessera"


def of_long_ago(now: float) -> Issued:
    """What is there on the day on which both are renewed. It goes on being valid for a month."""
    names = REGISTRATION.names(HOME)
    first = due(None, names, now - LIVES.authority_s * 0.7, LIVES)
    return due(first, names, now - LIVES.serving_s * 2 / 3 + DUE_S, LIVES)


async def keep(cluster: Cluster, issued: Issued) -> None:
    place = secret(HOME, SECRET)
    data = {ENTRY: to_secret(msgspec.json.encode(issued))}
    body = msgspec.json.encode(place.object(type="Opaque", data=data))
    await cluster.kube.call(Verb.POST, place.collection, body=body)


async def trusted(cluster: Cluster) -> str:
    """What the API server checks certificates with."""
    config = (await cluster.admin.get(CONFIGURATION)).done["webhooks"][0]["clientConfig"]
    return base64.b64decode(config["caBundle"]).decode()


async def served_now(cluster: Cluster, served: HttpServer) -> x509.Certificate:
    """What a new connection is shown, checked as the API server checks it now."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", served.port, ssl=ssl.create_default_context(cadata=await trusted(cluster))
    )
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    assert reader.at_eof() or not await reader.read()
    return x509.load_der_x509_certificate(shown)


def issued_by(certificate: x509.Certificate, authority: str) -> bool:
    try:
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.encode()))
    except (ValueError, InvalidSignature):
        return False
    return True


async def test_no_pod_is_refused_while_both_are_renewed(tmp_path: Path) -> None:
    async with open_cluster("real", tmp_path) as cluster:
        clock = LoopClock(start=SystemClock().time() - 2 * DUE_S)  # it is ahead of nobody's, ever
        before = of_long_ago(clock.time())
        await keep(cluster, before)
        async with the_webhook(cluster, settings=SETTINGS, clock=clock) as served:
            first = await served_now(cluster, served)
            assert issued_by(first, before.authorities[0].cert)
            answers: list[Json] = []
            done = asyncio.Event()

            async def create() -> None:
                while not done.is_set():
                    name = f"p-{len(answers)}"
                    answers.append((await cluster.admin.post(PODS, requests_cards(name))).done)

            async def many_more() -> None:
                so_far = len(answers)
                async with asyncio.timeout(PATIENCE_S):
                    while len(answers) < so_far + 20:
                        await asyncio.sleep(0.05)

            async with asyncio.TaskGroup() as group:
                group.create_task(create(), name="pods")
                async with asyncio.timeout(PATIENCE_S):
                    while (await trusted(cluster)).count("BEGIN CERTIFICATE") < 2:
                        await asyncio.sleep(0.2)
                await many_more()
                clock.jump(DUE_S)
                async with asyncio.timeout(PATIENCE_S):
                    while issued_by(await served_now(cluster, served), before.authorities[0].cert):
                        await asyncio.sleep(0.2)
                await many_more()
                done.set()
            assert {pod["spec"]["schedulerName"] for pod in answers} == {"tessera-scheduler"}


def requests_cards(name: str) -> Json:
    container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}
