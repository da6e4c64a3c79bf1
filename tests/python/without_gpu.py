# ufp4 - a build with CUDA on a machine without a GPU: the module loads, and a call reports what CUDA says.
# SPDX-License-Identifier: Apache-2.0
import sys

import ufp4
from ufp4 import _core

assert _core.device == "cuda"
f = ufp4.format("mxfp4")
no_transform = _core.device_transform(None)
assert _core.device_sizes(f, 4, 40, no_transform) == (64, 4, 2, "float8_e8m0fnu")
assert _core.device_sizes(ufp4.format("tetrajet2"), 4, 300, no_transform) == (304, 4, 19 + 1 + 3 * 4, "uint8")
assert _core.device_sizes(ufp4.format("hif4"), 4, 70, no_transform) == (128, 4, 2 * 4, "uint8")
a = (f, no_transform, 4, 32, 256, 256, 256)  # addresses that no call reads
try:
    print(_core.device_explain_matmul(a, a, (4096, 0, 4, 4, 4, 1), "fast"))
    sys.exit("there is a GPU here: run cuda_test.py")
except RuntimeError as error:
    print("without a GPU:", error)
try:
    _core.device_explain_matmul(a, (f, no_transform, 4, 64, 256, 256, 256), (4096, 0, 4, 4, 4, 1), "fast")
except ValueError as error:
    assert "A has 32 columns (K), B has 64" in str(error), error
