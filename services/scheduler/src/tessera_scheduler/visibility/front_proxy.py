"""Who asks, as the API server says it.

An API server that passes a request on proves itself by a client certificate, and names the user in
headers. Which authority signs that certificate, what it may be called and how the headers are
called is in a ConfigMap that every API server writes, the same that Kubernetes' own extension
servers read. Headers without that certificate are worth nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

from msgspec import Struct

from tessera_runtime.errors import ApiNotFound
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube, Verb
from tessera_runtime.kube.authorization import Caller
from tessera_schema.json_codec import decoder

_CONFIG: Final = paths.in_core("kube-system", "configmaps", "extension-apiserver-authentication")
_CA: Final = "requestheader-client-ca-file"
_names: Final = decoder(tuple[str, ...])


class _Config(Struct, frozen=True):
    data: dict[str, str] = {}


_config: Final = decoder(_Config)


class FrontProxy(Struct, frozen=True, kw_only=True):
    """Who may speak for others, and in which headers."""

    ca: str = ""
    """PEM; empty = nobody may."""
    allowed_names: tuple[str, ...] = ()
    """Common names; none = every one that the authority signed."""
    user_headers: tuple[str, ...] = ()
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = ()

    def caller(
        self, certificate: Mapping[str, Any] | None, headers: Sequence[tuple[str, str]]
    ) -> Caller | None:
        """Who asks; None where nobody says so who may. `certificate` is the client's as `ssl` has
        it, checked with `ca`; empty where there is none."""
        if not self.ca or not certificate:
            return None
        if self.allowed_names and _common_names(certificate).isdisjoint(self.allowed_names):
            return None
        users = _all(headers, self.user_headers)
        if not users:
            return None
        return Caller(
            username=users[0], uid=next(iter(_all(headers, self.uid_headers)), ""),
            groups=_all(headers, self.group_headers), extra=_extra(headers, self.extra_prefixes),
        )  # fmt: skip


NOBODY: Final = FrontProxy()


async def front_proxy(kube: Kube) -> FrontProxy:
    """What the cluster says; NOBODY where it passes nothing on. Raises as `Kube.call` does, and
    msgspec.DecodeError."""
    try:
        data = _config(await kube.call(Verb.GET, _CONFIG)).data
    except ApiNotFound:
        return NOBODY

    def listed(key: str) -> tuple[str, ...]:
        return _names(data.get(f"requestheader-{key}") or "[]")

    return FrontProxy(
        ca=data.get(_CA, "").strip(), allowed_names=listed("allowed-names"),
        user_headers=listed("username-headers"), uid_headers=listed("uid-headers"),
        group_headers=listed("group-headers"), extra_prefixes=listed("extra-headers-prefix"),
    )  # fmt: skip


def _common_names(certificate: Mapping[str, Any]) -> set[str]:
    parts = (part for parts in certificate.get("subject", ()) for part in parts)
    return {value for key, value in parts if key == "commonName"}


def _all(headers: Sequence[tuple[str, str]], wanted: Sequence[str]) -> tuple[str, ...]:
    """The values of these headers, those that are named first before the others."""
    return tuple(
        value
        for name in wanted
        for header, value in headers
        if value and header.lower() == name.lower()
    )


def _extra(
    headers: Sequence[tuple[str, str]], prefixes: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Keys are written in lower case with what no header may hold as %XX, as Kubernetes does."""
    found: dict[str, tuple[str, ...]] = {}
    for name, value in headers:
        for prefix in prefixes:
            if name.lower().startswith(prefix.lower()):
                key = unquote(name[len(prefix) :].lower())
                found[key] = (*found.get(key, ()), value)
    return found
