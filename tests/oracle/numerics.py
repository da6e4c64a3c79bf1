#!/usr/bin/env python3
# ufp4 - an independent model of docs/numerics.md, in numpy, written from that page alone.
# SPDX-License-Identifier: Apache-2.0
"""The numbers of ufp4 without a line of its C++: whoever doubts a bit can read either and run both.

Every binary32 rounding of the page is one numpy float32 operation; whatever numpy has no operation for (fma) is built
exactly and proved against rationals by the self-test. Section numbers below are those of the page.
`python3 tests/oracle/numerics.py --self-test` checks the model against published vectors.
"""
import dataclasses
import math
import sys

import numpy as np

np.seterr(all="ignore")  # overflow, underflow and NaN are results here

f32 = np.float32
FLT_MAX = f32(np.finfo(np.float32).max)
ONE = f32(1)
MASK32 = 0xFFFFFFFF


def bits_of(x):
  return np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)


def float_of(bits):
  return np.ascontiguousarray(bits, dtype=np.uint32).view(np.float32)


def signbit(x):
  return (bits_of(x) >> np.uint32(31)).astype(np.uint8)


def round_up(n, multiple):
  return (n + multiple - 1) // multiple * multiple


def fma(a, b, c):
  """One rounding of a*b + c in binary32. The product of two binary32 numbers is exact in binary64; the sum is made
  round-to-odd there (its error is known exactly), so the second rounding cannot see a tie that is none."""
  product = np.asarray(a, np.float32).astype(np.float64) * np.asarray(b, np.float32).astype(np.float64)
  addend = np.broadcast_to(np.asarray(c, np.float32), product.shape).astype(np.float64)
  total = np.atleast_1d(product + addend)
  part = total - addend  # TwoSum: `error` is exactly (product + addend) - total
  error = (product - part) + (addend - (total - part))
  raw = np.ascontiguousarray(total).view(np.int64)
  to_odd = np.isfinite(total) & (error != 0) & (raw & 1 == 0)
  step = np.where((error > 0) == (total > 0), 1, -1)
  odd = np.where(to_odd, raw + step, raw).view(np.float64)
  return odd.astype(np.float32).reshape(product.shape)


# ---- Philox4x32-10 (section 3) ---------------------------------------------------------------------------------------


def philox(counter, key):
  """Four words of counter (ints or arrays), two of key; gives four uint64 arrays of 32-bit words."""
  c0, c1, c2, c3 = np.broadcast_arrays(*[np.asarray(w, dtype=np.uint64) for w in counter])
  k0, k1 = int(key[0]), int(key[1])
  low, half = np.uint64(MASK32), np.uint64(32)
  for _ in range(10):
    p0 = c0 * np.uint64(0xD2511F53)
    p1 = c2 * np.uint64(0xCD9E8D57)
    c0, c1, c2, c3 = (p1 >> half) ^ c1 ^ np.uint64(k0), p1 & low, (p0 >> half) ^ c3 ^ np.uint64(k1), p0 & low
    k0, k1 = (k0 + 0x9E3779B9) & MASK32, (k1 + 0xBB67AE85) & MASK32
  return c0, c1, c2, c3


def halves(word):
  return word & MASK32, word >> 32


def random_bits(seed, stream, index):
  """The 16 uniform bits of every element index (uint64 array)."""
  group = index >> np.uint64(3)
  words = np.stack(philox((group & np.uint64(MASK32), group >> np.uint64(32), *halves(stream)), halves(seed)))
  lane = (index & np.uint64(7)).astype(np.int64)
  word = np.take_along_axis(words, (lane >> 1)[None], axis=0)[0]
  return (word >> (np.uint64(16) * (lane & 1).astype(np.uint64))) & np.uint64(0xFFFF)


# ---- Elements (section 1) and rounding policies (section 3) ----------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Element:
  name: str
  magnitudes: tuple  # of ranks 0 .. 7, of 8 bits 0 .. 127
  mantissa: int      # qmax = (2 - 2^-mantissa) * 2^exponent (section 5)
  exponent: int
  twos_complement: bool = False
  bits: int = 4             # that a code takes in memory
  sign_at: int = 3          # the bit of the sign, where codes are not two's complement
  beyond: tuple = ()        # what the magnitude codes above that of qmax mean: infinity and NaN
  exact_products: bool = True

  zero = 0

  @property
  def qmax(self):
    return f32(self.magnitudes[-1])

  @property
  def range(self):
    """The least and the greatest value that a quantizer can emit."""
    return -self.qmax, self.qmax

  @property
  def distinct(self):
    """How many values a quantizer can emit: the zeros are one, and the least integer only comes from bits."""
    return 2 * len(self.magnitudes) - 1

  def codes(self, rank, negative):
    if self.twos_complement:
      return np.where(negative != 0, -rank.astype(np.int64) & (2**self.bits - 1), rank).astype(np.uint8)
    return (np.asarray(negative, np.uint8) << np.uint8(self.sign_at)) | rank.astype(np.uint8)

  @property
  def values(self):
    """float32 of all codes."""
    if self.twos_complement:
      half = 2**(self.bits - 1)
      integers = np.array([c - 2 * half if c >= half else c for c in range(2 * half)], np.float32)
      return integers * f32(self.magnitudes[1])
    positive = np.array((*self.magnitudes, *self.beyond), np.float32)
    of_width = np.concatenate([positive, -positive])
    return np.resize(of_width, 2**self.bits)  # bits above the width are ignored


E2M1 = Element("E2M1", (0, .5, 1, 1.5, 2, 3, 4, 6), 1, 2)
E1M2 = Element("E1M2", (0, .25, .5, .75, 1, 1.25, 1.5, 1.75), 2, 0)
E3M0 = Element("E3M0", (0, .25, .5, 1, 2, 4, 8, 16), 0, 4)
INT4 = Element("int4", (0, 1, 2, 3, 4, 5, 6, 7), 2, 2, twos_complement=True)
INT8 = Element("int8", tuple(range(128)), 6, 6, twos_complement=True, bits=8)
INT8Q6 = Element("int8q6", tuple(n / 64 for n in range(128)), 6, 0, twos_complement=True, bits=8)


def byte_float(name, exponent_bits, mantissa_bits, bias, mantissa, exponent, beyond=()):
  """An element of one byte that is a float; mantissa and exponent are those of qmax."""
  codes = np.arange(2**(exponent_bits + mantissa_bits) - len(beyond))
  e, m = codes >> mantissa_bits, codes & (2**mantissa_bits - 1)
  fraction = m / 2**mantissa_bits
  values = np.where(e > 0, np.exp2(e - float(bias)) * (1 + fraction), np.exp2(1. - bias) * fraction)
  return Element(name, tuple(values.tolist()), mantissa, exponent, bits=8, sign_at=exponent_bits + mantissa_bits,
                 beyond=beyond, exact_products=False)


FP8_E4M3 = byte_float("fp8_e4m3", 4, 3, 7, 2, 8, (np.nan,))
FP8_E5M2 = byte_float("fp8_e5m2", 5, 2, 15, 2, 15, (np.inf, np.nan, np.nan, np.nan))
FP6_E3M2 = byte_float("fp6_e3m2", 3, 2, 3, 2, 4)
FP6_E2M3 = byte_float("fp6_e2m3", 2, 3, 1, 3, 2)
ELEMENTS = (E2M1, E1M2, E3M0, INT4, INT8, INT8Q6, FP8_E4M3, FP8_E5M2, FP6_E3M2, FP6_E2M3)


@dataclasses.dataclass(frozen=True)
class Grid:
  """A user's own grid: 16 values in ascending order, the code is the rank."""
  name: str
  points: tuple
  exact_products = False

  @property
  def ascending(self):
    return np.array(self.points, np.float32)

  @property
  def values(self):
    """float32 of all codes."""
    return self.ascending

  @property
  def qmax(self):
    return np.abs(self.ascending).max()

  @property
  def range(self):
    return self.ascending[0], self.ascending[-1]

  @property
  def zero(self):
    """The code of zero."""
    return self.points.index(0)

  @property
  def minus_zero(self):
    """The code of -0 and of negative values that round to zero."""
    return self.zero

  @property
  def place(self):
    """The code of each point."""
    return np.arange(16)

  @property
  def distinct(self):
    return 16

  @property
  def exponent(self):
    """floor(log2 qmax)"""
    return math.frexp(float(self.qmax))[1] - 1


@dataclasses.dataclass(frozen=True)
class Remapped(Grid):
  """A 4-bit float whose second zero, code 8, has another value; `points` are its sixteen values in ascending order."""
  special: float = 0
  zero = 0
  exact_products = True

  @property
  def place(self):
    of_value = {float(v): c for c, v in enumerate(self.values)}
    return np.array([of_value[v] for v in self.points])

  @property
  def values(self):
    return np.array([*E2M1.magnitudes, self.special, *(-m for m in E2M1.magnitudes[1:])], np.float32)


@dataclasses.dataclass(frozen=True)
class UserGrid(Grid):
  """Sixteen values by their codes, in any order; they may repeat. `points` are the distinct ones, ascending."""
  by_code: tuple = ()

  @staticmethod
  def of(name, values):
    values = np.asarray(values, np.float32)
    return UserGrid(name, tuple(float(v) for v in np.unique(values + f32(0))), tuple(float(v) for v in values))

  @property
  def values(self):
    return np.array(self.by_code, np.float32)

  def lowest_code(self, bits):
    return int(np.argmax(bits_of(self.values) == bits))

  @property
  def zero(self):
    return self.lowest_code(0)

  @property
  def minus_zero(self):
    return self.lowest_code(0x80000000) if (bits_of(self.values) == 0x80000000).any() else self.zero

  @property
  def place(self):
    return np.array([self.zero if p == 0 else self.by_code.index(p) for p in self.points])

  @property
  def exact_products(self):
    return has_exact_products(self.values)


def has_exact_products(values):
  """Whether all are integers up to 181 times one power of two from 2^-74 to 2^51."""
  v = np.asarray(values, np.float64)
  return any(bool((v / 2.0**k % 1 == 0).all() and np.abs(v / 2.0**k).max() <= 181) for k in range(-74, 52))


def remapped(special):
  values = [*E2M1.magnitudes, *(-m for m in E2M1.magnitudes[1:]), special]
  return Remapped(f"e2m1_with_{special}", tuple(sorted(float(v) for v in values)), float(special))


NF4 = Grid("nf4", (  # QLoRA (arXiv 2305.14314), appendix E
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0))


@dataclasses.dataclass(frozen=True)
class Rounding:
  kind: str = "nearest_even"  # nearest_even, nearest_away, toward_zero, stochastic
  seed: int = 0
  stream: int = 0


NEAREST_EVEN = Rounding()


def stochastic_up(a, lo, hi, rounding, index):
  p = (a - lo) / (hi - lo)
  k = np.floor(p * f32(65536) + f32(.5)).astype(np.uint64)
  return k + random_bits(rounding.seed, rounding.stream, index) >= np.uint64(65536)


def round_to_grid(t, grid, rounding, index):
  """Signed neighbours; the distances to both are compared exactly.
  Ranks count from zero: the one reading under which a symmetric grid gets the bits of `round_element`."""
  v, zero = grid.ascending, grid.points.index(0)
  last = len(v) - 1
  x = np.where(np.isnan(t), v[last], np.clip(t, v[0], v[last]))
  low = np.clip(np.searchsorted(v, x, side="right") - 1, 0, last - 1)
  lo, hi = v[low], v[low + 1]
  a, b = lo.astype(np.float64), hi.astype(np.float64)
  total = a + b
  rest = (a - (total - (total - a))) + (b - (total - a))  # total + rest is the exact sum
  side = 2 * x.astype(np.float64) - total
  side = np.where(side == 0, -rest, side)
  outward = hi > 0  # the higher neighbour is the larger magnitude: no grid interval spans 0
  if rounding.kind == "nearest_even":
    up = (side > 0) | ((side == 0) & ((low - zero) % 2 == 1))
  elif rounding.kind == "nearest_away":
    up = (side > 0) | ((side == 0) & outward)
  elif rounding.kind == "toward_zero":
    up = ~outward & (x > lo)
  else:
    inner, outer = np.where(outward, lo, -hi), np.where(outward, hi, -lo)
    up = stochastic_up(np.abs(x), inner, outer, rounding, index) == outward
  at = np.where(x == v[last], last, np.where(x == lo, low, low + up))
  negative_zero = (at == zero) & (signbit(t) != 0) & ~np.isnan(t)
  return np.where(negative_zero, grid.minus_zero, grid.place[at]).astype(np.uint8)


def round_element(t, element, rounding=NEAREST_EVEN, index=None):
  """Codes of binary32 values t; `index` holds the element indices whose random bits a stochastic rounding uses."""
  if isinstance(element, Grid):
    return round_to_grid(t, element, rounding, index)
  grid = np.array(element.magnitudes, np.float32)
  a = np.abs(t)
  last = len(grid) - 1
  rank = np.searchsorted(grid, a, side="right") - 1  # NaN sorts last
  low = np.minimum(rank, last - 1)
  lo, hi = grid[low], grid[low + 1]
  middle = (lo + hi) * f32(.5)  # exact on these grids
  if rounding.kind == "nearest_even":
    up = (a > middle) | ((a == middle) & (low % 2 == 1))
  elif rounding.kind == "nearest_away":
    up = a >= middle
  elif rounding.kind == "toward_zero":
    up = np.zeros(a.shape, bool)
  elif rounding.kind == "stochastic":
    up = stochastic_up(np.where(rank < last, a, lo), lo, hi, rounding, index)
  else:
    raise ValueError(rounding.kind)
  rank = np.where(rank < last, low + up, last)
  return element.codes(rank, np.where(np.isnan(t), 0, signbit(t)))


# ---- Scales (section 2) ----------------------------------------------------------------------------------------------


class FloatScale:
  name, bytes, largest, nan = "float", 4, FLT_MAX, 0x7FC00000

  @staticmethod
  def encode(x):
    return np.where(np.isnan(x), np.uint32(0x7FC00000), bits_of(x))

  @staticmethod
  def decode(code):
    return float_of(code)


class Bf16Scale:
  name, bytes, largest, nan = "bf16", 2, float_of([0x7F7F0000])[0], 0x7FC0

  @staticmethod
  def encode(x):
    raw = bits_of(x)
    magnitude = raw & np.uint32(0x7FFFFFFF)
    rounded = (magnitude + np.uint32(0x7FFF) + ((magnitude >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    code = np.minimum(rounded, np.uint32(0x7F7F)) | ((raw >> np.uint32(16)) & np.uint32(0x8000))
    return np.where(np.isnan(x), np.uint32(0x7FC0), code)

  @staticmethod
  def encode_up(x):  # x >= 0
    raw = bits_of(x)
    code = (raw >> np.uint32(16)) + ((raw & np.uint32(0xFFFF)) != 0)
    return np.minimum(code, np.uint32(0x7F7F)).astype(np.uint32)

  @staticmethod
  def decode(code):
    return float_of(np.asarray(code, np.uint32) << np.uint32(16))


class MinifloatScale:
  """E4M3FN and the unsigned E5M3: all-ones is the only NaN, no infinity."""
  bytes = 1

  def __init__(self, name, exponent_bits, bias, signed):
    self.name, self.signed = name, signed
    self.nan = (1 << (exponent_bits + 3)) - 1
    code = np.arange(self.nan)
    exponent, fraction = code >> 3, code & 7
    value = np.where(exponent > 0, (8 + fraction) * np.exp2(exponent - bias - 3.), fraction * np.exp2(1 - bias - 3.))
    self.finite = value.astype(np.float32)
    self.middle = (value[:-1] + value[1:]) / 2  # binary64, exact
    self.largest = self.finite[-1]

  def encode(self, x):
    a = np.where(np.isnan(x), f32(0), np.abs(x)).astype(np.float64)
    code = np.searchsorted(self.middle, a, side="left")  # a tie stays on the lower code ...
    tie = (code < len(self.middle)) & (self.middle[np.minimum(code, len(self.middle) - 1)] == a)
    code = (code + (tie & (code % 2 == 1))).astype(np.uint32)  # ... unless that is odd
    if self.signed:
      code = code | (signbit(x).astype(np.uint32) << np.uint32(7))
    else:
      code = np.where(signbit(x) != 0, np.uint32(0), code)
    return np.where(np.isnan(x), np.uint32(self.nan), code)

  def encode_up(self, x):  # x >= 0
    code = np.searchsorted(self.finite, x, side="left")
    return np.minimum(code, len(self.finite) - 1).astype(np.uint32)

  def decode(self, code):
    code = np.asarray(code, np.uint32)
    table = np.append(self.finite, f32(np.nan))
    value = table[code & np.uint32(self.nan)]
    return np.where(code > self.nan, -value, value).astype(np.float32)


class E8m0Scale:
  name, bytes, nan = "e8m0", 1, 0xFF

  @staticmethod
  def encode(x):
    exponent = (bits_of(x) >> np.uint32(23)) & np.uint32(0xFF)  # a subnormal is below 2^-126: code 0
    return np.where(np.isnan(x), np.uint32(0xFF), np.minimum(exponent, np.uint32(0xFE)))

  @staticmethod
  def decode(code):
    code = np.asarray(code, np.int64)
    return np.where(code == 0xFF, np.nan, np.exp2(code - 127.)).astype(np.float32)


class E6m2Scale:
  """2^-48 .. 49152 in steps of a quarter of a binade; no zero."""
  name, bytes, nan = "e6m2", 1, 0xFF
  finite = np.array([np.exp2(c >> 2) / 2.0**48 * (1 + (c & 3) / 4) for c in range(255)], np.float32)
  middle = (finite[:-1].astype(np.float64) + finite[1:].astype(np.float64)) / 2
  largest = finite[-1]

  def encode(self, x):
    a = np.where(np.isnan(x) | (signbit(x) != 0), f32(0), x).astype(np.float64)
    code = np.searchsorted(self.middle, a, side="left")
    tie = (code < 254) & (self.middle[np.minimum(code, 253)] == a)
    code = (code + (tie & (code % 2 == 1))).astype(np.uint32)
    return np.where(np.isnan(x), np.uint32(0xFF), code)

  def encode_up(self, x):  # x >= 0
    return np.minimum(np.searchsorted(self.finite, x, side="left"), 254).astype(np.uint32)

  def decode(self, code):
    return np.append(self.finite, f32(np.nan))[np.asarray(code, np.uint32) & np.uint32(0xFF)]


FLOAT = FloatScale()
BF16 = Bf16Scale()
E4M3 = MinifloatScale("e4m3", 4, 7, True)
UE5M3 = MinifloatScale("ue5m3", 5, 15, False)
E8M0 = E8m0Scale()
E6M2 = E6m2Scale()
SCALES = (FLOAT, BF16, E4M3, UE5M3, E8M0, E6M2)


BF16_OVERFLOW = float_of([0x7F7F8000])[0]  # half-way between the largest finite bf16 and 2^128, a tie that goes up


def fp16_bits(x):
  """RNE from binary32, overflowing to Inf."""
  return np.asarray(x, np.float32).astype(np.float16).view(np.uint16).astype(np.uint32)


# ---- Hadamard transform (section 4) ----------------------------------------------------------------------------------

HADAMARD_FACTOR = {16: .25, 32: float_of([0x3E3504F3])[0], 64: .125, 128: float_of([0x3DB504F3])[0], 256: .0625}
TE_SIGNS = (1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1)
SIGN_COUNTER = 0x52485434


@dataclasses.dataclass(frozen=True)
class Transform:
  n: int = 1  # 1: no transform
  signs: tuple = ()
  to_bf16: bool = False


IDENTITY = Transform()


def hadamard(n, to_bf16=False):
  return Transform(n, (1,) * n, to_bf16)


def signed_hadamard(signs, to_bf16=False):
  return Transform(len(signs), tuple(int(s) for s in signs), to_bf16)


def random_hadamard(n, seed, to_bf16=False):
  j = np.arange(n)
  words = np.stack(philox((j // 128, 0, 0, SIGN_COUNTER), halves(seed)))
  word = words[j // 32 % 4, j]
  set_ = (word >> (j % 32).astype(np.uint64)) & np.uint64(1)
  return Transform(n, tuple(-1 if b else 1 for b in set_), to_bf16)


def butterflies(x, n):
  """c_n * H_n on each run of n along the last axis."""
  shape = x.shape
  y = x.reshape(-1, n).copy()
  stride = 1
  while stride < n:
    pairs = y.reshape(-1, n // (2 * stride), 2, stride)
    a, b = pairs[:, :, 0], pairs[:, :, 1]
    y = np.stack([a + b, a - b], axis=2).reshape(-1, n)
    stride *= 2
  return (y * f32(HADAMARD_FACTOR[n])).reshape(shape)


def round_to_bf16(y):
  """What overflowed stays visible (section 5); a finite y is at most FLT_MAX / 4, so no rounding overflows."""
  return np.where(np.isfinite(y), BF16.decode(BF16.encode(y)), y)


def forward(x, transform):
  """x is padded to a multiple of n."""
  if transform.n == 1 or x.size == 0:
    return x
  y = butterflies(x * np.resize(np.array(transform.signs, np.float32), x.shape[-1]), transform.n)
  return round_to_bf16(y) if transform.to_bf16 else y


def inverse(y, transform):
  if transform.n == 1 or y.size == 0:
    return y
  x = butterflies(y, transform.n) * np.resize(np.array(transform.signs, np.float32), y.shape[-1])
  return round_to_bf16(x) if transform.to_bf16 else x


# ---- Block formats (section 5) ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Format:
  name: str
  element: Element
  scale: object
  block: int
  tensor_scale: bool = False
  square: bool = False
  more: tuple = ()          # further grids: (element, factor)
  groups: tuple = ()        # columns that share a one-bit exponent, level by level
  outer: object = None      # an outer scale for each "row", or for so many columns; None: the tensor scale, or none
  outer_type: object = None  # its scale type, for a tensor scale too; None: FLOAT
  rows: int = 0             # of a block; 0: 1, or of a square its columns

  @property
  def two_level(self):
    return self.tensor_scale or self.outer is not None

  def grid(self, g):
    return self.element if g == 0 else self.more[g - 1][0]

  def factor(self, g):
    return ONE if g == 0 else f32(self.more[g - 1][1])

  @property
  def sign_has_grid(self):
    """Whether the number of a block's grid is in the sign bit of its scale; otherwise in a byte of its own."""
    return len(self.more) == 1 and self.scale.name in ("float", "bf16", "e4m3")

  @property
  def strip_rows(self):
    return self.rows or (self.block if self.square else 1)

  def covered(self, padded):
    """Columns that an outer scale covers."""
    return padded if self.outer == "row" else self.outer


@dataclasses.dataclass(frozen=True)
class Shard:
  first_row: int
  first_col: int
  total_cols: int


@dataclasses.dataclass
class Report:
  nonfinite_blocks: int = 0
  saturated: int = 0
  underflowed_scales: int = 0


@dataclasses.dataclass
class Quantized:
  format: Format
  rows: int
  cols: int
  codes: np.ndarray   # rows x Kp, one code each
  scales: np.ndarray  # (rows or squares) x Kp/B, bits
  tensor_scale: np.float32 = ONE
  transform: Transform = IDENTITY
  report: Report = None
  transformed: np.ndarray = None
  outer: np.ndarray = None  # strips x outer scales of a strip, bits
  grids: np.ndarray = None  # the number of every block's grid, where the format has several; scales is without it
  exponents: list = None    # for each level of one-bit exponents: rows x groups, 0 or 1

  @property
  def padded_cols(self):
    return self.codes.shape[1]

  def scale_bytes(self):
    """All bytes of scales, in their canonical order."""
    width = {1: np.uint8, 2: np.uint16, 4: np.uint32}
    size, scales = self.format.scale.bytes, self.scales.astype(np.uint32)
    if self.grids is not None:
      at = 8 * size - 1 if self.format.sign_has_grid else 8 * size
      scales, size = scales | (self.grids.astype(np.uint32) << np.uint32(at)), size + (not self.format.sign_has_grid)
    if self.exponents is not None:
      at = 8
      for e in self.exponents:
        each = e.reshape(*scales.shape, e.shape[1] // max(scales.shape[1], 1)).astype(np.uint32)
        for i in range(each.shape[2]):
          scales = scales | each[:, :, i] << np.uint32(at + i)
        at += each.shape[2]
      size = 2 if at <= 16 else 4
    rows = np.ascontiguousarray(scales.astype(width[size]))
    if self.outer is None:
      return rows.view(np.uint8).ravel()
    size = (self.format.outer_type or FLOAT).bytes
    rows = rows.view(np.uint8).reshape(rows.shape[0], rows.shape[1] * rows.itemsize)
    blocks = np.zeros((rows.shape[0], round_up(rows.shape[1], size)), np.uint8)
    blocks[:, : rows.shape[1]] = rows
    outer = np.ascontiguousarray(self.outer.astype(width[size])).view(np.uint8)
    outer = outer.reshape(rows.shape[0], self.outer.shape[1] * size)
    return np.concatenate([blocks, outer], axis=1).ravel()

  def block_outer(self):
    """float32 outer scale of every scale of self.scales."""
    if self.outer is None:
      return np.full(self.scales.shape, self.tensor_scale, np.float32)
    values = (self.format.outer_type or FLOAT).decode(self.outer)
    column = np.arange(self.scales.shape[1]) * self.format.block
    return values[:, column // max(self.format.covered(self.padded_cols), 1)]

  def packed(self):
    if getattr(self.format.element, "bits", 4) == 8:
      return self.codes
    return (self.codes[:, 0::2] | (self.codes[:, 1::2] << np.uint8(4))).astype(np.uint8)

  def row_scales(self):
    """float32 block scale of every row and block: without the tensor scale, but with other outer scales."""
    s = self.format.scale.decode(self.scales)
    if self.grids is not None:
      s = s * np.array([self.format.factor(g) for g in range(len(self.format.more) + 1)], np.float32)[self.grids]
    if self.outer is not None:
      s = s * self.block_outer()
    return np.repeat(s, self.format.strip_rows, axis=0)[: self.rows]

  def values(self):
    """Of the codes on the grids of their blocks, without factors; times two to their one-bit exponents."""
    if self.exponents is not None:
      return self.format.element.values[self.codes] * powers_of(self.exponents, self.format)
    if self.grids is None:
      return self.format.element.values[self.codes]
    rows = np.repeat(self.grids, self.format.strip_rows, axis=0)[: self.rows]
    of_code = np.repeat(rows, self.format.block, axis=1)
    tables = np.stack([self.format.grid(g).values for g in range(len(self.format.more) + 1)])
    return tables[of_code, self.codes]

  @property
  def exact_products(self):
    if self.exponents is not None:
      v = self.format.element.values
      return has_exact_products(np.concatenate([v * f32(2**x) for x in range(len(self.format.groups) + 1)]))
    if self.grids is None:
      return self.format.element.exact_products
    grids = [self.format.grid(g) for g in range(len(self.format.more) + 1)]
    return all(g.exact_products for g in grids) and has_exact_products(np.concatenate([g.values for g in grids]))


class InvalidArgument(Exception):
  pass


def largest_of_scale(scale, factor):
  """The code of the largest scale value whose product with `factor` is finite."""
  low, high = 0, int(bits_of([FLT_MAX])[0]) if scale is FLOAT else 0x7F7F if scale is BF16 else (
      scale.nan - 1)  # codes ascend with their values
  while low < high:
    middle = (low + high + 1) // 2
    finite = np.isfinite(scale.decode(np.array([middle], np.uint32)) * f32(factor))[0]
    low, high = (middle, high) if finite else (low, middle - 1)
  return low


def largest_outer(fmt):
  """T_max: the largest outer scale whose product with every block scale is finite."""
  largest = max(f32(f32(fmt.scale.largest) * fmt.factor(g)) for g in range(len(fmt.more) + 1))
  outer = fmt.outer_type or FLOAT
  return outer.decode(np.array([largest_of_scale(outer, largest)], np.uint32))[0]


class BlockScaler:
  """What turns a scale code into scaled values, per block format: the part all scale rules and searches share.
  outer_amax: of what each block's outer scale covers, an array."""

  def __init__(self, fmt, outer_amax, four_over_six, grid=0, corrects=False):
    self.fmt = fmt
    self.T = ONE
    self.element, self.factor = fmt.grid(grid), fmt.factor(grid)
    Q = [f32(fmt.grid(g).qmax * fmt.factor(g)) * f32(2**len(fmt.groups)) for g in range(len(fmt.more) + 1)]
    self.Q = Q[grid]
    if fmt.two_level:
      amax = np.asarray(outer_amax, np.float32)
      largest = f32(256) if four_over_six else f32(fmt.scale.largest)
      if corrects and not four_over_six:
        largest = f32(2.0**(math.frexp(float(largest))[1] - 1))
      numerator = np.minimum(f32(largest * min(Q)), FLT_MAX)
      quotient = np.where(amax > 0, numerator / np.where(amax > 0, amax, ONE), ONE)
      self.S = np.minimum(quotient, f32(FLT_MAX * np.minimum(min(Q), ONE))).astype(np.float32)
      inverse = (ONE / self.S).astype(np.float32)
      most = largest_outer(fmt)
      self.T = np.minimum(BF16.decode(BF16.encode(inverse)) if fmt.outer_type is BF16 else inverse, most)
      changed = (inverse > most) | (fmt.outer_type is BF16)
      self.S = np.where(changed, np.minimum(ONE / self.T, FLT_MAX), self.S).astype(np.float32)
    self.most = None if fmt.two_level else largest_of_scale(fmt.scale, self.factor)

  def argument(self, amax):
    """What Scale(.) is applied to."""
    if self.fmt.two_level:
      return amax * np.minimum(self.S * f32(ONE / self.Q), FLT_MAX).astype(np.float32)
    return np.minimum(amax / self.Q, FLT_MAX)

  def limited(self, code):
    """At most the scale whose product with the factor of the grid is finite."""
    return code if self.most is None else np.minimum(code, np.uint32(self.most))

  def effective(self, code):
    s = self.fmt.scale.decode(code) * self.factor
    return s * self.T if self.fmt.two_level else s

  def scaled(self, x, code):
    """x: blocks x elements."""
    s = self.fmt.scale.decode(code)
    if self.fmt.two_level:
      t = x * np.minimum(ONE / (s * self.T), FLT_MAX)[:, None]
    elif self.fmt.scale is E8M0:
      t = x * np.exp2(127. - code.astype(np.float64)).astype(np.float32)[:, None]
    else:
      t = x / s[:, None]
    return t * f32(ONE / self.factor)

  def zero(self, code):
    return self.fmt.scale.decode(code) == 0

  def is_limited(self, code):
    """Whether the factor of scaled() is FLT_MAX in place of a larger one."""
    return ONE / (self.fmt.scale.decode(code) * self.T) >= FLT_MAX if self.fmt.two_level else np.zeros(len(code), bool)

  def differences(self, x, code):
    """Of x from its decoded nearest_even codes."""
    t, powers = self.scaled(x, code), ONE
    if self.fmt.groups:
      t, exponents = take_exponents(np.where(self.zero(code)[:, None], f32(0), t), self.fmt)
      powers = powers_of(exponents, self.fmt)
    codes = round_element(t, self.element)
    codes[self.zero(code)] = self.element.zero
    return x - self.element.values[codes] * powers * self.effective(code)[:, None]


def errors(differences, measure):
  """Of blocks, in index order."""
  err = np.zeros(len(differences), np.float32)
  for d in np.ascontiguousarray(differences.T):
    m = np.abs(d)
    err = fma(d, d, err) if measure == "squared" else err + m if measure == "absolute" else np.where(m > err, m, err)
  return err


def errors_of_all(scalers, x, codes, measure):
  """Of blocks x under several scales: scales x blocks."""
  d = np.concatenate([s.differences(x, c) for s, c in zip(scalers, codes)])
  return errors(d, measure).reshape(len(codes), len(x))


def mx_exponent(amax, Q, rule):
  most, top = math.frexp(float(Q))
  most, top = 2 * most, top - 1  # Q = most * 2^top, in [1, 2)
  mantissa = next(m for m in range(24) if most * 2**m % 1 == 0)
  fraction, exponent = np.frexp(np.where(amax > 0, amax, f32(1)).astype(np.float64))
  fraction, exponent = fraction * 2, exponent.astype(np.int64) - 1  # amax = fraction * 2^exponent, fraction in [1, 2)
  if rule == "mx_even":
    exponent = exponent + (np.rint(fraction * 2**mantissa) == 2**(mantissa + 1))
  elif rule == "mx_ceil":
    exponent = exponent + (fraction > most)
  return np.clip(exponent - top, -127, min(127, 127 - top))


def default_rule(fmt):
  return "mx_floor" if fmt.scale is E8M0 else "nearest"


@dataclasses.dataclass(frozen=True)
class Rule:
  """A scale rule: `name`, and a search around its scale."""
  name: str
  searches: bool = False
  absolute: bool = False   # what a search and four_over_six compare
  below: int = None        # the window of a search; None: by the scale type
  above: int = None
  per_mille: int = 1000    # of percentile
  grids: str = "squared"   # what decides which of several grids a block has
  function: object = None  # a rule of a user: (values, amax > 0) of finite blocks to their effective scales


def rule_of(rule, fmt):
  """A Rule from one, from a name, or the default of the format."""
  if isinstance(rule, Rule):
    return rule
  if rule and rule.startswith("choose_grid_"):
    return Rule(default_rule(fmt), grids=rule[len("choose_grid_"):])
  if rule in ("mse_search", "mae_search"):
    return Rule(default_rule(fmt), searches=True, absolute=rule == "mae_search")
  return Rule(rule or default_rule(fmt))


def window(rule, scale):
  """Steps below and above the scale of the rule."""
  below, above = (8, 16) if scale in (FLOAT, BF16) else (1, 1) if scale is E8M0 else (2, 6)
  return below if rule.below is None else rule.below, above if rule.above is None else rule.above


def percentiles(x, amax, per_mille):
  """The k-th smallest magnitude of each block."""
  k = -(-x.shape[1] * per_mille // 1000)
  p = np.sort(np.abs(x), axis=1)[:, k - 1]
  return np.where(p == 0, amax, p)


def users_scales(x, amax, rule):
  """Results of the function of a user; 1 for blocks of zeros, which it does not see."""
  return np.where(amax > 0, rule.function(x, np.where(amax > 0, amax, ONE)), ONE).astype(np.float32)


def rule_scales(x, amax, scaler, rule):
  """Scale codes before a search."""
  fmt = scaler.fmt
  if rule.name == "percentile":
    return rule_scales(x, percentiles(x, amax, rule.per_mille), scaler, Rule(default_rule(fmt)))
  if rule.function is not None:
    c = (users_scales(x, amax, rule) / scaler.T).astype(np.float32)
    return np.where(amax > 0, fmt.scale.encode(c), 0)
  if rule.name in ("mx_floor", "mx_even", "mx_ceil"):
    return scaler.limited(np.where(amax > 0, mx_exponent(amax, scaler.Q, rule.name) + 127, 0).astype(np.uint32))
  u = scaler.argument(amax)
  if rule.name == "four_over_six":
    s6, s4 = fmt.scale.encode(u), fmt.scale.encode(f32(1.5) * u)
    measure = "absolute" if rule.absolute else "squared"
    of4, of6 = errors_of_all((scaler, scaler), x, (s4, s6), measure)
    return np.where(of4 < of6, s4, s6)
  return scaler.limited(fmt.scale.encode_up(u) if rule.name == "scale_up" else fmt.scale.encode(u))


def choose_scales(x, amax, scaler, rule):
  """Scale codes of finite blocks x (blocks x elements)."""
  fmt = scaler.fmt
  code = rule_scales(x, amax, scaler, rule)
  if not rule.searches:
    return code
  below, above = window(rule, fmt.scale)
  steps = range(-below, above + 1)
  if fmt.scale in (FLOAT, BF16):
    s = fmt.scale.decode(code)
    candidates = [fmt.scale.encode(s * f32(ONE + f32(j) / f32(32))) for j in steps]
    valid = [np.ones(code.shape, bool)] * len(candidates)
  else:
    signed = [code.astype(np.int64) + j for j in steps]
    valid = [(c >= 0) & (c < fmt.scale.nan) for c in signed]
    candidates = [np.where(v, c, 0).astype(np.uint32) for c, v in zip(signed, valid)]
  best, best_err = np.zeros(code.shape, np.uint32), np.zeros(code.shape, np.float32)
  chosen = np.zeros(code.shape, bool)
  each = errors_of_all([scaler] * len(candidates), x, candidates, "absolute" if rule.absolute else "squared")
  for c, v, err in zip(candidates, valid, each):
    take = v & (~chosen | (err < best_err))
    best, best_err, chosen = np.where(take, c, best), np.where(take, err, best_err), chosen | v
  return best


def check_shard(shard, run, cols, fmt):
  if fmt.outer == "row" and cols != shard.total_cols:
    raise InvalidArgument("cols")
  if fmt.outer not in (None, "row"):
    run = math.lcm(run, fmt.outer)
  if shard.first_col % run:
    raise InvalidArgument("shard.first_col")
  if shard.first_col + cols > shard.total_cols:
    raise InvalidArgument("shard.total_cols")
  if shard.first_col + cols < shard.total_cols and cols % run:
    raise InvalidArgument("cols")


def to_blocks(x, fmt):
  """rows x Kp to blocks x elements, row by row within a block."""
  rows, cols = x.shape
  tall, b = fmt.strip_rows, fmt.block
  full = np.zeros((round_up(rows, tall), cols), x.dtype)
  full[:rows] = x
  down, across = full.shape[0] // tall, cols // b
  return full.reshape(down, tall, across, b).transpose(0, 2, 1, 3).reshape(down * across, tall * b)


def from_blocks(blocks, fmt, rows, cols):
  tall, b = fmt.strip_rows, fmt.block
  down, across = round_up(rows, tall) // tall, cols // b
  return blocks.reshape(down, across, tall, b).transpose(0, 2, 1, 3).reshape(down * tall, cols)[:rows]


def take_exponents(t, fmt):
  """(t divided by two to its exponents, the exponents of each level: blocks x groups)."""
  top = math.frexp(float(fmt.element.qmax))[1] - 1
  out = []
  for level, size in enumerate(fmt.groups):
    groups = np.abs(t).reshape(len(t), t.shape[1] // size, size).max(axis=2, initial=f32(0))
    e = groups >= 2.0**(top + len(fmt.groups) - level)
    t = t * np.repeat(np.where(e, f32(.5), ONE), size, axis=1)
    out.append(e.astype(np.uint8))
  return t, out


def powers_of(exponents, fmt):
  """Two to the sum of the exponents of each element: blocks x elements."""
  return np.exp2(sum(np.repeat(e, n, axis=1).astype(np.float32) for e, n in zip(exponents, fmt.groups)))


def largest_finite(x):
  return np.max(np.abs(x), initial=f32(0), where=np.isfinite(x))


def quantize(x, fmt, transform=IDENTITY, rounding=NEAREST_EVEN, rule=None, tensor_amax=None, shard=None):
  x = np.asarray(x, np.float32)
  rows, cols = x.shape
  run = max(transform.n, fmt.block)
  if shard is not None:
    check_shard(shard, run, cols, fmt)
  if fmt.tensor_scale and tensor_amax is not None and not (np.isfinite(tensor_amax) and tensor_amax >= 0):
    raise InvalidArgument("tensor_amax")
  padded = np.zeros((rows, round_up(cols, run)), np.float32)
  padded[:, :cols] = x
  y = forward(padded, transform)

  corrects = rounding.kind == "eden"
  if corrects and (fmt.square or transform.n < fmt.block):
    raise InvalidArgument("eden")
  if corrects:
    rounding, random_source = NEAREST_EVEN, rounding
  rule = rule_of(rule, fmt)
  scale_rows = round_up(rows, fmt.strip_rows) // fmt.strip_rows
  outer_amax = f32(tensor_amax) if tensor_amax is not None else largest_finite(y)
  blocks_outer, outer = outer_amax, None
  if fmt.outer is not None:
    covered = fmt.covered(y.shape[1])
    starts = range(0, y.shape[1], covered) if y.shape[1] else []
    outer_amax = np.array([[largest_finite(y[i * fmt.strip_rows:(i + 1) * fmt.strip_rows, k:k + covered])
                            for k in starts] for i in range(scale_rows)], np.float32).reshape(scale_rows, len(starts))
    outer = (fmt.outer_type or FLOAT).encode(
        BlockScaler(fmt, outer_amax, rule.name == "four_over_six", corrects=corrects).T)
    column = np.arange(0, y.shape[1], fmt.block)
    blocks_outer = outer_amax[:, column // max(covered, 1)].ravel()
  blocks = to_blocks(y, fmt)
  bad = ~np.isfinite(blocks).all(axis=1)
  blocks = np.where(bad[:, None], f32(0), blocks)
  amax = np.abs(blocks).max(axis=1, initial=f32(0))
  if rule.function is not None:
    c = users_scales(blocks, amax, rule)
    bad |= ~(np.isfinite(c) & (c >= 0))
  scalers = [BlockScaler(fmt, blocks_outer, rule.name == "four_over_six", g, corrects) for g in grids_of(fmt)]
  scales = [choose_scales(blocks, amax, s, rule).astype(np.uint32) for s in scalers]
  grid = np.zeros(len(blocks), np.int64)
  if fmt.more:
    least, *others = errors_of_all(scalers, blocks, scales, rule.grids)
    for g, err in enumerate(others, 1):
      grid, least = np.where(err < least, g, grid), np.where(err < least, err, least)

  total = round_up(shard.total_cols, run) if shard else y.shape[1]
  row0, col0 = (shard.first_row, shard.first_col) if shard else (0, 0)
  first = (np.arange(rows, dtype=np.uint64) + np.uint64(row0)) * np.uint64(total) + np.uint64(col0)
  index = to_blocks(first[:, None] + np.arange(y.shape[1], dtype=np.uint64)[None], fmt)
  grid[bad] = 0
  scale, codes = np.zeros(len(blocks), np.uint32), np.zeros(blocks.shape, np.uint8)
  report = Report(int(bad.sum()))
  exponents = None
  for g, (scaler, of_grid) in enumerate(zip(scalers, scales)):
    scaled = scaler.scaled(blocks, of_grid)
    if fmt.groups:
      idle = scaler.zero(of_grid) | bad | (amax == 0)
      scaled, exponents = take_exponents(np.where(idle[:, None], f32(0), scaled), fmt)
    on_grid = round_element(scaled, scaler.element, rounding, index)
    dead = scaler.zero(of_grid) | bad | (amax == 0 if fmt.scale in (E8M0, E6M2) else False)
    on_grid[dead] = scaler.element.zero
    chosen = grid == g
    codes, scale = np.where(chosen[:, None], on_grid, codes), np.where(chosen, of_grid, scale)
    least, most = (np.where(scaler.is_limited(of_grid), f32(0), end)[:, None] for end in scaler.element.range)
    beyond = ((scaled < least) | (scaled > most)) & ~dead[:, None] & chosen[:, None]
    report.saturated += int(beyond.sum())
    report.underflowed_scales += int((scaler.zero(of_grid) & (amax > 0) & ~bad & chosen).sum())
  if corrects:
    powers = ONE if exponents is None else powers_of(exponents, fmt)
    of_grid = np.stack([fmt.grid(g).values for g in grids_of(fmt)])
    effective = np.stack([np.broadcast_to(s.effective(scale), scale.shape) for s in scalers])
    decoded = of_grid[grid[:, None], codes] * powers * effective[grid, np.arange(len(scale))][:, None]
    scale = eden_scales(blocks, np.where(bad[:, None], f32(0), decoded), scale, amax, grid, scalers, run // fmt.block,
                        random_source, index[:, 0])
  scale = np.where(bad, np.uint32(fmt.scale.nan), scale).astype(np.uint32)
  tensor_scale = np.ravel(scalers[0].T)[0] if fmt.tensor_scale else ONE
  shape = (scale_rows, y.shape[1] // fmt.block)
  return Quantized(fmt, rows, cols, from_blocks(codes, fmt, rows, y.shape[1]), scale.reshape(shape), tensor_scale,
                   transform, report, y, outer, grid.reshape(shape) if fmt.more else None,
                   [e.reshape(rows, y.shape[1] // n) for e, n in zip(exponents, fmt.groups)] if fmt.groups else None)


def eden_scales(x, decoded, scale, amax, grid, scalers, blocks, source, index):
  """The corrected scale codes of EDEN: of blocks x elements, `blocks` of them in a run."""
  fmt = scalers[0].fmt
  runs = lambda a: a.astype(np.float64).reshape(len(x) // blocks, blocks * x.shape[1])
  total = lambda a: np.cumsum(a, axis=1)[:, -1] if a.size else np.zeros(len(a))  # in order
  squares, products = total(runs(x) * runs(x)), total(runs(x) * runs(decoded))
  usable = (products > 0) & (products <= float(FLT_MAX)**2)
  c = np.repeat(np.where(usable, squares / np.where(usable, products, 1), 1), blocks)
  s = fmt.scale.decode(scale).astype(np.float64)
  with np.errstate(all="ignore"):
    u = s * c
  largest = np.array([eden_largest(scaler) for scaler in scalers], np.uint32)[grid]
  low = floor_code(fmt.scale, np.where(s > 0, u, 1))
  at_end = u >= fmt.scale.decode(largest)
  low = np.where(at_end, largest, low)
  lo, hi = fmt.scale.decode(np.maximum(low, 0)), fmt.scale.decode(np.where(at_end, low, np.maximum(low, 0) + 1))
  r = random_bits(source.seed, source.stream, index) | random_bits(source.seed, source.stream, index + np.uint64(1)) << np.uint64(16)
  part = (u - lo.astype(np.float64)) / np.where(at_end, 1, hi.astype(np.float64) - lo)
  up = ~at_end & (low >= 0) & (r.astype(np.float64) + part * 2.0**32 >= 2.0**32)
  kept = (s == 0) | (amax == 0) | ~np.repeat(usable, blocks)
  return np.where(kept, scale, np.maximum(low, 0) + up).astype(np.uint32)


def eden_largest(scaler):
  fmt = scaler.fmt
  if fmt.two_level:
    return fmt.scale.nan - 1
  return min(scaler.most, 127 + min(127, 128 - math.frexp(float(scaler.Q))[1])) if fmt.scale is E8M0 else scaler.most


def floor_code(scale, u):
  """The code of the largest scale value that is not above u > 0; -1 if there is none."""
  if scale.bytes == 1:
    return np.searchsorted(scale.decode(np.arange(scale.nan)).astype(np.float64), u, side="right").astype(np.int64) - 1
  nearest = np.minimum(u, float(FLT_MAX)).astype(np.float32)
  bits = bits_of(nearest).astype(np.int64) - (nearest > u)
  return bits if scale is FLOAT else bits >> 16


@dataclasses.dataclass
class MsEden:
  """A matrix of nvfp4 before the scales of MS-EDEN are rounded stochastically."""
  T: np.float32
  codes: np.ndarray    # blocks x 16
  scales: np.ndarray   # of each block: the code of s
  squares: np.ndarray  # num and den of each run
  products: np.ndarray
  corrected: np.ndarray  # u of each block
  bad: np.ndarray      # NaN blocks


def ms_eden_unrounded(y, run):
  """The transformed, padded y by the steps 1 to 3 of MS-EDEN, and u."""
  fmt = PRESETS["nvfp4"]
  amax = largest_finite(y)
  Q = f32(f32(6) / f32(0.988125))
  scaler = BlockScaler(fmt, np.float32(amax), False)
  scaler.S = min(f32(f32(f32(256) * Q) / amax), FLT_MAX) if amax > 0 else ONE
  scaler.T = f32(ONE / scaler.S)

  blocks = to_blocks(y, fmt)
  bad = ~np.isfinite(blocks).all(axis=1)
  blocks = np.where(bad[:, None], f32(0), blocks)
  block_amax = np.abs(blocks).max(axis=1, initial=f32(0))
  scale = E4M3.encode((block_amax * f32(scaler.S * f32(ONE / Q))).astype(np.float32))
  dead = bad | (scale == 0)
  t = np.where(dead[:, None], f32(0), scaler.scaled(blocks, np.where(dead, 1, scale))).astype(np.float32)
  codes = round_element(t, E2M1)
  codes[dead] = 0

  shape = (-1, run)
  squares, products = np.zeros(t.size // run, np.float32), np.zeros(t.size // run, np.float32)
  for a, q in zip(t.reshape(shape).T, E2M1.values[codes].reshape(shape).T):
    squares, products = fma(a, a, squares), fma(a, q, products)
  correction = np.where(products == 0, ONE, squares / np.where(products == 0, ONE, products)).astype(np.float32)
  u = (E4M3.decode(scale) * np.repeat(correction, run // fmt.block)).astype(np.float32)
  return MsEden(scaler.T, codes, scale, squares, products, u, bad)


def ms_eden(x, transform, seed, stream):
  """x in nvfp4 by MS-EDEN."""
  fmt = PRESETS["nvfp4"]
  x = np.asarray(x, np.float32)
  rows, cols = x.shape
  run = max(transform.n, fmt.block)
  padded = np.zeros((rows, round_up(cols, run)), np.float32)
  padded[:, :cols] = x
  y = forward(padded, transform)
  eden = ms_eden_unrounded(y, run)
  scale, u, dead = eden.scales, eden.corrected, eden.bad | (eden.scales == 0)
  last = len(E4M3.finite) - 1
  low = np.searchsorted(E4M3.finite, u, side="right") - 1
  lo, hi = E4M3.finite[np.minimum(low, last - 1)], E4M3.finite[np.minimum(low, last - 1) + 1]
  index = np.arange(0, y.size, fmt.block, dtype=np.uint64)
  up = stochastic_up(np.where(low < last, u, lo), lo, hi, Rounding("stochastic", seed, stream), index)
  scale = np.where(dead, scale, np.minimum(low + up, last))
  scale = np.where(eden.bad, E4M3.nan, scale).astype(np.uint32)
  return Quantized(fmt, rows, cols, from_blocks(eden.codes, fmt, rows, y.shape[1]),
                   scale.reshape(rows, y.shape[1] // fmt.block), eden.T, transform, Report(0), y, None, None, None)


def power_ratio(old, new):
  """Of the smallest steps of two elements, if it is a power of two; else 1."""
  r = smallest_step(new) / smallest_step(old)
  return r if bits_of(r) & 0x7FFFFF == 0 and 2.0**-126 <= r <= FLT_MAX else ONE


def smallest_step(element):
  """The smallest positive value, or the smallest magnitude of the negative ones."""
  v = element.values
  return f32(v[v > 0].min()) if (v > 0).any() else f32(-v[v < 0].max())


def grids_of(fmt):
  return range(len(fmt.more) + 1)


def of_elements(q, of_block):
  """An array of blocks for every row and column of q."""
  return np.repeat(np.repeat(of_block, q.format.strip_rows, 0)[: q.rows], q.format.block, 1)


def in_width(a, cols, fill):
  """Rows of `cols` columns: cut, or filled up."""
  kept = min(cols, a.shape[1])
  out = np.full((a.shape[0], cols), fill, a.dtype)
  out[:, :kept] = a[:, :kept]
  return out


def cast(q, to):
  """q in another format; (blocks, inexact blocks, inexact elements); the sums of squares of values and differences."""
  cols = round_up(q.cols, max(q.transform.n, to.block))
  codes = in_width(q.codes, cols, q.format.element.zero)
  h = in_width(of_elements(q, q.grids if q.grids is not None else np.zeros(q.scales.shape, np.int64)), cols, 0)
  effective = np.repeat(q.row_scales(), q.format.block, 1) * (q.tensor_scale if q.format.tensor_scale else ONE)
  power = np.ones(effective.shape, np.float32) if q.exponents is None else powers_of(q.exponents, q.format)
  e = in_width((effective * power).astype(np.float32), cols, f32(0))
  value = np.stack([q.format.grid(g).values for g in grids_of(q.format)])[h, codes]
  scaled = (value * in_width(power.astype(np.float32), cols, ONE)).astype(np.float32)
  decoded = (scaled * in_width(effective, cols, f32(0))).astype(np.float32)
  outer, outer_values = cast_outer_scales(q, to, effective, cols)

  blocks = lambda a: to_blocks(a, to)
  counts = blocks((value != 0) & (e != 0))
  top, first_h = block_value(counts, blocks(e), f32(0)), block_value(counts, blocks(h), 0)
  same = (~counts | (blocks(e) == top[:, None]) & (blocks(h) == first_h[:, None])).all(1)
  empty, bad = top == 0, ~np.isfinite(blocks(in_width(effective, cols, f32(0)))).all(1)
  T = outer_values.ravel()
  direct, grid, scale = empty.copy(), np.zeros(len(top), np.int64), np.zeros(len(top), np.uint32)
  new_codes = np.full(counts.shape, to.element.zero, np.int64)
  for g in grids_of(to):
    ratio = np.array([power_ratio(q.format.grid(i), to.grid(g)) for i in grids_of(q.format)], np.float32)
    wanted = value.astype(np.float64) * ratio[h].astype(np.float64)
    match = wanted[..., None] == to.grid(g).values
    same_sign = match & (np.signbit(wanted)[..., None] == np.signbit(to.grid(g).values))
    mapped = np.where(same_sign.any(-1), same_sign.argmax(-1), match.argmax(-1))
    mapped[(e == 0) & (value != 0)] = to.grid(g).zero
    w = top / ratio[first_h]
    s = to.scale.encode(w / (T * to.factor(g)).astype(np.float32)).astype(np.uint32)
    v = (to.scale.decode(s) * to.factor(g)).astype(np.float32)
    storable = (signbit(v) == 0) if to.sign_has_grid else True
    exists = (~counts | blocks(match.any(-1))).all(1)
    fits = same & exists & storable & np.isfinite(w) & ((v * T).astype(np.float32) == w) & (w * ratio[first_h] == top)
    take = (fits & ~direct & ~empty) | (empty if g == 0 else False)
    grid, scale = np.where(take & ~empty, g, grid), np.where(take & ~empty, s, scale)
    new_codes = np.where(take[:, None], blocks(mapped), new_codes)
    lowest_codes = blocks(mapped) if g == 0 else lowest_codes
    direct |= take

  copies = np.zeros(len(top), bool)  # blocks that keep their exponents
  if to == q.format and to.groups:
    copies = T == q.block_outer().ravel()
    direct |= copies
    scale = np.where(copies & ~empty, q.scales.ravel(), scale)
    new_codes = np.where(copies[:, None], lowest_codes, new_codes)

  x = np.where(bad[:, None] | ~np.isfinite(blocks(decoded)).all(1)[:, None], f32(0), blocks(decoded))
  new_scale, new_grid, other, new_exponents = quantized_blocks(x, to, T)
  redo = ~direct & ~bad
  infinite = redo & ~np.isfinite(blocks(decoded)).all(1)
  scale = np.where(bad | infinite, np.uint32(to.scale.nan), np.where(redo, new_scale, scale)).astype(np.uint32)
  grid = np.where(bad | infinite, 0, np.where(redo, new_grid, grid))
  new_codes = np.where((bad | infinite)[:, None], to.element.zero, np.where(redo[:, None], other, new_codes))
  strips = round_up(q.rows, to.strip_rows) // to.strip_rows
  shape = (strips, cols // to.block)
  exponents = [np.where((redo & ~infinite)[:, None], each, 0).astype(np.uint8).reshape(q.rows, cols // size)
               for each, size in zip(new_exponents, to.groups)]
  if to == q.format and to.groups:
    kept = (copies & ~bad & ~empty).reshape(shape)
    exponents = [np.where(np.repeat(kept, to.block // size, 1), own, each)
                 for own, each, size in zip(q.exponents, exponents, to.groups)]
  out = Quantized(to, q.rows, q.cols, from_blocks(new_codes, to, q.rows, cols).astype(np.uint8), scale.reshape(shape),
                  outer if to.tensor_scale else ONE, q.transform, None, None, outer if to.outer is not None else None,
                  grid.reshape(shape) if to.more else None, exponents or None)
  got = blocks(dequantize_padded(out))
  differ = np.where(bad[:, None], ~np.isnan(blocks(decoded)), got != blocks(decoded))
  differ &= blocks(np.ones(decoded.shape, bool))  # the last strip may have fewer rows than a block
  x, y = blocks(decoded).astype(np.float64), got.astype(np.float64)
  finite = np.isfinite(x) & np.isfinite(y)
  sums = (x[finite]**2).sum(), ((y[finite] - x[finite])**2).sum()
  return out, (len(scale), int(differ.any(1).sum()), int(differ.sum())), sums


def block_value(counts, values, none):
  """For each block the value of its first element that counts."""
  at = counts.argmax(1)
  return np.where(counts.any(1), values[np.arange(len(values)), at], none) if len(values) else np.zeros(0, values.dtype)


def quantized_blocks(x, to, T):
  """Scale, grid, codes and exponents of finite blocks x under outer scales T, nearest even."""
  rule = Rule(default_rule(to), searches=True)
  amax = np.abs(x).max(1, initial=f32(0))
  grid, scale, codes, exponents = np.zeros(len(x), np.int64), None, None, []
  for g in grids_of(to):
    scaler = BlockScaler(to, f32(0), False, g)
    scaler.T = T
    scaler.S = np.minimum(ONE / T, FLT_MAX).astype(np.float32)
    s = choose_scales(x, amax, scaler, rule).astype(np.uint32)
    err, idle = errors(scaler.differences(x, s), "squared"), scaler.zero(s) | (amax == 0)
    t = scaler.scaled(x, s)
    if to.groups:
      t, exponents = take_exponents(np.where(idle[:, None], f32(0), t), to)
    c = round_element(t, scaler.element)
    c[idle] = scaler.element.zero
    better = np.ones(len(x), bool) if g == 0 else err < least
    least = err if g == 0 else np.where(better, err, least)
    grid = np.where(better, g, grid)
    scale, codes = (s, c) if g == 0 else (np.where(better, s, scale), np.where(better[:, None], c, codes))
  return scale, grid, codes, exponents


def cast_outer_scales(q, to, effective, cols):
  """(the outer scales of the result as it stores them, the one of every block)."""
  strips, across = round_up(q.rows, to.strip_rows) // to.strip_rows, cols // to.block
  if not to.two_level:
    return None, np.ones((strips, across), np.float32)
  fitting = [g for g in grids_of(to) if np.isin(
      q.format.element.values.astype(np.float64) * float(power_ratio(q.format.element, to.grid(g))),
      to.grid(g).values.astype(np.float64)).all()]
  g = fitting[0] if fitting else 0
  part = np.array([power_ratio(q.format.grid(i), to.grid(g)) * to.factor(g) for i in grids_of(q.format)], np.float32)
  h = of_elements(q, q.grids) if q.grids is not None else np.zeros(effective.shape, np.int64)
  largest = (effective * f32(2**len(q.format.groups))).astype(np.float32) / part[h]
  old = np.repeat(np.repeat(q.block_outer(), q.format.strip_rows, 0)[: q.rows], q.format.block, 1)

  most = largest_outer(to)

  def scale(rows, columns):
    own = old[rows, columns]
    kept = own.size and q.format.two_level and q.format.scale is to.scale and (
        to.outer_type is not BF16 or to == q.format)
    if kept and (own == own.flat[0]).all() and 0 < f32(own.flat[0] / part[0]) <= most:
      return f32(own.flat[0] / part[0])
    m = np.abs(largest[rows, columns])
    m = np.max(m, initial=f32(0), where=np.isfinite(m))
    t = -126
    while m != 0 and 2.0**(t + 1) <= most and float(m) > float(to.scale.largest) * 2.0**t:
      t += 1
    return ONE if m == 0 else f32(2.0**t)

  if to.tensor_scale:
    T = scale(slice(None), slice(0, cols))
    return T, np.full((strips, across), T, np.float32)
  covered = max(to.covered(cols), 1)
  T = np.array([[scale(slice(i * to.strip_rows, (i + 1) * to.strip_rows), slice(k, k + covered))
                 for k in range(0, cols, covered)] for i in range(strips)], np.float32).reshape(strips, -(-cols // covered))
  column = np.arange(across) * to.block // covered
  return (to.outer_type or FLOAT).encode(T), T[:, column]


def dequantize_padded(q):
  effective = q.row_scales()
  if q.format.tensor_scale:
    effective = effective * q.tensor_scale
  return q.values() * np.repeat(effective, q.format.block, axis=1)


def dequantize(q):
  return dequantize_padded(q)[:, : q.cols]


def fake_quantize(x, fmt, transform=IDENTITY, undo=False, **policies):
  q = quantize(x, fmt, transform, **policies)
  y = dequantize_padded(q)
  return (inverse(y, transform) if undo else y)[:, : q.cols]


# ---- GEMM (section 6) ------------------------------------------------------------------------------------------------


def epilogue(acc, ta, tb, alpha, beta, c):
  out = (acc * f32(ta)) * f32(f32(alpha) * f32(tb))
  return fma(f32(beta), c, out) if beta != 0 else out


def chain(a, b):
  """a * b^T by fma in index order, from +0."""
  d = np.zeros((len(a), len(b)), np.float32)
  for j in range(a.shape[1]):
    d = fma(a[:, j, None], b[None, :, j], d)
  return d


def scales_product(d, sa, sb):
  """fl(sA * sB). A block with d = 0 contributes +0 although that overflows, unless a scale is NaN."""
  t = np.broadcast_to(sa * sb, d.shape)
  return np.where((d == 0) & ~np.isfinite(t) & ~np.isnan(sa) & ~np.isnan(sb), f32(0), t)


def exact_blocks(a, b, alpha=1, beta=0, c=None):
  """binary32 C = alpha * A * B^T + beta * C before the conversion to the output type."""
  block = a.format.block
  va, vb = a.values(), b.values()
  sa, sb = a.row_scales(), b.row_scales()
  exact = a.exact_products and b.exact_products
  acc = np.zeros((a.rows, b.rows), np.float32)
  for k in range(a.padded_cols // block):
    at = slice(k * block, (k + 1) * block)
    if exact:  # in binary64; + 0. turns -0 into +0
      d = (va[:, at].astype(np.float64) @ vb[:, at].T.astype(np.float64) + 0.).astype(np.float32)
    else:
      d = chain(va[:, at], vb[:, at])
    acc = fma(d, scales_product(d, sa[:, k, None], sb[None, :, k]), acc)
  return epilogue(acc, a.tensor_scale, b.tensor_scale, alpha, beta, c)


def exact_blocks_plain_left(a, b, alpha=1, beta=0, c=None):
  """a is a matrix of binary32 numbers."""
  block = b.format.block
  padded = np.zeros((a.shape[0], b.padded_cols), np.float32)
  padded[:, : a.shape[1]] = a
  vb, sb = b.values(), b.row_scales()
  acc = np.zeros((a.shape[0], b.rows), np.float32)
  for k in range(b.padded_cols // block):
    at = slice(k * block, (k + 1) * block)
    d = chain(padded[:, at], vb[:, at])
    acc = fma(d, scales_product(d, ONE, sb[None, :, k]), acc)
  return epilogue(acc, 1, b.tensor_scale, alpha, beta, c)


def wide(q):
  """The decoded operand in binary64, value * scale * tensor scale; each product is within 2^-53 of exact."""
  s = np.repeat(q.row_scales().astype(np.float64), q.format.block, axis=1)
  return q.values().astype(np.float64) * s * float(q.tensor_scale)


def fast_bound(a, b, ta, tb, alpha, beta, c, folded=0.):
  """(E, allowed |C - E|) for decoded binary64 operands padded to Kp columns, before the output type's rounding;
  `folded` is 2^-7 where value * scale was rounded to bf16. Infinite where sum |a||b| is not below FLT_MAX / 2."""
  kp = a.shape[1]
  product = abs(float(alpha)) * (np.abs(a) @ np.abs(b).T)
  fold = folded * product
  e = float(alpha) * (a @ b.T)
  tiny = abs(float(alpha)) * float(ta) * float(tb) * kp * 2.**-126
  if beta != 0:
    e, product = e + float(beta) * c.astype(np.float64), product + np.abs(float(beta) * c.astype(np.float64))
    tiny += 2.**-150  # the result of step 5 may be subnormal, besides that of step 7
  slack = fold + (kp + 6) * 2.**-24 * product + tiny
  return e, np.where(product < float(FLT_MAX) / 2, slack, np.where(np.isnan(product), 0., np.inf))


def store(out, kind):
  """Bits of a binary32 result in the output type: RNE, overflowing to Inf (bf16 as a scale type saturates instead)."""
  if kind == "float":
    return bits_of(out)
  if kind == "fp16":
    return fp16_bits(out)
  beyond = np.abs(out) >= BF16_OVERFLOW  # NaN is not
  return np.where(beyond, np.uint32(0x7F80) | (signbit(out).astype(np.uint32) << np.uint32(15)), BF16.encode(out))


def load(bits, kind):
  if kind == "float":
    return float_of(bits)
  return BF16.decode(bits) if kind == "bf16" else np.asarray(bits, np.uint16).view(np.float16).astype(np.float32)


# ---- Recipes (section 7) ---------------------------------------------------------------------------------------------

PRESETS = {f.name: f for f in (
    Format("e1m2_f32", E1M2, FLOAT, 16), Format("int4_f32", INT4, FLOAT, 16), Format("e2m1_f32", E2M1, FLOAT, 16),
    Format("nvfp4", E2M1, E4M3, 16, True), Format("nv_e1m2", E1M2, E4M3, 16, True),
    Format("nvint4", INT4, E4M3, 16, True), Format("mxfp4", E2M1, E8M0, 32), Format("mx_e1m2", E1M2, E8M0, 32),
    Format("mxint4", INT4, E8M0, 32), Format("tetrajet2", E2M1, E4M3, 16, outer=128),
    Format("if4", E2M1, E4M3, 16, True, more=((INT4, f32(6) / f32(7)),)),
    Format("mixfp4", E1M2, E4M3, 16, True, more=((E2M1, f32(.25)),)),
    Format("razer", remapped(-5), E4M3, 16, True, more=((remapped(5), ONE),)),
    Format("hif4", E1M2, E6M2, 64, groups=(8, 4)), Format("int8_f32", INT8, FLOAT, 16),
    Format("mxint8", INT8Q6, E8M0, 32), *(Format("mx" + e.name, e, E8M0, 32)
                                          for e in (FP8_E4M3, FP8_E5M2, FP6_E3M2, FP6_E2M3)))}
GEMMS = ("fprop", "dgrad", "wgrad")


def derive(seed, step, layer, role):
  words = philox((step & MASK32, step >> 32, layer, 0x52000000 + role), halves(seed))
  return int(words[0]) | int(words[1]) << 32


UNIFORM = {"ufp4": "e1m2_f32", "ufp4-int4": "int4_f32", "nv-uniform": "nv_e1m2",
           **{"ufp4-" + n: n for n in ("nvint4", "mx_e1m2", "mxint4")}}  # ufp4_recipe of other formats
RECIPES = (*UNIFORM, "e2m1-baseline", "nvfp4", "te-four-over-six", "quartet2", "tetrajet2", "if4", "hif4", "bf16")


def recipe_operand(recipe, seed, step, layer, operand):
  """(format, transform, rounding, rule) of operand 0..5: X, W, dY, W^T, dY^T, X^T."""
  gemm = operand // 2
  random_word = Rounding("stochastic", derive(seed, step, layer, 16 + operand), 0)
  rounding = random_word if operand in (2, 4) else NEAREST_EVEN
  if recipe in UNIFORM:
    fmt = PRESETS[UNIFORM[recipe]]
    unclipped = None if fmt.scale is FLOAT else "mx_ceil" if fmt.scale is E8M0 else "scale_up"
    rule = unclipped if operand in (2, 4) else None
    return fmt, random_hadamard(16, derive(seed, 0, layer, gemm)), rounding, rule
  if recipe == "e2m1-baseline":
    transform = random_hadamard(16, derive(seed, 0, layer, gemm)) if gemm == 2 else IDENTITY
    return PRESETS["e2m1_f32"], transform, rounding, None
  if recipe in ("nvfp4", "if4"):
    fmt = dataclasses.replace(PRESETS[recipe], square=operand in (1, 3))
    return fmt, signed_hadamard(TE_SIGNS, True) if gemm == 2 else IDENTITY, rounding, None
  if recipe == "te-four-over-six":
    fmt = dataclasses.replace(PRESETS["nvfp4"], square=operand in (1, 3))
    return fmt, IDENTITY, NEAREST_EVEN, Rule("four_over_six", absolute=True)
  if recipe == "quartet2":
    if gemm == 0:
      return PRESETS["nvfp4"], IDENTITY, NEAREST_EVEN, Rule("four_over_six")
    return PRESETS["nvfp4"], random_hadamard(128, derive(seed, step, layer, gemm)), random_word, "ms_eden"
  if recipe == "tetrajet2":
    if gemm == 0:
      return PRESETS["tetrajet2"], IDENTITY, NEAREST_EVEN, None
    return PRESETS["tetrajet2"], random_hadamard(16, derive(seed, step, layer, gemm)), random_word, None
  if recipe == "hif4":
    return PRESETS["hif4"], random_hadamard(64, derive(seed, 0, layer, gemm)), NEAREST_EVEN, None
  raise ValueError(recipe)


def linear_bf16(gemm, left, right):
  """The operands of bf16_recipe, rounded, in binary64."""
  which = GEMMS.index(gemm)
  operands = (left if which < 2 else left.T, right if which == 0 else right.T)
  return [load(store(x, "bf16"), "bf16").astype(np.float64) for x in operands]


def linear(recipe, seed, step, layer, gemm, left, right):
  """left, right: the two tensors of fprop (X, W), dgrad (dY, W) or wgrad (dY, X), as they lie in memory.
  Gives (quantized left, quantized right, the exact_blocks product)."""
  which = GEMMS.index(gemm)
  operands = (left if which < 2 else left.T, right if which == 0 else right.T)
  policies = [recipe_operand(recipe, seed, step, layer, 2 * which + i) for i in (0, 1)]
  a, b = (ms_eden(x, transform, rounding.seed, rounding.stream) if rule == "ms_eden" else
          quantize(x, fmt, transform, rounding, rule) for x, (fmt, transform, rounding, rule) in zip(operands, policies))
  return a, b, exact_blocks(a, b)


# ---- Analysis (section 8) --------------------------------------------------------------------------------------------


def nmse(q):
  x, d = q.transformed.astype(np.float64), dequantize_padded(q).astype(np.float64)
  return ((d - x)**2).sum() / (x * x).sum()


def measure(q):
  """(attenuation, SQNR in dB, bucket utilization) of a quantized matrix."""
  x, d = q.transformed.astype(np.float64), dequantize_padded(q).astype(np.float64)
  values = q.format.element.values[q.codes] + f32(0)  # of the first grid; the two zeros are one value
  counts = np.unique(values, return_counts=True)[1]
  share = counts / counts.sum()
  utilization = np.exp2(-(share * np.log2(share)).sum()) / q.format.element.distinct
  return (x * d).sum() / (x * x).sum(), -10 * np.log10(nmse(q)), utilization


def delta_sqnr(plain, transformed):
  return 10 * np.log10(nmse(plain) / nmse(transformed))


def bin_bias(element, i):
  m = element.magnitudes
  return 0. if i in (0, 7) else (2 * m[i] - m[i - 1] - m[i + 1]) / 4


# ---- Self-test -------------------------------------------------------------------------------------------------------


def exact_round(value):
  """Rational to the nearest binary32, ties to even, as bits without a sign (value >= 0)."""
  from fractions import Fraction
  if value == 0:
    return 0
  e = value.numerator.bit_length() - value.denominator.bit_length()
  e -= value < Fraction(2)**e
  e = max(e, -126)
  quotient = value / Fraction(2)**(e - 23)
  whole = quotient.numerator // quotient.denominator
  rest = quotient - whole
  whole += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2)
  return min(whole + ((e + 126) << 23), 0x7F800000)


def test_fma():
  from fractions import Fraction
  rng = np.random.default_rng(1)
  raw = rng.integers(0, 2**32, (3, 6000), np.uint64).astype(np.uint32)
  near = rng.integers(0x3F000000, 0x40800000, (3, 6000), np.uint64).astype(np.uint32)
  near[:, ::2] |= np.uint32(0x80000000)
  near[:, ::3] &= np.uint32(0xFFFFF000)  # many exact ties
  low = (rng.integers(0, 2**24, (3, 6000), np.uint64)).astype(np.uint32)
  low[1] = float_of(np.full(6000, 0x3F000001)).view(np.uint32) + low[1] % 64
  a, b, c = (float_of(np.concatenate(w)) for w in zip(raw, near, low))
  # Cancellation and half-way addends: c is about -a*b, or about an ulp's half of a*b.
  d = -(a * b)
  e = a * b * f32(2**-24)
  # Products that are ties (odd * 2^-12 squared), and an addend too small for binary64 that breaks them either way.
  odd = f32(1) + (2 * rng.integers(0, 64, 2000) + 1).astype(f32) * f32(2**-12)
  crumb = np.where(rng.random(2000) < .5, f32(-1), f32(1)) * np.exp2(rng.integers(-140, -60, 2000)).astype(f32)
  a, b, c = np.concatenate([a, a, a, odd]), np.concatenate([b, b, b, odd]), np.concatenate([c, d, e, crumb])
  keep = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
  a, b, c = a[keep], b[keep], c[keep]
  got = bits_of(fma(a, b, c))
  for i in range(len(a)):
    exact = Fraction(float(a[i])) * Fraction(float(b[i])) + Fraction(float(c[i]))
    if exact == 0:
      negative = bool(signbit(a[i:i + 1])[0] ^ signbit(b[i:i + 1])[0]) and bool(signbit(c[i:i + 1])[0])
    else:
      negative = exact < 0
    want = exact_round(abs(exact)) | (0x80000000 if negative else 0)
    assert want == got[i], (float(a[i]).hex(), float(b[i]).hex(), float(c[i]).hex(), hex(want), hex(int(got[i])))
  # Rounding to binary64 first would drop the addend and send this tie to the even 1 + 2^-11.
  assert fma(f32(1 + 2**-12), f32(1 + 2**-12), f32(2**-100)) == f32(1 + 2**-11 + 2**-23)
  assert np.isnan(fma(f32(0), f32(np.inf), f32(1))) and np.isposinf(fma(FLT_MAX, f32(2), f32(0)))
  assert bits_of(fma(f32(-0.), f32(1), f32(-0.)))[()] == 0x80000000 and bits_of(fma(f32(1), f32(1), f32(-1)))[()] == 0


def test_philox():
  for counter, key, want in (
      ((0,) * 4, (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
      ((MASK32,) * 4, (MASK32,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
      ((0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344), (0xa4093822, 0x299f31d0),
       "d16cfe09 94fdcceb 5001e420 24126ea1")):  # Random123's known-answer file
    assert " ".join(f"{int(w):08x}" for w in philox(counter, key)) == want
  first = random_bits(0, 0, np.arange(8, dtype=np.uint64))
  assert [hex(v) for v in first] == ["0xe8d5", "0x6627", "0xc58d", "0xe169", "0xac4c", "0xbc57", "0xdbd8", "0x9b00"]
  deep = random_bits(5, 9, np.array([(1 << 40) + 3], np.uint64))[0]
  assert deep == int(philox((0, 1 << 5, 9, 0), (5, 0))[1]) >> 16
  assert derive(3, 0, 0, 1) == (lambda w: int(w[0]) | int(w[1]) << 32)(philox((0, 0, 0, 0x52000001), (3, 0)))


def test_elements():
  def one(element, x):
    return int(round_element(np.array([x], np.float32), element)[0])
  assert one(E2M1, 1.3) == 0x3 and one(E1M2, 1.3) == 5 and one(E2M1, -.1) == 0x8 and one(E2M1, -100) == 0xF
  assert one(INT4, -8) == 9 and one(INT4, -.1) == 0 and one(INT4, np.nan) == 7 and one(E2M1, -np.inf) == 0xF
  for element in ELEMENTS:
    m = element.magnitudes
    least = 2**(element.bits - 1)
    width = 2 * least if element.twos_complement else 2 << element.sign_at  # codes without ignored bits
    assert all(one(element, v) == (c if not element.twos_complement or c != least else c + 1)
               for c, v in enumerate(element.values[:width]) if np.isfinite(v))
    for i in range(len(m) - 1):
      middle = f32((m[i] + m[i + 1]) / 2)
      assert one(element, middle) == i + i % 2
      assert one(element, np.nextafter(middle, f32(0))) == i
      assert one(element, np.nextafter(middle, f32(np.inf))) == i + 1
      away = round_element(np.array([-middle], np.float32), element, Rounding("nearest_away"))
      zero = round_element(np.array([-np.nextafter(f32(m[i + 1]), f32(0))]), element, Rounding("toward_zero"))
      assert element.values[away[0]] == -m[i + 1] and element.values[zero[0]] == -m[i]
    assert (2 - 2.**-element.mantissa) * 2**element.exponent == element.qmax
  assert bin_bias(E2M1, 6) == -.25 and bin_bias(E2M1, 4) == -.125 and bin_bias(E1M2, 6) == 0
  # Stochastic: the mean of 2^16 random bits is the value, within 6 standard deviations (at most step / 512 each).
  for t, step in ((.3, .5), (-1.30001, .5), (2.7, 1), (-5.99, 2), (1e-6, .5)):
    index = np.arange(2**16, dtype=np.uint64)
    codes = round_element(np.full(2**16, t, np.float32), E2M1, Rounding("stochastic", 11, 2), index)
    mean = E2M1.values[codes].astype(np.float64).mean()
    assert abs(mean - t) < 6 * step / 512, (t, mean)
  points = np.array([-2, -1, -.85, -.8, -.04, 0, .12, .1203, .9, np.nan], np.float32)
  half = NF4.values[8] / f32(2)
  assert round_element(np.array([half, np.nextafter(half, f32(1))]), NF4).tolist() == [7, 8]
  assert round_element(points, NF4).tolist() == [0, 0, 0, 1, 7, 7, 8, 9, 15, 15]
  assert round_element(points, NF4, Rounding("toward_zero")).tolist() == [0, 0, 1, 1, 7, 7, 8, 8, 14, 15]
  on_grid = round_element(NF4.values, NF4, Rounding("stochastic", 1, 1), np.arange(16, dtype=np.uint64))
  assert (on_grid == np.arange(16)).all()
  on_grid = round_element(E1M2.values, E1M2, Rounding("stochastic", 1, 1), np.arange(16, dtype=np.uint64))
  assert (on_grid == np.arange(16)).all()


def test_scales():
  assert E4M3.largest == 448 and E4M3.finite[1] == 2**-9 and len(E4M3.finite) == 127
  assert UE5M3.largest == 114688 and UE5M3.finite[1] == f32(2**-17) and len(UE5M3.finite) == 255
  special = np.array([np.nan, np.inf, -np.inf, 0, -0., -1, 464, 465, 2**-10, 2**-9 * 1.5], np.float32)
  assert E4M3.encode(special).tolist() == [0x7F, 0x7E, 0xFE, 0, 0x80, 0xB8, 0x7E, 0x7E, 0, 2]
  assert UE5M3.encode(special)[:6].tolist() == [0xFF, 0xFE, 0, 0, 0, 0]
  assert E8M0.encode(special)[:6].tolist() == [0xFF, 0xFE, 0xFE, 0, 0, 127]
  assert BF16.encode(special)[:6].tolist() == [0x7FC0, 0x7F7F, 0xFF7F, 0, 0x8000, 0xBF80]
  assert E8M0.decode([0, 127, 254, 255])[:3].tolist() == [2.**-127, 1, 2.**127]
  for scale in (E4M3, UE5M3, BF16, E8M0):
    codes = np.arange({1: 256, 2: 0x7F80}[scale.bytes], dtype=np.uint32)
    values = scale.decode(codes)
    assert (scale.encode(values)[~np.isnan(values)] == codes[~np.isnan(values)]).all()
  for scale in (E4M3, UE5M3, BF16):
    x = float_of(np.random.default_rng(2).integers(0, 0x7F800000, 4000).astype(np.uint32))
    up, v = scale.encode_up(x), scale.decode(scale.encode_up(x))
    assert ((v >= x) | (x > scale.largest)).all() and (scale.decode(up[up > 0] - 1) < x[up > 0]).all()
  # binary16 is numpy's; prove it on every half-way point of binary16 and its two neighbours.
  grid = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
  middle = (grid[:-1] + grid[1:]) / 2
  code = np.arange(0x7BFF)
  assert (fp16_bits(middle) == code + code % 2).all()
  assert (fp16_bits(np.nextafter(middle, f32(0))) == code).all()
  assert (fp16_bits(np.nextafter(middle, FLT_MAX)) == code + 1).all()


def test_hadamard():
  rng = np.random.default_rng(3)
  for n, c in HADAMARD_FACTOR.items():
    assert f32(c) == f32(n**-.5)
    x = rng.integers(-64, 65, (3, 2 * n)).astype(np.float32)
    matrix = np.array([[(-1)**bin(i & j).count("1") for j in range(n)] for i in range(n)])
    want = (x.reshape(-1, n) @ matrix.T).astype(np.float32) * f32(c)
    assert (butterflies(x, n).reshape(-1, n) == want).all()
    t = random_hadamard(n, 0x123456789ABCDEF)
    if n in (16, 64, 256):
      assert (inverse(forward(x, t), t) == x).all()
  assert set(random_hadamard(256, 1).signs) == {1, -1} and sum(TE_SIGNS) == -4 and len(TE_SIGNS) == 16
  word = int(philox((0, 0, 0, SIGN_COUNTER), (42, 0))[0])
  assert random_hadamard(16, 42).signs == tuple(-1 if word >> j & 1 else 1 for j in range(16))


def test_blocks():
  P = PRESETS
  ramp = np.array([[0, 1, 2, 3, 4, 5, 6, 7] * 4], np.float32)
  q = quantize(ramp, P["mxint4"])
  assert q.scales.tolist() == [[127]] and (dequantize(q) == ramp).all() and q.report == Report(0, 0, 0)
  for rule, want in (("mx_floor", 127), ("mx_even", 128), ("mx_ceil", 128)):  # amax 7: 6 < 7 < 8, a tie at one bit
    assert quantize(ramp, P["mxfp4"], rule=rule).scales[0, 0] == want
  assert quantize(ramp, P["mxfp4"]).report.saturated == 4
  # OCP MXINT8: the scale of an amax in [1, 2) is 1; -2 and 127.5/64 saturate at 127/64.
  q = quantize(np.array([[1.5, -1.9999, 1 / 64, -1 / 128] + [0] * 28], np.float32), P["mxint8"])
  assert q.scales.tolist() == [[127]] and q.codes[0, :4].tolist() == [96, 129, 1, 0] and q.report.saturated == 1
  for amax, want in ((6, 127), (np.nextafter(f32(6), f32(7)), 128)):
    assert quantize(np.full((1, 32), amax, np.float32), P["mxfp4"], rule="mx_ceil").scales[0, 0] == want
  # NVFP4 with global_amax = 448 * 6 is the identity on the grid.
  x = np.array([[2688, 0, 1.5, -6, 3, -.5] + [0] * 10, [6, 4, 3, 2, 1.5, 1, .5, 0] + [-.5] * 8], np.float32)
  q = quantize(x, P["nvfp4"])
  assert q.tensor_scale == 1 and q.scales.tolist() == [[0x7E], [0x38]] and (dequantize(q)[1] == x[1]).all()
  # Non-finite input poisons its block and no other; zeros have scale 0.
  x = np.zeros((2, 48), np.float32)
  x[0, 20], x[1, 40] = np.nan, -np.inf
  for fmt in P.values():
    q = quantize(x, fmt)
    assert q.report.nonfinite_blocks == 2 and q.codes.max() == 0
    assert np.isnan(dequantize(q)).sum() == {16: 32, 32: 48, 64: 96}[fmt.block]
  # Shards give the whole's bits.
  x = np.random.default_rng(4).standard_cauchy((37, 200)).astype(np.float32)
  policies = dict(transform=random_hadamard(64, 9), rounding=Rounding("stochastic", 5, 6))
  whole = quantize(x, P["nvfp4"], **policies)
  global_amax = np.abs(whole.transformed).max()
  for r0, r1, c0, c1 in ((0, 5, 0, 64), (5, 37, 64, 200), (9, 10, 128, 192)):
    part = quantize(x[r0:r1, c0:c1], P["nvfp4"], tensor_amax=global_amax, shard=Shard(r0, c0, 200), **policies)
    assert (part.codes == whole.codes[r0:r1, c0:c0 + part.padded_cols]).all()
  # Squares: a transposed matrix has transposed codes; four_over_six takes 4 where 6 is worse.
  square = dataclasses.replace(P["nvfp4"], square=True)
  y = x[:, :37]
  assert (quantize(y, square).codes[:, :37] == quantize(y.T, square).codes[:37, :37].T).all()
  spread = np.array([[4, 4, 3, 4, 2, 4, 4, 3, 4, 4, 1, 4, 4, 4, 4, 4], [6] * 16], np.float32)
  q6, q46 = quantize(spread, P["nvfp4"]), quantize(spread, P["nvfp4"], rule="four_over_six")
  assert np.abs(dequantize(q46) - spread).sum() <= np.abs(dequantize(q6) - spread).sum()


def test_gemm():
  rng = np.random.default_rng(5)
  x = rng.integers(-7, 8, (5, 40)).astype(np.float32)
  w = rng.integers(-7, 8, (6, 40)).astype(np.float32)
  x[:, ::16], w[:, ::16] = 7, -7  # scales of 1: the product of the integers comes out
  a, b = quantize(x, PRESETS["int4_f32"]), quantize(w, PRESETS["int4_f32"])
  assert (exact_blocks(a, b) == x @ w.T).all() and (exact_blocks_plain_left(x, b) == x @ w.T).all()
  c = rng.standard_normal((5, 6)).astype(np.float32)
  assert (exact_blocks(a, b, 2, -1, c) == (2 * (x @ w.T) - c)).all()
  empty = quantize(x[:, :0], PRESETS["nvfp4"])
  assert bits_of(exact_blocks(empty, quantize(w[:, :0], PRESETS["nvfp4"]), -1)).tolist() == [[0x80000000] * 6] * 5
  g = rng.standard_normal((9, 100)).astype(np.float32)
  q, r = quantize(g, PRESETS["nvfp4"]), quantize(g, PRESETS["e1m2_f32"])
  e, bound = fast_bound(wide(q), wide(r), q.tensor_scale, r.tensor_scale, .5, 0, None)
  assert (np.abs(exact_blocks(q, r, .5) - e) <= bound).all()


def test_anchors():
  """The project's accuracy anchors: 16-blocks, binary32 scale, SQNR, attenuation and bucket utilization."""
  rng = np.random.default_rng(6)
  rows = 20000
  for draw, name, n, sqnr, atten, use in (
      ("normal", "e2m1_f32", 1, 20.53, .9959, .994), ("normal", "e1m2_f32", 16, 21.39, 1.0007, .892),
      ("laplace", "e2m1_f32", 1, 20.79, .9969, .940), ("laplace", "e1m2_f32", 1, 19.90, 1.0003, .745),
      ("laplace", "e1m2_f32", 16, 21.72, 1.0006, .913)):
    x = getattr(rng, draw)(size=(rows, 16)).astype(np.float32)
    q = quantize(x, PRESETS[name], hadamard(n) if n > 1 else IDENTITY)
    got = measure(q)
    assert abs(got[1] - sqnr) < .06 and abs(got[0] - atten) < .001 and abs(got[2] - use) < .004, (draw, name, got)
  # RNE scales under stochastic rounding shrink; scales rounded up do not (section 5).
  x = rng.normal(size=(rows, 16)).astype(np.float32)
  for rule, want in ((None, .9965), ("scale_up", 1.0)):
    q = quantize(x, PRESETS["nvfp4"], rounding=Rounding("stochastic", 3), rule=rule)
    assert abs(measure(q)[0] - want) < .0005, (rule, measure(q))


def self_test():
  for test in (test_fma, test_philox, test_elements, test_scales, test_hadamard, test_blocks, test_gemm, test_anchors):
    test()
    print(f"ok  {test.__name__[5:]}")


if __name__ == "__main__":
  if sys.argv[1:] != ["--self-test"]:
    sys.exit("usage: numerics.py --self-test")
  self_test()
