"""The numbers of addresses, drawn from the registry in blocks."""

from __future__ import annotations

from smartcrawl.model.exceptions import CommitsLostError
from smartcrawl.registry.database.control import DatabaseControl
from smartcrawl.registry.database.sequences import draw_sequence_numbers

_BLOCK = 4096  #: numbers drawn at a time; unused ones are given back
_BLOCK_SHARED = 512  #: the same where other workers draw, too, so that none can be given back
_GIVE_BACK = "UPDATE sequence SET value = ? WHERE name = 'address' AND value = ?"


class RecordNumbers:
    """Numbers for new addresses (record.no)."""

    def __init__(self, control: DatabaseControl) -> None:
        self._control = control
        self._next = self._end = 0
        self._highest = 0  #: highest number that this process ever drew or read
        self._block = _BLOCK

    def share(self) -> None:
        """Draw smaller blocks from now on, because other workers draw, too."""
        self._block = _BLOCK_SHARED

    def draw(self) -> int:
        """Return the number of an address that was met for the first time.

        Raises:
            CommitsLostError: the registry gives out numbers again that have an address.
        """
        if self._next == self._end:
            connection = self._control.connection
            last = self._control.write(
                lambda: draw_sequence_numbers(connection, "address", self._block)
            )
            self._end = last + 1
            self._next = self._end - self._block
            if self._next <= self._highest:
                self.drop()
                raise CommitsLostError(
                    "the database lost the last commits: it gives out numbers of addresses again"
                    " that it gave out before; the next run asks the missing pages again"
                )
            self._highest = last
        self._next += 1
        return self._next - 1

    def met(self, number: int) -> None:
        """Note a number that the registry has given to an address, maybe in another process."""
        self._highest = max(self._highest, number)

    def drop(self) -> None:
        """Forget the unused numbers: another process may draw them."""
        self._next = self._end = 0

    def give_back(self) -> None:
        """Give back the unused numbers, unless another worker has drawn since."""
        if not self._end:
            return
        values = (self._next - 1, self._end - 1)
        self._control.write(lambda: self._control.connection.execute(_GIVE_BACK, values))
        self.drop()
        self._highest = 0
