# ufp4 - what the kernels' loops do, for the cost model: one entry for each row of the table in docs/gpu.md.
# SPDX-License-Identifier: Apache-2.0
from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """A loop, and the warps of a block that execute it."""
    has: tuple  # patterns: the innermost loop that contains an instruction for each; empty: the kernel from begin to end
    warps: int
    trips: tuple = ()  # (pattern, count): iterations of inner loops that contain such an instruction
    cold: tuple = ()  # patterns of code that the described case does not execute


@dataclass(frozen=True)
class Row:
    kernel: str
    targets: tuple
    parts: tuple


ROWS = []
