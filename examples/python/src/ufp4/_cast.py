# ufp4 - what a cast to another format could not keep.
# SPDX-License-Identifier: Apache-2.0
"""The second result of `ufp4.cast`."""
import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class CastReport:
    """What a cast could not keep. A block is one of the result."""

    blocks: int
    """Blocks of the result, padding included."""
    inexact_blocks: int
    """Blocks with a value that differs; blocks that became NaN count."""
    inexact_elements: int
    """Values that differ; -0 and 0 are the same value."""
    signal: float
    """Sum of the squares of the values, where value and result are finite."""
    noise: float
    """Sum of the squares of the differences there."""

    @property
    def sqnr_db(self) -> float:
        """10 log10(signal / noise): infinite if nothing was lost, NaN if all values are zero."""
        if self.noise == 0:
            return math.inf if self.signal > 0 else math.nan
        return 10 * math.log10(self.signal / self.noise) if self.signal > 0 else -math.inf
