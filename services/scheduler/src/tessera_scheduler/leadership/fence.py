"""Whether the API server refuses grants of other terms (`tessera_core.trust.fencing`), found out by
asking.

It learns of the Lease by a watch, so it may still compare with the former term for a moment after
the Lease was taken. Bindings of a pod that does not exist are tried, and not kept: one under a term
that nobody has had, and one under the present one. Where several API servers answer, this says
something of one of them.
"""

from __future__ import annotations

import asyncio
from typing import Final, NoReturn

from tessera_core.trust.fencing import POLICY
from tessera_runtime import logs
from tessera_runtime.errors import ApiRefused, TesseraError
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube, Verb
from tessera_runtime.kube.binding import PodKey, binding_body
from tessera_runtime.kube.lease import Lease
from tessera_runtime.metrics import Gauge
from tessera_schema.annotation_keys import TERM_KEY
from tessera_schema.grants import GRANT_KEY

_NOBODY: Final = "pod-of-no-term"
_log = logs.named("tessera.scheduler.fencing")


class FencingCheck:
    """Finds out whether the API server compares terms."""

    def __init__(self, kube: Kube, namespace: str, gauge: Gauge, *, again_s: float) -> None:
        """`gauge` is 1 where grants of other terms are refused. Where there is no answer, it asks
        again after `again_s` seconds."""
        self._kube = kube
        self._namespace = namespace
        self._gauge = gauge
        self._again_s = again_s
        self._stands = True

    async def prove(self, term: int) -> None:
        """Find out whether grants of other terms are refused; wait until those of this one are
        not."""
        while True:
            if await self._found(term):
                return
            await asyncio.sleep(self._again_s)

    async def run(self, lease: Lease, every_s: float) -> NoReturn:
        """Find out periodically while this replica leads: the policy may be installed later than
        the scheduler, and deleted."""
        while True:
            await asyncio.sleep(every_s)
            if lease.held.is_set():
                await self._found(lease.generation)

    async def _found(self, term: int) -> bool:
        """False where grants of this term are refused, too, or nothing is known."""
        try:
            others, own = await self._refuses(term + 1), await self._refuses(term)
        except TesseraError as e:
            _log.warning("term not tried", term=term, why=str(e))
            return False
        if own:
            _log.info("the API server does not know the term yet", term=term)
            return False
        if self._stands and not others:
            _log.warning(
                "the API server does not compare terms: a leader that was stopped may write late",
                remedy=f"install the ValidatingAdmissionPolicy {POLICY}",
            )
        self._stands = others
        self._gauge.set(others)
        return True

    async def _refuses(self, term: int) -> bool:
        notes = {GRANT_KEY: "", TERM_KEY: str(term)}
        body = binding_body(PodKey(self._namespace, _NOBODY, ""), _NOBODY, notes)
        path = paths.pod(self._namespace, _NOBODY, "binding")
        try:
            await self._kube.call(Verb.POST, path, query={"dryRun": "All"}, body=body)
        except ApiRefused as e:
            return POLICY in e.message
        return False
