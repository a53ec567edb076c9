"""Names of models, modes, vendors and pools as small numbers, for columns."""

from __future__ import annotations

from copy import copy as copy_of


class NameTable:
    """Names as small numbers, for columns; number 0 is the empty name. A number lasts as long as a
    card has the name, and is then given to another one: so there are never more than cards."""

    def __init__(self) -> None:
        """Knows only the empty name."""
        self.of: list[str] = [""]
        self._numbers = {"": 0}
        self._users = [1]
        self._free: list[int] = []

    def take(self, name: str) -> int:
        """The number of a card's name, a new one if need be."""
        number = self._numbers.get(name)
        if number is None:
            if not self._free:
                self._free.append(len(self.of))
                self.of.append("")
                self._users.append(0)
            number = self._numbers[name] = self._free.pop()
            self.of[number] = name
        self._users[number] += 1
        return number

    def drop(self, name: str) -> None:
        """A card that had the name is gone."""
        number = self._numbers[name]
        self._users[number] -= 1
        if not self._users[number]:
            del self._numbers[name]
            self.of[number] = ""
            self._free.append(number)

    def known(self, name: str) -> int | None:
        """The name's number if it has one."""
        return self._numbers.get(name)

    def copy(self) -> NameTable:
        """The same names, to be changed apart."""
        copy = copy_of(self)
        copy.of, copy._numbers = list(self.of), dict(self._numbers)
        copy._users, copy._free = list(self._users), list(self._free)
        return copy
