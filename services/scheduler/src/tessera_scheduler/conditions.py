"""Which requests the API server calls us for, in CEL: pods that name one of our resources or keys,
and changes of those keys by others. All other pods of the cluster do not depend on us.

Only macros and operators of Kubernetes 1.30 are used: `has`, `exists`, `in`, `startsWith`.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tessera_core.registry import Registry
from tessera_schema.keys import GROUP, OWNER_KEYS

_NOTES = "metadata.annotations"


def names_us(registry: Registry) -> str:
    """True for a pod that asks for cards in any dialect, or bears a key that is ours to write."""
    resources = _list(registry.resources)
    ours = _ours(registry)
    asks = (
        "has(c.resources) && ("
        f"has(c.resources.limits) && c.resources.limits.exists(k, k in {resources})"
        f" || has(c.resources.requests) && c.resources.requests.exists(k, k in {resources}))"
    )
    return (
        f"object.spec.containers.exists(c, {asks})"
        f" || has(object.spec.initContainers) && object.spec.initContainers.exists(c, {asks})"
        f" || has(object.{_NOTES}) && object.{_NOTES}.exists(k, {ours})"
    )


def bears_keys(registry: Registry) -> str:
    """True for an object, such as a Binding, that bears a key that is ours to write."""
    return f"has(object.{_NOTES}) && object.{_NOTES}.exists(k, {_ours(registry)})"


def changes_keys(registry: Registry, but: Iterable[str] = ()) -> str:
    """True for an update that adds, changes or takes away a key that is ours to write, `but` for
    these."""
    return _changes(_ours(registry, but))


def changes(keys: Iterable[str]) -> str:
    """True for an update that adds, changes or takes away one of these keys."""
    return _changes(f"k in {_list(keys)}")


def _changes(ours: str) -> str:
    old, new = f"oldObject.{_NOTES}", f"object.{_NOTES}"
    return (
        f"has({new}) && {new}.exists(k, ({ours})"
        f" && !(has({old}) && k in {old} && {old}[k] == {new}[k]))"
        f" || has({old}) && {old}.exists(k, ({ours}) && !(has({new}) && k in {new}))"
    )


def by_others(writers: Iterable[str]) -> str:
    """True for a request of somebody who is none of these users and in none of these groups."""
    named = _list(writers)
    return (
        f"!(request.userInfo.username in {named}) && "
        f"!(has(request.userInfo.groups) && request.userInfo.groups.exists(g, g in {named}))"
    )


def both(first: str, second: str) -> str:
    """True where both are. The API server evaluates every condition that it is given, so one that
    is often false, and costs little, spares another only within one expression."""
    return f"({first}) && ({second})"


def _ours(registry: Registry, but: Iterable[str] = ()) -> str:
    """True for a key `k` that only a scheduler or an agent may write, `but` for these."""
    free = _list({*OWNER_KEYS, *but})
    begins = [
        f"k.startsWith({_text(p)})" + (f" && !(k in {free})" if p == f"{GROUP}/" else "")
        for p in sorted(registry.result_prefixes)
    ]
    return " || ".join((f"k in {_list(registry.result_keys)}", *begins))


def _list(words: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, sorted(words)))}]"


def _text(word: str) -> str:
    return msgspec.json.encode(word).decode()
