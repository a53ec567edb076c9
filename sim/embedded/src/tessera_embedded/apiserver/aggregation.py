"""Aggregated APIs: requests that the server passes on to extension servers, by APIService.

Who asks is known and allowed here first; the extension server learns it from headers, on a
connection with the server's front-proxy certificate. A Service is found by `externalName` alone:
there is no network of pods. Not there: the condition Available, OpenAPI, other transports than one
request.
"""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
import msgspec

from tessera_embedded.apiserver.access import Access, Attempt
from tessera_embedded.apiserver.certificates import FrontProxyCertificates
from tessera_embedded.apiserver.errors import JsonObject
from tessera_embedded.apiserver.http_types import HttpCall, Response
from tessera_embedded.apiserver.objects.object_store import ObjectStore
from tessera_embedded.apiserver.objects.resources import REGISTRATION
from tessera_embedded.apiserver.store import Store

_APISERVICES: Final = (REGISTRATION, "apiservices")
_SERVICES: Final = ("", "services")
_CALL_S: Final = 60.0
_AUTHENTICATION: Final = "/api/v1/namespaces/kube-system/configmaps"
_MANY: Final = {"GET": "list", "DELETE": "deletecollection", "POST": "create"}
_ONE: Final = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Aggregator:
    """Passes requests on."""

    def __init__(
        self,
        objects: ObjectStore,
        access: Access,
        session: aiohttp.ClientSession,
        shows: FrontProxyCertificates,
    ) -> None:
        self._objects, self._access, self._session = objects, access, session
        self._shows = shows
        self._tls: dict[str, ssl.SSLContext] = {}

    def found(self, path: str) -> JsonObject | None:
        """The spec of the APIService that leads to a path, None where no extension server does."""
        match path.strip("/").split("/"):
            case ["apis", group, version, *_]:
                record = self._objects.find(_APISERVICES, "", f"{version}.{group}")
                spec: JsonObject | None = None if record is None else record.obj().get("spec")
                return spec if spec and spec.get("service") else None
            case _:
                return None

    def about(self, path: str) -> Response | None:
        """A group that an extension server has, as discovery shows it; None for other paths."""
        match path.strip("/").split("/"):
            case ["apis", name]:
                groups = [group for group in self._groups() if group["name"] == name]
                head = {"kind": "APIGroup", "apiVersion": "v1"}
                return _json(200, {**head, **groups[0]}) if groups else None
            case _:
                return None

    def with_groups(self, response: Response) -> Response:
        """The list of all groups with those of extension servers."""
        whole = msgspec.json.decode(response.body)
        return _json(response.code, {**whole, "groups": [*whole["groups"], *self._groups()]})

    def _groups(self) -> list[JsonObject]:
        specs = [record.obj().get("spec") or {} for record in self._objects.records(_APISERVICES)]
        named = [
            (spec["group"], {"groupVersion": f"{spec['group']}/{spec['version']}",
                             "version": spec["version"]})
            for spec in specs if spec.get("service")
        ]  # fmt: skip
        return [
            {"name": group, "versions": [version], "preferredVersion": version}
            for group, version in named
        ]

    async def pass_on(self, call: HttpCall, accept: str, spec: JsonObject) -> Response:
        """The extension server's answer. Raises Forbidden."""
        self._access.check(call.user, _attempt(call))
        service = spec["service"]
        host = f"{service['name']}.{service['namespace']}.svc"
        headers = [("X-Remote-User", call.user.name)]
        headers += [("X-Remote-Group", group) for group in call.user.groups]
        if accept:
            headers.append(("Accept", accept))
        try:
            url = f"{self._url(service)}{call.path}"
            async with self._session.request(
                call.method, url, params=call.query, data=call.body or None, headers=headers,
                ssl=self._context(spec.get("caBundle", "")), server_hostname=host,
            ) as answer:  # fmt: skip
                body, kind = await answer.read(), answer.content_type
        except (aiohttp.ClientError, OSError, TimeoutError, LookupError, ValueError) as e:
            text = f"error trying to reach service: {e}\n"
            return Response(503, text.encode(), content_type="text/plain")
        return Response(answer.status, body, content_type=kind)

    def _url(self, service: Mapping[str, Any]) -> str:
        """Raises LookupError."""
        record = self._objects.find(_SERVICES, service["namespace"], service["name"])
        name = "" if record is None else (record.obj().get("spec") or {}).get("externalName", "")
        if not name:
            raise LookupError(f"service {service['name']!r} has no externalName")
        return f"https://{name}:{service.get('port', 443)}"

    def _context(self, bundle: str) -> ssl.SSLContext:
        if bundle not in self._tls:
            try:
                authority = base64.b64decode(bundle).decode() or None
            except (binascii.Error, UnicodeDecodeError) as e:
                raise ValueError(f"unable to load root certificates: {e}") from e
            context = ssl.create_default_context(cadata=authority)
            context.load_cert_chain(self._shows.shown)
            self._tls[bundle] = context
        return self._tls[bundle]


def _attempt(call: HttpCall) -> Attempt:
    _, group, _, *rest = call.path.strip("/").split("/")
    if not rest:
        return Attempt(call.method.lower(), path=call.path)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource, name, subresource, *_ = [*rest, "", ""]
    verbs = _ONE if name else _MANY
    verb = verbs.get(call.method, call.method.lower())
    return Attempt(verb, group, resource, subresource, namespace, name)


def _json(code: int, body: JsonObject) -> Response:
    return Response(code, msgspec.json.encode(body))


def publish(store: Store, shows: FrontProxyCertificates) -> None:
    """Write for extension servers which proxies they may believe, as every API server does."""
    name = "extension-apiserver-authentication"
    data = {
        "requestheader-client-ca-file": shows.ca.read_text(),
        "requestheader-allowed-names": f'["{shows.name}"]',
        "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    }
    body = msgspec.json.encode({"metadata": {"name": name}, "data": data})
    if store.handle("PUT", f"{_AUTHENTICATION}/{name}", body=body).code != 200:
        store.handle("POST", _AUTHENTICATION, body=body)


@asynccontextmanager
async def open_aggregator(store: Store, shows: FrontProxyCertificates) -> AsyncIterator[Aggregator]:
    """One that keeps its connections."""
    timeout = aiohttp.ClientTimeout(total=_CALL_S)
    async with aiohttp.ClientSession(timeout=timeout, auto_decompress=False) as session:
        yield Aggregator(store.objects, store.access, session, shows)
