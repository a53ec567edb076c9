"""Which release this is. All members of the workspace have one version, as a test holds; images
carry the code without its packages' metadata, so it stands here too."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
