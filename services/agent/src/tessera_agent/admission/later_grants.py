"""A pod's grant may change while its containers run: a resize, approved by a person, is written by
the scheduler as a later revision. Here the agent takes it over, once it has proof."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

from tessera_agent.admission.admission import ContainerAdmitter
from tessera_agent.api.pods import NodePods
from tessera_agent.containers.holdings import ContainerRegistry, Holding
from tessera_agent.containers.hook_files import HookFiles
from tessera_core.grants.resize import follows
from tessera_runtime import logs
from tessera_schema.grants import Grant

_log: Final = logs.named("tessera.agent.resizing")


class LaterGrants:
    """Brings later grants of this node's pods to the holdings of their containers."""

    def __init__(
        self, pods: NodePods, admitter: ContainerAdmitter, holdings: ContainerRegistry,
        files: HookFiles,
    ) -> None:  # fmt: skip
        self._pods = pods
        self._admitter = admitter
        self._holdings = holdings
        self._files = files
        self.changed = pods.grants
        """Set when a pod shows another grant than before."""
        self._read: dict[str, str] = {}
        """Pod's uid -> the grant annotation that was read last."""

    def forget_others(self, uids: Collection[str]) -> None:
        """Forget what was read of other pods than these."""
        self._read = {uid: text for uid, text in self._read.items() if uid in uids}

    def shows_another(self, held: Holding) -> bool:
        """Whether the API server shows a grant of the container's pod that was not read yet."""
        shown = self._pods.get(held.key.uid)
        return bool(shown and shown.grant and self._read.get(held.key.uid) != shown.grant)

    async def update(self, held: Holding) -> None:
        """Take the grant that the API server shows of the container's pod, if it is a later one."""
        uid = held.key.uid
        shown = self._pods.get(uid)
        if shown is None or not self.shows_another(held):
            return
        grant, earlier = self._admitter.proven(uid, shown.grant), self._holdings.granted(uid)
        if grant is None:
            return  # its key may not have been read yet
        self._read[uid] = shown.grant
        if earlier is not None and follows(grant, earlier):
            self._holdings.remember(grant)
        newest = self._holdings.granted(uid)
        if newest is None or not newest.revision:
            return  # it was never resized
        for one in self._holdings.of_pod(uid):
            shares = self._admitter.shares(newest, one.key.container)
            if shares != one.granted:
                self._holdings.change(one.key, one.id, granted=shares)
                await self._store(one, newest)

    async def _store(self, held: Holding, grant: Grant) -> None:
        key = held.key
        _log.info("later grant", uid=key.uid, container=key.container, revision=grant.revision)
        if held.files is None:
            return
        try:
            await asyncio.to_thread(self._files.store_grant, key, grant)
        except (OSError, ValueError) as e:
            _log.warning("grant not kept", uid=key.uid, container=key.container, why=str(e))
