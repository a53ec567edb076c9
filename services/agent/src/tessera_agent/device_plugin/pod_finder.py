"""Finds the pod that kubelet asks for, and confirms it with the API server: the watch may be
behind, and a pod that has ended meanwhile must not stand for the one that took its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Raw, Struct

from tessera_agent.api.pod_view import PodView, read
from tessera_agent.api.pods import NodePods
from tessera_agent.containers.hook_files import ContainerKey
from tessera_agent.device_plugin.allocations import Allocations
from tessera_agent.device_plugin.pod_match import (
    RequestingContainer,
    amount,
    requesting_containers,
    restarting,
)
from tessera_kubelet.errors import NodeError
from tessera_kubelet.nri.types import ContainerInfo, PodSandbox
from tessera_kubelet.pod_resources import PodResources
from tessera_runtime import logs
from tessera_runtime.errors import ApiRefused, Transient
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube, Verb
from tessera_schema.annotation_keys import TRACE_KEY
from tessera_schema.grants import GRANT_KEY
from tessera_schema.json_codec import decoder
from tessera_schema.kube import Pod

_log: Final = logs.named("tessera.agent.asked")
_AGAIN_S: Final = 0.2
"""Seconds until a pod whose status was outdated is checked again."""
_ELSEWHERE: Final = "(valueFrom)"
"""The value of a variable whose value is not known here: it may be any."""
_SHORT: Final = 64
"""Characters of an annotation that may be a setting of the pod's."""

_ALWAYS: Final = (GRANT_KEY, TRACE_KEY)


class _List(Struct, frozen=True):
    items: tuple[Raw, ...] = ()


_decode_list = decoder(_List)
_decode_pod = decoder(Pod)


class FoundContainer(Struct, frozen=True, kw_only=True):
    """The container that kubelet asks for."""

    pod: PodSandbox
    container: ContainerInfo
    notes: Mapping[str, str]
    """Of the pod's annotations, those that matter later."""
    env: Mapping[str, str]
    """Of its variables, likewise."""


class NoContainerFound(Struct, frozen=True, kw_only=True):
    """No container matches, or several do."""

    candidates: tuple[RequestingContainer, ...] = ()


class PodFinder:
    """Finds the container for which kubelet asks."""

    def __init__(
        self, kube: Kube, pods: NodePods, allocations: Allocations, resources: PodResources,
        patience_s: float, variables: Collection[str],
    ) -> None:  # fmt: skip
        """After `patience_s` a pod that the API server did not confirm has to do, and containers
        count that kubelet may ask for once more. `variables`: those of a container that matter
        later."""
        self._variables = variables
        self._patience_s = patience_s
        self._kube = kube
        self._pods = pods
        self._allocations = allocations
        self._resources = resources

    async def find(
        self, resource: str, count: int, until: float, good: Callable[[FoundContainer], bool]
    ) -> FoundContainer | NoContainerFound:
        """The container, as soon as there is one that is `good`; otherwise what there is at `until`
        (the loop's time)."""
        late, last = asyncio.get_running_loop().time() + self._patience_s, NoContainerFound()
        try:
            async with asyncio.timeout_at(until):
                while True:
                    change = self._pods.next_change
                    candidates = await self._candidates(resource, count, late)
                    last = NoContainerFound(candidates=candidates)
                    if len(candidates) == 1:
                        found = await self._confirmed(candidates[0], resource, count)
                        if found is not None and good(found):
                            return found
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_AGAIN_S):
                            await change.wait()
        except TimeoutError:
            return last

    async def _candidates(
        self, resource: str, count: int, late: float
    ) -> tuple[RequestingContainer, ...]:
        def has(uid: str, container: str) -> bool:
            key = ContainerKey(uid=uid, container=container)
            return self._allocations.get(key, resource) is not None

        new = requesting_containers(self._pods, resource, count, has)
        if new or asyncio.get_running_loop().time() < late:
            return new
        try:
            return restarting(self._pods, resource, count, await self._resources.list())
        except NodeError as e:
            _log.warning("kubelet does not say who has what", why=str(e))
            return ()

    async def _confirmed(
        self, one: RequestingContainer, resource: str, count: int
    ) -> FoundContainer | None:
        """None where the pod is not any more as the watch showed it."""
        pod = one.pod
        path = paths.in_core(pod.namespace, "pods")
        query = {"fieldSelector": f"metadata.name={pod.name}"}
        try:
            async with asyncio.timeout(self._patience_s):
                answer = await self._kube.call(Verb.GET, path, query=query)
            items = _decode_list(answer).items
            fresh, full = (read(items[0]), _decode_pod(items[0])) if items else (None, None)
        except (Transient, ApiRefused, TimeoutError, msgspec.DecodeError) as e:
            _log.warning("pod not confirmed", pod=f"{pod.namespace}/{pod.name}", why=str(e))
            return self._found(one, {GRANT_KEY: pod.grant, TRACE_KEY: pod.traceparent}, {})
        if fresh is None or full is None or not _is(one, fresh, resource, count):
            return None
        env = {
            variable.name: _ELSEWHERE if variable.value_from else variable.value
            for container in full.all_containers
            if container.name == one.container.name
            for variable in container.env
        }
        return self._found(one, full.metadata.annotations, env)

    def _found(
        self, one: RequestingContainer, notes: Mapping[str, str], env: Mapping[str, str]
    ) -> FoundContainer:
        pod, name = one.pod, one.container.name
        notes = {key: text for key, text in notes.items() if text}
        return FoundContainer(
            pod=PodSandbox(
                id=pod.uid, name=pod.name, uid=pod.uid, namespace=pod.namespace, annotations=notes
            ),
            container=ContainerInfo(
                id="", sandbox_id=pod.uid, name=name, env=env, set_twice=frozenset(env)
            ),
            notes={k: v for k, v in notes.items() if len(v) <= _SHORT or k in _ALWAYS},
            env={k: v for k, v in env.items() if k in self._variables},
        )


def _is(one: RequestingContainer, fresh: PodView, resource: str, count: int) -> bool:
    container = fresh.get(one.container.name)
    return (
        fresh.uid == one.pod.uid and not fresh.ended and container is not None
        and (one.pod.admitted or not fresh.admitted) and amount(container, resource) == count
    )  # fmt: skip
