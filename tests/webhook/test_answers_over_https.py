"""The webhook's HTTPS side: bodies, statuses, metrics, traces, certificates that change."""

from __future__ import annotations

import asyncio
import base64
import io
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
from msgspec.structs import replace
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tessera_core.admission.guarded_env import OWN_ENVIRONMENT
from tessera_core.quota.allowance import NO_LIMITS
from tessera_embedded.apiserver import Store
from tessera_embedded.apiserver.verbs.patches import apply, operations
from tessera_runtime.clock import SystemClock
from tessera_runtime.http.server import HttpSettings
from tessera_runtime.metrics import MetricsRegistry as Metrics
from tessera_runtime.tracing import tracing
from tessera_runtime.tracing.tracing import TelemetrySettings
from tessera_scheduler.webhook import WebhookSettings, open_webhook
from tessera_scheduler.webhook.certificates import CertificateSettings
from tessera_scheduler.webhook.registration import RegistrationSettings
from tessera_schema.annotation_keys import TRACE_KEY
from tessera_testing.clock import LoopClock
from tessera_testing.kube import FakeKube, a_store
from tests.webhook.setting import REGISTRY, Json, a_manifest, a_review

HOME = "tessera-system"
SETTINGS = WebhookSettings(
    http=HttpSettings(body_bytes=2**20), namespace_s=0.001, ask_s=60,
    certificate=CertificateSettings(refresh_s=0.05, overlap_s=3600),
    registration=RegistrationSettings(host="127.0.0.1", refresh_s=0.05),
)  # fmt: skip
MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/tessera"
OWN = {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}


class Served(msgspec.Struct, frozen=True):
    """A webhook, what it stands on, and its URL."""

    store: Store
    kube: FakeKube
    clock: LoopClock
    metrics: Metrics
    url: str

    def bundle(self) -> bytes:
        """What the API server has to trust."""
        found = msgspec.json.decode(self.store.handle("GET", MUTATING).body)
        return base64.b64decode(found["webhooks"][0]["clientConfig"]["caBundle"])

    async def trusted(self, bundle: bytes) -> bool:
        """Whether somebody who knows this bundle accepts the certificate."""
        try:
            await self.post("/mutate", b"", bundle)
        except aiohttp.ClientConnectorCertificateError:
            return False
        return True

    async def post(self, path: str, body: bytes, bundle: bytes = b"") -> tuple[int, str]:
        """Status and text, on a connection of its own that trusts the registered bundle alone, or
        another one."""
        context = ssl.create_default_context(cadata=(bundle or self.bundle()).decode())
        connector = aiohttp.TCPConnector(ssl=context, force_close=True)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.post(self.url + path, data=io.BytesIO(body)) as response,
        ):
            return response.status, await response.text()

    async def review(self, path: str, pod: Json, **review: Any) -> Json:
        """The response to a review of the pod."""
        status, text = await self.post(path, msgspec.json.encode(a_review(pod, **review)))
        assert status == 200, text
        answer: Json = msgspec.json.decode(text)
        assert (answer["kind"], answer["apiVersion"]) == ("AdmissionReview", "admission.k8s.io/v1")
        response: Json = answer["response"]
        assert response["uid"] == "r-1"
        return response


@asynccontextmanager
async def a_webhook(
    behind_s: float = 0, settings: WebhookSettings = SETTINGS
) -> AsyncGenerator[Served]:
    """`behind_s` = how much its clock is behind the clock that certificates are checked by."""
    clock = LoopClock(start=SystemClock().time() - behind_s)
    store, metrics = a_store(clock), Metrics("scheduler")
    for name, labels in ((HOME, {}), ("team", {}), ("strict", {OWN_ENVIRONMENT: "refuse"})):
        body = msgspec.json.encode({"metadata": {"name": name, "labels": labels}})
        store.handle("POST", "/api/v1/namespaces", body=body)
    kube = FakeKube(store)
    async with open_webhook(
        settings, kube=kube, namespace=HOME, registry=REGISTRY, allowance=lambda _: NO_LIMITS,
        clock=clock, metrics=metrics,
    ) as served:  # fmt: skip
        yield Served(store, kube, clock, metrics, served.url)


async def test_a_pod_is_answered() -> None:
    async with a_webhook() as served:
        response = await served.review("/mutate", a_manifest())
        assert (response["allowed"], response["patchType"]) == (True, "JSONPatch")
        refused = await served.review("/validate", a_manifest())
        assert (refused["allowed"], refused["status"]["code"]) == (False, 422)
        counted = served.metrics.text().decode()
        for line in (
            'tessera_scheduler_admissions_total{outcome="changed",phase="admit"} 1.0',
            'tessera_scheduler_admissions_total{outcome="refused",phase="validate"} 1.0',
            'tessera_scheduler_admission_seconds_count{phase="admit"} 1.0',
        ):
            assert line in counted


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
async def test_a_bad_body_gets_a_sentence(path: str) -> None:
    async with a_webhook() as served:
        status, text = await served.post(path, b"{")
        assert (status, text.partition(":")[0]) == (
            400,
            "the body cannot be read as an AdmissionReview",
        )
        other = msgspec.json.encode(a_review({}, kind="Deployment"))
        assert await served.post(path, other) == (
            400, "request.kind: 'Deployment': register this webhook for pods\n"
        )  # fmt: skip
        assert (await served.post(path, b"x" * (2**20 + 1)))[0] == 413
        response = await served.review(path, {"metadata": {"annotations": 3}})
        assert response["status"]["message"].startswith("object: it cannot be read: ")
        response = await served.review(path, {"spec": {"containers": "none"}})
        assert response["status"]["message"].startswith("object: it cannot be read: ")


async def test_a_namespace_decides_about_own_variables() -> None:
    async with a_webhook() as served:
        body = a_review(a_manifest(container=OWN))
        assert (await served.review("/mutate", a_manifest(container=OWN)))["allowed"]
        body["request"]["namespace"] = "strict"
        _, text = await served.post("/mutate", msgspec.json.encode(body))
        assert (
            "spec.containers[0].env[0]"
            in msgspec.json.decode(text)["response"]["status"]["message"]
        )


async def test_an_api_server_that_is_away_holds_nobody_up() -> None:
    async with a_webhook(settings=replace(SETTINGS, ask_s=0.05)) as served:
        served.kube.pause()
        assert (await served.review("/mutate", a_manifest(container=OWN)))["allowed"]


def test_a_pods_trace_begins_with_its_admission() -> None:
    spans = InMemorySpanExporter()
    # in a loop of its own: telemetry, when it is opened, asks threads about the machine and waits
    asyncio.run(_traced(spans))
    admit, validate = spans.get_finished_spans()
    assert (admit.name, validate.name) == ("tessera.scheduler.admit", "tessera.scheduler.validate")
    assert admit.parent is None
    assert validate.parent is not None
    assert validate.parent.span_id == admit.context.span_id


async def _traced(spans: InMemorySpanExporter) -> None:
    async with (
        tracing.open_telemetry("scheduler", TelemetrySettings(flush_s=60), exporter=spans),
        a_webhook() as served,
    ):
        pod = a_manifest()
        response = await served.review("/mutate", pod)
        pod = apply(pod, operations(base64.b64decode(response["patch"])))
        (trace,) = pod["metadata"]["annotations"].items()
        assert trace[0] == TRACE_KEY
        assert tracing.well_formed(trace[1])
        assert (await served.review("/validate", pod))["allowed"]


async def test_a_new_authority_is_known_before_it_is_used() -> None:
    behind_s = SETTINGS.certificate.authority_s * 2 / 3
    async with a_webhook(behind_s) as served:
        first = served.bundle()
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await served.review("/mutate", a_manifest())
        served.clock.jump(behind_s)
        async with asyncio.timeout(60):
            while served.bundle() == first or not await served.trusted(first):
                await asyncio.sleep(0.02)
        assert served.bundle().startswith(first)
        assert (await served.review("/mutate", a_manifest()))["allowed"]
