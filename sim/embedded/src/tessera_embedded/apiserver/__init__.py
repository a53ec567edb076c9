"""A Kubernetes API server in small: true in what Tessera leans on, absent in the rest.

`Store` is the server without a network, for tests on virtual time; `open_apiserver` puts it behind
TLS, tokens and webhooks. Not promised: all of core/v1, server-side apply, quotas that are enforced,
garbage collection, managedFields, protobuf.
"""

from tessera_embedded.apiserver.access import Access, Account, Rule
from tessera_embedded.apiserver.admission_requests import World
from tessera_embedded.apiserver.errors import ApiError
from tessera_embedded.apiserver.faults import Answer, Cut, Delay, Fault, Faults, Hang
from tessera_embedded.apiserver.http_types import ADMIN, Call, Response, User
from tessera_embedded.apiserver.server import ApiServer, open_apiserver
from tessera_embedded.apiserver.settings import ApiServerSettings
from tessera_embedded.apiserver.store import Store
from tessera_embedded.apiserver.watches import Watch

__all__ = [
    "ADMIN",
    "Access",
    "Account",
    "Answer",
    "ApiError",
    "ApiServer",
    "ApiServerSettings",
    "Call",
    "Cut",
    "Delay",
    "Fault",
    "Faults",
    "Hang",
    "Response",
    "Rule",
    "Store",
    "User",
    "Watch",
    "World",
    "open_apiserver",
]
