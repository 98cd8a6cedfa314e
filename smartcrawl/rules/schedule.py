"""When a page is to be visited next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MAX_DOUBLINGS: Final = 20  #: of the error backoff; 600 s doubled so often are 20 years


@dataclass(frozen=True, slots=True)
class Schedule:
    """How the interval between two visits grows. Times are in seconds."""

    base: int = 86_400
    longest: int = 1_209_600
    steps: tuple[int, ...] = (1, 3, 7, 14)  #: times ``base``
    patience: int = 3  #: unchanged visits in a row before the next step (N of R0-48)
    error_base: int = 600  #: doubles with each error in a row

    def interval(self, unchanged: int) -> int:
        """Return the seconds to the next visit after so many unchanged ones in a row.

        >>> [Schedule().interval(n) // 86_400 for n in (0, 2, 3, 6, 9, 99)]
        [1, 1, 3, 7, 14, 14]

        Source: R0-48, R0-49, G-01.
        """
        step = self.steps[min(unchanged // self.patience, len(self.steps) - 1)]
        return min(step * self.base, self.longest)

    def backoff(self, errors: int, retry_after: int | None = None) -> int:
        """Return the seconds to the next visit after so many errors in a row.

        Never earlier than the server asked with Retry-After.

        >>> [Schedule().backoff(n) for n in (1, 2, 3, 99)], Schedule().backoff(1, 5_000)
        ([600, 1200, 2400, 1209600], 5000)

        Source: R0-63, M-32, U-20.
        """
        doubled = self.error_base << min(max(errors, 1) - 1, MAX_DOUBLINGS)
        return max(min(doubled, self.longest), retry_after or 0)
