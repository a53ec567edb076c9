"""The Common Expression Language, as far as admission conditions use it.

Served: literals, lists and maps, fields and indices, `has`, `in`, the operators, `?:`, the macros
`all exists exists_one map filter` and the usual functions of strings and collections. Not served:
timestamps, durations, quantities, IP addresses, optional types, and the cost budget.
Types are checked as values meet, not in advance: what real servers refuse when an expression is
written may here fail when it is evaluated.
"""

from tessera_embedded.apiserver.admission.cel.checking import ADMISSION_NAMES, problem
from tessera_embedded.apiserver.admission.cel.evaluation import evaluate
from tessera_embedded.apiserver.admission.cel.functions import CelError
from tessera_embedded.apiserver.admission.cel.parsing import Expression, parse
from tessera_embedded.apiserver.admission.cel.tokens import BadExpression

__all__ = [
    "ADMISSION_NAMES",
    "BadExpression",
    "CelError",
    "Expression",
    "evaluate",
    "parse",
    "problem",
]
