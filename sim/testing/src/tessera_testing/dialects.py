"""One dialect by itself, as the registry makes it and admission calls it."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import msgspec
from msgspec.structs import replace

from tessera_core.dialect_kit.amounts import InvalidField
from tessera_core.dialect_kit.contract import Admitted, ContainerChange, Dialect, Rejected
from tessera_schema.kube import Container, EnvVar, Pod, Quantity, Resources
from tessera_schema.requests import Request


class DialectUnderTest:
    """A dialect's module under test: `DialectUnderTest(acme).accepted(pod, unit_bytes=1)`."""

    def __init__(self, module: ModuleType) -> None:
        """`module` offers `Options` and `dialect`."""
        self._module = module

    def made(self, **options: Any) -> Dialect:
        """The dialect with these options."""
        made: Dialect = self._module.dialect(msgspec.convert(options, self._module.Options))
        return made

    def admitted(self, pod: Pod, **options: Any) -> Admitted | Rejected:
        """Admission's answer, refusals turned into values as `tessera_core.admission.admit`
        does."""
        try:
            return self.made(**options).admit(pod)
        except InvalidField as e:
            return e.rejected

    def accepted(self, pod: Pod, **options: Any) -> Admitted:
        """The answer for a pod that must be admitted."""
        answer = self.admitted(pod, **options)
        if isinstance(answer, Rejected):
            raise AssertionError(f"rejected: {answer.message}")  # noqa: TRY004  (a test failed)
        return answer

    def rejected(self, pod: Pod, **options: Any) -> Rejected:
        """The answer for a pod that must not be admitted."""
        answer = self.admitted(pod, **options)
        if isinstance(answer, Admitted):
            raise AssertionError(f"admitted: {answer}")  # noqa: TRY004  (a test failed)
        return answer

    def the_request(self, pod: Pod) -> Request:
        """The one request of the one container of an admitted pod."""
        (container,) = self.accepted(pod).containers
        (request,) = container.requests
        return request

    def changed(self, pod: Pod) -> Pod:
        """The pod as admission leaves it; init containers stay as they are."""
        changes = self.accepted(pod).changes
        after = tuple(
            _changed(c, changes.get(c.name, ContainerChange())) for c in pod.spec.containers
        )
        return replace(pod, spec=replace(pod.spec, containers=after))


def _changed(container: Container, change: ContainerChange) -> Container:
    was = container.resources
    env = {**{v.name: v.value for v in container.env}, **change.env}
    return replace(
        container,
        resources=Resources(
            limits=_after(was.limits, change.limits, change.removed),
            requests=_after(was.requests, change.requests, change.removed),
        ),
        env=tuple(EnvVar(name=k, value=v) for k, v in env.items()),
    )


def _after(
    was: Mapping[str, Quantity], put: Mapping[str, str], removed: frozenset[str]
) -> dict[str, Quantity]:
    return {name: q for name, q in {**was, **put}.items() if name not in removed}
