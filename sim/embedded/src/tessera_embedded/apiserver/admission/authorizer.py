"""`authorizer` in the conditions of a policy: what the user who writes may do otherwise.

    authorizer.group("").resource("pods").subresource("resize").namespace("a").check("update")

Not served: `path`, `serviceAccount`, field and label selectors, `requestResource`.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from tessera_embedded.apiserver.access import Access, Attempt
from tessera_embedded.apiserver.http_types import AuthenticatedUser


class AccessDecision(Struct, frozen=True):
    """The answer to `check`."""

    allows: bool

    def allowed(self) -> bool:
        """Whether the roles of the user cover it."""
        return self.allows

    def reason(self) -> str:
        """Empty: rules have no names here."""
        return ""


class ResourceCheck(Struct, frozen=True):
    """A resource that is asked about, and what narrows it."""

    access: Access
    user: AuthenticatedUser
    attempt: Attempt

    def subresource(self, name: str) -> ResourceCheck:
        """This part of it."""
        return ResourceCheck(self.access, self.user, replace(self.attempt, subresource=name))

    def namespace(self, name: str) -> ResourceCheck:
        """In this namespace."""
        return ResourceCheck(self.access, self.user, replace(self.attempt, namespace=name))

    def name(self, name: str) -> ResourceCheck:
        """This object."""
        return ResourceCheck(self.access, self.user, replace(self.attempt, name=name))

    def check(self, verb: str) -> AccessDecision:
        """Whether the user may do this to it."""
        attempt = replace(self.attempt, verb=verb)
        return AccessDecision(self.access.allows(self.user, attempt))


class GroupCheck(Struct, frozen=True):
    """An API group that is asked about."""

    access: Access
    user: AuthenticatedUser
    api_group: str

    def resource(self, name: str) -> ResourceCheck:
        """A resource of the group, by its plural."""
        attempt = Attempt("", group=self.api_group, resource=name)
        return ResourceCheck(self.access, self.user, attempt)


class Authorizer(Struct, frozen=True):
    """The variable of conditions."""

    access: Access
    user: AuthenticatedUser

    def group(self, name: str) -> GroupCheck:
        """An API group; empty is the core group."""
        return GroupCheck(self.access, self.user, name)
