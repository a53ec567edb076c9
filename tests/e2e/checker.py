"""Whether an installation is as it should be, whatever has happened to it.

`at_once` says what must be true at every moment: no card is granted, or really given, beyond what
it has, and no container that ran has been started again. `in_the_end` waits until everybody agrees
on everything: the API server, the scheduler's ledger, the agent, and the containers themselves; and
until no pod waits for which there is room. What it reads is what others wrote: grants, bundles,
limits files, kubelet's list. The sums are its own.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import aiohttp

from tessera_schema.cards import Card
from tessera_schema.grants import Share
from tests.cluster.bound_grants import grant_of, nothing_is_overgranted
from tests.contract.client import Json
from tests.e2e import pods
from tests.e2e.cluster import AGENT_METRICS, HOME, PATIENCE_S, Cluster
from tests.e2e.containers import Containers, Running
from tests.e2e.node import NODE
from tests.e2e.observation import LOOK_S, Observation, observe, phase, scrape
from tests.e2e.podresources import KubeletSilent, known_to_kubelet
from tests.node.island import Gone

WANTS = "e2e/mib"
"""Label of pods that ask for this much memory of one card: whether there is room is then known."""
EXEMPT = frozenset({"kube-system", HOME})
MUST_BE_ZERO = (
    "tessera_scheduler_overgranted_cards", "tessera_scheduler_audit_cards_differing",
)  # fmt: skip
BOOKED = "hami_vgpu_memory_allocated_bytes"
UNLIMITED = "StartedWithoutAgent"


class Checker:
    """Looks at a cluster of one node."""

    def __init__(self, cluster: Cluster) -> None:
        """Nothing was seen yet."""
        self._cluster = cluster
        self.containers = Containers(cluster.node.island)
        self._lives: dict[str, list[tuple[str, int]]] = {}
        self.unlimited: set[str] = set()
        """Uids of pods that started unlimited while their agent was killed, and were reported."""

    # -- at every moment

    async def at_once(self) -> None:
        """What must be true now; waits while the API server does not answer."""
        seen = await self.observe()
        nothing_is_overgranted(seen.granted, {NODE: seen.cards})
        self._nobody_was_disturbed(seen)
        await asyncio.to_thread(self._no_card_is_overfull, seen.cards)

    def forget(self) -> None:
        """What happens next may end containers."""
        self._lives.clear()

    def _nobody_was_disturbed(self, seen: Observation) -> None:
        there = {
            pod["metadata"]["uid"]: pod for pod in seen.granted
            if "deletionTimestamp" not in pod["metadata"]
        }  # fmt: skip
        for uid in self._lives.keys() - there.keys():
            del self._lives[uid]
        for uid, pod in there.items():
            statuses = pod["status"].get("containerStatuses", ())
            if not statuses or not all("running" in s["state"] for s in statuses):
                assert uid not in self._lives, (pod["metadata"]["name"], pod["status"])
                continue
            before = self._lives.setdefault(uid, pods.starts(pod))
            assert pods.starts(pod) == before, (pod["metadata"]["name"], before)

    def _no_card_is_overfull(self, cards: Mapping[str, Card]) -> None:
        """By what living containers are limited to. Those that end while others are looked at are
        no contradiction, so all must still live afterwards."""
        held: dict[str, list[tuple[Running, int]]] = defaultdict(list)
        for one in self.containers.running():
            limits = self.containers.limits(one)
            for card in limits.cards if limits else ():
                held[card.uuid].append((one, card.memory_bytes))
        for card_id, shares in held.items():
            if sum(size for _, size in shares) > cards[card_id].memory_bytes:
                left = [(one.pod, size) for one, size in shares if self.containers.is_running(one)]
                total = sum(size for _, size in left)
                assert total <= cards[card_id].memory_bytes, (card_id, left)

    # -- sooner or later

    async def rest(self) -> Observation:
        """Wait until the scheduler has nobody left to place, as long as nobody comes or goes."""

        async def rests() -> Observation | None:
            seen = await self.observe()
            return None if _somebody_could_be_placed(seen) else seen

        found: Observation = await self._cluster.until(rests, "no pod waits that there is room for")
        return found

    async def in_the_end(self, what: str) -> None:
        """Wait until nothing is left to say against it."""
        began, wrong, last = time.monotonic(), ["nothing was looked at"], ""
        await self.at_once()
        try:
            async with asyncio.timeout(PATIENCE_S):
                while wrong:
                    await asyncio.sleep(LOOK_S)
                    try:
                        wrong = await self._differences(await self.observe())
                    except (aiohttp.ClientError, Gone, KubeletSilent, TimeoutError) as e:
                        wrong = [f"somebody does not answer: {e!r}"]
                    last = "; ".join(wrong) or last
        except TimeoutError:
            words = await self._cluster.words()
            raise AssertionError("\n".join([f"{what}: not in the end:", *wrong, words])) from None
        await self.at_once()
        took = time.monotonic() - began
        why = f" (last: {last[:300]})" if last else ""
        print(f"{what}: all is as it should be {took:.1f} s later{why}")  # noqa: T201  (a figure)

    async def _differences(self, seen: Observation) -> list[str]:
        running = await asyncio.to_thread(self.containers.running)
        await self._remedied(seen, running)
        wrong = [*_unwell(seen), *self._unlike_their_grants(seen, running)]
        wrong += _somebody_could_be_placed(seen)
        if wrong:
            return wrong  # the others follow
        wrong += await self._of_the_ledger(seen)
        wrong += await self._of_the_agent(seen)
        wrong += await asyncio.to_thread(self._of_kubelet, seen)
        left = await asyncio.to_thread(self.containers.pods_with_files) - _uids(seen.granted)
        return wrong + [
            f"files of pod {uid}, which is gone" for uid in left
            if not await self._cluster.node.remembers(uid)
        ]  # fmt: skip

    async def _remedied(self, seen: Observation, running: Sequence[Running]) -> None:
        """Delete pods that the agent says have started without it, as the event says: the runtime
        takes no answer of an agent which dies while it is asked for one."""
        query = {"fieldSelector": f"reason={UNLIMITED}"}
        reported = (await self._cluster.admin.get("/api/v1/events", **query)).done["items"]
        uids = {event["involvedObject"]["uid"] for event in reported} - self.unlimited
        for one in running:
            if one.uid in uids & _uids(seen.granted):
                assert self.containers.limits(one) is None, (
                    f"{one.pod} is said to be without limits"
                )
                self.unlimited.add(one.uid)
                path = f"/api/v1/namespaces/{one.namespace}/pods/{one.pod}"
                await self._cluster.admin.delete(path, gracePeriodSeconds="0")

    def _unlike_their_grants(self, seen: Observation, running: Sequence[Running]) -> Iterator[str]:
        by_key = {(one.uid, one.name): one for one in running}
        for pod in seen.granted:
            grant = grant_of(pod)
            for name in {share.container for share in grant.shares}:
                shares = [share for share in grant.shares if share.container == name]
                one = by_key.get((grant.uid, name))
                if one is None:
                    yield f"{grant.name}/{name} does not run"
                else:
                    yield from self._unlike(one, shares)
        uids = _uids(seen.granted)
        for one in running:
            if one.namespace not in EXEMPT and one.uid not in uids and one.cards:
                yield f"{one.pod}/{one.name} runs without a grant and sees {sorted(one.cards)}"

    def _unlike(self, one: Running, shares: Sequence[Share]) -> Iterator[str]:
        limits = self.containers.limits(one)
        limited = {card.uuid: card.memory_bytes for card in limits.cards} if limits else {}
        granted = {share.card: share.memory_bytes for share in shares}
        if one.cards != frozenset(granted) or limited != granted:
            sees = sorted(one.cards)
            yield f"{one.pod}/{one.name}: granted {granted}, sees {sees}, limited {limited}"

    async def _of_the_ledger(self, seen: Observation) -> list[str]:
        """Those of every replica, by what each shows of itself."""
        granted = _rows(seen.granted)
        wrong = []
        for pod in seen.of_service("scheduler"):
            name, at = pod["metadata"]["name"], f"http://{pod['status'].get('podIP')}:8080"
            ledger = Counter(
                (of["namespace"], of["pod"], of["device_uuid"], int(value))
                for of, value in await scrape(f"{at}/hami/metrics?standby=true", BOOKED)
            )
            if ledger != granted:
                wrong.append(f"{name}: only it has {ledger - granted}, has not {granted - ledger}")
            for metric in MUST_BE_ZERO:
                values = [value for _, value in await scrape(f"{at}/metrics", metric)]
                if not values or any(values):
                    wrong.append(f"{name}: {metric}: {values}")
        return wrong

    async def _of_the_agent(self, seen: Observation) -> list[str]:
        granted = Counter[tuple[str, str, str]]()
        for pod in seen.granted:
            grant = grant_of(pod)
            for share in grant.shares:
                granted[grant.namespace, grant.name, share.container] += share.memory_mib
        shown = await scrape(AGENT_METRICS, "container_request_gpu_memory")
        held = Counter({
            (of["namespace"], of["pod_name"], of["container_name"]): int(value)
            for of, value in shown
        })  # fmt: skip
        if held == granted:
            return []
        return [f"only the agent has {held - granted}, it has not {granted - held}"]

    def _of_kubelet(self, seen: Observation) -> list[str]:
        """It knows the pods that hold something, and gave none of them anything by itself."""
        known = known_to_kubelet(self._cluster.node.island)
        wrong = [f"kubelet gave {pod.name} {pod.devices}" for pod in known if pod.devices]
        names = {(pod.namespace, pod.name) for pod in known if pod.namespace not in EXEMPT}
        there = {(p["metadata"]["namespace"], p["metadata"]["name"]) for p in seen.granted}
        if not there <= names:
            wrong.append(f"kubelet does not know {sorted(there - names)}")
        gone = names - {(p["metadata"]["namespace"], p["metadata"]["name"]) for p in seen.pods}
        return [*wrong, *(f"kubelet still has {name}, which is gone" for _, name in sorted(gone))]

    async def observe(self) -> Observation:
        """Pods and cards, at one moment each; waits for an API server that is away."""
        return await observe(self._cluster)


def _unwell(seen: Observation) -> list[str]:
    wrong = []
    for pod in seen.pods:
        statuses = pod["status"].get("containerStatuses", ())
        ready = statuses and all(status["ready"] for status in statuses)
        if pod["spec"].get("nodeName") and not ready and phase(pod) != "Succeeded":
            states = [status.get("state") for status in statuses]
            wrong.append(f"{pod['metadata']['name']} is not ready: {phase(pod)}, {states}")
    return wrong


def _somebody_could_be_placed(seen: Observation) -> list[str]:
    """Pods that wait although a card has room for them."""
    wants = {
        pod["metadata"]["name"]: int(pod["metadata"].get("labels", {}).get(WANTS, 1 << 30))
        for pod in seen.waiting
    }
    room = max(seen.free_mib.values())
    return [f"{name} waits for {mib} MiB, {room} are free" for name, mib in wants.items()
            if mib <= room]  # fmt: skip


def _rows(granted: Sequence[Json]) -> Counter[tuple[str, str, str, int]]:
    return Counter(
        (grant.namespace, grant.name, share.card, share.memory_bytes)
        for grant in map(grant_of, granted) for share in grant.shares
    )  # fmt: skip


def _uids(found: Sequence[Json]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in found}
