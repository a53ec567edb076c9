"""An API server in memory: the embedded one's store behind the protocol that services use, on
whatever clock the loop has.

    kube = FakeKube(a_store(LoopClock()))
    kube.faults.add(Fault("POST", r".*/binding", Cut(after=True)))

Faults are those of the embedded server. Cut, Hang and an answer of 5xx are ApiLost to the caller;
a Delay longer than the deadline is too, and the write is done all the same, later. Webhooks are not
called. What is written is kept by the store, so several FakeKubes of one store are several clients
of one server.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import Context

from tessera_embedded.apiserver import ApiServerEnvironment
from tessera_embedded.apiserver.errors import ApiError
from tessera_embedded.apiserver.faults import Answer, Cut, Delay, Effect, Faults, Hang, refused
from tessera_embedded.apiserver.http_types import ADMIN, AuthenticatedUser, Response, refusal
from tessera_embedded.apiserver.store import Store
from tessera_embedded.apiserver.watches import KindWatch
from tessera_runtime.clock import Clock
from tessera_runtime.errors import ApiLost
from tessera_runtime.kube.api import NONE, Body, Verb
from tessera_runtime.kube.responses import check


def a_store(clock: Clock, *, seed: int = 0, window: int = 100_000) -> Store:
    """An API server's objects, with the namespaces that every cluster has; uids by the seed."""
    chance = random.Random(seed)  # noqa: S311  (reproducible names)
    store = Store(
        ApiServerEnvironment(
            clock.time,
            lambda: str(uuid.UUID(int=chance.getrandbits(128), version=4)),
            lambda: f"{chance.randrange(36**5):05x}"[-5:],
        ),
        window=window,
    )
    store.open()
    return store


class FakeKube:
    """`tessera_runtime.kube.api.Kube` in memory: one client of a store."""

    def __init__(
        self,
        store: Store,
        *,
        call_s: float = 5.0,
        latency_s: float = 0.001,
        bookmark_s: float = 60.0,
        user: AuthenticatedUser = ADMIN,
    ) -> None:
        """`call_s` is the deadline of a call, `latency_s` what one takes when all is well."""
        self.store = store
        self.faults = Faults()
        self.call_s = call_s
        self.latency_s = latency_s
        self.bookmark_s = bookmark_s
        """Seconds after which a quiet watch gets a bookmark; infinity = it stays silent."""
        self.event_delay_s = 0.0
        """Seconds that watch events spend on the way."""
        self.event_times = 1
        """How often each watch event is delivered."""
        self.calls: list[tuple[Verb, str]] = []
        """What was asked for so far, watches not among it."""
        self.watches_opened = 0
        self._user = user
        self._running = asyncio.Event()
        self._running.set()
        self._watches: dict[KindWatch, _Feed] = {}

    @property
    def watching(self) -> int:
        """How many watches are open."""
        return len(self._watches)

    def pause(self) -> None:
        """Nothing goes on from here, as if the process or the way to it were stopped: calls run
        into their deadline, watches are silent."""
        self._running.clear()

    def resume(self) -> None:
        """Go on."""
        self._running.set()
        for feed in self._watches.values():
            feed.changed.set()

    def cut_watches(self) -> None:
        """Break every open watch: its reader sees ApiLost."""
        for feed in self._watches.values():
            feed.cut = True
            feed.changed.set()

    def end_watches(self) -> None:
        """End every open watch in good order."""
        for watch in list(self._watches):
            watch.close()

    async def call(
        self,
        verb: Verb,
        path: str,
        *,
        query: Mapping[str, str] = NONE,
        body: bytes = b"",
        kind: Body = Body.JSON,
    ) -> bytes:
        """See `Kube.call`."""
        self.calls.append((verb, path))
        what = f"{verb} {path}"

        def done() -> Response:
            return self.store.handle(verb, path, query, body, kind, user=self._user)

        return await self._answer(verb, path, what, done)

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] = NONE
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        """See `Kube.stream`."""
        what = f"watch {path}"
        opened: list[KindWatch] = []

        def done() -> Response:
            try:
                opened.append(self.store.watch(path, query, user=self._user))
            except ApiError as e:
                return refusal(e)
            return Response(200, b"")

        await self._answer(Verb.GET, path, what, done)
        self.watches_opened += 1
        async with self._feeding(opened[0]) as feed:
            yield self._lines(feed, what, query)

    async def _answer(
        self, verb: Verb, path: str, what: str, done: Callable[[], Response]
    ) -> bytes:
        effect = self.faults.take(verb, path)
        try:
            async with asyncio.timeout(self.call_s):
                await asyncio.sleep(self.latency_s)
                await self._running.wait()
                response = await _met(effect, what, done)
                await self._running.wait()
        except TimeoutError as e:
            raise ApiLost(f"{what}: no answer in {self.call_s:g} s") from e
        check(what, response.code, dict(response.headers), response.body)
        return response.body

    @asynccontextmanager
    async def _feeding(self, watch: KindWatch) -> AsyncGenerator[_Feed]:
        feed = _Feed(watch)
        watch.on_change = feed.changed.set
        self._watches[watch] = feed
        try:
            yield feed
        finally:
            del self._watches[watch]
            watch.close()

    async def _lines(
        self, feed: _Feed, what: str, query: Mapping[str, str]
    ) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        feed.ends_at = loop.time() + float(query.get("timeoutSeconds", "1800"))
        while True:
            await self._running.wait()
            for frame in await self._frames(feed):
                await self._running.wait()
                if feed.cut:
                    raise ApiLost(f"{what}: cut")
                for _ in range(self.event_times):
                    yield frame.rstrip(b"\n")
            if feed.cut:
                raise ApiLost(f"{what}: cut")
            if feed.watch.closed:
                return

    async def _frames(self, feed: _Feed) -> list[bytes]:
        """What comes next, after the time it spends on the way; a bookmark if nothing does."""
        feed.changed.clear()
        if frames := feed.watch.pull():
            await asyncio.sleep(self.event_delay_s)
            return frames
        if feed.cut or feed.watch.closed:  # while nothing went on
            return []
        bookmark_at = asyncio.get_running_loop().time() + self.bookmark_s
        try:
            async with asyncio.timeout_at(min(bookmark_at, feed.ends_at)):
                await feed.changed.wait()
        except TimeoutError:
            last = feed.watch.pull()  # a bookmark says that everything before it was delivered
            if last:
                await asyncio.sleep(self.event_delay_s)
            elif feed.watch.wants_bookmarks and not feed.watch.closed:
                last = [feed.watch.bookmark()]
            if bookmark_at >= feed.ends_at:
                feed.watch.close()
            return last
        return []


class _Feed:
    """An open watch, and what happens to it."""

    def __init__(self, watch: KindWatch) -> None:
        self.watch = watch
        self.changed = asyncio.Event()
        self.cut = False
        self.ends_at = float("inf")


async def _met(effect: Effect | None, what: str, done: Callable[[], Response]) -> Response:
    """The answer to a call that has met its fault, if it has one."""
    match effect:
        case None:
            return done()
        case Answer():
            return refused(effect)
        case Hang():
            return await asyncio.Future()
        case Cut():
            if effect.after:
                done()
            raise ApiLost(f"{what}: cut")
        case Delay():
            return await _late(effect.seconds, done)


def _late(seconds: float, done: Callable[[], Response]) -> asyncio.Future[Response]:
    """The answer when it comes; it is done then even if nobody waits for it any more."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Response] = loop.create_future()

    def do() -> None:
        response = done()
        if not answer.done():
            answer.set_result(response)

    loop.call_later(seconds, do, context=Context())  # it is on its way, whatever its sender does
    return answer
