# ufp4 - the limits of the GPUs for which cost.py predicts.
# SPDX-License-Identifier: Apache-2.0
from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """Rates of the vendor's data sheets, and the rate at which cuBLAS multiplies, which includes the clock that the power limit allows."""
    name: str
    target: str  # of compile.sh or compile_hip.sh
    processors: int  # multiprocessors, compute units
    clock: float  # GHz under load without matrix instructions
    memory: float  # GB/s
    bf16: float  # dense TFLOP/s of the data sheet
    library: float | None  # dense bf16 TFLOP/s of cuBLAS; None: not known
    rates: dict  # multiply-adds in a clock cycle and multiprocessor, by kind of matrix instruction

    @property
    def matrix_clock(self):
        """The clock in GHz at which the units of the best bf16 instruction would multiply as fast as cuBLAS does."""
        best = max(rate for kind, rate in self.rates.items() if kind.endswith("f16"))
        return (self.library or self.bf16) * 1e3 / (2 * best * self.processors)


# A copy reaches this part of the memory's rate; it is the limit of what memory bounds.
COPY = 0.92

# mma.sync reaches 0.62 of wgmma's rate on Hopper (arXiv 2402.13499, table of tensor core throughput).
_HOPPER = {"wgmma f16": 2048, "wgmma f8": 4096, "wgmma s8": 4096, "mma f16": 1270, "mma s8": 2540}

MACHINES = {m.name: m for m in (
    Machine("A100", "80", 108, 1.41, 2039, 312, 260, {"mma f16": 1024, "mma s8": 2048}),
    Machine("H100", "90a", 132, 1.755, 3350, 989, 798, _HOPPER),
    Machine("H200", "90a", 132, 1.755, 4800, 989, 798, _HOPPER),
    # HGX B200 data sheet: 9 PFLOP/s dense in FP4 and 2.25 in bf16 for each of eight, 8 TB/s.
    Machine("B200", "100a", 148, 1.85, 8000, 2250, None, {"tcgen05 f16": 4096, "tcgen05 f4": 16384, "mma f16": 1024}),
    Machine("RTX 5090", "120a", 170, 2.41, 1792, 209.5, None, {"mma f16": 256, "mma f4": 2048, "mma f8": 512, "mma s8": 512}),
    Machine("MI300X", "gfx942", 304, 2.1, 5300, 1307, None, {"mfma f16": 1024}),
    Machine("MI355X", "gfx950", 256, 2.4, 8000, 2516, None, {"mfma f16": 2048, "mfma f4": 8192, "mfma f8": 4096}),
)}
