"""One connection to NATS. It is never mended: when it is lost a new one is opened, and what
used it starts again. The only module that imports nats-py.

nats-py's own reconnecting is switched off: it repeats subscriptions but not what was asked for over
them, so readers would wait for ever. Its futures may outlive the connection, and it may swallow a
cancellation; both are mended here.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import count
from typing import Any, Final

import nats.errors
from msgspec import Struct
from nats.aio.client import Client
from nats.aio.msg import Msg

from tessera_runtime import logs
from tessera_runtime.bus.credentials import NatsCredentials, read_credentials
from tessera_runtime.bus.request_queue import Delivery, Inbox
from tessera_runtime.bus.settings import BusSettings
from tessera_runtime.errors import BusAway

log = logs.named("tessera.bus")
_WORLD: Final = (nats.errors.Error, OSError, EOFError, ValueError)
_NEVER_S: Final = 86_400
NO_RESPONDERS: Final = 503
_NAME_BYTES: Final = 16
_SPACE: Final = " \t\r\n\v\f"
_HEADERS: Final = re.compile(r"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+: [^\r\n]*\r\n)+")
"""Lines of headers that go as they are, one for each."""


class RequestMessage(Struct, frozen=True):
    """What is sent to be answered."""

    subject: str
    data: bytes
    headers: dict[str, str] | None = None


class NatsLink:
    """A connection that is up until `lost` is set."""

    def __init__(self, client: _Client, settings: BusSettings) -> None:
        """Use `open_link`."""
        self._client = client
        self._settings = settings
        self._inboxes: set[Inbox] = set()
        self._waiting: dict[str, asyncio.Future[Delivery]] = {}
        self._tokens = count()
        self._answers = ""
        self._look_now = asyncio.Event()
        self.lost = asyncio.Event()
        self.why = ""
        self.connected = False
        self.trouble = ""
        """What nats-py complained about last."""

    @property
    def largest(self) -> int:
        """Bytes that a message may have, headers included, as the server says."""
        return self._client.max_payload

    def lose(self, why: str) -> None:
        """Take the connection for dead: every task that waits on it gets BusAway."""
        if self.lost.is_set():
            return
        self.why = why
        self.lost.set()
        self._look_now.set()
        for inbox in self._inboxes:
            inbox.put(BusAway(why))
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(BusAway(why))

    def inbox_subject(self) -> str:
        """A subject that nobody else uses."""
        return f"{self._settings.inbox}.{self.fresh_name()}"

    def fresh_name(self) -> str:
        """A name that nobody else uses, and nobody can guess from another one: with a
        consumer's name one can read in its place, and others see the subjects of answers."""
        return secrets.token_hex(_NAME_BYTES)

    async def publish(
        self,
        subject: str,
        data: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        reply: str = "",
    ) -> None:
        """Send a message, without knowing whether it arrives. Raises BusAway."""
        self._check()
        said = dict(headers) if headers else None
        with _edge(f"publish on {subject}"):
            async with asyncio.timeout(self._settings.call_s):
                await self._client.publish(subject, data, reply=reply, headers=said)

    async def request(self, subject: str, data: bytes) -> Delivery:
        """The answer to a message, within `call_s`. Raises BusAway."""
        (answer,) = await self.request_all([RequestMessage(subject, data)])
        if isinstance(answer, BusAway):
            raise answer
        return answer

    async def request_all(self, messages: Sequence[RequestMessage]) -> list[Delivery | BusAway]:
        """The answer to each of the messages, which go at once and in this order, or why there is
        none; within `call_s` for all of them. Raises BusAway where they were not sent."""
        loop = asyncio.get_running_loop()
        waiting: dict[str, asyncio.Future[Delivery]] = {
            str(next(self._tokens)): loop.create_future() for _ in messages
        }
        self._waiting |= waiting
        try:
            async with asyncio.timeout(self._settings.call_s):
                self._check()
                with _edge(f"publish on {messages[0].subject}"):
                    for message, token in zip(messages, waiting, strict=True):
                        await self._client.publish(
                            message.subject, message.data, reply=self._answers + token,
                            headers=message.headers,
                        )  # fmt: skip
                for future in waiting.values():
                    with suppress(BusAway):
                        await future
        except TimeoutError:
            self._look_now.set()  # is the connection dead, or the request not allowed?
        finally:
            for token, future in waiting.items():
                del self._waiting[token]
                if future.done() and not future.cancelled():
                    future.exception()  # looked at, so that asyncio does not complain
        return list(map(self._answer, messages, waiting.values()))

    def _answer(
        self, message: RequestMessage, future: asyncio.Future[Delivery]
    ) -> Delivery | BusAway:
        subject = message.subject
        if not future.done() or future.cancelled():
            return BusAway(f"{subject}: no answer within {self._settings.call_s} s")
        lost = future.exception()
        if isinstance(lost, BusAway):
            return lost
        answer = future.result()
        if answer.status == NO_RESPONDERS:
            return BusAway(f"{subject}: nobody answers there (is JetStream on?)")
        return answer

    @asynccontextmanager
    async def subscribe(
        self, subject: str, queue: str = "", most_bytes: int | None = None
    ) -> AsyncGenerator[Inbox]:
        """What comes on a subject; see `Inbox` for `most_bytes`. Raises BusAway."""
        inbox = Inbox(subject, most_bytes)
        taken = await self._subscribe(subject, inbox.put, queue)
        self._inboxes.add(inbox)
        if self.lost.is_set():
            inbox.put(BusAway(self.why))
        try:
            yield inbox
        finally:
            self._inboxes.discard(inbox)
            with suppress(BusAway), _edge(f"unsubscribe from {subject}"):
                async with asyncio.timeout(self._settings.close_s):
                    await taken.unsubscribe()

    async def watched(self) -> None:
        """Return when the connection is lost: closed by either side, or a ping is not answered."""
        while not self.lost.is_set():
            self._look_now.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.ping_s):
                    await self._look_now.wait()
            if not self.lost.is_set():
                await self._ping()

    async def answer_requests(self) -> None:
        """Subscribe to the answers; once, before the first request. Raises BusAway."""
        prefix = self.inbox_subject()
        self._answers = f"{prefix}."
        taken = await self._subscribe(f"{prefix}.*", self._answered, "")
        self._client.answers = taken._id, self._answered

    def _answered(self, answer: Delivery) -> None:
        future = self._waiting.get(answer.subject.removeprefix(self._answers))
        if future is not None and not future.done():
            future.set_result(answer)

    async def _subscribe(self, subject: str, take: Callable[[Delivery], None], queue: str) -> Any:
        async def came(message: Msg) -> None:
            take(_delivery(message))

        self._check()
        with _edge(f"subscribe to {subject}"):
            async with asyncio.timeout(self._settings.call_s):
                return await self._client.subscribe(subject, queue=queue, cb=came)

    async def _ping(self) -> None:
        try:
            with _edge("ping"):
                await self._client.rtt(timeout=self._settings.ping_s)  # type: ignore[arg-type]  # seconds, of any kind
        except BusAway as e:
            self.lose(f"a ping was not answered within {self._settings.ping_s} s: {e}")

    def _check(self) -> None:
        if self.lost.is_set():
            raise BusAway(self.why)


@asynccontextmanager
async def open_link(settings: BusSettings, name: str) -> AsyncGenerator[NatsLink]:
    """Connect within `connect_s`, and close in the end. Raises BusAway."""
    try:
        credentials = await asyncio.to_thread(read_credentials, settings)
    except _WORLD as e:
        raise BusAway(f"credentials for NATS: {e}") from e
    client = _Client(credentials)
    link = NatsLink(client, settings)
    try:
        try:
            await _connect(link, client, settings, {"name": name, **credentials.options()})
        except BusAway as e:
            raise BusAway(f"{settings.server_names}: {link.trouble or e}") from e
        yield link
    finally:
        link.lose("this end closes it")
        with suppress(*_WORLD, AssertionError):  # it asserts that connecting had begun
            async with asyncio.timeout(settings.close_s):
                await client.close()


async def _connect(
    link: NatsLink, client: Client, settings: BusSettings, options: Mapping[str, Any]
) -> None:
    async def closed() -> None:
        link.lose("the server closed the connection")

    async def failed(error: Exception) -> None:
        # This is about permissions: a connection that breaks is logged where the next is opened.
        broken = isinstance(error, OSError | nats.errors.StaleConnectionError)
        if link.connected and not broken and _text(error) != link.trouble:
            log.warning("bus complains", why=_text(error))
        link.trouble = _text(error)

    own: dict[str, Any] = {
        "allow_reconnect": False,
        "max_reconnect_attempts": 1,
        "connect_timeout": settings.connect_s,
        "reconnect_time_wait": settings.retry_first_s,
        "ping_interval": _NEVER_S,  # `watched` does it
        "pending_size": 0,
        "inbox_prefix": settings.inbox,
        "closed_cb": closed,
        "error_cb": failed,
    }
    with _edge("connect"):
        async with asyncio.timeout(settings.connect_s):
            await client.connect(settings.servers, **own, **options)
    await link.answer_requests()
    link.connected = True


class _Client(Client):
    """nats-py's client, which takes an nkey only through a package that we do not need, and would
    send credentials in the clear to a server that does not speak of TLS."""

    def __init__(self, credentials: NatsCredentials) -> None:
        super().__init__()
        self._needs_tls = credentials.tls is not None
        if credentials.nkey is not None and not credentials.jwt:
            self._public_nkey = credentials.nkey.public
        self.answers: tuple[int, Callable[[Delivery], None]] | None = None
        """The subscription to answers, and what takes them: at once, as the queue and the task that
        a subscription has cost more than the answer."""

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        if self.answers is None or self.answers[0] != sid or headers:
            await super()._process_msg(sid, subject, reply, data, headers)
        else:
            self.answers[1](Delivery(subject.decode(), {}, data, reply.decode()))

    async def _send_publish(
        self, subject: str, reply: str, payload: bytes, payload_size: int,
        headers: dict[str, Any] | None,
    ) -> None:  # fmt: skip
        """nats-py's own reads each header by itself, which takes half of what it does with a
        message."""
        made = headers or {}
        lines = "".join([f"{name}: {value}\r\n" for name, value in made.items()])
        if lines.count("\n") != len(made) or not _HEADERS.fullmatch(lines):  # or without any
            await super()._send_publish(subject, reply, payload, payload_size, headers)
            return
        head = f"NATS/1.0\r\n{lines}\r\n".encode()
        size = len(head) + payload_size
        line = f"HPUB {subject} {reply} {len(head)} {size}\r\n".encode()
        await self._send_command(b"%b%b%b\r\n" % (line, head, payload))
        if self._flush_queue is not None and self._flush_queue.empty():
            await self._flush_pending()

    @staticmethod
    def _parse_header_lines(raw: bytes) -> dict[str, str]:
        """nats-py's own looks at each letter of each name, which takes more time than all else that
        it does with a message."""
        found = {}
        for line in raw.decode(errors="replace").split("\r\n"):
            name, colon, value = line.partition(":")
            name = name.strip(_SPACE)
            if colon and name.isascii() and name.isprintable() and " " not in name:
                found[name] = value.strip(_SPACE)
        return found

    def _connect_command(self) -> bytes:
        if self._needs_tls and not self._server_info.get("tls_required"):
            raise nats.errors.Error("the server offers no TLS, and the settings demand it")
        return super()._connect_command()


def _delivery(message: Msg) -> Delivery:
    headers = message.headers or {}
    status = headers.get("Status", "")
    # Only an empty message can be NATS's own word.
    said = int(status) if not message.data and status.isdecimal() and len(status) == 3 else 0
    return Delivery(message.subject, headers, message.data, message.reply, said)


@contextmanager
def _edge(what: str) -> Generator[None]:
    task = asyncio.current_task()
    asked = task.cancelling() if task else 0
    try:
        yield
    except _WORLD as e:
        raise BusAway(f"{what}: {_text(e)}") from e
    if task and task.cancelling() > asked:
        raise asyncio.CancelledError  # nats-py swallowed it


def _text(error: BaseException) -> str:
    return str(error).removeprefix("nats: ") or type(error).__name__
