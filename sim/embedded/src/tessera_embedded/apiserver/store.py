"""The API server without a network: calls in, answers out, at once.

`handle` answers everything but watches, `watch` opens one. Both are pure in that they do no I/O and
take time and chance from outside, so a fake client can run on virtual time. Webhooks are not called
here: a caller that can wait drives `begin` step by step and asks them
(`tessera_embedded.apiserver.http` does). Validating admission policies are evaluated, as they need
no one else.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Final

from tessera_embedded.apiserver.access import Access
from tessera_embedded.apiserver.admission.policies import Policies
from tessera_embedded.apiserver.admission.requests import (
    AdmissionQuery,
    ApiServerEnvironment,
    Steps,
    WriteRequest,
)
from tessera_embedded.apiserver.answers.access_reviews import SELF, reviewed
from tessera_embedded.apiserver.answers.discovery import discovered
from tessera_embedded.apiserver.controllers import Chores
from tessera_embedded.apiserver.errors import ApiError, BadRequest, JsonObject
from tessera_embedded.apiserver.http_types import (
    ADMIN,
    AuthenticatedUser,
    HttpCall,
    Response,
    no_such_path,
    refusal,
    target_of,
)
from tessera_embedded.apiserver.objects.object_store import WINDOW, ObjectStore, StoredChange
from tessera_embedded.apiserver.objects.resources import KindCatalogue, Shelf
from tessera_embedded.apiserver.routes import attempt_of, steps_of
from tessera_embedded.apiserver.verbs.write import Writer
from tessera_embedded.apiserver.watches import KindWatch, open_watch

FIRST_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


def random_suffix() -> str:
    """Five letters and digits for generateName."""
    return "".join(random.choices(_LETTERS, k=5))  # noqa: S311  (names, not secrets)


def machine_environment() -> ApiServerEnvironment:
    """The clock and the chance of this machine."""
    return ApiServerEnvironment(time.time, lambda: str(uuid.uuid4()), random_suffix)


class Store:
    """All objects of a cluster and all verbs on them."""

    def __init__(
        self,
        world: ApiServerEnvironment | None = None,
        *,
        window: int = WINDOW,
        on_change: Callable[[Shelf, StoredChange], None] = lambda _shelf, _change: None,
        access: Access | None = None,
    ) -> None:
        self.objects = ObjectStore(window=window, on_change=on_change)
        self.catalogue = KindCatalogue()
        self.access = access or Access()
        self.writer = Writer(self.objects, world or machine_environment())
        self.policies = Policies(self.objects, self.catalogue, self.access)
        self._chores = Chores(self.writer, self.catalogue)

    def open(self) -> None:
        """Create the namespaces that every cluster has; harmless where they are there."""
        self._chores.resume()
        for name in FIRST_NAMESPACES:
            if self.objects.find(("", "namespaces"), "", name) is None:
                self.handle("POST", "/api/v1/namespaces", body=b'{"metadata":{"name":"%s"}}'
                            % name.encode())  # fmt: skip

    def handle(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        content_type: str = "application/json",
        *,
        user: AuthenticatedUser = ADMIN,
    ) -> Response:
        """Answer a call; refusals are answers too. Watches are opened by `watch`."""
        call = HttpCall(method, path, query or {}, body, content_type, user)
        warnings: list[str] = []
        try:
            response = self._driven(self.begin(call, warnings), warnings)
        except ApiError as e:
            response = refusal(e)
        return with_warnings(response, warnings)

    def _driven(self, steps: Steps, warnings: list[str]) -> Response:
        answer: JsonObject | None = None
        while True:
            try:
                asked = steps.send(answer)
            except StopIteration as e:
                response: Response = e.value
                return response
            answer = self.decided(asked, warnings)

    def decided(self, asked: AdmissionQuery, warnings: list[str]) -> JsonObject | None:
        """What the server's own policies make of a write: the object, or a refusal is raised."""
        if asked.stage == "validate":
            warnings += self.policies.check(asked)
        return asked.obj

    def begin(self, call: HttpCall, warnings: list[str]) -> Steps:
        """The steps that answer a call; they stop wherever admission is to be asked.

        What the caller is to be warned of is added to `warnings`.

        Raises ApiError, at once or between steps, where the call is refused.
        """
        try:
            return (yield from self._steps(call, warnings))
        except RecursionError as e:
            raise BadRequest("the request is nested too deeply") from e

    def _steps(self, call: HttpCall, warnings: list[str]) -> Steps:
        if not call.path.endswith(SELF):
            self.access.check(call.user, attempt_of(call, self.catalogue))
        if (about := discovered(call.path, self.catalogue)) is not None:
            return about
        if (review := reviewed(call, self.access)) is not None:
            return review
        target = target_of(call.path, self.catalogue)
        ask = WriteRequest(target, call.user, call.query, warnings=warnings)
        response = yield from steps_of(self.writer, self.access, ask, call)
        self._chores.run()
        return response

    def watch(
        self, path: str, query: Mapping[str, str] | None = None, *, user: AuthenticatedUser = ADMIN
    ) -> KindWatch:
        """Begin a watch of a list's path. Raises ApiError where it is refused."""
        call = HttpCall("GET", path, {**(query or {}), "watch": "true"}, user=user)
        self.access.check(user, attempt_of(call, self.catalogue))
        target = target_of(path, self.catalogue)
        if target.subresource:
            raise no_such_path()
        return open_watch(self.objects, target, call.query)

    def compact(self) -> None:
        """Forget the log of changes: watches and pages from before answer 410."""
        self.objects.compact()


def with_warnings(response: Response, warnings: list[str]) -> Response:
    """The answer with a Warning header for each text."""
    if not warnings:
        return response
    texts = [w.replace("\\", "\\\\").replace('"', '\\"') for w in warnings]
    headers = tuple(("Warning", f'299 - "{text}"') for text in texts)
    return Response(response.code, response.body, response.headers + headers, response.content_type)
