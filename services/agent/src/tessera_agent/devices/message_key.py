"""The key that this agent's news are signed with (`tessera_core.trust.messages`).

It is kept on the node, so that an agent that starts anew speaks with the same voice, and the node's
annotation need not be written for it. Where the node takes no file, a key is made for this life.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from tessera_core.trust.grants import BadKey, new_key
from tessera_core.trust.messages import MessageSigner
from tessera_runtime import atomic_write, logs

_log: Final = logs.named("tessera.agent.speaking")
_ONLY_OURS: Final = 0o600


async def a_speaker(folder: Path, vendor: str) -> MessageSigner:
    """The one that spoke here before, or a new one."""
    return await asyncio.to_thread(_kept, folder / f"speaks-{vendor}.key")


def _kept(file: Path) -> MessageSigner:
    try:
        return MessageSigner(file.read_bytes())
    except FileNotFoundError:
        pass
    except (OSError, BadKey) as e:
        _log.warning("key of news made anew", file=str(file), why=str(e))
    private = new_key()
    try:
        atomic_write.replace(file, private, _ONLY_OURS)
    except OSError as e:
        _log.warning("key of news not kept", file=str(file), why=str(e))
    return MessageSigner(private)
