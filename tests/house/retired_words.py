"""What is left of the words that docs/glossary.md retires, file by file.

`python -m tests.house.retired_words > tests/house/retired_words.txt` writes the list after files
have moved, or after words have gone.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIST = ROOT / "tests/house/retired_words.txt"
GLOSSARY = ROOT / "docs/glossary.md"
ROW = re.compile(r"(?m)^\| (`[a-z` ]+`) \| (everywhere|names) \| ")
# A word of a name, an acronym among them: HTTPServer is http and server.
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
CODE = re.compile(r"(?s)``.+?``|`[^`]*`")
BLOCK = re.compile(r"(?ms)^ *```.*?^ *```$")
LINK = re.compile(r"\]\([^)]*\)")


def retired(where: str) -> frozenset[str]:
    """The words whose row in the glossary has `where` in its second column."""
    rows = ROW.findall(GLOSSARY.read_text(encoding="utf-8"))
    return frozenset(
        word for words, scope in rows if scope == where for word in re.findall(r"[a-z]+", words)
    )


def files() -> list[Path]:
    """All Python files and pages that git knows, or would know; generated ones apart."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [
        ROOT / line
        for line in sorted(set(listed.splitlines()))
        if not line.endswith("_pb2.py") and (ROOT / line).exists()
    ]


def words(text: str) -> list[str]:
    """The words of prose, code in backticks apart."""
    return re.findall(r"[a-z]+", CODE.sub(" ", text).lower())


def parts(name: str) -> list[str]:
    """The words that a name is made of."""
    return [part.lower() for part in PART.findall(name)]


def defined(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """Each name that is bound, and whether it is a class's, a function's or a method's."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, True
        elif isinstance(node, ast.arg):
            yield node.arg, False
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, False
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, False
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname, False


def docstrings(tree: ast.AST) -> Iterator[str]:
    """Strings that stand alone, those below attributes among them."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node.value.value


def comments(source: str) -> Iterator[str]:
    """The comments of a Python file."""
    lines = io.StringIO(source).readline
    return (t.string for t in tokenize.generate_tokens(lines) if t.type == tokenize.COMMENT)


def used(path: Path, everywhere: frozenset[str], names: frozenset[str]) -> Counter[str]:
    """How often each retired word stands in a file."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        prose = LINK.sub("]", BLOCK.sub(" ", source))
        return Counter(word for word in words(prose) if word in everywhere)
    tree = ast.parse(source)
    found = [word for text in docstrings(tree) for word in words(text) if word in everywhere]
    if "#" in source:
        found += [word for text in comments(source) for word in words(text) if word in everywhere]
    heads = [(path.stem, True), *defined(tree)]
    for name, is_definition in heads:
        barred = everywhere | names if is_definition else everywhere
        found += [part for part in parts(name) if part in barred]
    return Counter(found)


def counted() -> dict[str, int]:
    """How many retired words each file has, for files that have any."""
    everywhere, names = retired("everywhere"), retired("names")
    totals = {
        str(path.relative_to(ROOT)): used(path, everywhere, names).total() for path in files()
    }
    return {path: total for path, total in totals.items() if total}


def allowed() -> dict[str, int]:
    """The list, as it was written."""
    lines = (line.split() for line in LIST.read_text(encoding="utf-8").splitlines())
    return {path: int(total) for total, path in lines}


def written(totals: Mapping[str, int]) -> str:
    """The list's text."""
    return "".join(f"{total} {path}\n" for path, total in sorted(totals.items()))


if __name__ == "__main__":
    sys.stdout.write(written(counted()))
