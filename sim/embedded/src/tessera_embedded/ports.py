"""TCP ports that stay free for the process that is to listen there, before it is started and while
it is started again: the system gives a port that is merely free to the next one who asks for any.

They are bound, and nobody listens on them. Servers that set SO_REUSEADDR, as nearly all do, may
listen there all the same; of those that do not, nothing is promised.
"""

from __future__ import annotations

import socket
from collections.abc import Generator
from contextlib import ExitStack, contextmanager


@contextmanager
def reserved_ports(count: int) -> Generator[list[int]]:
    """So many ports of 127.0.0.1, for the length of the block."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(("127.0.0.1", 0))
        yield [one.getsockname()[1] for one in sockets]
