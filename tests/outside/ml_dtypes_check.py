#!/usr/bin/env python3
# ufp4 - conversions and values against PyPI's ml_dtypes.
# SPDX-License-Identifier: Apache-2.0
"""float4_e2m1fn, float6_e2m3fn, float6_e3m2fn, float8_e4m3fn, float8_e5m2, float8_e8m0fnu, bfloat16 and int4 of
ml_dtypes, and NumPy's own float16.

Where ml_dtypes decides otherwise than numerics.md, the difference is spelled out here and nowhere skipped: e4m3
overflows to NaN there, e5m2 to infinity, and both saturate here; bfloat16 overflows to infinity there, as
round_to<bf16> does, and saturates as a scale; float8_e8m0fnu rounds to nearest there and down here, so it is asked
about powers of two.
"""
import warnings

try:
  import ml_dtypes
  import numpy as np
except ImportError as error:
  print(f"SKIPPED: {error}, so nothing was compared with ml_dtypes", flush=True)
  raise SystemExit(77)

import driver


def codes(x, dtype):
  with warnings.catch_warnings(), np.errstate(all="ignore"):
    warnings.simplefilter("ignore")
    return x.astype(dtype).view(f"u{np.dtype(dtype).itemsize}").astype(np.uint32)


def values(all_codes, dtype):
  return all_codes.astype(f"u{np.dtype(dtype).itemsize}").view(dtype).astype(np.float32)


def main():
  if not hasattr(ml_dtypes, "float4_e2m1fn"):
    driver.skip(f"ml_dtypes {ml_dtypes.__version__} has no float4_e2m1fn (0.5 has)")
  test = driver.Comparison(__doc__)

  # Values of all codes.
  for kind, dtype, bits in (("e2m1", ml_dtypes.float4_e2m1fn, 4), ("e4m3", ml_dtypes.float8_e4m3fn, 8),
                            ("e8m0", ml_dtypes.float8_e8m0fnu, 8), ("bf16", ml_dtypes.bfloat16, 16),
                            ("fp16", np.float16, 16), ("fp8_e4m3", ml_dtypes.float8_e4m3fn, 8),
                            ("fp8_e5m2", ml_dtypes.float8_e5m2, 8), ("fp6_e3m2", ml_dtypes.float6_e3m2fn, 6),
                            ("fp6_e2m3", ml_dtypes.float6_e2m3fn, 6)):
    every = np.arange(1 << bits, dtype=np.uint32)
    test.equal(f"values of {kind}", every, test.values(kind, every), values(every, dtype))
  every = np.arange(16, dtype=np.uint32)
  signed = np.where(every < 8, every, every - 16.0).astype(ml_dtypes.int4)
  test.equal("values of int4", every, test.values("int4", every), signed.astype(np.float32))

  # Conversions from float.
  x = driver.inputs(test.values("e2m1", np.arange(16)))
  test.equal("e2m1", x, test.convert("e2m1", x), codes(x, ml_dtypes.float4_e2m1fn))

  x = driver.inputs(test.values("e4m3", np.arange(256)))
  want = codes(x, ml_dtypes.float8_e4m3fn)
  overflows = (want & 0x7F) == 0x7F
  beyond = np.abs(x) > 464  # halfway from 448 to what would be next
  assert (overflows == beyond).all()
  test.equal("e4m3", x, test.convert("e4m3", x), np.where(overflows, want - 1, want))

  test.equal("fp8_e4m3", x, test.convert("fp8_e4m3", x), np.where(overflows, want - 1, want))

  x = driver.inputs(test.values("fp8_e5m2", np.arange(0x7C)))
  want = codes(x, ml_dtypes.float8_e5m2)
  test.equal("fp8_e5m2", x, test.convert("fp8_e5m2", x), np.where((want & 0x7F) == 0x7C, want - 1, want))
  for kind, dtype in (("fp6_e3m2", ml_dtypes.float6_e3m2fn), ("fp6_e2m3", ml_dtypes.float6_e2m3fn)):
    x = driver.inputs(test.values(kind, np.arange(64)))
    test.equal(kind, x, test.convert(kind, x), codes(x, dtype))

  powers = np.ldexp(np.float32(1), np.arange(-127, 128)).astype(np.float32)
  test.equal("e8m0 of powers of two", powers, test.convert("e8m0", powers), codes(powers, ml_dtypes.float8_e8m0fnu))

  x = driver.inputs(test.values("bf16", np.arange(1 << 16)))
  want = codes(x, ml_dtypes.bfloat16)
  test.equal("bf16, IEEE", x, test.convert("bf16/ieee", x), want)
  test.equal("bf16, as a scale", x, test.convert("bf16", x), np.where((want & 0x7FFF) == 0x7F80, want - 1, want))

  x = driver.inputs(test.values("fp16", np.arange(1 << 16)))
  test.equal("fp16", x, test.convert("fp16", x), codes(x, np.float16))
  test.finish()


if __name__ == "__main__":
  main()
