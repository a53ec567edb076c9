"""Child processes that end with their parent, however it ends.

Linux sends a process a signal when its parent is gone (`PR_SET_PDEATHSIG`), SIGKILL and a closed
terminal included. The demo's own processes live in sessions of their own, where no Ctrl-C and no
hang-up of a terminal reaches them.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from typing import Final

_PDEATHSIG: Final = 1
_libc: Final = ctypes.CDLL(None, use_errno=True)


def ends_with_parent(number: signal.Signals = signal.SIGTERM) -> Callable[[], None]:
    """For `preexec_fn`: the child gets the signal when the thread that starts it has ended."""
    parent = os.getpid()

    def request_signal() -> None:
        _libc.prctl(_PDEATHSIG, int(number), 0, 0, 0)
        if os.getppid() != parent:  # it ended before we asked
            os.kill(os.getpid(), number)

    return request_signal
