# ufp4 - an independent model of the compat:: presets, in numpy, written from docs/compatibility.md alone.
# SPDX-License-Identifier: Apache-2.0
"""The section "Where each differs from our rule" of that page defines the presets; what it does not replace is that of
docs/numerics.md, in numerics.py."""
import numpy as np

import numerics as model
from numerics import E2M1, E4M3, FLT_MAX, ONE, PRESETS, f32

LEAST_SCALE = f32(2.0**-6)  # of torchao_nvfp4


def nearest_codes(t):
  """(codes, elements beyond 6) of scaled values."""
  return model.round_element(t, E2M1), np.abs(t) > 6


def smallest_power(y):
  """The smallest e >= -127 with y <= 2^e, for y >= 0."""
  fraction, exponent = np.frexp(y.astype(np.float64))  # y = fraction * 2^exponent, fraction in [1/2, 1)
  return np.where(y > 0, np.maximum(exponent - (fraction == .5), -127), -127)


def torchao_mx(mode):
  def quantize(x, amax, _):
    if mode in ("floor", "even"):
      e = np.where(amax > 0, model.mx_exponent(amax, E2M1.qmax, "mx_" + mode), -127)
    else:
      e = smallest_power(amax * f32(ONE / f32(6)) if mode == "rceil" else amax.astype(np.float64) / 4)
    codes, beyond = nearest_codes(x * np.exp2(-e.astype(np.float64)).astype(np.float32)[:, None])
    scale = (e + 127).astype(np.uint32)
    nan = amax >= 1.75 * 2.0**127 if mode == "even" else np.zeros(amax.shape, bool)
    return np.where(nan, np.uint32(0xFF), scale), codes, beyond, ONE
  return quantize


def first_nearest(x, s):
  """The first of the sixteen codes with the smallest fl(|fl(value * s) - x|), and elements beyond fl(6 * s)."""
  products = E2M1.values[None, None, :] * s[:, None, None]
  codes = np.abs(products - x[:, :, None]).argmin(axis=2).astype(np.uint8)
  return codes, np.abs(x) > (f32(6) * s)[:, None]


def ggml_mxfp4(x, amax, _):
  logarithm = np.log2(np.where(amax > 0, amax, ONE).astype(np.float64)).astype(np.float32)
  e = np.where(amax > 0, np.maximum(np.floor(logarithm).astype(np.int64) - 2, -127), -127)
  codes, beyond = first_nearest(x, np.exp2(e.astype(np.float64)).astype(np.float32))
  return (e + 127).astype(np.uint32), codes, beyond, ONE


def ggml_nvfp4(x, amax, _):
  u = amax / f32(6)
  subnormal = np.minimum(np.floor(u * f32(512) + f32(.5)), 7)
  fraction, exponent = np.frexp(np.where(u > 0, u, ONE).astype(np.float64))
  normal = np.floor(fraction * 16 + .5) + 8 * (exponent + 5)  # fraction * 16: 8 .. 16, halves up; 2^-6 has the code 8
  code = np.where(u < 2.0**-6, subnormal, np.where(u >= 248, 0x7E, normal)).astype(np.uint32)
  s = E4M3.decode(code)
  codes, beyond = first_nearest(x, s)
  codes[s == 0] = 0
  beyond[s == 0] = False
  return code, codes, beyond, ONE


def torchao_nvfp4(x, amax, global_amax):
  P = f32(global_amax / f32(2688))
  u = np.where(amax > 0, amax / f32(6) / P, f32(0)).astype(np.float32)
  code = E4M3.encode(np.where(u > LEAST_SCALE, u, LEAST_SCALE))  # 0/0 counts as 0
  factor = (ONE / P / E4M3.decode(code)).astype(np.float32)
  codes, beyond = nearest_codes(np.where(x == 0, x, x * factor[:, None]))
  return code, codes, beyond, P


def encoding_factor(largest, global_amax):
  S = f32(f32(6 * largest) / global_amax) if global_amax > 0 else ONE
  return f32(min(S, FLT_MAX))


def factors(code, T):
  return np.minimum(ONE / (E4M3.decode(code) * T), FLT_MAX).astype(np.float32)


def te_nvfp4(x, amax, global_amax):
  S = encoding_factor(448, global_amax)
  T = f32(ONE / S)
  code = E4M3.encode(amax * f32(S * f32(ONE / f32(6))))
  return code, *nearest_codes(x * factors(code, T)[:, None]), T


def four_over_six(absolute, largest, of_halves):
  """of_halves: fouroversix, its order of the sum, and codes +0 under a scale of 0."""
  def quantize(x, amax, global_amax):
    S = encoding_factor(largest, global_amax)
    T = f32(ONE / S)
    u = (amax / f32(6) * S).astype(np.float32)

    def coded(code):
      codes, beyond = nearest_codes(x * factors(code, T)[:, None])
      if of_halves:
        codes[code == 0] = 0
        beyond[code == 0] = False
      decoded = E2M1.values[codes] * E4M3.decode(code)[:, None] * f32(global_amax) / f32(6 * largest)
      d = (decoded - x).astype(np.float32)
      terms = np.abs(d) if absolute else d * d
      if of_halves:
        terms = terms[:, :8] + terms[:, 8:]
      total = np.zeros(len(x), np.float32)
      for term in terms.T:
        total = total + term
      return codes, beyond, total

    six, four = E4M3.encode(u), E4M3.encode(f32(1.5) * u)
    of_six, of_four = coded(six), coded(four)
    take = of_four[2] < of_six[2]
    return (np.where(take, four, six), np.where(take[:, None], of_four[0], of_six[0]),
            np.where(take[:, None], of_four[1], of_six[1]), T)
  return quantize


ONE_LEVEL = model.Format("ggml_nvfp4", E2M1, E4M3, 16)
# name: (format, a quantizer of finite blocks: (blocks, amax, global_amax) to (scales, codes, saturated, tensor scale))
QUANTIZERS = {
    **{f"torchao_mx_{mode}": (PRESETS["mxfp4"], torchao_mx(mode)) for mode in ("floor", "even", "ceil", "rceil")},
    "ggml_mxfp4": (PRESETS["mxfp4"], ggml_mxfp4), "ggml_nvfp4": (ONE_LEVEL, ggml_nvfp4),
    "torchao_nvfp4": (PRESETS["nvfp4"], torchao_nvfp4), "te_nvfp4": (PRESETS["nvfp4"], te_nvfp4),
    **{f"te_four_over_six_{error}_{largest}": (PRESETS["nvfp4"], four_over_six(error == "absolute", largest, False))
       for error in ("absolute", "squared") for largest in (256, 448)},
    **{f"fouroversix_{error}": (PRESETS["nvfp4"], four_over_six(error == "absolute", 256, True))
       for error in ("absolute", "squared")}}


def quantize(x, name, transform=model.IDENTITY, tensor_amax=None):
  fmt, coder = QUANTIZERS[name]
  run = max(transform.n, fmt.block)
  padded = np.zeros((x.shape[0], model.round_up(x.shape[1], run)), np.float32)
  padded[:, :x.shape[1]] = x
  y = model.forward(padded, transform)
  blocks = model.to_blocks(y, fmt)
  bad = ~np.isfinite(blocks).all(axis=1)
  finite = np.where(bad[:, None], f32(0), blocks)
  amax = np.abs(finite).max(axis=1, initial=f32(0))
  global_amax = model.largest_finite(y) if tensor_amax is None else f32(tensor_amax)
  scales, codes, beyond, T = coder(finite, amax, global_amax)
  bad |= scales == fmt.scale.nan
  scales = np.where(bad, fmt.scale.nan, scales).astype(np.uint32)
  codes[bad] = 0
  underflowed = (scales == 0) & (amax > 0) & ~bad if fmt.scale is E4M3 else np.zeros(bad.shape, bool)
  report = model.Report(int(bad.sum()), int((beyond & ~bad[:, None]).sum()), int(underflowed.sum()))
  return model.Quantized(fmt, *x.shape, model.from_blocks(codes, fmt, *y.shape),
                         scales.reshape(len(x), y.shape[1] // fmt.block), f32(T), transform, report, y)
