"""JetStream's API in the few calls that Tessera makes, each one request on a link.

Refusals are recognised by JetStream's own error codes, which do not change between its releases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from tessera_runtime.bus.api import MessageRejected, PublishError
from tessera_runtime.bus.nats_link import NatsLink, RequestMessage
from tessera_runtime.bus.request_queue import Delivery
from tessera_runtime.errors import BusAway

API: Final = "$JS.API"
_SECOND_NS: Final = 1_000_000_000
_NO_STREAM: Final = 10059
_PASSING: Final = frozenset({
    10008,  # temporarily unavailable
    10023,  # insufficient resources
    10077,  # the stream's limit is reached
})  # fmt: skip


class JetStreamError(Struct, frozen=True):
    """The error in an answer of JetStream."""

    code: int = 0
    err_code: int = 0
    description: str = ""


class JetStreamResponse(Struct, frozen=True):
    """The part that all answers share."""

    error: JetStreamError | None = None


class StreamState(Struct, frozen=True):
    """What a stream holds."""

    last_seq: int = 0
    num_subjects: int = 0


class StreamInfo(JetStreamResponse, frozen=True):
    """A stream as it is."""

    config: dict[str, Any] = {}
    created: str = ""
    state: StreamState = StreamState()


class JetStreamRefused(Exception):
    """JetStream refused a request; the message has its code and text."""

    def __init__(self, what: str, refusal: JetStreamError) -> None:
        super().__init__(f"{what}: {refusal.description} ({refusal.err_code})")
        self.missing = refusal.err_code == _NO_STREAM
        self.passing = refusal.err_code in _PASSING or refusal.code >= 500


_encode = msgspec.json.Encoder().encode
_answer = msgspec.json.Decoder(JetStreamResponse).decode
_stream_info = msgspec.json.Decoder(StreamInfo).decode


async def stream_info(link: NatsLink, stream: str) -> StreamInfo | None:
    """The stream as it is; None when there is none. Raises BusAway, Refused."""
    try:
        return await _stream(link, f"STREAM.INFO.{stream}", {})
    except JetStreamRefused as e:
        if e.missing:
            return None
        raise


async def create_stream(link: NatsLink, config: Mapping[str, Any]) -> StreamInfo:
    """Make a stream. Raises BusAway, Refused."""
    return await _stream(link, f"STREAM.CREATE.{config['name']}", config)


async def update_stream(link: NatsLink, config: Mapping[str, Any]) -> StreamInfo:
    """Change a stream; what it holds stays. Raises BusAway, Refused."""
    return await _stream(link, f"STREAM.UPDATE.{config['name']}", config)


async def create_consumer(
    link: NatsLink, stream: str, name: str, config: Mapping[str, Any]
) -> None:
    """Make a consumer, or find it as it was made before. Raises BusAway, Refused."""
    subject = f"{API}.CONSUMER.CREATE.{stream}.{name}.{config['filter_subject']}"
    body = {"stream_name": stream, "config": {**config, "name": name}}
    await _call(link, subject, body)


async def delete_consumer(link: NatsLink, stream: str, name: str) -> None:
    """Let go of a consumer, without waiting for the answer. Raises BusAway."""
    await link.publish(f"{API}.CONSUMER.DELETE.{stream}.{name}", b"")


async def pull(link: NatsLink, stream: str, consumer: str, reply: str, asked: PullRequest) -> None:
    """Ask for messages, which come on `reply`. Raises BusAway."""
    subject = f"{API}.CONSUMER.MSG.NEXT.{stream}.{consumer}"
    await link.publish(subject, _encode(asked.body()), reply=reply)


class PullRequest(Struct, frozen=True):
    """How much is asked for, for how long, and how often a sign of life is wanted meanwhile."""

    batch: int
    expires_s: float
    heartbeat_s: float

    def body(self) -> dict[str, int]:
        """As JetStream wants it."""
        return {
            "batch": self.batch,
            "expires": int(self.expires_s * _SECOND_NS),
            "idle_heartbeat": int(self.heartbeat_s * _SECOND_NS),
        }


async def store_all(
    link: NatsLink, messages: Sequence[RequestMessage]
) -> list[PublishError | None]:
    """Put messages into the streams that keep their subjects; for each why it is not kept, None
    where it is. Raises BusAway where they were not sent."""
    return list(map(_untaken, messages, await link.request_all(messages)))


def _untaken(message: RequestMessage, answer: Delivery | BusAway) -> PublishError | None:
    if isinstance(answer, BusAway):
        return answer
    try:
        response: JetStreamResponse = _read(_answer, answer.data, message.subject)
    except BusAway as e:
        return e
    if response.error is None:
        return None
    refused = JetStreamRefused(message.subject, response.error)
    return BusAway(str(refused)) if refused.passing else MessageRejected(str(refused))


async def _stream(link: NatsLink, verb: str, body: Mapping[str, Any]) -> StreamInfo:
    subject = f"{API}.{verb}"
    answer = await link.request(subject, _encode(body) if body else b"")
    info: StreamInfo = _read(_stream_info, answer.data, subject)
    if info.error is not None:
        raise JetStreamRefused(subject, info.error)
    return info


async def _call(link: NatsLink, subject: str, body: Mapping[str, Any]) -> None:
    answer: JetStreamResponse = _read(
        _answer, (await link.request(subject, _encode(body))).data, subject
    )
    if answer.error is not None:
        raise JetStreamRefused(subject, answer.error)


def _read(decode: Any, data: bytes, subject: str) -> Any:
    try:
        return decode(data)
    except msgspec.DecodeError as e:
        raise BusAway(f"{subject}: an answer that cannot be read: {e}") from e
