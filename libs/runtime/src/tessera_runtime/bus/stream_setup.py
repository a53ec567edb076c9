"""Streams and buckets as the layout wants them, and whether they are still the same ones.

Nothing is ever deleted here: a stream that cannot be changed into what it should be is reported and
used as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from tessera_runtime import logs
from tessera_runtime.bus import jetstream
from tessera_runtime.bus.jetstream import JetStreamRefused, StreamInfo
from tessera_runtime.bus.nats_link import NatsLink
from tessera_runtime.bus.streams import LAYOUT_VERSION, Stream, StreamLayout

log = logs.named("tessera.bus")


class StreamFingerprint(Struct, frozen=True):
    """By what a stream is known again."""

    created: str
    last: int
    subjects: int
    ages: bool = False
    """Its messages end by age: fewer subjects than before are no loss, none at all may be one."""

    def lost_since(self, before: StreamFingerprint) -> str:
        """Why what was there before may be gone; empty when nothing points to it."""
        if self.created != before.created:
            return "it was made again"
        if self.last < before.last:
            return f"its last sequence went back from {before.last} to {self.last}"
        if self.subjects < before.subjects and not (self.ages and self.subjects):
            return f"it holds {self.subjects} subjects, before it held {before.subjects}"
        return ""


def fingerprint_of(info: StreamInfo | None) -> StreamFingerprint | None:
    """The fingerprint of a stream; None when there is none."""
    if info is None:
        return None
    ages = bool(info.config.get("max_age"))
    return StreamFingerprint(info.created, info.state.last_seq, info.state.num_subjects, ages)


class StreamSetup:
    """Makes what is missing and mends what differs."""

    def __init__(self, layout: StreamLayout, replicas: int, count: Callable[[str], None]) -> None:
        """`count` is called with layout_mended or layout_refused."""
        self._layout = layout
        self._replicas = replicas
        self._count = count
        self._reported: dict[str, str] = {}

    async def arrange(self, link: NatsLink) -> None:
        """Create or update every stream once; a refusal is logged and the stream left as it is.

        Raises BusAway.
        """
        for stream in self._layout.streams:
            try:
                found = await jetstream.stream_info(link, stream.name)
                done = await self._mend(link, stream, found)
            except JetStreamRefused as e:
                self._refused(stream, str(e))
                continue
            if done:
                self._count("layout_mended")
                log.info("stream arranged", stream=stream.name, how=done)

    async def _mend(self, link: NatsLink, stream: Stream, found: StreamInfo | None) -> str:
        config = stream.config(self._replicas)
        if found is None:
            await jetstream.create_stream(link, config)
            return "made"
        if _is_newer(found.config) or not (differing := difference(config, found.config)):
            return ""
        foreign = (found.config.get("republish") or {}).get("dest", "")
        if stream.bucket and foreign and foreign != config["republish"]["dest"]:
            self._refused(
                stream,
                f"it is republished on {foreign}: each cluster needs a NATS account of its own",
            )
            return ""
        metadata = (found.config.get("metadata") or {}) | config["metadata"]
        own = {name: text for name, text in metadata.items() if not name.startswith("_nats.")}
        await jetstream.update_stream(link, {**found.config, **config, "metadata": own})
        return f"changed {', '.join(differing)}"

    def _refused(self, stream: Stream, why: str) -> None:
        if self._reported.get(stream.name) != why:
            self._reported[stream.name] = why
            log.alert("stream is not as it should be", stream=stream.name, why=why)
            self._count("layout_refused")


def difference(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields that are not as wanted; what the layout does not speak of may be anything."""
    return tuple(name for name, value in wanted.items() if not _covers(value, found.get(name)))


def _covers(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, dict):
        return isinstance(found, dict) and not difference(wanted, found)
    return bool(wanted == found) or not (wanted or found)


def _is_newer(config: Mapping[str, Any]) -> bool:
    version = str(config.get("metadata", {}).get("tessera-layout", ""))
    return version.isdecimal() and int(version) > LAYOUT_VERSION
