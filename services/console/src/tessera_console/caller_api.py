"""Calls to the API server with the caller's own token: why its pods wait, and decisions about
plans. Nothing here is done with this service's rights."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Literal
from urllib.parse import quote

import msgspec

from tessera_console.objects import PlanView, read_plan
from tessera_console.rights import ConsoleCaller
from tessera_core.occupancy.occupancy import PodAnswer
from tessera_runtime.errors import TesseraError
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Body, Kube, Verb
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.credentials import CallerCredentials, open_credentials
from tessera_runtime.kube.lists import pages
from tessera_runtime.kube.settings import KubeSettings
from tessera_schema.endpoints.queue_states import QUEUES_PLURAL
from tessera_schema.endpoints.visibility import (
    GROUP,
    PLURAL,
    VERSION,
    decode_pod_explanation,
)
from tessera_schema.plans import PLANS

KubeOfCaller = Callable[[ConsoleCaller], AbstractAsyncContextManager[Kube]]
Answers = Mapping[str, PodAnswer]
"""Uid of a pod -> what the scheduler says about it."""
_NAME: Final = "tessera-console"
_PAGE: Final = 500
_NAMESPACES: Final = 32
"""Namespaces whose pods are asked about one by one, for a caller who may not ask about all."""
_CALLERS: Final = 256
_encode: Final = msgspec.json.Encoder().encode
_NONE: Answers = {}


@asynccontextmanager
async def open_callers(settings: KubeSettings, own: Kube) -> AsyncGenerator[KubeOfCaller]:
    """The API server as a caller. One without a token (`access: open`) reads with `own`. Raises
    BadSettings."""
    who = await open_credentials(settings)

    @asynccontextmanager
    async def kube_of(caller: ConsoleCaller) -> AsyncGenerator[Kube]:
        if not caller.token:
            yield own
            return
        credentials = CallerCredentials(who, caller.token)
        async with open_kube(settings, name=_NAME, who=credentials) as kube:
            yield kube

    yield kube_of


class WaitingAnswers:
    """Why pods wait, for each caller, remembered for some seconds."""

    def __init__(self, kube_of: KubeOfCaller, keep_s: float) -> None:
        self._kube_of = kube_of
        self._keep_s = keep_s
        self._known: OrderedDict[str, tuple[float, Answers]] = OrderedDict()

    async def of(self, caller: ConsoleCaller, namespaces: set[str]) -> Answers:
        """What this caller is answered about the pods that wait in these namespaces; empty where
        the scheduler does not answer, or the caller may not ask."""
        now = asyncio.get_running_loop().time()
        until, known = self._known.get(caller.token, (0.0, _NONE))
        if until > now:
            return known
        # First, so that several pages of one caller ask once.
        self._known[caller.token] = now + self._keep_s, known
        self._known.move_to_end(caller.token)
        while len(self._known) > _CALLERS:
            self._known.popitem(last=False)
        wanted = {""} if caller.scope.everything else set(sorted(namespaces)[:_NAMESPACES])
        answers: dict[str, PodAnswer] = {}
        try:
            async with self._kube_of(caller) as kube:
                for namespace in wanted:
                    answers |= await _explained(kube, namespace)
        except (TesseraError, msgspec.DecodeError):
            return answers
        self._known[caller.token] = now + self._keep_s, answers
        return answers


async def _explained(kube: Kube, namespace: str) -> Answers:
    path = paths.in_group(GROUP, VERSION, PLURAL, namespace=namespace)
    found: dict[str, PodAnswer] = {}
    async for page in pages(kube, path, limit=_PAGE):
        for raw in page.items or ():
            one = decode_pod_explanation(bytes(raw))
            found[one.metadata.uid] = PodAnswer(one.message, one.advice)
    return found


async def explanation(kube: Kube, namespace: str, name: str) -> bytes:
    """The scheduler's whole answer about a pod. Raises as `Kube.call` does."""
    return await kube.call(
        Verb.GET, paths.in_group(GROUP, VERSION, PLURAL, namespace=namespace, name=name)
    )


async def queues(kube: Kube, namespace: str) -> bytes:
    """The scheduler's whole answer about queues, by the caller's rights in a namespace; empty = in
    all. Raises as `Kube.call` does."""
    path = paths.in_group(GROUP, VERSION, QUEUES_PLURAL, namespace=namespace)
    return await kube.call(Verb.GET, path)


async def decide(
    kube: Kube,
    caller: ConsoleCaller,
    name: str,
    version: str,
    decision: Literal["approved", "declined"],
) -> PlanView:
    """Write a decision on the plan that the caller saw: one that has changed since is a conflict.
    The plan as it is then. Raises as `Kube.call` does, msgspec.DecodeError."""
    body = {
        "metadata": {"resourceVersion": version},
        "spec": {"decision": decision, "decidedBy": caller.name},
    }
    answer = await kube.call(
        Verb.PATCH, f"{PLANS}/{quote(name, safe='')}", body=_encode(body), kind=Body.MERGE_PATCH
    )
    return read_plan(answer)
