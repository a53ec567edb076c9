"""docs/dialects.md writes the dialect of this folder: each piece of Python on it is in the file,
and each field of the contract is in its table."""

import re
from pathlib import Path

from tessera_core.dialect_kit import Dialect

HERE = Path(__file__).parent
PAGE = (HERE.parents[2] / "docs/dialects.md").read_text(encoding="utf-8")
FILE = (HERE / "acme.py").read_text(encoding="utf-8")


def test_each_piece_of_code_is_in_the_file() -> None:
    pieces = re.findall(r"(?ms)^```python\n(.*?)^```", PAGE)
    assert len(pieces) >= 8
    assert [piece for piece in pieces if piece not in FILE] == []


def test_each_field_is_in_the_table() -> None:
    table = PAGE.partition("## The contract, field by field")[2].partition("\n## ")[0]
    named = {name for row in re.findall(r"(?m)^\| (`.*?) \|", table) for name in
             re.findall(r"`(\w+)`", row)}  # fmt: skip
    assert named == set(Dialect.__struct_fields__)
