"""get and list, with the meaning of resourceVersion and pages as the real server has them.

A page after the first shows the objects as they were at the first one: the past is rebuilt from the
log of changes, and what the log has forgotten answers 410.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from tessera_embedded.apiserver.errors import (
    BadRequest,
    ResourceExpired,
    Timeout,
    invalid,
    not_allowed,
    not_found,
    unsupported,
)
from tessera_embedded.apiserver.http_types import RequestTarget, Response
from tessera_embedded.apiserver.objects.object_store import ObjectStore, StoredObject
from tessera_embedded.apiserver.objects.selectors import (
    Selector,
    field_selector,
    label_selector,
    matches,
)

_MATCHES: Final = ("Exact", "NotOlderThan")


class ListFilter(Struct, frozen=True):
    """Which objects of a kind are asked for."""

    namespace: str
    labels: Selector
    fields: Selector

    def takes(self, record: StoredObject | None) -> bool:
        """True where this object is one of them."""
        return (
            record is not None
            and (not self.namespace or record.namespace == self.namespace)
            and matches(self.labels, record.labels)
            and matches(self.fields, record.fields)
        )


def filter_of(target: RequestTarget, query: Mapping[str, str]) -> ListFilter:
    """Read the selectors of a list or watch. Raises BadRequest."""
    fields = field_selector(query.get("fieldSelector", ""), target.resource.shelf)
    if target.name:
        fields = (*fields, *field_selector(f"metadata.name={target.name}", target.resource.shelf))
    return ListFilter(target.namespace, label_selector(query.get("labelSelector", "")), fields)


class _Page(Struct, frozen=True):
    """What a continue token says."""

    rv: int
    start: str


def get(objects: ObjectStore, target: RequestTarget) -> StoredObject:
    """The object. Raises NotFound."""
    record = objects.find(target.resource.shelf, target.namespace, target.name)
    if record is None:
        raise not_found(target.resource.plural, target.resource.group, target.name)
    return record


def version_of(query: Mapping[str, str]) -> int | None:
    """The resourceVersion asked for, None where none is. Raises BadRequest."""
    text = query.get("resourceVersion", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise BadRequest(f'resourceVersion: Invalid value: "{text}": it is not a whole number')
    return int(text)


def list_objects(objects: ObjectStore, target: RequestTarget, query: Mapping[str, str]) -> Response:
    """The list, or a page of it. Raises BadRequest, Expired, Invalid, Timeout."""
    wanted, limit = filter_of(target, query), _limit(query)
    page = _page(query)
    if page is None:
        page = _Page(_listed_version(objects, query, limit), "")
    walk = _at(objects, target, page)
    shown: list[StoredObject] = []
    for record in walk:
        if wanted.takes(record):
            if limit and len(shown) == limit:
                remaining = None if wanted.labels or wanted.fields else 1 + sum(1 for _ in walk)
                return _encoded(target, shown, page.rv, remaining, more=True)
            shown.append(record)
    return _encoded(target, shown, page.rv)


def _limit(query: Mapping[str, str]) -> int:
    text = query.get("limit", "") or "0"
    if not (text.isascii() and text.removeprefix("-").isdigit()):
        raise BadRequest(f'limit: Invalid value: "{text}": it is not a whole number')
    return max(0, int(text))


def _page(query: Mapping[str, str]) -> _Page | None:
    token = query.get("continue", "")
    if not token:
        return None
    if query.get("resourceVersion", "") not in ("", "0"):
        raise BadRequest("specifying resource version is not allowed when using continue")
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token + "=="), type=_Page)
    except (ValueError, msgspec.MsgspecError) as e:
        raise BadRequest(f"continue key is not valid: {e}") from e


def _listed_version(objects: ObjectStore, query: Mapping[str, str], limit: int) -> int:
    asked, match = version_of(query), query.get("resourceVersionMatch", "")
    _check_match(asked, match)
    if asked is not None and asked > objects.version:
        raise too_large(asked, objects.version)
    exact = match == "Exact" or (not match and limit and asked)
    return asked if exact and asked else objects.version


def _check_match(asked: int | None, match: str) -> None:
    if not match:
        return
    field = "resourceVersionMatch"
    if match not in _MATCHES:
        raise invalid("ListOptions", "meta.k8s.io", "", [unsupported(field, match, _MATCHES)])
    if asked is None or (asked == 0 and match == "Exact"):
        why = (
            "resourceVersionMatch is forbidden unless resourceVersion is provided"
            if asked is None
            else 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        )
        raise invalid("ListOptions", "meta.k8s.io", "", [not_allowed(field, why)])


def too_large(asked: int, current: int) -> Timeout:
    """The asked version lies in the future, as after a restart that lost writes."""
    return Timeout(
        f"Timeout: Too large resource version: {asked}, current: {current}",
        details={
            "causes": [
                {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            ]
        },
        retry_after_s=1,
    )


def _at(objects: ObjectStore, target: RequestTarget, page: _Page) -> Iterator[StoredObject]:
    """The records of a kind (and namespace) as of a version, from a key on, in order."""
    kept = objects.kind_store(target.resource.shelf)
    prefix = f"{target.namespace}/" if target.namespace else ""
    start, end = max(prefix, page.start), prefix[:-1] + "0" if prefix else None
    if page.rv == objects.version:
        return (kept.records[key] for key in kept.between(start, end))
    if page.rv < kept.floor:
        raise ResourceExpired(
            "The provided continue parameter is too old to display a consistent list "
            "result. You can start a new list without the continue parameter."
            if page.start
            else f"The resourceVersion {page.rv} for the provided list is too old."
        )
    differs = kept.at(page.rv)
    keys = {*kept.between(start, end), *(k for k in differs if start <= k < (end or "\x7f"))}
    then = (differs[key] if key in differs else kept.records[key] for key in sorted(keys))
    return (record for record in then if record is not None)


def _encoded(
    target: RequestTarget, shown: list[StoredObject], version: int,
    remaining: int | None = None, *, more: bool = False,
) -> Response:  # fmt: skip
    resource = target.resource
    metadata: dict[str, str | int] = {"resourceVersion": str(version)}
    if more:
        token = msgspec.json.encode(_Page(version, shown[-1].key + "\0"))
        metadata["continue"] = base64.urlsafe_b64encode(token).decode().rstrip("=")
    if remaining is not None:
        metadata["remainingItemCount"] = remaining
    skip = 0 if resource.custom else len(resource.prefix) - 1
    items = (record.encoded(resource) for record in shown)
    body = b",".join(b"{" + item[skip + 1 :] if skip else item for item in items)
    return Response(
        200,
        b'{"kind":"%sList","apiVersion":"%s","metadata":%s,"items":[%s]}'
        % (
            resource.kind.encode(), resource.api_version.encode(),
            msgspec.json.encode(metadata), body,
        ),
    )  # fmt: skip
