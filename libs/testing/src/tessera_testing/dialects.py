"""One dialect by itself, as the registry makes it and admission calls it."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import msgspec

from tessera_core.amounts import InvalidField
from tessera_core.dialect import Admitted, Dialect, Rejected
from tessera_schema.kube import Pod


class Speaker:
    """A dialect's module under test: `Speaker(acme).accepted(pod, unit_bytes=1)`."""

    def __init__(self, module: ModuleType) -> None:
        """`module` offers `Options` and `dialect`."""
        self._module = module

    def made(self, **options: Any) -> Dialect:
        """The dialect with these options."""
        made: Dialect = self._module.dialect(msgspec.convert(options, self._module.Options))
        return made

    def admitted(self, pod: Pod, **options: Any) -> Admitted | Rejected:
        """Admission's answer, refusals turned into values as `tessera_core.admission` does."""
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
