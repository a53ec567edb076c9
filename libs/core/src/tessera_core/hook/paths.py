"""Where the hook library and its files are, on the node and in a container: one place for all.

The library reaches the node as a new, versioned file behind a link that is renamed into place,
so a running process never sees it change (`libs/hook`). What installs it lays links next to it that
lead, in a container, to where the vendor's runtime puts the driver.
"""

from __future__ import annotations

from typing import Final

HOOK_LIBRARY_HOST: Final = "/usr/local/tessera/lib/libtessera.so"
HOOK_LIBRARY: Final = "/usr/local/tessera/lib/libtessera.so"
PRELOAD_HOST: Final = "/usr/local/tessera/etc/ld.so.preload"
PRELOAD: Final = "/etc/ld.so.preload"
DRIVER_HOST: Final = "/usr/local/tessera/driver"
"""Folders `bin`, `lib64` and `lib` of links to the driver's programs and libraries."""
