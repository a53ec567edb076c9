"""Which stream keeps which subjects, for how long, and which bucket is republished where.

The one table of Tessera's JetStream. Services make what is missing and mend what differs
(`bus.stream_setup`); a newer release's layout, recognised by its number, is left alone. One NATS
account serves one cluster: its buckets are republished under that cluster's name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from tessera_runtime.bus.api import MessageRejected
from tessera_runtime.bus.subject_patterns import covered_by, meet
from tessera_schema.subjects import DEVICES_BUCKET, HINTS_BUCKET, ROOT

LAYOUT_VERSION: Final = 1
_SUBJECT: Final = re.compile(r"[^\s.*>]+(\.[^\s.*>]+)*")
_KEY: Final = re.compile(r"[A-Za-z0-9_=-]+(\.[A-Za-z0-9_=-]+)*")
_MIB: Final = 1 << 20
_SECOND_NS: Final = 1_000_000_000
_DAY_S: Final = 86_400.0
VALUE_S: Final = 600.0
"""Seconds for which a bucket keeps a value. Who speaks repeats each within 30; what is not repeated
is of a node that is gone, or of a name that somebody made up, which must not fill the bucket."""


class Stream(Struct, frozen=True, kw_only=True):
    """A stream, or the stream below a bucket."""

    name: str
    subjects: str
    """The pattern of what it keeps."""
    memory: bool = False
    max_age_s: float = 0
    """0 = for ever."""
    max_bytes: int
    duplicates_s: float
    """Within this time a second message with an equal id is dropped."""
    bucket: str = ""
    """Set when it is a bucket: the last value of each key stays."""
    published: str = ""
    """Of a bucket: its keys' values are republished on this prefix and the key."""

    def published_subject(self, subject: str) -> str:
        """The subject that subscribers see for a message kept under `subject`."""
        if not self.bucket:
            return subject
        return self.published + subject.removeprefix(f"$KV.{self.bucket}.")

    def config(self, replicas: int) -> dict[str, Any]:
        """The configuration of the stream in JetStream."""
        config: dict[str, Any] = {
            "name": self.name,
            "subjects": [self.subjects],
            "storage": "memory" if self.memory else "file",
            "retention": "limits",
            "discard": "old",
            "max_age": int(self.max_age_s * _SECOND_NS),
            "max_bytes": self.max_bytes,
            "duplicate_window": int(self.duplicates_s * _SECOND_NS),
            "num_replicas": replicas,
            "allow_direct": True,
            "metadata": {"tessera-layout": str(LAYOUT_VERSION)},
        }
        if self.bucket:
            config |= {
                "max_msgs_per_subject": 1,
                "allow_rollup_hdrs": True,
                "deny_delete": True,
                "republish": {"src": self.subjects, "dest": f"{self.published}>"},
            }
        return config


class StreamSubject(Struct, frozen=True):
    """A stream, and the part of what it keeps that a reader wants."""

    stream: Stream
    filter: str


_KEPT: Final = (
    Stream(
        name="TESSERA_ALLOCATION", subjects=f"{ROOT}.*.allocation.>",
        max_age_s=_DAY_S, max_bytes=256 * _MIB, duplicates_s=600,
    ),
    Stream(
        name="TESSERA_USAGE", subjects=f"{ROOT}.*.usage.>", memory=True,
        max_age_s=120, max_bytes=64 * _MIB, duplicates_s=30,
    ),
    Stream(
        name="TESSERA_QUOTA", subjects=f"{ROOT}.*.quota.>",
        max_age_s=7 * _DAY_S, max_bytes=32 * _MIB, duplicates_s=600,
    ),
    Stream(
        name="TESSERA_PLAN", subjects=f"{ROOT}.*.plan.>",
        max_age_s=7 * _DAY_S, max_bytes=32 * _MIB, duplicates_s=600,
    ),
    Stream(
        name="TESSERA_GANG", subjects=f"{ROOT}.*.gang.>",
        max_age_s=_DAY_S, max_bytes=32 * _MIB, duplicates_s=600,
    ),
    Stream(
        name="TESSERA_QUEUE", subjects=f"{ROOT}.*.queue.>", memory=True,
        max_age_s=300, max_bytes=16 * _MIB, duplicates_s=30,
    ),
)  # fmt: skip
_KEEPS: Final = tuple((covered_by(stream.subjects), stream) for stream in _KEPT)
_BUCKETS: Final[Mapping[str, tuple[str, int]]] = {
    DEVICES_BUCKET: ("device", 128 * _MIB),
    HINTS_BUCKET: ("hint", 64 * _MIB),
}


class StreamLayout:
    """The streams and buckets of one cluster's bus."""

    def __init__(self, cluster: str) -> None:
        """`cluster` is one token of a subject."""
        self.buckets = {bucket: _bucket(cluster, bucket) for bucket in _BUCKETS}
        self.streams = (*_KEPT, *self.buckets.values())

    def stream_of(self, subject: str) -> Stream:
        """The stream that a message published on this subject goes into. Raises MessageRejected."""
        if not _SUBJECT.fullmatch(subject):
            raise MessageRejected(f"subject {subject!r}: write tokens without spaces, `*` and `>`")
        for keeps, stream in _KEEPS:
            if keeps(subject):
                return stream
        raise MessageRejected(f"subject {subject!r}: no stream keeps it")

    def bucket(self, name: str) -> Stream:
        """The stream below a bucket. Raises MessageRejected."""
        stream = self.buckets.get(name)
        if stream is None:
            raise MessageRejected(f"bucket {name!r}: write one of {', '.join(self.buckets)}")
        return stream

    def homes(self, pattern: str) -> tuple[StreamSubject, ...]:
        """Where the messages are kept that subscribers to the pattern would see.

        Raises MessageRejected when nothing keeps any of them.
        """
        found = ((stream, meet(_published_pattern(stream), pattern)) for stream in self.streams)
        homes = tuple(
            StreamSubject(stream, _stored_pattern(stream, part)) for stream, part in found if part
        )
        if not homes:
            raise MessageRejected(f"subject {pattern!r}: no stream keeps any of it")
        return homes


def check_key(key: str) -> None:
    """Raises MessageRejected for what cannot be a bucket's key."""
    if not _KEY.fullmatch(key):
        raise MessageRejected(f"key {key!r}: write letters, digits, `-`, `_`, `=` and single dots")


def _bucket(cluster: str, bucket: str) -> Stream:
    what, max_bytes = _BUCKETS[bucket]
    return Stream(
        name=f"KV_{bucket}",
        subjects=f"$KV.{bucket}.>",
        max_age_s=VALUE_S,
        max_bytes=max_bytes,
        duplicates_s=120,
        bucket=bucket,
        published=f"{ROOT}.{cluster}.{what}.",
    )


def _published_pattern(stream: Stream) -> str:
    return f"{stream.published}>" if stream.bucket else stream.subjects


def _stored_pattern(stream: Stream, part: str) -> str:
    if not stream.bucket:
        return part
    return f"$KV.{stream.bucket}." + part.removeprefix(stream.published)
