"""Admission webhooks: called over TLS, one after the other to mutate, at once to validate."""

from __future__ import annotations

import asyncio
import base64
import binascii
import io
import ssl
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
from msgspec import Struct

from tessera_embedded.apiserver.admission.matching import (
    ConditionFailed,
    Hook,
    conditions_hold,
    hooks,
    review_body,
    scope_of,
)
from tessera_embedded.apiserver.admission.requests import AdmissionQuery
from tessera_embedded.apiserver.errors import (
    ApiError,
    BadRequest,
    Internal,
    JsonObject,
    WebhookDenied,
    forbidden,
)
from tessera_embedded.apiserver.objects.metadata import checked_kind, shaped
from tessera_embedded.apiserver.objects.object_store import ObjectStore
from tessera_embedded.apiserver.verbs.patches import apply, operations


class WebhookCallFailed(Exception):
    """The webhook could not be asked, or its answer makes no sense; failurePolicy decides."""


class _Said(Struct, frozen=True, rename="camel"):
    """The `response` of an AdmissionReview."""

    uid: str
    allowed: bool
    status: dict[str, Any] | None = None
    patch: str = ""
    patch_type: str = ""
    warnings: tuple[str, ...] = ()


class _Reviewed(Struct, frozen=True):
    response: _Said


class Webhooks:
    """Asks the webhooks that are configured in a store."""

    def __init__(self, objects: ObjectStore, session: aiohttp.ClientSession) -> None:
        self._objects, self._session = objects, session
        self._tls: dict[str, ssl.SSLContext] = {}

    async def review(self, asked: AdmissionQuery, warnings: list[str]) -> JsonObject | None:
        """The object as the webhooks leave it. Raises ApiError where one refuses or fails."""
        if asked.stage == "validate":
            await self._validate(list(hooks(self._objects, asked)), asked, warnings)
        else:
            await self._mutate(asked, warnings)
        return asked.obj

    async def _mutate(self, asked: AdmissionQuery, warnings: list[str]) -> None:
        called: list[Hook] = []
        again: list[Hook] = []
        for hook in hooks(self._objects, asked):
            if await self._changed_by(hook, asked, warnings):
                again, called = [*again, *called], []
            if hook.again:
                called.append(hook)
        for hook in again:
            await self._changed_by(hook, asked, warnings)

    async def _changed_by(self, hook: Hook, asked: AdmissionQuery, warnings: list[str]) -> bool:
        said = await self._said(hook, asked, warnings)
        if said is None or not said.patch:
            return False
        if asked.obj is None:
            raise Internal(
                f'admission webhook "{hook.name}" attempted to modify the object, which is not '
                "supported for this operation"
            )
        before = asked.obj
        asked.obj = _patched(hook, asked, said)
        asked.fill(asked.obj)
        return asked.obj != before

    async def _validate(
        self, chosen: list[Hook], asked: AdmissionQuery, warnings: list[str]
    ) -> None:
        refusals: list[ApiError] = []

        async def one(hook: Hook) -> None:
            try:
                await self._said(hook, asked, warnings)
            except ApiError as e:
                refusals.append(e)

        async with asyncio.TaskGroup() as group:
            for hook in chosen:
                group.create_task(one(hook), name=f"webhook {hook.name}")
        if refusals:
            raise refusals[0]

    async def _said(self, hook: Hook, asked: AdmissionQuery, warnings: list[str]) -> _Said | None:
        """What one webhook says, or None where it is not asked, or failed and may be ignored."""
        try:
            if not conditions_hold(hook.webhook.get("matchConditions", ()), scope_of(asked)):
                return None
        except ConditionFailed as e:
            if hook.ignores_failure:
                return None
            resource = asked.target.resource
            raise forbidden(resource.plural, resource.group, asked.target.name, str(e)) from e
        try:
            said = await self._call(hook, asked)
        except WebhookCallFailed as e:
            if hook.ignores_failure:
                return None
            message = f'Internal error occurred: failed calling webhook "{hook.name}": {e}'
            raise Internal(message, details={"causes": [{"message": str(e)}]}) from e
        warnings += said.warnings
        if not said.allowed:
            raise _denied(hook, said)
        return said

    async def _call(self, hook: Hook, asked: AdmissionQuery) -> _Said:
        uid, limit_s = str(uuid.uuid4()), hook.webhook["timeoutSeconds"]
        url = f"{hook.webhook['clientConfig']['url']}?timeout={limit_s}s"
        body = msgspec.json.encode(review_body(asked, uid))
        failed = f'failed to call webhook: Post "{url}"'
        try:
            async with asyncio.timeout(limit_s):
                answer = await self._post(hook, url, body)
        except TimeoutError as e:
            raise WebhookCallFailed(f"{failed}: context deadline exceeded") from e
        except (aiohttp.ClientError, OSError) as e:
            raise WebhookCallFailed(f"{failed}: {e}") from e
        said = _understood(answer, uid)
        if said.patch and asked.stage == "validate":
            raise WebhookCallFailed(
                "received invalid webhook response: validating webhook may not return "
                "response.patch"
            )
        return said

    async def _post(self, hook: Hook, url: str, body: bytes) -> bytes:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        tls = self._context(hook.webhook["clientConfig"].get("caBundle", ""))
        async with self._session.post(
            url, data=io.BytesIO(body), headers=headers, ssl=tls
        ) as response:
            content = await response.read()
            if response.status != 200:
                raise WebhookCallFailed(
                    f"failed to call webhook: the server answered {response.status}: "
                    f"{content[:200].decode(errors='replace')}"
                )
            return content

    def _context(self, bundle: str) -> ssl.SSLContext:
        if bundle not in self._tls:
            try:
                authority = base64.b64decode(bundle).decode() or None
                self._tls[bundle] = ssl.create_default_context(cadata=authority)
            except (binascii.Error, UnicodeDecodeError, ssl.SSLError) as e:
                raise WebhookCallFailed(f"unable to load root certificates: {e}") from e
        return self._tls[bundle]


def _understood(answer: bytes, uid: str) -> _Said:
    try:
        said = msgspec.json.decode(answer, type=_Reviewed).response
    except (msgspec.MsgspecError, UnicodeDecodeError) as e:
        raise WebhookCallFailed(f"received invalid webhook response: {e}") from e
    if said.uid != uid:
        raise WebhookCallFailed(
            f'received invalid webhook response: expected response.uid="{uid}", got "{said.uid}"'
        )
    if bool(said.patch) != bool(said.patch_type) or said.patch_type not in ("", "JSONPatch"):
        raise WebhookCallFailed(
            "received invalid webhook response: webhook returned response.patch and "
            f"response.patchType must be JSONPatch together, got {said.patch_type!r}"
        )
    return said


def _patched(hook: Hook, asked: AdmissionQuery, said: _Said) -> JsonObject:
    group, version, kind = asked.kind
    spelled = {"kind": kind, "apiVersion": f"{group}/{version}" if group else version}
    try:
        steps = operations(base64.b64decode(said.patch))
    except (binascii.Error, BadRequest) as e:
        raise Internal(
            f'Internal error occurred: failed calling webhook "{hook.name}": received undecodable '
            f"patch in webhook response: {e}"
        ) from e
    try:
        whole = apply({**spelled, **(asked.obj or {})}, steps)
        if whole.get("kind") == asked.target.resource.kind:
            return checked_kind(whole, asked.target.resource)
        return shaped({name: value for name, value in whole.items() if name not in spelled})
    except ApiError as e:
        raise Internal(f"Internal error occurred: {e.message}") from e


def _denied(hook: Hook, said: _Said) -> WebhookDenied:
    status = dict(said.status or {})
    denied = f'admission webhook "{hook.name}" denied the request'
    message = status.get("message") or status.get("reason")
    code = status.get("code", 0)
    return WebhookDenied({
        **status,
        "status": "Failure",
        "message": f"{denied}: {message}" if message else f"{denied} without explanation",
        "code": code if isinstance(code, int) and code >= 400 else 400,
    })  # fmt: skip


@asynccontextmanager
async def open_webhooks(objects: ObjectStore) -> AsyncIterator[Webhooks]:
    """A caller of webhooks, its connections kept for the next call."""
    async with aiohttp.ClientSession() as session:
        yield Webhooks(objects, session)
