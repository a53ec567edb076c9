"""The play: start everything, do what users do, watch, check, and leave nothing behind."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final, NoReturn, Protocol

import msgspec
from msgspec import Struct

from tessera_cli.errors import CommandError
from tessera_cli.explain.explanations import NotExplained, read_explanation
from tessera_cli.kubeconfig import ClusterTarget
from tessera_core.registry.registry import load
from tessera_demo import promises as evaluating
from tessera_demo.acts.best_effort import play_best_effort
from tessera_demo.acts.gangs import play_gangs
from tessera_demo.acts.lending import play_lending
from tessera_demo.acts.plans import play_plans
from tessera_demo.acts.quota import path_of, play_quota
from tessera_demo.acts.reclaim import play_reclaim
from tessera_demo.api_objects import insist
from tessera_demo.console import start_console
from tessera_demo.containers import inside
from tessera_demo.hook_build import build_hook
from tessera_demo.interruption import endings
from tessera_demo.observations import Observations, follow_cards, follow_messages, follow_pods
from tessera_demo.progress import Progress
from tessera_demo.promises import Evidence, Inside, Promise
from tessera_demo.scenario import DIALECTS, REFUSED, WAITS, Scenario, name_of, read_scenario
from tessera_demo.stage import CLUSTER, HARD, DemoStage, open_stage, until
from tessera_embedded.collector import Collected
from tessera_embedded.node.open import SOCKET
from tessera_kubelet.background import open_tasks
from tessera_runtime import dialect_config
from tessera_runtime.bus.client import open_bus
from tessera_runtime.bus.settings import BusSettings
from tessera_runtime.errors import ApiRefused, TesseraError
from tessera_runtime.informers.cluster_feed import ClusterFeed
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Verb
from tessera_schema.annotation_keys import CARDS_PREFIX
from tessera_schema.endpoints.visibility import Meta, PodExplanation
from tessera_schema.subjects import usage

_SEEN_S: Final = 180.0
"""Seconds for everything to be seen; what is missing then is printed."""
_EXPLAINED_S: Final = 60.0
"""Seconds for the scheduler to explain a pod."""
_JANITOR_S: Final = 35.0
"""Seconds for the process that removes the folder where the demo cannot."""
_SOCKET_MOST: Final = 107
"""Bytes of a unix socket's path, without its NUL."""


class DemoOutcome(Struct, frozen=True):
    """What the demo found."""

    stage: DemoStage
    progress: Progress
    evidence: Evidence
    promises: list[Promise]
    took_s: float
    """Seconds from the beginning to the last promise."""
    stays: bool
    """Whether everything goes on until somebody ends it."""

    @property
    def all_hold(self) -> bool:
        """True when every promise was kept."""
        return all(p.kept for p in self.promises)


class Audience(Protocol):
    """For people or programs: what they get of the play."""

    def say(self, text: str) -> None:
        """Something begins, or is to be known."""

    def watching(self, progress: Progress) -> AbstractAsyncContextManager[None]:
        """The time while it plays."""

    def answer(self, outcome: DemoOutcome) -> None:
        """What was found; all of it still runs."""


async def play(
    environ: Mapping[str, str], audience: Audience, *, kill: bool = False, keep: bool = False
) -> bool:
    """Play the demo. True when every promise was kept. With `kill` each process is killed once in
    the middle, with `keep` all stays until interrupted. Raises errors.Refused, and
    ending.Interrupted."""
    scene, loop = read_scenario(), asyncio.get_running_loop()
    feed = ClusterFeed(await asyncio.to_thread(dialect_config.load, DIALECTS))
    progress = Progress(scene, feed, loop.time)

    def say(text: str) -> None:
        progress.step(text)
        audience.say(text)

    with endings(say) as ending:
        async with AsyncExitStack() as watched:
            await watched.enter_async_context(audience.watching(progress))
            hook = await asyncio.to_thread(build_hook, say)
            async with _open_folder() as folder:
                _check_length(folder, scene)
                async with open_stage(folder, scene, hook, environ, say) as stage:
                    outcome = await _act(stage, progress, say, kill=kill, keep=keep)
                    await watched.aclose()
                    audience.answer(outcome)
                    if keep:
                        await ending.wished()
                    say("ending everything")
                    return outcome.all_hold
    raise AssertionError("a play has an outcome")


@asynccontextmanager
async def _open_folder() -> AsyncGenerator[Path]:
    """The folder of all that the demo writes. It is removed however the demo ends."""
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="tessera-demo-"))
    janitor = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tessera_demo.janitor", str(folder),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        yield folder
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        if janitor.stdin is not None:
            janitor.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_JANITOR_S):
                await janitor.wait()


def _check_length(folder: Path, scene: Scenario) -> None:
    longest = max(map(len, scene.all_nodes))
    length = len(str(folder)) + len("/nodes//") + longest + len(SOCKET)
    if length > _SOCKET_MOST:
        raise CommandError(
            "TMPDIR", str(folder.parent), f"a socket's path below it has {length} characters, the "
            f"system takes {_SOCKET_MOST}: set a shorter one, such as /tmp",
        )  # fmt: skip


async def _act(
    stage: DemoStage, progress: Progress, say: Callable[[str], None], *, kill: bool, keep: bool
) -> DemoOutcome:
    seen, feed = progress.seen, progress.feed
    bus_settings = BusSettings(url=stage.nats.url, cluster=CLUSTER, arrange=False)
    async with open_bus(bus_settings, "cli", "demo") as bus, open_tasks() as tasks:
        kubeconfig = str(stage.kubeconfig)
        tasks.create_task(follow_pods(stage.kube, kubeconfig, seen), name="pods")
        tasks.create_task(follow_cards(stage.kube, kubeconfig, feed), name="cards")
        tasks.create_task(follow_messages(bus, CLUSTER, seen, feed), name="messages")

        async def disturb() -> None:
            if kill:
                await _kill(stage, say)

        tasks.create_task(_open_console(stage, progress, say), name="console's address")
        await _up(stage, seen, say)
        noting = tasks.create_task(_note(stage, progress), name="checks")
        await _create(stage, seen, say, disturb)
        await _create_opt_in(stage, seen, say, disturb)
        await _wait_for_samples(stage, seen, say)
        evidence = await _gather(stage, seen)
        noting.cancel()
        promises = progress.decided(evaluating.check_promises(evidence))
        promises += progress.decided(await play_quota(stage, seen))
        promises += progress.decided(await play_lending(stage, seen, say, disturb))
        promises += progress.decided([evaluating.shared(evaluating.grants(seen))])
        promises += progress.decided(await play_plans(stage, seen, say, disturb))
        promises += progress.decided(await play_gangs(stage, seen, say, disturb))
        promises += progress.decided(await play_best_effort(stage, seen, say))
        promises += progress.decided(await play_reclaim(stage, seen, say))
    return DemoOutcome(stage, progress, evidence, promises, progress.elapsed_s, keep)


async def _open_console(
    stage: DemoStage, progress: Progress, say: Callable[[str], None]
) -> None:  # fmt: skip
    progress.console = await start_console(stage)
    say(f"console: {progress.console}")


async def _note(stage: DemoStage, progress: Progress) -> NoReturn:
    """See every second which of the first act's promises hold."""
    while True:
        await asyncio.sleep(1)
        progress.inside = await _all_inside(stage, progress.seen)
        evidence = Evidence(
            scene=stage.scene, seen=progress.seen, explained={}, hooked=_hooked(),
            inside=progress.inside, traced="", trace=(),
        )  # fmt: skip
        progress.note(evaluating.check_promises(evidence))


async def _up(stage: DemoStage, seen: Observations, say: Callable[[str], None]) -> None:
    """Wait for the scheduler's word to the API server, and the agents' words on their nodes and on
    the bus: what a process publishes before the bus takes it is lost when the process is killed."""
    say("waiting for the scheduler and the agents")

    async def ready() -> bool:
        try:
            await stage.kube.call(
                Verb.GET,
                paths.in_group(
                    "admissionregistration.k8s.io",
                    "v1",
                    "mutatingwebhookconfigurations",
                    name="tessera",
                ),
            )
            nodes = msgspec.json.decode(await stage.kube.call(Verb.GET, paths.NODES))["items"]
        except TesseraError:
            return False
        subjects = {message.subject for message in seen.messages}
        if not subjects.issuperset(usage(CLUSTER, node.name) for node in stage.scene.nodes):
            return False
        notes = {n["metadata"]["name"]: n["metadata"].get("annotations", {}) for n in nodes}
        return all(
            f"{CARDS_PREFIX}{vendor}" in notes.get(node.name, {})
            for node in stage.scene.nodes
            for vendor in node.machines
        )

    await until(stage.programs, ready, "the scheduler or an agent")


async def _create(
    stage: DemoStage,
    seen: Observations,
    say: Callable[[str], None],
    disturb: Callable[[], Awaitable[None]],
) -> None:
    for quota in stage.scene.quotas:
        await insist(stage.kube, path_of(quota), quota)
    pods = stage.scene.first_pods
    half = len(pods) // 2
    say(f"creating {len(pods)} pods")
    for i, pod in enumerate(pods):
        if i == half:
            await disturb()
        try:
            meta = pod["metadata"]
            await insist(stage.kube, paths.in_core(meta["namespace"], "pods"), pod)
        except ApiRefused as e:
            seen.refused[name_of(pod)] = e.message
            seen.ring()


async def _create_opt_in(
    stage: DemoStage,
    seen: Observations,
    say: Callable[[str], None],
    disturb: Callable[[], Awaitable[None]],
) -> None:
    """Once the others have their cards: none of them comes to this node then."""
    opt_in, first = stage.scene.opt_in, evaluating.expected(stage.scene.first_pods)
    if opt_in is None:
        return
    with suppress(TimeoutError):  # what does not run then is printed as such
        async with asyncio.timeout(_SEEN_S):
            await seen.until(lambda: all(evaluating.runs(seen, name) for name in first))
    say(f"creating {len(opt_in.pods)} pods of dialects that are named first, on {opt_in.node.name}")
    await stage.join(opt_in.node, HARD)
    await disturb()
    for pod in opt_in.pods:
        await insist(stage.kube, paths.in_core(pod["metadata"]["namespace"], "pods"), pod)


async def _kill(stage: DemoStage, say: Callable[[str], None]) -> None:
    """Kill every process that was not killed yet, and NATS with the first ones."""
    for program in stage.programs.all:
        if not program.killed:
            say(f"kill -9 {program.name}")
            program.kill()
    if not stage.nats_killed:
        say("kill -9 nats")
        stage.nats_killed = True
        await stage.nats.kill()
        await stage.nats.start()


async def _wait_for_samples(
    stage: DemoStage, seen: Observations, say: Callable[[str], None]
) -> None:
    """Wait until all there is to see was seen, or too much time has passed."""
    running = evaluating.expected(stage.scene.pods)
    say(f"waiting until {len(running)} pods run and were measured")

    def enough() -> bool:
        return (
            all(evaluating.runs(seen, name) and evaluating.enough(seen, name) for name in running)
            and all(evaluating.waits(seen, name) for name in WAITS)
            and seen.refused.keys() >= REFUSED
        )

    try:
        async with asyncio.timeout(_SEEN_S):
            await seen.until(enough)
    except TimeoutError:
        say(f"not everything was seen within {_SEEN_S:g} s")


async def _gather(stage: DemoStage, seen: Observations) -> Evidence:
    explained = {}
    for name in sorted(WAITS):
        namespace, _, short = name.partition("/")
        explained[name] = await _explained(stage, namespace, short)
    found = await _all_inside(stage, seen)
    await asyncio.sleep(1)  # the last spans are on their way
    traced, trace = _trace(stage, seen)
    return Evidence(
        scene=stage.scene, seen=seen, explained=explained, hooked=_hooked(), inside=found,
        traced=traced, trace=trace,
    )  # fmt: skip


async def _all_inside(stage: DemoStage, seen: Observations) -> dict[tuple[str, str], Inside]:
    found = {}
    for grant in evaluating.grants(seen).values():
        folder = stage.node_folder(grant.node)
        for container in evaluating.hooked_containers(grant, _hooked()):
            one = await asyncio.to_thread(inside, folder, grant.uid, container)
            found[grant.uid, container] = one
    return found


@cache
def _hooked() -> frozenset[str]:
    """Vendors whose containers the hook holds."""
    return frozenset(vendor.name for vendor in load().vendors.values() if vendor.hooked)


async def _explained(stage: DemoStage, namespace: str, name: str) -> PodExplanation:
    why, target = "no answer", ClusterTarget(kubeconfig=str(stage.kubeconfig), namespace=namespace)
    with suppress(TimeoutError):
        async with asyncio.timeout(_EXPLAINED_S):
            while True:
                try:
                    return await read_explanation(target, name)
                except NotExplained as e:  # a scheduler that has just started is not found yet
                    why = str(e)
                    await asyncio.sleep(1)
    meta = Meta(name=name, namespace=namespace)
    return PodExplanation(metadata=meta, verdict="unknown", message=why)


def _trace(stage: DemoStage, seen: Observations) -> tuple[str, Sequence[Collected]]:
    """The longest trace among the pods that run, and whose it is."""
    names = evaluating.expected(stage.scene.pods)
    found = [(name, stage.collector.trace(seen.trace_of(name))) for name in names]
    return max(found, key=lambda named: len(named[1]))
