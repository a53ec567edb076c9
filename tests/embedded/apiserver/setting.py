"""A store under a clock of the test's own, and a short way of calling it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from tessera_embedded.apiserver import (
    ADMIN,
    ApiServerEnvironment,
    AuthenticatedUser,
    KindWatch,
    Store,
)

Json = dict[str, Any]
JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"


class Clock:
    """Seconds since the epoch, moved by hand."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0


class Said(Struct, frozen=True):
    """An answer, read."""

    code: int
    body: Json
    warnings: tuple[str, ...] = ()

    @property
    def done(self) -> Json:
        """The body of a call that had to succeed."""
        assert self.code in {200, 201}, (self.code, self.body)
        return self.body

    @property
    def refusal(self) -> tuple[int, str]:
        """Code and reason."""
        return self.code, self.body["reason"]


class ASmallCluster:
    """A store whose clock and chance the test rules."""

    def __init__(self, *, window: int = 1000) -> None:
        self.clock = Clock()
        uids, suffixes = itertools.count(1), itertools.count(1)
        world = ApiServerEnvironment(
            now=lambda: self.clock.now,
            uid=lambda: f"uid-{next(uids)}",
            suffix=lambda: f"{next(suffixes):05d}",
        )
        self.store = Store(world, window=window)
        self.user: AuthenticatedUser = ADMIN
        self.store.open()

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        kind: str = "application/json",
        **query: str,
    ) -> Said:
        """Call the store; the answer must be JSON."""
        content = b"" if body is None else msgspec.json.encode(body)
        answer = self.store.handle(method, path, query, content, kind, user=self.user)
        warnings = tuple(value for name, value in answer.headers if name == "Warning")
        return Said(answer.code, msgspec.json.decode(answer.body), warnings)

    def get(self, path: str, **query: str) -> Said:
        """GET."""
        return self.call("GET", path, None, "", **query)

    def post(self, path: str, body: Any, **query: str) -> Said:
        """POST."""
        return self.call("POST", path, body, JSON, **query)

    def put(self, path: str, body: Any) -> Said:
        """PUT."""
        return self.call("PUT", path, body)

    def patch(self, path: str, body: Any, kind: str = MERGE) -> Said:
        """PATCH."""
        return self.call("PATCH", path, body, kind)

    def delete(self, path: str, body: Any = None, **query: str) -> Said:
        """DELETE."""
        return self.call("DELETE", path, body, JSON, **query)

    def pod(self, name: str = "p", *, node: str = "", **spec: Any) -> Json:
        """Create a pod, and bind it where a node is named."""
        made = self.post(PODS, a_pod(name, **spec)).done
        if not node:
            return made
        bound = self.post(f"{PODS}/{name}/binding", {"target": {"name": node}})
        assert bound.code == 201, bound
        return self.get(f"{PODS}/{name}").done

    def watch(self, path: str, **query: str) -> KindWatch:
        """Begin a watch."""
        return self.store.watch(path, query)


def a_pod(name: str = "p", labels: Mapping[str, str] | None = None, **spec: Any) -> Json:
    """A pod with one container."""
    metadata: Json = {"name": name, **({"labels": dict(labels)} if labels else {})}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def events(watch: KindWatch) -> list[tuple[str, str]]:
    """What a watch delivers: type and name."""
    reported = [msgspec.json.decode(frame) for frame in watch.pull()]
    return [(t["type"], t["object"]["metadata"].get("name", "")) for t in reported]
