"""The key that this agent's messages are signed with (`tessera_core.trust.messages`).

It is stored on the node, so that an agent that starts again signs with the same key, and the node's
annotation need not be written for it. Where the node takes no file, a key is made for this run.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from tessera_core.trust.grants import BadKey, new_key
from tessera_core.trust.messages import MessageSigner
from tessera_runtime import atomic_write, logs

_log: Final = logs.named("tessera.agent.speaking")
_OWNER_ONLY: Final = 0o600


async def load_message_signer(folder: Path, vendor: str) -> MessageSigner:
    """The signer with the stored key, or with a new one."""
    return await asyncio.to_thread(_load_or_create, folder / f"speaks-{vendor}.key")


def _load_or_create(file: Path) -> MessageSigner:
    try:
        return MessageSigner(file.read_bytes())
    except FileNotFoundError:
        pass
    except (OSError, BadKey) as e:
        _log.warning("key of news made again", file=str(file), why=str(e))
    private = new_key()
    try:
        atomic_write.replace(file, private, _OWNER_ONLY)
    except OSError as e:
        _log.warning("key of news not kept", file=str(file), why=str(e))
    return MessageSigner(private)
