"""Explanations of pods, asked of the cluster's API server, which passes the question on to the
scheduler (`tessera_scheduler.visibility`). A user who may view a namespace may read it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from tessera_cli.api_objects import ClusterConnection, open_cluster
from tessera_cli.errors import CommandError
from tessera_cli.kubeconfig import ClusterTarget
from tessera_runtime.errors import ApiBusy, ApiForbidden, ApiLost, ApiNotFound
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Verb
from tessera_schema.endpoints.visibility import (
    GROUP,
    PLURAL,
    VERSION,
    PodExplanation,
    PodExplanationList,
    decode_pod_explanation,
    decode_pod_explanation_list,
)

_PAGES_MOST: Final = 1000
"""Pages of a list: a server that never ends one is not followed for ever."""
_SEE: Final = f"`kubectl get apiservice {VERSION}.{GROUP}` says more to an administrator"


class NotExplained(CommandError):
    """There is no answer; the message says why, and what would do."""


async def read_explanation(
    target: ClusterTarget, name: str, *, cards: bool = False
) -> PodExplanation:
    """The explanation of one pod. Raises NotExplained."""
    async with _asking(target, name) as cluster:
        path = paths.in_group(GROUP, VERSION, PLURAL, namespace=cluster.namespace, name=name)
        query = {"cards": "true"} if cards else {}
        return decode_pod_explanation(await cluster.kube.call(Verb.GET, path, query=query))


async def list_explanations(target: ClusterTarget) -> PodExplanationList:
    """All pods of the namespace, or of all, that ask for cards and have no node. Raises
    NotExplained."""
    async with _asking(target) as cluster:
        namespace = "" if target.everywhere else cluster.namespace
        path = paths.in_group(GROUP, VERSION, PLURAL, namespace=namespace)
        items: list[PodExplanation] = []
        query: dict[str, str] = {}
        for _ in range(_PAGES_MOST):
            page = decode_pod_explanation_list(await cluster.kube.call(Verb.GET, path, query=query))
            items += page.items
            if not page.metadata.continue_:
                break
            query = {"continue": page.metadata.continue_}
        return PodExplanationList(items=tuple(items))


@asynccontextmanager
async def _asking(target: ClusterTarget, name: str = "") -> AsyncGenerator[ClusterConnection]:
    """The cluster, for one question; its refusals in words."""
    async with open_cluster(target, name="tessera-explain", error=NotExplained) as cluster:
        where = "all namespaces" if target.everywhere else f"namespace {cluster.namespace}"
        try:
            yield cluster
        except ApiNotFound as e:
            if e.reason == "NotFound" and "pods " in e.message:
                raise NotExplained(f'pods "{name}" not found in {where}') from e
            raise NotExplained(
                f"the cluster has no API {GROUP}: Tessera is not installed there, or in a release "
                f"that lacks it; {_SEE}"
            ) from e
        except ApiForbidden as e:
            raise NotExplained(_not_allowed(e, where)) from e
        except (ApiLost, ApiBusy) as e:
            raise NotExplained(
                f"no answer: {e}: Tessera's scheduler may be starting, ask again; {_SEE}"
            ) from e
        except msgspec.DecodeError as e:
            raise NotExplained(f"the answer is not of this release's form: {e}") from e


def _not_allowed(error: ApiForbidden, where: str) -> str:
    if error.status == 401:
        return "the API server does not know who you are: your credentials may have expired"
    said = error.message.partition(": ")[2] or error.message
    return (
        f"you may not ask why pods of {where} wait: one of the roles view, edit and admin there "
        f"allows it, where Tessera is installed ({said})"
    )
