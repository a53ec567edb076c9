"""A scheduler as a process that can be stopped, cut off, killed and started again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from random import Random

from tessera_core.trust.fencing import POLICY
from tessera_runtime.errors import ApiLost, ApiRefused
from tessera_runtime.kube.api import NONE, Body, Verb
from tessera_scheduler.scheduler import Scheduler, open_scheduler
from tessera_scheduler.settings import SchedulerSettings
from tessera_testing.kube import FakeKube
from tessera_testing.stoppable import StoppableProcess
from tests.machine.cluster import SETTINGS, Cluster
from tests.machine.observed import ObservedAgents
from tests.machine.truth import CALL_S
from tests.scheduler.fake_cluster import REGISTRY


class Line(FakeKube):
    """A process's way to the API server."""

    def __init__(self, cluster: Cluster, stop: Callable[[], None]) -> None:
        super().__init__(cluster.store, call_s=CALL_S)
        self.dead = False
        """The process was killed: what it still sends is never sent."""
        self.stops_it = False
        """The next Binding finds the process stopped between deciding to send it and sending it."""
        self.on_write: Callable[[Verb, str, bytes], None] = lambda _verb, _path, _body: None
        """Called before each write to the API server, which is not sent if the process is dead
        afterwards."""
        self.on_written: Callable[[Verb, str], None] = lambda _verb, _path: None
        """Called after each write that the API server has taken, before its answer arrives."""
        self.on_page: Callable[[str, Mapping[str, str], bytes], None] = lambda *_: None
        """Called with path, query and body of each page of a list that has arrived."""
        self.on_frame: Callable[[str, bytes], None] = lambda _path, _line: None
        """Called with each line of a watch that has arrived."""
        self.observed = ObservedAgents(cluster.time)
        self._truth = cluster.truth
        self._stop = stop

    async def call(
        self, verb: Verb, path: str, *, query: Mapping[str, str] = NONE, body: bytes = b"",
        kind: Body = Body.JSON,
    ) -> bytes:  # fmt: skip
        """See `Kube.call`."""
        if "/pods/" in path and body:
            self._truth.sending(body)
        writes = verb is not Verb.GET and "dryRun" not in query
        if writes and not self.dead:
            self._is_sent(verb, path, body)
            await asyncio.sleep(0)
        if self.dead:
            raise ApiLost("the process is dead")
        try:
            answer = await super().call(verb, path, query=query, body=body, kind=kind)
        except ApiRefused as e:
            if POLICY in e.message and "dryRun" not in query:
                self._truth.out_of_term += 1
            raise
        if verb is Verb.GET:
            self.observed.page(path, answer, token=query.get("continue", ""))
            self.on_page(path, query, answer)
        elif writes:
            self.on_written(verb, path)
            await asyncio.sleep(0)
        return answer

    def _is_sent(self, verb: Verb, path: str, body: bytes) -> None:
        """The process may be stopped or ended here, before the write."""
        if self.stops_it and path.endswith("/binding"):
            self.stops_it = False
            self._stop()
        self.on_write(verb, path, body)

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] = NONE
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        """See `Kube.stream`."""
        if self.dead:
            raise ApiLost("the process is dead")
        async with super().stream(path, query=query) as lines:
            yield self._observe(path, lines)

    async def _observe(self, path: str, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in lines:
            self.observed.event(path, line)
            self.on_frame(path, line)
            yield line


class Replica:
    """One scheduler."""

    def __init__(
        self, cluster: Cluster, group: asyncio.TaskGroup, name: str, seed: int,
        settings: SchedulerSettings = SETTINGS,
    ) -> None:  # fmt: skip
        self.name = name
        self._settings = settings
        self.process = StoppableProcess(cluster.loop)
        self.line = Line(cluster, self.stop)
        self.scheduler: Scheduler | None = None
        self.cut_off = False
        self._cluster = cluster
        self._chance = Random(seed)  # noqa: S311  (makes a run repeatable)
        self._end = asyncio.Event()
        self._task = group.create_task(self._live(), name=name, context=self.process.context.copy())

    async def _live(self) -> None:
        cluster = self._cluster
        async with open_scheduler(
            self.line, cluster.bus, self._settings, cluster.clock, REGISTRY, random=self._chance
        ) as scheduler:
            self.scheduler = scheduler
            await self._end.wait()

    @property
    def runs(self) -> bool:
        """Whether it is neither stopped nor dead nor about to end."""
        return not (self.process.stopped or self.line.dead or self._end.is_set())

    @property
    def alive(self) -> bool:
        """Whether it runs, or may be made to go on."""
        return not (self.line.dead or self._end.is_set())

    @property
    def leads(self) -> bool:
        """Whether it runs and would answer."""
        return self.runs and self.scheduler is not None and self.scheduler.leadership.leads

    def stop(self) -> None:
        """As by SIGSTOP."""
        self.process.stop()
        self._cluster.out_of_touch(self.name)

    def go_on(self) -> None:
        """As by SIGCONT; and the way to the API server is mended."""
        self.line.resume()
        self.cut_off = False
        self.process.go_on()
        self._cluster.in_touch(self.name)

    def mend(self) -> None:
        """It goes on, and nothing fails or is late between it and the API server."""
        self.go_on()
        self.line.faults.clear()
        self.line.stops_it = False
        self.line.event_delay_s, self.line.event_times = 0.0, 1

    def cut(self) -> None:
        """Its way to the API server ends: calls run into their deadline, watches are silent."""
        self.cut_off = True
        self.line.pause()
        self._cluster.out_of_touch(self.name)

    def kill(self) -> None:
        """As by SIGKILL: nothing is cleaned up, and its connections break."""
        self.process.stop()
        self.line.dead = True
        self.line.end_watches()

    def end(self) -> None:
        """As by SIGTERM."""
        self._end.set()

    async def bury(self) -> None:
        """Take it out of the loop, whatever its state."""
        self.line.dead = True
        self.process.go_on()
        self._task.cancel()
        while not self._task.done():
            await asyncio.sleep(0.01)
