"""Failing closed: a container is not created while a plugin that it needs is away."""

from __future__ import annotations

from collections.abc import Iterable

from tessera_kubelet.errors import ContainerNotCreated, PluginMissing
from tessera_kubelet.nri.settings import RuntimeSettings
from tessera_kubelet.nri.types import ContainerInfo, PodSandbox

_TRUE = ("1", "t", "T", "true", "TRUE", "True")
_FALSE = ("0", "f", "F", "false", "FALSE", "False")


def check_required(
    consulted: Iterable[str], pod: PodSandbox, container: ContainerInfo, settings: RuntimeSettings
) -> None:
    """`consulted`: index and name ("10-tessera") of the plugins that were asked. Raises
    PluginMissing, or ContainerNotCreated where the tolerating annotation is unreadable."""
    present = {form for known in consulted for form in (known, known.partition("-")[2])}
    missing = [name for name in settings.required_plugins if name not in present]
    if not missing or _tolerates(pod, container, settings.tolerate_missing_annotation):
        return
    if len(missing) == 1:
        raise PluginMissing(f'required plugin "{missing[0]}" not present')
    raise PluginMissing(f'required plugins "{",".join(missing)}" not present')


def _tolerates(pod: PodSandbox, container: ContainerInfo, key: str) -> bool:
    if not key:
        return False
    for scope in (f"/container.{container.name}", "/pod", ""):
        value = pod.annotations.get(key + scope)
        if value is None:
            continue
        if value not in _TRUE + _FALSE:
            raise ContainerNotCreated(
                f'annotation {key}{scope}: "{value}" must be "true" or "false"'
            )
        return value in _TRUE
    return False
