"""Who we are to the API server: a URL, what to trust, and a header that is renewed.

A pod's own account and a plain URL are read here: two files. A kubeconfig may hold anything
(programs to run, OpenID, client certificates), so it is left to kubernetes_asyncio, which is
imported only then: it brings its 38 MiB of models along however little of it is asked for.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from tessera_runtime.errors import ApiForbidden, BadSettings
from tessera_runtime.kube.settings import ACCOUNT, KubeSettings

RENEW_S: Final = 60.0
"""Kubernetes' own clients look at the token file as often."""
_SHOWN: Final = 8
"""Contexts that an error names."""


class KubeCredentials(Protocol):
    """The credentials of this process at an API server, and where that is."""

    @property
    def url(self) -> str:
        """The API server's base URL, without a slash at the end."""
        ...

    @property
    def tls(self) -> ssl.SSLContext | None:
        """What to trust, and our certificate if there is one; none over plain HTTP."""
        ...

    @property
    def proxy(self) -> str | None:
        """A proxy to go through."""
        ...

    @property
    def server_name(self) -> str | None:
        """The name that the server's certificate must have, where it is not the URL's."""
        ...

    @property
    def namespace(self) -> str:
        """Where objects are that name no namespace: the context's, or the pod's own; empty where
        that is not said."""
        ...

    async def headers(self, *, renew: bool = False) -> Mapping[str, str]:
        """The header that names us; `renew` after it was refused. Raises ApiForbidden."""
        ...


class TokenFile:
    """A URL, with a bearer token that somebody keeps fresh in a file."""

    proxy: str | None = None
    server_name: str | None = None

    def __init__(
        self, url: str, token: Path | None, tls: ssl.SSLContext | None, namespace: str = ""
    ) -> None:
        self.url = url
        self.tls = tls
        self.namespace = namespace
        self._file = token
        self._headers: Mapping[str, str] = {}
        self._read_at = float("-inf")

    async def headers(self, *, renew: bool = False) -> Mapping[str, str]:
        """The header that names us; none where there is no token."""
        now = asyncio.get_running_loop().time()
        if self._file is not None and (renew or now - self._read_at >= RENEW_S):
            try:
                token = (await asyncio.to_thread(self._file.read_text)).strip()
            except OSError as e:
                raise ApiForbidden(401, "Unauthorized", f"{self._file}: {e.strerror}") from e
            self._headers = {"Authorization": f"Bearer {token}"}
            self._read_at = now
        return self._headers


class CallerCredentials:
    """The credentials of somebody who calls us, at our API server. Nothing of this process's own
    goes along: no token, and no certificate, by which the API server would go first."""

    def __init__(self, own: KubeCredentials, token: str) -> None:
        """`token` is the caller's."""
        self.url, self.proxy, self.server_name = own.url, own.proxy, own.server_name
        self.tls = own.trust if isinstance(own, Kubeconfig) else own.tls
        self.namespace = ""
        self._headers = {"Authorization": f"Bearer {token}"}

    async def headers(self, *, renew: bool = False) -> Mapping[str, str]:
        """The header that names the caller."""
        del renew
        return self._headers


class Kubeconfig:
    """What a kubeconfig says, as kubernetes_asyncio understands it."""

    def __init__(
        self, loader: Any, configuration: Any, tls: ssl.SSLContext | None,
        trust: ssl.SSLContext | None,
    ) -> None:  # fmt: skip
        self.url: str = configuration.host.rstrip("/")
        self.tls = tls
        self.trust = trust
        """What to trust, without this process's certificate."""
        self.proxy: str | None = configuration.proxy
        self.server_name: str | None = configuration.tls_server_name
        self.namespace: str = loader.current_context["context"].get("namespace") or ""
        self._loader = loader
        self._configuration = configuration
        self._read_at = asyncio.get_running_loop().time()

    async def headers(self, *, renew: bool = False) -> Mapping[str, str]:
        """The authorization header; a token made by a program or a provider is made again."""
        now = asyncio.get_running_loop().time()
        if renew or now - self._read_at >= RENEW_S:
            try:
                await asyncio.to_thread(_load, self._loader, self._configuration)
            except Exception as e:
                raise ApiForbidden(401, "Unauthorized", f"the kubeconfig's user: {e}") from e
            self._read_at = now
        token = self._configuration.api_key.get("BearerToken")
        return {"Authorization": token} if token else {}


async def open_credentials(settings: KubeSettings) -> KubeCredentials:
    """Credentials by the settings. Raises BadSettings naming what is missing."""
    if settings.url:
        return await asyncio.to_thread(_plain, settings)
    if settings.kubeconfig:
        return await _kubeconfig(settings)
    if settings.host:
        return await asyncio.to_thread(_of_the_pod, settings)
    raise BadSettings(
        "no API server: set KUBECONFIG to the path of a kubeconfig, or TESSERA_KUBE_URL to its "
        "URL; in a pod Kubernetes sets KUBERNETES_SERVICE_HOST"
    )


def _plain(settings: KubeSettings) -> TokenFile:
    tls = None if settings.url.startswith("http://") else _trusting(settings.ca_file)
    return TokenFile(settings.url.rstrip("/"), _there(settings.token_file), tls)


def _of_the_pod(settings: KubeSettings) -> TokenFile:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    token = _there(settings.token_file or ACCOUNT / "token")
    tls = _trusting(settings.ca_file or ACCOUNT / "ca.crt")
    return TokenFile(f"https://{host}:{settings.port}", token, tls, _own_namespace())


def _own_namespace() -> str:
    try:
        return (ACCOUNT / "namespace").read_text().strip()
    except OSError:
        return ""


def _there(file: Path | None) -> Path | None:
    if file is not None and not file.is_file():
        raise BadSettings(f"kube.token_file: {str(file)!r}: write the path of a token's file")
    return file


def _trusting(ca: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as e:  # ssl.SSLError is one
        raise BadSettings(
            f"kube.ca_file: {str(ca)!r}: {e.strerror or e}: write the path of PEM certificates"
        ) from e


async def _kubeconfig(settings: KubeSettings) -> Kubeconfig:
    try:
        return Kubeconfig(*await asyncio.to_thread(_loaded, settings))
    except BadSettings:
        raise
    except Exception as e:  # its library raises what it likes
        raise BadSettings(
            f"KUBECONFIG: {settings.kubeconfig!r}: {type(e).__name__}: {e}: write the path of a "
            "kubeconfig"
        ) from e


def _loaded(
    settings: KubeSettings,
) -> tuple[Any, Any, ssl.SSLContext | None, ssl.SSLContext | None]:
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config.kube_config import KubeConfigLoader, KubeConfigMerger

    config = KubeConfigMerger(settings.kubeconfig).config
    if config is None:
        raise BadSettings(f"KUBECONFIG: {settings.kubeconfig!r}: there is no such file: write one")
    _must_have_context(config, settings)
    loader = KubeConfigLoader(config, settings.context or None, config_base_path=None)
    configuration = Configuration()
    _load(loader, configuration)
    return loader, configuration, _configured_tls(configuration), _trusted(configuration)


def _must_have_context(config: Any, settings: KubeSettings) -> None:
    wanted = settings.context or config.safe_get("current-context") or ""
    known = [str(each["name"]) for each in config.safe_get("contexts") or ()]
    if wanted in known:
        return
    which = f"context {wanted!r}: there is no such context" if wanted else "no context is current"
    raise BadSettings(
        f"KUBECONFIG: {settings.kubeconfig!r}: {which}: name one of "
        f"{', '.join(known[:_SHOWN]) or 'which the file has none'}, or choose it for all by "
        "`kubectl config use-context`"
    )


def _load(loader: Any, configuration: Any) -> None:
    """It reads files while it pretends not to block, so it gets a loop, in a thread of its own."""
    asyncio.run(loader.load_and_set(configuration))


def _configured_tls(configuration: Any) -> ssl.SSLContext | None:
    context = _trusted(configuration)
    if context is not None and configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context


def _trusted(configuration: Any) -> ssl.SSLContext | None:
    if configuration.host.startswith("http://"):
        return None
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
