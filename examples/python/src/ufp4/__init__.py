# ufp4 - 4-bit block-scaled numbers for Python.
# SPDX-License-Identifier: Apache-2.0
"""4-bit block-scaled numbers (NVFP4, MXFP4, the uniform grid of UFP4) on arrays of numpy and DLPack.

    import numpy as np, ufp4
    x = np.random.default_rng(0).standard_normal((64, 1024), np.float32)
    q = ufp4.quantize(x, "nvfp4", rht=16, rounding=ufp4.Stochastic(7))
    ufp4.measure(x, "e1m2_f32", rht=16).sqnr_db

Every operation has the bits of the C++ library. An argument that does not fit is a ValueError with the library's message.
"""
from ._array import Array
from ._cast import CastReport
from ._core import (Eden, Format, Percentile, PrepackedMatrix, QuantizedMatrix, Search, Stochastic, Transform, amax, cast,
                    explain_matmul, fake_quantize, format, formats, hadamard, hadamard_forward, hadamard_inverse, linear_backward_input,
                    linear_backward_weight, linear_forward, matmul, measure, prepack, quantize, quantize_ms_eden, random_hadamard,
                    recipes, signed_hadamard)
from ._core import version as __version__
from ._files import load, save
from ._linear import Linear
from ._measurement import Measurement

__all__ = ["Array", "CastReport", "Eden", "Format", "Linear", "Measurement", "Percentile", "PrepackedMatrix", "QuantizedMatrix", "Search",
           "Stochastic", "Transform", "__version__", "amax", "cast", "explain_matmul", "fake_quantize", "format", "formats", "hadamard", "hadamard_forward",
           "hadamard_inverse", "linear_backward_input", "linear_backward_weight", "linear_forward", "load", "matmul",
           "measure", "prepack", "quantize", "quantize_ms_eden", "random_hadamard", "recipes", "save", "signed_hadamard"]
