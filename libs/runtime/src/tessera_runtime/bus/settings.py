"""Where NATS is, who we are there, and how long is too long."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from tessera_runtime.errors import BadSettings

_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{1,63}")


class BusSettings(Struct, frozen=True, kw_only=True):
    """The message bus. At most one kind of credentials: password, nkey or creds file."""

    url: str = "nats://127.0.0.1:4222"
    """Servers, with commas between; `tls://` demands TLS. Their own messages add others."""
    cluster: str = "default"
    """Third token of every subject; letters, digits, `-` and `_`. One NATS account, one cluster."""
    user: str = ""
    """User name; needs the password."""
    password: str = ""
    """Password, where it may stand in the environment; else use `password_file`."""
    password_file: str = ""
    """File with the password; read at each connection, so that it can be rotated."""
    nkey_file: str = ""
    """File with a user's nkey seed (`SU...`); read at each connection."""
    creds_file: str = ""
    """A `.creds` file (JWT and seed); read at each connection."""
    ca_file: str = ""
    """Certificates that the server's is checked with, PEM; empty = the system's."""
    cert_file: str = ""
    """Our certificate, PEM, where the server demands one; needs the key."""
    key_file: str = ""
    """Its key, PEM."""
    inbox: str = "_INBOX"
    """Prefix of the subjects that answers come on: credentials may allow a service only its own."""
    arrange: bool = True
    """Make and mend streams and buckets. Agents leave it to the scheduler: their credentials do not
    allow it."""
    tidy: bool = True
    """Delete readers' consumers when they end. A user that only listens may not: NATS forgets them
    after `idle_s`."""
    replicas: int = 1
    """Copies of each stream: 3 on a NATS cluster of three."""
    connect_s: float = 5.0
    """Seconds until an attempt to connect is given up: a handshake takes milliseconds."""
    retry_first_s: float = 0.2
    """Seconds until the second attempt; doubled from then on, with jitter."""
    retry_most_s: float = 10.0
    """Most seconds between attempts: 5,000 agents then try 500 times a second."""
    call_s: float = 3.0
    """Seconds until a request is given up: JetStream answers in milliseconds, a cluster that elects
    a leader in one or two seconds."""
    ping_s: float = 5.0
    """Seconds between looks whether the connection is alive, and until it is taken for dead."""
    check_s: float = 15.0
    """Seconds between looks whether streams and buckets are still the same."""
    heartbeat_s: float = 2.0
    """Seconds between signs of life of a reader; after two and a half of them it starts again."""
    pull_s: float = 30.0
    """Seconds that a pull waits for messages; more than twice the heartbeat."""
    batch: int = 256
    """Messages asked for at once."""
    ack_s: float = 30.0
    """Seconds after which a message that was not acknowledged comes again."""
    idle_s: float = 300.0
    """Seconds after which NATS forgets a reader that nobody reads."""
    durable_idle_s: float = 604_800.0
    """The same for durable readers: a week, so that a scaled-down service loses nothing."""
    close_s: float = 2.0
    """Most seconds that closing a connection may take."""

    def check(self) -> None:
        """Raises BadSettings."""
        for url in self.servers:
            _check_url(url)
        if not _TOKEN.fullmatch(self.cluster):
            raise BadSettings(
                f"bus.cluster: {self.cluster!r}: write up to 63 letters, digits, `-` and `_`"
            )
        self._check_credentials()
        self._check_numbers()

    def _check_credentials(self) -> None:
        kinds = [name for name in ("user", "nkey_file", "creds_file") if getattr(self, name)]
        if len(kinds) > 1:
            raise BadSettings(f"bus.{' and bus.'.join(kinds)}: set one of them, not both")
        if bool(self.user) != bool(self.password or self.password_file):
            raise BadSettings("bus.user: set it with bus.password or bus.password_file, or neither")
        if bool(self.cert_file) != bool(self.key_file):
            raise BadSettings("bus.cert_file: set it with bus.key_file, or neither")

    def _check_numbers(self) -> None:
        for field in msgspec.structs.fields(self):
            value = getattr(self, field.name)
            if field.type in (int, float) and not value > 0:
                raise BadSettings(f"bus.{field.name}: {value}: write a number above 0")
        if self.pull_s <= 2 * self.heartbeat_s:
            raise BadSettings(
                f"bus.pull_s: {self.pull_s}: write more than twice bus.heartbeat_s "
                f"({self.heartbeat_s})"
            )

    @property
    def servers(self) -> list[str]:
        """The URLs one by one."""
        return [url.strip() for url in self.url.split(",")]

    @property
    def server_names(self) -> str:
        """The servers for messages: without user and password."""
        return ",".join(urlsplit(url).netloc.rpartition("@")[2] for url in self.servers)


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        well = parts.scheme in ("nats", "tls") and parts.hostname and parts.port != 0
    except ValueError:
        well = False
    if not well:
        raise BadSettings(f"bus.url: {url!r}: write nats://<host>:<port> or tls://<host>:<port>")
