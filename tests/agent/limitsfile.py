"""A limits file as a hook reads it: again while it is being written."""

from __future__ import annotations

from pathlib import Path

from tessera_core.hook.limits_file import PATH, BadLimits, HookLimits, decode_limits
from tessera_kubelet.nri.types import Adjustment


def limits_in(file: Path) -> HookLimits:
    """What an agent that lives says in it."""
    while True:
        try:
            return decode_limits(file.read_bytes())
        except BadLimits:
            continue


def limits_of(given: Adjustment) -> HookLimits:
    """The limits of the container that was given this."""
    return limits_in(next(Path(m.source) for m in given.mounts if m.destination == PATH))
