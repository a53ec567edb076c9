"""The keys that grants are signed with: the private ones in a Secret, the public ones published in
a ConfigMap that every agent reads.

A new key signs only when it has been published for a while, so that no agent meets a signature it
cannot check. Former public keys stay published: grants of running pods carry their signatures.
A user that can write that ConfigMap can make grants; RBAC keeps it to the scheduler.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
from msgspec import Struct

from tessera_core.trust.grants import BadKey, Signer, Verifier, new_key, published_key
from tessera_runtime import logs
from tessera_runtime.background import running_in_background
from tessera_runtime.clock import Clock
from tessera_runtime.errors import BadSettings
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.create_or_update import (
    Json,
    UnexpectedContent,
    config_map,
    create_or_update,
    from_secret,
    repeat_until_cancelled,
    retry_until_answered,
    secret,
    to_secret,
)
from tessera_schema.annotation_keys import SIGNING_KEYS
from tessera_schema.json_codec import decoder

SECRET: Final = "tessera-grant-signing"  # noqa: S105  (the Secret's name)
ENTRY: Final = "keys.json"

_log = logs.named("tessera.scheduler.keys")


class SigningKeySettings(Struct, frozen=True, kw_only=True):
    """How keys are made, published and replaced."""

    rotate_after_s: float = 90 * 86400.0
    """Seconds after which a key is followed by a new one; 0 = never. A quarter of a year is short
    enough for auditors, and costs nothing."""
    publish_s: float = 300.0
    """Seconds that a key is published before it signs: agents watch, this outlasts a watch that
    has to start again."""
    refresh_s: float = 60.0
    """Seconds between two looks at the keys: another replica may have made one."""
    retry_s: float = 1.0
    """Seconds between two tries of the first look: nothing works without it."""

    def check(self) -> None:
        """Raises BadSettings."""
        if self.refresh_s <= 0 or self.publish_s < 2 * self.refresh_s:
            raise BadSettings(
                f"keys.publish_s: {self.publish_s:g}: write at least twice keys.refresh_s "
                f"({self.refresh_s:g}), or replicas would meet keys that they have not seen"
            )
        if self.rotate_after_s and self.rotate_after_s < 2 * self.publish_s:
            raise BadSettings(
                f"keys.rotate_after_s: {self.rotate_after_s:g}: write 0, or at least twice "
                f"keys.publish_s ({self.publish_s:g}): a key must live longer than it waits"
            )


class SigningKey(Struct, frozen=True, kw_only=True):
    """A private key, as the Secret has it."""

    private: bytes
    made: float
    """Unix time in seconds."""


class PublishedKeys(Verifier):
    """The public keys as they were last read. It is one object for the life of the service."""

    def replace(self, keys: Mapping[str, str]) -> None:
        """Replace all keys by these, by key id, in base64. One that cannot be read is logged and
        left out."""
        good = {}
        for name, text in keys.items():
            try:
                Verifier({name: text})
            except BadKey as e:
                _log.warning("a published key cannot be read", key=name, problem=str(e))
            else:
                good[name] = text
        super().__init__(good)


class SigningKeys:
    """The private keys, and which of them signs now."""

    def __init__(
        self, kube: Kube, namespace: str, settings: SigningKeySettings, clock: Clock
    ) -> None:
        """`open_keys` makes it and keeps it fresh."""
        self._kube = kube
        self._settings = settings
        self._clock = clock
        self._secret = secret(namespace, SECRET)
        self._public = config_map(namespace, SIGNING_KEYS)
        self._signer: Signer | None = None
        self.verifier = PublishedKeys({})

    @property
    def signer(self) -> Signer:
        """Signs with the newest key that agents know. It changes: ask for it at each use."""
        if self._signer is None:
            raise RuntimeError("keys are open only inside `open_keys`")
        return self._signer

    async def refresh(self) -> None:
        """Make, publish and choose keys as is due. Raises Transient, UnexpectedContent and
        ApiRefused."""
        stored = await create_or_update(self._kube, self._secret, self._with_due)
        keys = self._decoded(stored) or ()
        own = dict(published_key(Signer(key.private).public) for key in keys)
        seen: dict[str, str] = {}

        def published(there: Json | None) -> Json | None:
            seen.clear()
            seen.update((there or {}).get("data") or {})
            if there is not None and own.keys() <= seen.keys():
                return None
            return {**(there or self._public.object()), "data": {**seen, **own}}

        await create_or_update(self._kube, self._public, published)
        self.verifier.replace({**seen, **own})
        self._choose(keys, frozenset(seen))

    def _with_due(self, there: Json | None) -> Json | None:
        """The Secret with a new key where one is due. Two keys are kept: the newest is not yet
        published for long."""
        now = self._clock.time()
        keys = self._decoded(there) if there else ()
        after = self._settings.rotate_after_s
        if keys and (not after or now - keys[-1].made < after):
            return None
        keys = (*(keys or ())[-1:], SigningKey(private=new_key(), made=now))
        data = {ENTRY: to_secret(msgspec.json.encode(keys))}
        return {**(there or self._secret.object(type="Opaque")), "data": data}

    def _choose(self, keys: tuple[SigningKey, ...], seen: frozenset[str]) -> None:
        """The newest that has been published for long enough, else the one that signs already."""
        now = self._clock.time()
        ripe = [
            signer for key in keys
            if (signer := Signer(key.private)).id in seen
            and now - key.made >= self._settings.publish_s
        ]  # fmt: skip
        chosen = ripe[-1] if ripe else self._signer or Signer(keys[0].private)
        if self._signer is None or self._signer.id != chosen.id:
            _log.info("grants are signed", key=chosen.id)
        self._signer = chosen

    def _decoded(self, found: Mapping[str, Any] | None) -> tuple[SigningKey, ...]:
        raw = from_secret(self._secret, found or {}, ENTRY)
        if raw is None:
            return ()
        try:
            keys = _decode(raw)
            for key in keys:
                Signer(key.private)
        except (msgspec.DecodeError, BadKey) as e:
            raise UnexpectedContent(
                f"Secret {self._secret.namespace}/{self._secret.name}: data[{ENTRY}]: {e}: delete "
                "the Secret, and another key is made; grants signed before stay valid"
            ) from e
        return keys


_decode = decoder(tuple[SigningKey, ...])


@asynccontextmanager
async def open_keys(
    kube: Kube, namespace: str, settings: SigningKeySettings, clock: Clock
) -> AsyncGenerator[SigningKeys]:
    """The keys, made where there are none, looked after until left. Raises what `refresh` does;
    an API server that does not answer yet is waited for."""
    keys = SigningKeys(kube, namespace, settings, clock)
    await retry_until_answered(keys.refresh, settings.retry_s)
    refreshing = repeat_until_cancelled(keys.refresh, settings.refresh_s)
    async with running_in_background(refreshing, "grant keys"):
        yield keys
