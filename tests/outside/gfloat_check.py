#!/usr/bin/env python3
# ufp4 - conversions, values and rounding policies against PyPI's gfloat.
# SPDX-License-Identifier: Apache-2.0
"""gfloat describes a format by its fields and rounds by name, so every minifloat of ufp4 can be asked about.

gfloat is told to saturate. What remains ufp4's own is spelled out: int4 stops at -7, ue5m3 takes negative values to 0,
e8m0 ignores the sign and takes 0 to its smallest value, NaNs are not asked about (gfloat's fp4 has none to give).
"""
try:
  import gfloat
  import numpy as np
  from gfloat import Domain, FormatInfo, RoundMode
  from gfloat import formats
  from gfloat.types import Signedness
except ImportError as error:
  print(f"SKIPPED: {error}, so nothing was compared with gfloat", flush=True)
  raise SystemExit(77)

import driver


def small_float(name, k, precision, bias, *, is_signed=True, nans=0, twos_complement=False):
  return FormatInfo(name, k, precision, bias=bias, is_signed=is_signed, domain=Domain.Finite,
                    has_nz=is_signed and not twos_complement, num_high_nans=nans, has_subnormals=True,
                    is_twos_complement=twos_complement)


E2M1 = formats.format_info_ocp_e2m1
E1M2 = small_float("e1m2", 4, 3, 1)
E3M0 = small_float("e3m0", 4, 1, 3)
INT4 = small_float("int4", 4, 4, -2, twos_complement=True)
E4M3 = formats.format_info_ocp_e4m3
UE5M3 = small_float("ue5m3", 8, 4, 15, is_signed=False, nans=1)
E8M0 = formats.format_info_ocp_e8m0
BF16 = formats.format_info_bfloat16
FP16 = formats.format_info_binary16
WIDE = {"fp8_e4m3": formats.format_info_ocp_e4m3, "fp8_e5m2": formats.format_info_ocp_e5m2,
        "fp6_e3m2": formats.format_info_ocp_e3m2, "fp6_e2m3": formats.format_info_ocp_e2m3}


def rounded(info, x, mode, **more):
  """float64: every float32 and every midpoint is exact in it."""
  with np.errstate(all="ignore"):
    return gfloat.round_ndarray(info, x.astype(np.float64), mode, sat=True, **more)


def encoded(info, values):
  with np.errstate(all="ignore"):
    return gfloat.encode_ndarray(info, values).astype(np.uint32)


def main():
  test = driver.Comparison(__doc__)
  kinds = {"e2m1": E2M1, "e1m2": E1M2, "e3m0": E3M0, "int4": INT4, "e4m3": E4M3, "ue5m3": UE5M3, "e8m0": E8M0,
           "bf16": BF16, "fp16": FP16, **WIDE}

  for kind, info in kinds.items():
    every = np.arange(1 << info.k, dtype=np.uint32)
    want = np.array([gfloat.decode_float(info, int(c)).fval for c in every], np.float32)
    test.equal(f"values of {kind}", every, test.values(kind, every), want)

  # A conversion to the nearest value, and the three policies on the grid of each 4-bit type.
  modes = {"": RoundMode.TiesToEven, "/nearest_even": RoundMode.TiesToEven, "/nearest_away": RoundMode.TiesToAway,
           "/toward_zero": RoundMode.TowardZero}
  for kind in ("e2m1", "e1m2", "e3m0", "int4"):
    x = driver.inputs(test.values(kind, np.arange(16)))
    for policy, mode in modes.items():
      want = rounded(kinds[kind], x, mode)
      if kind == "int4":
        want = np.maximum(want, -7)
      test.equal(kind + policy, x, test.convert(kind + policy, x), encoded(kinds[kind], want))

  for kind, info in WIDE.items():
    every = test.values(kind, np.arange(1 << info.k))
    x = driver.inputs(every[np.isfinite(every)])
    for policy, mode in modes.items():
      test.equal(kind + policy, x, test.convert(kind + policy, x), encoded(info, rounded(info, x, mode)))

  # IEEE P3109's finite signed formats of 4 bits: the values of the fp4 types times a power of two, with NaN for -0.
  for kind, precision, factor in (("e3m0", 1, .5), ("e2m1", 2, .5), ("e1m2", 3, 1.), ("e1m2", 4, 1.)):
    info = formats.format_info_p3109(4, precision, Signedness.Signed, Domain.Finite)
    every = np.arange(16, dtype=np.uint32)
    want = np.array([gfloat.decode_float(info, int(c)).fval for c in every], np.float32)
    got = (test.values(kind, every) * np.float32(factor)).astype(np.float32)
    assert got.view(np.uint32)[8] == 1 << 31
    test.equal(f"values of {info.name}", every, np.where(every == 8, np.float32(np.nan), got), want)
    x = driver.inputs(test.values(kind, np.arange(16)))
    got = test.convert(kind, x)
    want = encoded(info, rounded(info, x.astype(np.float64) * factor, RoundMode.TiesToEven))
    test.equal(info.name, x, np.where(got == 8, 0, got), want)

  # Its other formats of 4 bits as grids of their numbers. Where a code is an infinity or NaN the grid has 0 once more,
  # which no conversion gives; numbers beyond the largest one saturate.
  for signedness in (Signedness.Signed, Signedness.Unsigned):
    for domain in (Domain.Finite, Domain.Extended):
      for precision in range(1, 5):
        info = formats.format_info_p3109(4, precision, signedness, domain)
        values = np.array([gfloat.decode_float(info, code).fval for code in range(16)], np.float32)
        grid = np.where(np.isfinite(values), values, np.float32(0))
        x = driver.inputs(grid)
        x = x[np.isfinite(x)] if info.is_signed else np.maximum(x[np.isfinite(x)], 0)
        for policy, mode in (("/nearest_even", RoundMode.TiesToEven), ("/toward_zero", RoundMode.TowardZero)):
          got = test.convert("grid:" + ":".join(str(v) for v in grid) + policy, x)
          test.equal(f"{info.name}{policy}", x, got, encoded(info, rounded(info, x, mode)))

  for kind in ("e4m3", "bf16", "fp16"):
    x = driver.inputs(test.values(kind, np.arange(1 << kinds[kind].k)))
    if kind == "fp16":
      x = x[np.abs(x) < 65520]  # fp16 does not saturate
    test.equal(kind, x, test.convert(kind, x), encoded(kinds[kind], rounded(kinds[kind], x, RoundMode.TiesToEven)))

  x = driver.inputs(test.values("ue5m3", np.arange(256)))
  want = encoded(UE5M3, rounded(UE5M3, np.maximum(x, 0), RoundMode.TiesToEven))
  test.equal("ue5m3", x, test.convert("ue5m3", x), want)

  x = driver.inputs(test.values("e8m0", np.arange(256)))
  magnitude = np.maximum(np.abs(x).astype(np.float64), 2.0**-127)
  test.equal("e8m0", x, test.convert("e8m0", x), encoded(E8M0, rounded(E8M0, magnitude, RoundMode.TowardZero)))

  # Stochastic rounding with random bits given. gfloat rounds the fraction to 16 bits with ties to even, numerics.md with ties
  # up: they differ where 65536 times the fraction ends in exactly one half, and those are left out.
  seed, stream = 0x123456789ABCDEF0, 0xFEDCBA9876543210
  for kind in ("e2m1", "e1m2", "e3m0"):
    info = kinds[kind]
    x = driver.inputs(test.values(kind, np.arange(16)))
    x = x[np.abs(x) <= info.max]
    exponent = np.maximum(np.frexp(np.abs(x).astype(np.float64))[1] - 1, 1 - info.bias)  # of the step, as gfloat has it
    fraction = np.ldexp(np.abs(x).astype(np.float64), info.precision - 1 - exponent + 16)
    random_bits = driver.philox_random_bits(x.size, seed, stream)
    got = test.convert(f"{kind}/stochastic", x, seed, stream)
    want = encoded(info, rounded(info, x, RoundMode.Stochastic, srbits=random_bits, srnumbits=16))
    asked = fraction % 1 != 0.5
    assert asked.sum() > 1000
    test.equal(f"{kind}/stochastic", x[asked], got[asked], want[asked])
  test.finish()


if __name__ == "__main__":
  main()
