"""A link to NATS that is opened again whenever it is lost, for ever.

What uses it learns it from `connection_generation`, and from the end of its sessions; nothing is
repeated here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from tessera_runtime import logs
from tessera_runtime.background import running_in_background
from tessera_runtime.backoff import Backoff
from tessera_runtime.bus.jetstream import JetStreamRefused, stream_info
from tessera_runtime.bus.nats_link import NatsLink, open_link
from tessera_runtime.bus.pull_session import PullSession
from tessera_runtime.bus.settings import BusSettings
from tessera_runtime.bus.stream_setup import StreamFingerprint, StreamSetup, fingerprint_of
from tessera_runtime.bus.streams import StreamLayout
from tessera_runtime.errors import BusAway

log = logs.named("tessera.bus")
OnLink = Callable[[NatsLink], Awaitable[None]]


class ReconnectingClient:
    """The link of now, if there is one."""

    def __init__(self, settings: BusSettings, name: str, count: Callable[[str], None]) -> None:
        """Use `open_bus`. `name` is what NATS shows for us."""
        self.settings = settings
        self.name = name
        self.count = count
        self.layout = StreamLayout(settings.cluster)
        self._keeper = StreamSetup(self.layout, settings.replicas, count)
        self._link: NatsLink | None = None
        self._renewals = 0
        self._changed = asyncio.Event()
        self._look_now = asyncio.Event()
        self._sessions: set[PullSession] = set()
        self._marks: dict[str, StreamFingerprint] = {}
        self._first: set[OnLink] = set()
        kept = self.layout.buckets.values() if settings.arrange else ()
        self._used = {stream.name for stream in kept}
        """Buckets' streams that are looked at: agents look only at what they use."""
        self._why = ""

    @property
    def up(self) -> bool:
        """True while there is a link."""
        return self._link is not None

    def link(self) -> NatsLink:
        """The link of now. Raises BusAway."""
        if self._link is None:
            raise BusAway(self._why or f"{self.settings.server_names}: not connected yet")
        return self._link

    async def linked(self) -> NatsLink:
        """The link, waiting until there is one."""
        while self._link is None:
            await self._changed.wait()
        return self._link

    async def renewed(self, seen: int) -> int:
        """Wait for a link and other renewals than `seen`; see `Bus.connection_generation`."""
        while self._link is None or self._renewals == seen:
            await self._changed.wait()
        return self._renewals

    def use(self, stream: str) -> None:
        """Keep an eye on a bucket's stream from now on."""
        if stream not in self._used:
            self._used.add(stream)
            self.doubt()

    def doubt(self) -> None:
        """Something is odd: look at streams and buckets soon."""
        self._look_now.set()

    @asynccontextmanager
    async def holding(self, session: PullSession) -> AsyncGenerator[None]:
        """Have the session ended when its streams are not what they were."""
        self._sessions.add(session)
        try:
            yield
        finally:
            self._sessions.discard(session)

    @asynccontextmanager
    async def before_others(self, act: OnLink) -> AsyncGenerator[None]:
        """Have something done on each new link before anyone else gets it."""
        self._first.add(act)
        try:
            yield
        finally:
            self._first.discard(act)

    async def run(self) -> None:
        """Connect, stay, and connect again; until cancelled."""
        settings = self.settings
        pace = Backoff(settings.retry_first_s, settings.retry_most_s, self.name)
        while True:
            began = asyncio.get_running_loop().time()
            try:
                async with open_link(settings, self.name) as link:
                    await self._stay(link)
                    why = link.why
            except BusAway as e:
                why = str(e)
            if asyncio.get_running_loop().time() - began > settings.retry_most_s:
                pace.reset()
            self._away(why)
            await pace.wait()

    async def _stay(self, link: NatsLink) -> None:
        # Streams first: what waits for the link finds them.
        with suppress(BusAway):
            await self._check(link)
        for act in tuple(self._first):
            with suppress(BusAway):
                await act(link)
        if link.lost.is_set():
            return
        self._link = link
        self._why = ""
        log.info("bus connected", servers=self.settings.server_names)
        self.count("connected")
        self._renew()
        try:
            async with running_in_background(self._keep(link), "bus keeper"):
                await link.watched()
        finally:
            self._link = None

    def _away(self, why: str) -> None:
        if why != self._why:
            log.warning("bus away", why=why)
            self.count("away")
        self._why = why

    async def _keep(self, link: NatsLink) -> None:
        while not link.lost.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self.settings.check_s):
                    await self._look_now.wait()
            self._look_now.clear()
            with suppress(BusAway):
                await self._check(link)

    async def _check(self, link: NatsLink) -> None:
        if self.settings.arrange:
            await self._keeper.arrange(link)
        for stream in tuple(self._used):
            try:
                mark = fingerprint_of(await stream_info(link, stream))
            except JetStreamRefused as e:
                log.warning("bucket not seen", stream=stream, why=str(e))
                continue
            if mark is not None:
                self._compare(stream, mark)

    def _compare(self, stream: str, mark: StreamFingerprint) -> None:
        before = self._marks.get(stream)
        self._marks[stream] = mark
        why = mark.lost_since(before) if before else ""
        if not why:
            return
        log.warning("bucket lost values", stream=stream, why=why)
        self.count("bucket_lost_values")
        for session in self._sessions:
            if stream in session.streams:
                session.end(f"{stream}: {why}")
        self._renew()

    def _renew(self) -> None:
        self._renewals += 1
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
