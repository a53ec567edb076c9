"""One attempt to write a Binding, and what its answer says about it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from tessera_runtime.errors import ApiBusy, ApiConflict, ApiLost, ApiNotFound, ApiRefused
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube, Verb
from tessera_runtime.kube.binding import PodKey, binding_body
from tessera_schema.grants import Grant


class BindingTarget(Struct, frozen=True, kw_only=True):
    """What a Binding binds, and writes on the pod."""

    name: PodKey
    grant: Grant
    annotations: Mapping[str, str]
    labels: Mapping[str, str] = {}

    def body(self, version: str = "") -> bytes:
        """The Binding as the API server takes it; the uid is always a precondition, a
        resourceVersion where one is given."""
        return binding_body(self.name, self.grant.node, self.annotations, version, self.labels)


class BindingWritten(Struct, frozen=True):
    """The pod is bound, with its grant."""


class BindingRejected(Struct, frozen=True):
    """This attempt wrote nothing, and another one would not either."""

    why: str


class BindingContested(Struct, frozen=True):
    """This attempt wrote nothing: the pod is not as it was thought to be. Read it."""

    why: str


class BindingDeferred(Struct, frozen=True):
    """This attempt wrote nothing: the API server asks to come back."""

    why: str
    after_s: float


class BindingOutcomeUnknown(Struct, frozen=True):
    """It may have been written, or be written yet."""

    why: str


Sent = BindingWritten | BindingRejected | BindingContested | BindingDeferred | BindingOutcomeUnknown


async def send_binding(kube: Kube, target: BindingTarget, version: str, call_s: float) -> Sent:
    """Send the Binding once. The API server is asked to give up after `call_s` seconds, as this
    side does."""
    path = paths.pod(target.name.namespace, target.name.name, "binding")
    query = {"timeout": f"{call_s:g}s"}
    try:
        await kube.call(Verb.POST, path, query=query, body=target.body(version))
    except (ApiConflict, ApiNotFound) as e:
        return BindingContested(str(e))
    except ApiRefused as e:
        return BindingRejected(str(e))
    except ApiBusy as e:
        return BindingDeferred(str(e), e.retry_after_s)
    except ApiLost as e:
        return BindingOutcomeUnknown(str(e))
    return BindingWritten()
