# ufp4 - what a format loses on a matrix.
# SPDX-License-Identifier: Apache-2.0
"""The result of `ufp4.measure`."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Measurement:
    """What quantizing a matrix loses. x is the transformed input, q its decoded quantization."""

    sqnr_db: float
    """10 log10(sum x^2 / sum (q - x)^2); infinite if q equals x."""
    attenuation: float
    """sum(x q) / sum(x x): below 1 if rounding shrinks values; NaN if x is zero."""
    bucket_utilization: float
    """2^H / V: H the entropy in bits of the values in use, V the number of values."""
    scale_underflow_rate: float
    """Share of blocks with amax > 0 whose scale became 0."""
    saturation_rate: float
    """Share of elements whose scaled magnitude was beyond the largest value."""
    nonfinite_blocks: int
    """Blocks with a NaN or an infinity after the transform."""
    elements: int
    """Elements that were measured."""
    blocks: int
    """Blocks, padding included."""
    histogram: tuple[int, ...]
    """Elements by code, sixteen numbers."""
