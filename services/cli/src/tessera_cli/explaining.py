"""`tessera explain`: asks the scheduler why a pod is where it is, or waits.

Where the scheduler is, and how it proves that it is itself, is read from the API server: from the
webhook's registration, which only its administrators can write. The caller's own token says who
asks; the scheduler has the API server check it.
"""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import quote, urlsplit

import aiohttp
import msgspec
from msgspec import Struct

from tessera_cli.errors import Refused
from tessera_cli.kubeconfig import Target
from tessera_cli.objects import open_cluster
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube, Verb
from tessera_schema.cards import MIB
from tessera_schema.explained import AskedShare, Explanation, LimitUse, decode_explanation
from tessera_schema.reasons import Reason

_WHOLE_S: Final = 30.0
_REGISTRATION: Final = "tessera"


class NotExplained(Refused):
    """The scheduler did not answer; the message says why, and what would do."""


class _Service(Struct, frozen=True):
    namespace: str = ""
    name: str = ""


class _Client(Struct, frozen=True, rename="camel"):
    url: str = ""
    service: _Service | None = None
    ca_bundle: str = ""


class _Hook(Struct, frozen=True, rename="camel"):
    client_config: _Client = _Client()


class _Registration(Struct, frozen=True):
    webhooks: tuple[_Hook, ...] = ()


_registration = msgspec.json.Decoder(_Registration).decode


async def ask(target: Target, name: str, server: str = "") -> Explanation:
    """The scheduler's explanation of a pod. `server` is its base URL, where the API server knows
    it by a Service only. Raises NotExplained."""
    async with open_cluster(target, name="tessera-explain", error=NotExplained) as cluster:
        client, headers = await _where(cluster.kube), await cluster.who.headers()
    namespace = cluster.namespace
    base = server.rstrip("/") or _base(client.url)
    if not base:
        raise NotExplained(
            f"the scheduler is Service {client.service.name if client.service else '?'} in the "
            "cluster: forward its port (kubectl port-forward) and give --server https://127.0.0.1:"
            "<port>"
        )
    url = f"{base}/explain/{quote(namespace, safe='')}/{quote(name, safe='')}"
    service = client.service
    host = f"{service.name}.{service.namespace}.svc" if service is not None else None
    body = await _get(url, headers, _trusting(client.ca_bundle), host)
    try:
        return decode_explanation(body)
    except msgspec.DecodeError as e:
        raise NotExplained(f"{url}: not an explanation: {e}") from e


async def _where(kube: Kube) -> _Client:
    path = paths.in_group(
        "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", name=_REGISTRATION
    )
    found = _registration(await kube.call(Verb.GET, path))
    return found.webhooks[0].client_config if found.webhooks else _Client()


def _base(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}" if url else ""


def _trusting(bundle: str) -> ssl.SSLContext:
    try:
        pem = base64.b64decode(bundle, validate=True).decode()
        return ssl.create_default_context(cadata=pem) if pem else ssl.create_default_context()
    except (binascii.Error, ValueError, ssl.SSLError) as e:
        raise NotExplained(f"the webhook's caBundle is no certificate: {e}") from e


async def _get(
    url: str, headers: Mapping[str, str], tls: ssl.SSLContext, host: str | None
) -> bytes:
    timeout = aiohttp.ClientTimeout(total=_WHOLE_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(url, headers=headers, ssl=tls, server_hostname=host) as answer,
        ):
            body = await answer.read()
    except (aiohttp.ClientError, TimeoutError, OSError) as e:
        raise NotExplained(f"{url}: {str(e) or type(e).__name__}: is the scheduler up?") from e
    if answer.status != 200:
        said = body.decode(errors="replace").strip()
        raise NotExplained(f"{url}: {answer.status}: {said}")
    return body


def lines(answer: Explanation) -> Iterator[str]:
    """The explanation for people."""
    decision = answer.decision
    speaks = f" ({', '.join(answer.dialects)})" if answer.dialects else ""
    yield f"{answer.namespace}/{answer.name}{speaks}: {decision.verdict}"
    if decision.message:
        yield f"  {decision.message}"
    for asked in answer.asks:
        yield f"  {asked.container} asks for {asked.count} {asked.vendor} card(s): {_each(asked)}"
    if answer.held is not None:
        yield f"  holds on {answer.held.node} ({answer.held.phase}):"
        for share in answer.held.shares:
            amount = f"{share.memory_mib} MiB, {share.cores_percent:g} %"
            yield f"    card {share.index} {share.card}: {amount}"
    for limit in answer.quota:
        yield f"  quota {limit.source}: {_used(limit)}"
    for reason in decision.reasons:
        where = f"{reason.node}: " if reason.node else ""
        yield f"  {where}{Reason(reason.reason).wire}: {reason.message}"


def _each(asked: AskedShare) -> str:
    parts = [f"{asked.memory_percent} % of the memory"]
    if asked.memory_bytes:
        parts = [f"{asked.memory_bytes // MIB} MiB"]
    if asked.cores_percent:
        parts.append(f"{asked.cores_percent:g} % of the cores")
    return ", ".join(parts) + " of each" + (", to itself" if asked.exclusive else "")


def _used(limit: LimitUse) -> str:
    parts = []
    if limit.memory_bytes is not None:
        parts.append(f"{limit.memory_bytes_used // MIB} of {limit.memory_bytes // MIB} MiB")
    if limit.cores_percent is not None:
        parts.append(f"{limit.cores_percent_used:g} of {limit.cores_percent:g} % of cores")
    if limit.cards is not None:
        parts.append(f"{limit.cards_used} of {limit.cards} cards")
    return ", ".join(parts) or "by model"
