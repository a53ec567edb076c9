"""Queues, read from the cluster's API server, which passes the request on to the scheduler
(`tessera_scheduler.visibility`)."""

from __future__ import annotations

import msgspec

from tessera_cli.api_objects import open_cluster
from tessera_cli.errors import CommandError
from tessera_cli.kubeconfig import ClusterTarget
from tessera_runtime.errors import ApiBusy, ApiForbidden, ApiLost, ApiNotFound
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Verb
from tessera_schema.endpoints.queue_states import (
    QUEUES_PLURAL,
    ListedQueues,
    decode_listed_queues,
)
from tessera_schema.endpoints.visibility import GROUP, VERSION


class QueuesNotListed(CommandError):
    """There is no answer; the message says why, and what would do."""


async def list_queues(target: ClusterTarget) -> ListedQueues:
    """All queues. Raises QueuesNotListed."""
    async with open_cluster(target, name="tessera-queue", error=QueuesNotListed) as cluster:
        namespace = "" if target.everywhere else cluster.namespace
        path = paths.in_group(GROUP, VERSION, QUEUES_PLURAL, namespace=namespace)
        where = "all namespaces" if target.everywhere else f"namespace {namespace}"
        try:
            return decode_listed_queues(await cluster.kube.call(Verb.GET, path))
        except ApiNotFound as e:
            if "TESSERA_GANGS_SCHEDULING" in e.message:
                raise QueuesNotListed(e.message) from e
            raise QueuesNotListed(
                f"the cluster has no {QUEUES_PLURAL}.{GROUP}: Tessera is not installed there, or "
                "in a release that lacks it"
            ) from e
        except ApiForbidden as e:
            raise QueuesNotListed(
                f"you may not list queues by {where}: name with -n a namespace in which you have "
                f"one of the roles view, edit and admin ({e.message})"
            ) from e
        except (ApiLost, ApiBusy) as e:
            raise QueuesNotListed(
                f"no answer: {e}: Tessera's scheduler may be starting, try again"
            ) from e
        except msgspec.DecodeError as e:
            raise QueuesNotListed(f"the answer is not of this release's form: {e}") from e


def named(found: ListedQueues, name: str) -> ListedQueues:
    """Only the queues of that name; all where it is empty. Raises QueuesNotListed where there is
    none."""
    if not name:
        return found
    items = tuple(each for each in found.items if each.metadata.name == name)
    if not items:
        known = ", ".join(each.metadata.name for each in found.items[:10]) or "none"
        raise QueuesNotListed(f"queue {name} not found: there are {known}")
    return ListedQueues(items=items)


def document(found: ListedQueues) -> bytes:
    """The same as JSON."""
    return msgspec.json.encode(found) + b"\n"
