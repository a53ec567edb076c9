"""What a pod must have asked for, read from what it holds: where nobody kept count of what came,
the pods that run are the best guess at it.

It is a guess: pods that stay long are counted more often than they come, a percentage has become
bytes, and which models were allowed is not known.
"""

from __future__ import annotations

from tessera_schema.grants import Grant, Share
from tessera_schema.requests import ContainerRequest, PodRequest, Request


def request_from_grant(grant: Grant) -> PodRequest:
    """The request: each container's shares of one vendor and size are one request."""
    containers: dict[int, dict[tuple[str, int, float, bool], list[Share]]] = {}
    for share in grant.shares:
        size = (share.vendor, share.memory_bytes, share.cores_percent, share.exclusive)
        containers.setdefault(share.position, {}).setdefault(size, []).append(share)
    return PodRequest(
        namespace=grant.namespace,
        name=grant.name,
        uid=grant.uid,
        containers=tuple(
            _container(list(by_size.values())) for _, by_size in sorted(containers.items())
        ),
    )


def _container(groups: list[list[Share]]) -> ContainerRequest:
    first = groups[0][0]
    return ContainerRequest(
        container=first.container,
        position=first.position,
        role=first.role,
        requests=tuple(_request(shares) for shares in groups),
    )


def _request(shares: list[Share]) -> Request:
    one = shares[0]
    return Request(
        vendor=one.vendor, dialect=one.dialect, count=len(shares), memory_bytes=one.memory_bytes,
        cores_percent=one.cores_percent, exclusive=one.exclusive,
    )  # fmt: skip
