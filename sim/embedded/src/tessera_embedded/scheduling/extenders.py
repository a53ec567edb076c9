"""Calls to extenders over HTTP, bodies as Go writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import aiohttp
import msgspec
from msgspec import Struct

from tessera_embedded.scheduling.config import ExtenderConfig
from tessera_embedded.scheduling.types import PodInfo
from tessera_schema.kube import Pod

T = TypeVar("T")


class ExtenderFailed(Exception):
    """The extender did not answer, or answered an error; the message says which."""


class Filtered(Struct, frozen=True, rename="pascal"):
    """Answer of the filter verb."""

    node_names: tuple[str, ...] | None = None
    failed_nodes: Mapping[str, str] | None = None
    failed_and_unresolvable_nodes: Mapping[str, str] | None = None
    error: str = ""


class Scored(Struct, frozen=True, rename="pascal"):
    """One line of the answer of the prioritize verb."""

    host: str
    score: int


class _Bound(Struct, frozen=True, rename="pascal"):
    error: str = ""


_scores = msgspec.json.Decoder(list[Scored]).decode
_filtered = msgspec.json.Decoder(Filtered).decode
_bound = msgspec.json.Decoder(_Bound).decode


def interested(extender: ExtenderConfig, pod: Pod) -> bool:
    """True when the pod names one of the extender's resources, or it looks after all pods."""
    managed = {m.name for m in extender.managed_resources}
    return not managed or any(
        not managed.isdisjoint(amounts)
        for c in pod.all_containers
        for amounts in (c.resources.limits, c.resources.requests)
    )


class ExtenderClient:
    """Calls one extender."""

    def __init__(self, session: aiohttp.ClientSession, extender: ExtenderConfig) -> None:
        """`session` stays its owner's."""
        self.config = extender
        self._session = session

    async def filter(self, pod: PodInfo, nodes: Sequence[str]) -> Filtered:
        """Which of the nodes will do. Raises ExtenderFailed."""
        body = {"Pod": pod.sent, "Nodes": None, "NodeNames": nodes}
        answer = self._read(_filtered, await self._call(self.config.filter_verb, body))
        if answer.error:
            raise ExtenderFailed(answer.error)
        return answer

    async def prioritize(self, pod: PodInfo, nodes: Sequence[str]) -> list[Scored]:
        """The nodes' scores, 0 to 10. Raises ExtenderFailed."""
        body = {"Pod": pod.sent, "Nodes": None, "NodeNames": nodes}
        return self._read(_scores, await self._call(self.config.prioritize_verb, body))

    async def bind(self, pod: PodInfo, node: str) -> None:
        """Have the extender bind the pod. Raises ExtenderFailed."""
        meta = pod.pod.metadata
        body = {
            "PodName": meta.name, "PodNamespace": meta.namespace, "PodUID": meta.uid, "Node": node,
        }  # fmt: skip
        answer = self._read(_bound, await self._call(self.config.bind_verb, body))
        if answer.error:
            raise ExtenderFailed(answer.error)

    async def _call(self, verb: str, body: object) -> bytes:
        url = f"{self.config.url_prefix.rstrip('/')}/{verb}"
        timeout = aiohttp.ClientTimeout(total=self.config.timeout_s)
        try:
            async with self._session.post(
                url, data=msgspec.json.encode(body), timeout=timeout,
                headers={"Content-Type": "application/json"},
            ) as answer:  # fmt: skip
                data = await answer.read()
        except (aiohttp.ClientError, TimeoutError) as e:
            raise ExtenderFailed(f"Post {url!r}: {str(e) or type(e).__name__}") from e
        if answer.status != 200:
            raise ExtenderFailed(f"failed {verb} with extender at URL {url}, code {answer.status}")
        return data

    def _read(self, decode: Callable[[bytes], T], data: bytes) -> T:
        try:
            return decode(data)
        except msgspec.DecodeError as e:
            raise ExtenderFailed(f"{self.config.url_prefix}: not an answer: {e}") from e
