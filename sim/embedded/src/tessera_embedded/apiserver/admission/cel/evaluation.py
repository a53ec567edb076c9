"""CEL's meaning on decoded JSON.

`&&` and `||` give their answer even where one side fails, as long as the other side decides it; the
same holds for `all` and `exists`. A missing field is an error, not null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tessera_embedded.apiserver.admission.cel.functions import FUNCTIONS, METHODS, CelError
from tessera_embedded.apiserver.admission.cel.parsing import (
    CallExpression,
    Entries,
    Expression,
    Field,
    Index,
    Items,
    Literal,
    Loop,
    Name,
)

Scope = Mapping[str, Any]


def evaluate(  # noqa: C901, PLR0911  (one case for each kind of node)
    tree: Expression, scope: Scope
) -> Any:
    """The value of an expression where the variables are `scope`. Raises CelError."""
    match tree:
        case Literal():
            return tree.value
        case Name():
            return _variable(tree.name, scope)
        case Field():
            return _field(tree, scope)
        case Index():
            return _index(evaluate(tree.of, scope), evaluate(tree.key, scope))
        case CallExpression():
            return _call(tree, scope)
        case Items():
            return [evaluate(item, scope) for item in tree.items]
        case Entries():
            return {evaluate(k, scope): evaluate(v, scope) for k, v in tree.entries}
        case Loop():
            return _loop(tree, scope)


def _variable(name: str, scope: Scope) -> Any:
    if name not in scope:
        raise CelError(f"undeclared reference to {name!r}")
    return scope[name]


def _field(tree: Field, scope: Scope) -> Any:
    holder = evaluate(tree.of, scope)
    if not isinstance(holder, Mapping):
        if tree.test:
            return False
        raise CelError(f"no such field: {tree.name}")
    if tree.test:
        return tree.name in holder
    if tree.name not in holder:
        raise CelError(f"no such key: {tree.name}")
    return holder[tree.name]


def _index(holder: Any, key: Any) -> Any:
    if isinstance(holder, Mapping):
        if key not in holder:
            raise CelError(f"no such key: {key}")
        return holder[key]
    if isinstance(holder, list) and isinstance(key, int) and not isinstance(key, bool):
        if not 0 <= key < len(holder):
            raise CelError(f"index out of bounds: {key}")
        return holder[key]
    raise CelError("no such overload: []")


def _call(tree: CallExpression, scope: Scope) -> Any:
    if tree.name in ("&&", "||"):
        return _either(tree.args, scope, decides=tree.name == "||")
    if tree.name == "?:":
        chosen = 1 if _truth(evaluate(tree.args[0], scope)) else 2
        return evaluate(tree.args[chosen], scope)
    table = METHODS if tree.method else FUNCTIONS
    if tree.name not in table:
        raise CelError(f"undeclared reference to {tree.name!r}")
    args = [evaluate(arg, scope) for arg in tree.args]
    try:
        return table[tree.name](*args)
    except (TypeError, ValueError, AttributeError) as e:
        raise CelError(f"no such overload: {tree.name}: {e}") from e


def _either(sides: tuple[Expression, ...], scope: Scope, *, decides: bool) -> bool:
    return _folded((_attempt(side, scope) for side in sides), decides=decides)


def _attempt(tree: Expression, scope: Scope) -> bool | CelError:
    try:
        return _truth(evaluate(tree, scope))
    except CelError as e:
        return e


def _folded(results: Iterator[bool | CelError], *, decides: bool) -> bool:
    """`decides` as soon as one result is it; else the first error, else the other value."""
    failed: CelError | None = None
    for result in results:
        if isinstance(result, CelError):
            failed = failed or result
        elif result == decides:
            return decides
    if failed is not None:
        raise failed
    return not decides


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise CelError("no such overload: a condition is true or false")
    return value


def _loop(tree: Loop, scope: Scope) -> Any:
    over = evaluate(tree.of, scope)
    if not isinstance(over, list | Mapping):
        raise CelError(f"no such overload: {tree.macro} of what is neither list nor map")
    scopes = [{**scope, tree.var: item} for item in over]
    step = tree.steps[-1]
    match tree.macro:
        case "all" | "exists":
            results = (_attempt(step, inner) for inner in scopes)
            return _folded(results, decides=tree.macro == "exists")
        case "exists_one":
            return sum(_truth(evaluate(step, inner)) for inner in scopes) == 1
        case "filter":
            return [inner[tree.var] for inner in scopes if _truth(evaluate(step, inner))]
        case _:
            kept = [s for s in scopes if len(tree.steps) == 1
                    or _truth(evaluate(tree.steps[0], s))]  # fmt: skip
            return [evaluate(step, inner) for inner in kept]
