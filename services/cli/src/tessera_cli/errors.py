"""Why a command did nothing: one tree, drawn once, each named by what stands in the way.

CommandError
├── UsageError       the command was called wrongly
│   └── ExtraMissing    it needs packages that were not asked for at installation
├── InputUnreadable  the file, folder or stream cannot be read
├── InputTooLarge    it is larger than what is read in one go
├── NotKubernetes    it can be read, and is no Kubernetes object
├── Malformed        a field of an object makes no sense
├── Repeated         two objects, or two sources, are one and the same
├── BadConfigFile    the configuration file names what does not exist
└── NoDemo           the packages of the demo are not installed
"""

from __future__ import annotations

from typing import Final

USAGE_ERROR: Final = 2
"""Exit status of a wrong call of the commands that have it so; of older ones it is 1, for 2 says
there that a pod was not placed."""


class CommandError(Exception):
    """Nothing was planned. The message names the place, the value and what would do."""

    def __init__(self, *parts: str) -> None:
        """The parts of the message, from the outside in; empty ones are left out."""
        super().__init__(": ".join(part for part in parts if part))


class UsageError(CommandError):
    """The call makes no sense, whatever there is: exit status 2, as kubectl's plugins have it."""


class ExtraMissing(UsageError):
    """What the command needs is an extra of the package, and was not installed with it."""

    def __init__(self, missing: str, extra: str) -> None:
        super().__init__(
            f"this needs the package {missing}, which is not installed: install "
            f"tessera-cli[{extra}] (docs/install.md)"
        )


EXTRAS: Final = {"numpy": "place", "nats": "bus", "tessera_agent": "run"}
"""Module -> the extra of the package that has it."""


class InputUnreadable(CommandError):
    """The file, folder or stream cannot be read."""


class InputTooLarge(CommandError):
    """It is larger than what is read in one go."""


class NotKubernetes(CommandError):
    """It can be read, and is no Kubernetes object."""


class Malformed(CommandError):
    """A field of an object makes no sense."""


class Repeated(CommandError):
    """Two objects, or two sources, are one and the same."""


class BadConfigFile(CommandError):
    """The configuration file names what does not exist."""


class NoDemo(CommandError):
    """The demo is not installed: it is no part of the product."""

    def __init__(self, missing: str) -> None:
        super().__init__(
            f"demo: the package {missing} is not installed: install tessera-demo, or run "
            "`make demo` in a checkout"
        )
