# ufp4 - cases with difficult numbers for the comparison of the library with tests/oracle/numerics.py.
# SPDX-License-Identifier: Apache-2.0
"""Every case is a pure function of (seed, family, index), so one that failed can be run alone.

A case is a payload for tests/oracle/driver.cpp and a function that computes the fields the driver should answer with.
Payload: unsigned 64-bit little-endian scalars; strings and arrays as their byte length and their bytes.
"""
import dataclasses
import math
import struct
import zlib

import numpy as np

import compat
import numerics as model
from numerics import PRESETS, Format, Rounding, Shard, Transform

f32 = np.float32

# ---- What the driver knows by name -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Variant:
  """One (format, scale rule) pair; the names in driver.cpp are these."""
  name: str
  format: Format
  rule: object = None  # a name, or a model.Rule
  all_transforms: bool = False  # otherwise: none, hadamard<16>, random<16>, random<64>, signed<16>


def users_rule(x, amax):
  """The function `users_rule` of driver.cpp: not every scale is finite and positive."""
  return np.where(x[:, 0] == 0, x[:, 1], (x[:, 0] + 2 * amax) / f32(16)).astype(f32)


def _variants():
  square = {n: dataclasses.replace(PRESETS[n], name=n + "_square", block=b, square=True)
            for n, b in (("nvfp4", 16), ("e1m2_f32", 16), ("mxint4", 32), ("mxint8", 32))}
  def block(element, scale, n=16, tensor=False):
    return Format(f"{element.name}_{scale.name}_{n}{'_two' if tensor else ''}", element, scale, n, tensor)
  one = [block(e, s) for e, s in ((model.E2M1, model.BF16), (model.E1M2, model.E4M3), (model.INT4, model.UE5M3),
                                  (model.E3M0, model.FLOAT), (model.E2M1, model.UE5M3), (model.E2M1, model.E4M3))]
  two = [block(e, s, tensor=True) for e, s in ((model.E2M1, model.UE5M3), (model.E3M0, model.E4M3),
                                               (model.E1M2, model.UE5M3))]
  e3m0_mx = block(model.E3M0, model.E8M0, 32)
  nf4 = block(model.NF4, model.FLOAT)
  int8 = block(model.INT8, model.E4M3, tensor=True)
  P = PRESETS
  core = ("e1m2_f32", "nvfp4", "mxfp4")
  out = [Variant(n, f, None, n in core) for n, f in P.items()]
  row = Format("E2M1_e4m3_16_row", model.E2M1, model.E4M3, 16, outer="row")
  outer = (row, Format("E2M1_e4m3_16_bf16", model.E2M1, model.E4M3, 16, True, outer_type=model.BF16),
           Format("int4_ue5m3_square_32_bf16", model.INT4, model.UE5M3, 16, square=True, outer=32,
                  outer_type=model.BF16),
           Format("E2M1_e4m3_16_48", model.E2M1, model.E4M3, 16, outer=48),
           Format("int4_ue5m3_16_80_bf16", model.INT4, model.UE5M3, 16, outer=80, outer_type=model.BF16),
           Format("E2M1_e4m3_square_48_bf16", model.E2M1, model.E4M3, 16, square=True, outer=48,
                  outer_type=model.BF16),
           Format("nf4_e4m3_16_1040", model.NF4, model.E4M3, 16, outer=1040))
  e1m2_times_4, int4_of_6 = (model.E1M2, f32(4)), (model.INT4, f32(6) / f32(7))
  several = (
      Format("pair_float", model.E1M2, model.FLOAT, 16, more=((model.E2M1, f32(1)),)),
      Format("pair_bf16_square", model.INT4, model.BF16, 16, square=True, more=((model.E2M1, f32(7) / f32(6)),)),
      Format("four_e4m3_row", model.E2M1, model.E4M3, 16, outer="row",
             more=(e1m2_times_4, int4_of_6, (model.NF4, f32(6)))),
      Format("pair_ue5m3_two", model.E2M1, model.UE5M3, 16, True, more=(int4_of_6,)),
      Format("pair_e8m0", model.E2M1, model.E8M0, 32, more=(e1m2_times_4,)),
      Format("pair_ue5m3_32_96", model.E2M1, model.UE5M3, 32, outer=96, more=(int4_of_6,)))
  out += [Variant(f.name, f) for f in (*square.values(), *one, *two, e3m0_mx, nf4, int8, *outer, *several)]
  groups = (Format("e2m1_e8m0_groups", model.E2M1, model.E8M0, 32, groups=(8,)),
            Format("e1m2_e4m3_groups", model.E1M2, model.E4M3, 16, True, groups=(8, 2)),
            Format("e1m2_e4m3_groups_160", model.E1M2, model.E4M3, 32, outer=160, groups=(8, 2)),
            Format("e2m1_e6m2", model.E2M1, model.E6M2, 16))
  out += [Variant(f.name, f) for f in groups] + [Variant("hif4/scale_up", P["hif4"], "scale_up")]
  out += [Variant(f"if4/choose_grid_{by}", P["if4"], f"choose_grid_{by}") for by in ("absolute", "largest")]
  out += [Variant("if4/scale_up", P["if4"], "scale_up"), Variant("pair_e8m0/mx_ceil", several[4], "mx_ceil")]
  out += [Variant(f"{f.name}/{r}", f, r) for f in (P["mxfp4"], P["mxint4"], P["mx_e1m2"], e3m0_mx, P["mxint8"])
          for r in ("mx_even", "mx_ceil")]
  out += [Variant("mxfp8_e4m3/mx_even", P["mxfp8_e4m3"], "mx_even"),
          Variant("mxfp8_e5m2/mx_ceil", P["mxfp8_e5m2"], "mx_ceil"),
          Variant("mxfp6_e2m3/mse_search", P["mxfp6_e2m3"], "mse_search")]
  out += [Variant(f"{f.name}/scale_up", f, "scale_up") for f in (P["nvfp4"], P["nv_e1m2"], *one[:3], two[0], row, int8)]
  out += [Variant(f"{f.name}/four_over_six", f, "four_over_six") for f in (P["nvfp4"], square["nvfp4"], P["tetrajet2"])]
  out += [Variant(f"{f.name}/mse_search", f, "mse_search")
          for f in (P["e1m2_f32"], P["e2m1_f32"], P["nvfp4"], P["nvint4"], P["mxfp4"], P["mx_e1m2"], one[1], one[2],
                    square["nvfp4"], P["int8_f32"], P["mxint8"], one[0], nf4, P["tetrajet2"])]
  out += [Variant(f"{f.name}/mae_search", f, "mae_search") for f in (P["nvfp4"], P["mxfp4"], P["e2m1_f32"], nf4)]
  R = model.Rule
  out += [Variant("nvfp4/four_over_six_mae", P["nvfp4"], R("four_over_six", absolute=True)),
          Variant("nvfp4/scale_up_wide_search", P["nvfp4"], R("scale_up", searches=True, below=5, above=9)),
          Variant("mxint4/mx_ceil_mae_wide_search", P["mxint4"], R("mx_ceil", True, True, 4, 3)),
          Variant("e1m2_f32/mse_search_above", P["e1m2_f32"], R("nearest", searches=True, below=0, above=5)),
          Variant("nvfp4_square/percentile", square["nvfp4"], R("percentile", per_mille=990))]
  out += [Variant(f"{f.name}/percentile", f, R("percentile", per_mille=900))
          for f in (P["nvfp4"], P["mxfp4"], P["int4_f32"], one[0])]
  out += [Variant("nvint4/percentile_search", P["nvint4"], R("percentile", searches=True, per_mille=940))]
  out += [Variant(f"{f.name}/percentile", f, R("percentile", per_mille=900))
          for f in (P["mixfp4"], P["hif4"], several[0], several[4])]
  out += [Variant("mixfp4/choose_grid_absolute", P["mixfp4"], "choose_grid_absolute"),
          Variant("razer/choose_grid_largest", P["razer"], "choose_grid_largest")]
  out += [Variant(f"{f.name}/mse_search", f, "mse_search")
          for f in (P["if4"], P["mixfp4"], P["razer"], P["hif4"], several[0], several[1], several[2], several[4], groups[1])]
  out += [Variant(f"{f.name}/mae_search", f, "mae_search") for f in (P["if4"], P["hif4"], several[3], groups[0])]
  out += [Variant("mixfp4/percentile_search_largest", P["mixfp4"],
                  R("percentile", searches=True, per_mille=900, grids="largest"))]
  out += [Variant(f"{f.name}/users_rule", f, R("users_rule", function=users_rule))
          for f in (P["nvfp4"], P["mxfp4"], P["e2m1_f32"], one[0], square["nvfp4"], P["tetrajet2"])]
  return {v.name: v for v in out}


VARIANTS = _variants()
PAIRS = (("e1m2_f32", "e1m2_f32"), ("e1m2_f32", "int4_f32"), ("e2m1_f32", "nvfp4"), ("nvfp4", "nvfp4"),
         ("nvfp4", "nvfp4_square"), ("nvint4", "e1m2_f32"), ("nv_e1m2", "nvint4"), ("mxfp4", "mxfp4"),
         ("mxint4", "mx_e1m2"), ("nf4_float_16", "nf4_float_16"), ("e1m2_f32", "nf4_float_16"),
         ("tetrajet2", "tetrajet2"), ("nvfp4", "E2M1_e4m3_16_row"),
         ("E2M1_e4m3_16_48", "E2M1_e4m3_16_48"), ("tetrajet2", "E2M1_e4m3_16_48"), ("if4", "if4"), ("nvfp4", "if4"),
         ("hif4", "hif4"), ("mixfp4", "razer"), ("mxfp8_e4m3", "mxfp4"), ("mxfp6_e2m3", "mxfp8_e5m2"),
         ("int8_f32", "nvfp4"), ("mxint8", "mxfp4"), ("mxint8", "mxint8"), ("nvint4", "int8_f32"),
         ("int8_f32", "nf4_float_16"))
PAIRS_16_BIT_OUT = PAIRS[0], PAIRS[3], PAIRS[7]
PLAIN_LEFT = ("e1m2_f32", "nvfp4", "mxfp4", "nvint4", "nf4_float_16", "tetrajet2", "if4", "hif4", "int8_f32", "razer",
              "mxfp6_e3m2")
FLY = (("e1m2_f32", "int4_f32"), ("nvfp4", "nvfp4"), ("mxfp4", "mxint4"))  # quantized inside the GEMM, random<64>
MEASURED = ("e1m2_f32", "e2m1_f32", "nvfp4", "mxfp4", "int4_f32", "tetrajet2", "if4", "mixfp4", "razer", "hif4")

# ---- Input numbers -----------------------------------------------------------------------------------------------

FINITE_KINDS = ("gauss", "laplace", "student", "cauchy", "wide", "ties", "scale_ties", "zeros", "tiny", "subnormal",
                "huge", "overflow", "bits", "constant", "outlier", "small_global_amax", "edges")
KINDS = FINITE_KINDS + ("any_bits", "holes", "inf_block")
MODERATE_KINDS = ("gauss", "laplace", "student", "cauchy", "zeros", "outlier", "constant", "ties")
SEEDS = (0, 1, 42, 2**32 - 1, 2**32, 2**63, 2**64 - 1)


def matrix(rng, rows, cols, kind, fmt):
  shape = (rows, cols)
  x = rng.standard_normal(shape)
  if kind == "laplace":
    x = rng.laplace(size=shape)
  elif kind == "student":
    x = rng.standard_t(3, shape)
  elif kind == "cauchy":
    x = rng.standard_cauchy(shape) * 2.0**rng.integers(-40, 40)
  elif kind == "wide":
    x = x * np.exp2(rng.uniform(-150, 126, shape))
  elif kind in ("ties", "scale_ties", "edges"):
    x = _on_boundaries(rng, shape, kind, fmt)
  elif kind == "zeros":
    x = np.where(rng.random(shape) < .7, np.where(rng.random(shape) < .5, 0., -0.), x)
    x[rng.random(rows) < .3] = -0.
  elif kind == "tiny":
    x = x * 2.0**rng.integers(-149, -120)
  elif kind == "subnormal":
    x = rng.integers(-40, 41, shape) * 2.0**-149
  elif kind == "huge":
    x = np.sign(x) * rng.uniform(.2, 1, shape) * float(model.FLT_MAX)
  elif kind == "overflow":  # overflows in transforms, in sums of two or of many
    x = np.where(rng.random(shape) < .2, np.sign(x) * float(model.FLT_MAX) * rng.uniform(.1, 1), x)
  elif kind == "constant":
    x = np.full(shape, rng.choice([1., -3., 7., .1, 1e-30, 6., 1.75]))
  elif kind == "outlier":
    x[rng.random(shape) < .06] *= 10.0**rng.integers(1, 20)
  elif kind == "small_global_amax":  # the clamp on e (section 5)
    x = np.clip(x, -4, 4) * 2.0**rng.integers(-130, -112)
  elif kind in ("bits", "any_bits"):
    x = model.float_of(rng.integers(0, 2**32, shape, np.uint64).astype(np.uint32))
    if kind == "bits":
      x = np.where(np.isfinite(x), x, f32(1))
  elif kind == "holes":
    x[rng.random(shape) < .02] = rng.choice([np.nan, np.inf, -np.inf])
  elif kind == "inf_block" and cols:
    start = rng.integers(0, cols)
    x[rng.integers(0, rows) if rows else slice(0), start:start + 3] = rng.choice([np.nan, np.inf, -np.inf])
  return np.asarray(x).astype(f32)


def _on_boundaries(rng, shape, kind, fmt):
  """Blocks whose maximum makes the scale exact (or half-way between two scales) and whose elements are midpoints of the
  grid, or midpoints moved by an ulp."""
  rows, cols = shape
  b = fmt.block
  blocks = cols // b + 1
  exponent = rng.integers(-20, 20, (rows, blocks, 1))
  pick = rng.choice(midpoints(fmt.element.values), (rows, blocks, b))
  top = np.full((rows, blocks, 1), float(fmt.element.qmax))
  if kind == "scale_ties":
    base = 1 + rng.integers(0, 17, (rows, blocks, 1)) / 16  # e4m3's eighths and the points half-way
    top, pick = top * base, pick * base
    if fmt.scale is model.E8M0:
      top = np.exp2(fmt.element.exponent) * (1 + rng.integers(0, 33, (rows, blocks, 1)) / 32.)
  at = rng.integers(0, b, (rows, blocks, 1))
  x = np.where(np.arange(b) == at, top, pick) * np.exp2(exponent) * rng.choice([-1., 1.], (rows, blocks, b))
  x = x.reshape(rows, blocks * b)[:, :cols].astype(f32)
  if kind == "edges" or kind == "scale_ties":
    x = np.where(rng.random(shape) < .5, np.nextafter(x, rng.choice([-np.inf, np.inf], shape).astype(f32)), x)
  if fmt.tensor_scale and rows and cols:  # a power of two for S
    x[0, 0] = f32(float(fmt.scale.largest) * float(fmt.element.qmax) * 2.0**12)
    x[~np.isfinite(x)] = 1
  return x


def any_seed(rng):
  if rng.random() < .3:
    return int(rng.choice(np.array(SEEDS, np.uint64)))
  return int(rng.integers(0, 2**64, dtype=np.uint64))


def any_rounding(rng):
  kind = rng.choice(["nearest_even", "nearest_even", "nearest_away", "toward_zero", "stochastic", "stochastic"])
  return Rounding(str(kind), any_seed(rng), any_seed(rng)) if kind == "stochastic" else Rounding(str(kind))


@dataclasses.dataclass(frozen=True)
class NamedTransform:
  kind: str = "none"  # none, plain, random, signed
  n: int = 1
  seed: int = 0
  signs: tuple = ()
  to_bf16: bool = False

  def built(self):
    if self.kind == "plain":
      return model.hadamard(self.n, self.to_bf16)
    if self.kind == "random":
      return model.random_hadamard(self.n, self.seed, self.to_bf16)
    if self.kind == "signed":
      return model.signed_hadamard(self.signs, self.to_bf16)
    return model.IDENTITY


def any_transform(rng, everything, kind=None, n=None):
  few = (("none", 1), ("none", 1), ("plain", 16), ("random", 16), ("random", 64), ("signed", 16))
  if kind is None:
    if everything and rng.random() < .7:
      kind, n = str(rng.choice(["plain", "random", "signed"])), int(rng.choice([16, 32, 64, 128, 256]))
    else:
      kind, n = few[rng.integers(0, len(few))]
  if kind == "none":
    return NamedTransform()
  signs = tuple(int(s) for s in rng.choice([-1, 1], n)) if kind == "signed" else ()
  return NamedTransform(kind, n, any_seed(rng) if kind == "random" else 0, signs, bool(rng.random() < .25))


# ---- Payloads --------------------------------------------------------------------------------------------------------


def pack(*items):
  out = []
  for item in items:
    if isinstance(item, str):
      item = item.encode()
    elif isinstance(item, np.ndarray):
      item = np.ascontiguousarray(item).tobytes()
    if isinstance(item, bytes):
      out += [struct.pack("<Q", len(item)), item]
    else:
      out.append(struct.pack("<Q", int(item)))
  return b"".join(out)


def pack_rounding(r):
  return pack(r.kind, r.seed, r.stream)


def pack_transform(t):
  return pack(t.kind, t.n, t.seed, np.array(t.signs, np.int8), t.to_bf16)


def pack_matrix(x, kind="float", layout="packed"):
  data = model.bits_of(x) if kind == "float" else model.store(x, kind).astype(np.uint16)
  return pack(kind, layout, x.shape[0], x.shape[1], data)


def pack_view(variant, q):
  return pack(variant, q.packed(), q.scale_bytes(), np.array([q.tensor_scale], f32), q.rows, q.cols)


@dataclasses.dataclass
class Case:
  family: str
  index: int
  about: dict
  payload: bytes
  expect: object  # () -> [Field], or raises model.InvalidArgument


@dataclasses.dataclass
class Field:
  """bits: compared as they are; float: any NaN equals any NaN; close: binary64 to 1e-10 of the larger of it and 1 (sums
  in any order); relative: to 1e-10 of it; bound: within `slack` of the value, NaN where the value is NaN, unjudged
  where slack is infinite."""
  name: str
  mode: str
  value: np.ndarray
  slack: np.ndarray = None


def quantize_fields(q):
  return [Field("padded_cols", "bits", np.array([q.padded_cols], np.uint64)),
          Field("codes", "bits", q.packed()),
          Field("scales", "bits", q.scale_bytes()),
          Field("tensor_scale", "bits", model.bits_of([q.tensor_scale])),
          Field("report", "bits", np.array([q.report.nonfinite_blocks, q.report.saturated,
                                            q.report.underflowed_scales], np.uint64)),
          Field("dequantized", "float", model.dequantize(q))]


def quantize_case(family, index, variant, x, transform=NamedTransform(), rounding=model.NEAREST_EVEN, amax=None,
                  shard=None, kind="float", layout="packed", whole=None, about=None):
  """`whole` = (matrix, policies, rows, first column): expect the codes of that part of the whole's quantization."""
  v = VARIANTS[variant]
  payload = pack("quantize", variant) + pack_matrix(x, kind, layout) + pack_transform(transform)
  payload += pack_rounding(rounding) + pack(amax is not None, np.array([0 if amax is None else amax], f32))
  s = shard or Shard(0, 0, 0)
  payload += pack(shard is not None, s.first_row, s.first_col, s.total_cols)

  def expect():
    q = model.quantize(x, v.format, transform.built(), rounding, v.rule, amax, shard)
    if whole is not None:
      full, row, col = whole
      of_whole = model.quantize(full, v.format, transform.built(), rounding, v.rule, amax)
      assert (of_whole.codes[row:row + q.rows, col:col + q.padded_cols] == q.codes).all()
    return quantize_fields(q)

  facts = dict(variant=variant, shape=x.shape, transform=(transform.kind, transform.n, hex(transform.seed),
               transform.to_bf16), rounding=(rounding.kind, hex(rounding.seed), hex(rounding.stream)),
               tensor_amax=None if amax is None else float(amax).hex(), shard=shard, input=kind, layout=layout)
  return Case(family, index, {**facts, **(about or {})}, payload, expect)


# ---- Families --------------------------------------------------------------------------------------------------------


def boundary_floats(rng, points):
  """Each point, its neighbours within two ulps, all with both signs, and any 4000 bit patterns."""
  raw = model.bits_of(np.asarray(points, f32)).astype(np.int64)
  near = np.clip(raw[:, None] + np.arange(-2, 3), 0, 0x7FFFFFFF).ravel().astype(np.uint32)
  special = np.array([0, 1, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF], np.uint32)
  both = np.concatenate([near, special])
  any_bits = rng.integers(0, 2**32, 4000, np.uint64).astype(np.uint32)
  moderate = model.bits_of((rng.standard_normal(2000) * np.exp2(rng.integers(-20, 20, 2000))).astype(f32))
  return model.float_of(np.concatenate([both, both | np.uint32(0x80000000), any_bits, moderate]))


def midpoints(values):
  """The values and the points half-way between neighbours, without their signs."""
  v = np.unique(np.asarray(values, np.float64))
  v = v[np.isfinite(v)]
  return np.abs(np.concatenate([v, (v[:-1] + v[1:]) / 2]))


def convert(rng, index):
  """Conversions of the scalar types, and the value of every code."""
  elements = (*model.ELEMENTS, model.NF4)
  names = [e.name for e in elements] + ["bf16", "fp16", "e4m3", "ue5m3", "e8m0", "e6m2"]
  name = names[index % len(names)]
  element = next((e for e in elements if e.name == name), None)
  scale = next((s for s in model.SCALES if s.name == name), None)
  if element:
    x = boundary_floats(rng, midpoints(element.values))
    bits = model.round_element(x, element).astype(np.uint32)
    codes, values = np.arange(len(element.values), dtype=np.uint32), element.values
  elif scale and scale.bytes == 1:
    codes = np.arange(256, dtype=np.uint32)
    values = scale.decode(codes)
    x = boundary_floats(rng, midpoints(values[~np.isnan(values)]))
    bits = scale.encode(x)
  else:
    codes = np.arange(65536, dtype=np.uint32)
    values = model.load(codes, name)
    grid = np.concatenate([codes[:0x7F80:7], np.arange(0x7F70, 0x7F80)]) if name == "bf16" else codes[:0x7C00:3]
    grid = model.load(grid, name).astype(np.float64)
    x = boundary_floats(rng, midpoints(grid))
    bits = scale.encode(x) if scale else model.store(x, name)
    if name == "fp16":  # "A NaN is any NaN": compare them as one
      bits = np.where(np.isnan(x), 0x7E00, bits).astype(np.uint32)
  payload = pack("convert", name, model.bits_of(x), codes)
  return Case("convert", index, dict(type=name), payload, lambda: [
      Field("bits", "bits", bits), Field("values", "float", values)])


def any_shape(rng, run, square):
  rows = int(rng.choice([0, 1, 1, 2, 3, 5, 8, 17] if not square else [0, 1, 7, 16, 17, 33]))
  cols = int(rng.choice([0, 1, run - 1, run, run + 1, 2 * run, rng.integers(0, 3 * run + 2), rng.integers(0, 3 * run)]))
  return rows, min(cols, 600)


def any_amax(rng, x):
  finite = np.abs(x[np.isfinite(x)])
  real = float(finite.max()) if finite.size else 1.
  return f32(rng.choice([0, 2.0**-149, 2.0**-126, 2.0**-118, 2.0**-110, 1, 2.0**100, float(model.FLT_MAX), real, real,
                         min(real * 3, 3e38), real / 7]))


def whole_columns(fmt, n):
  """The least number of columns that is whole blocks, runs of n and segments of outer scales."""
  run = max(n, fmt.block)
  return run if fmt.outer in (None, "row") else math.lcm(run, fmt.outer)


def quantize_any(variant):
  def make(rng, index):
    v = VARIANTS[variant]
    transform = any_transform(rng, v.all_transforms)
    rows, cols = any_shape(rng, whole_columns(v.format, transform.n), v.format.square)
    data = KINDS[index % len(KINDS)]
    x = matrix(rng, rows, cols, data, v.format)
    kind, layout = "float", str(rng.choice(["packed", "strided", "transposed"]))
    if v.all_transforms and transform.kind == "none" and rng.random() < .5:
      kind = str(rng.choice(["bf16", "fp16"]))
      x = model.load(model.store(x, kind), kind)
    amax = any_amax(rng, x) if rng.random() < .3 else None
    rounding = any_rounding(rng)
    if index % 4 == 0:  # an error without a transform of the block's length
      rounding = Rounding("eden", any_seed(rng), any_seed(rng))
    shard = None
    if rng.random() < .3:
      shard = Shard(int(rng.integers(0, 2**34)) * (v.format.block if v.format.square else 1), 0, cols)
    return quantize_case("quantize/" + variant, index, variant, x, transform, rounding, amax, shard, kind,
                         layout, about=dict(data=data))
  return make


def ties(rng, index):
  """Untransformed midpoints of every grid and every scale type, under every rounding."""
  names, kinds = list(VARIANTS), ("nearest_even", "nearest_away", "toward_zero", "stochastic")
  variant, kind = names[index % len(names)], kinds[index // len(names) % 4]
  rounding = Rounding(kind, any_seed(rng), any_seed(rng)) if kind == "stochastic" else Rounding(kind)
  data = str(rng.choice(["ties", "ties", "edges", "scale_ties"]))
  return quantize_case("ties", index, variant, matrix(rng, 6, 96, data, VARIANTS[variant].format), rounding=rounding,
                       about=dict(data=data))


def compares_errors(v):
  if v.format.more:
    return v.name.startswith(("if4", "mixfp4", "razer"))  # which of its grids a block has
  rule = model.rule_of(v.rule, v.format)
  return rule.searches or rule.name == "four_over_six"


SEARCHES = [name for name, v in VARIANTS.items() if compares_errors(v)]


def knife_edge(rng, index):
  """Blocks on which a search prefers one scale, an ulp or so of one element from where it prefers another: the order
  and the fma of its sum decide."""
  variant = SEARCHES[index % len(SEARCHES)]
  v = VARIANTS[variant]
  block, tall = v.format.block, v.format.block if v.format.square else 1
  x = rng.standard_normal((tall, block * (4 if v.format.square else 80))).astype(f32)
  global_amax = np.abs(x).max()
  movable = x[0, ::block]  # one element of every block, a view; the others keep each block's largest
  amax = np.abs(x).reshape(tall, -1, block).max(axis=(0, 2))
  keep = amax > np.abs(movable)

  def prefers(at):
    movable[:] = at
    q = model.quantize(x, v.format, rule=v.rule, tensor_amax=global_amax)
    return q.scales[0] if q.grids is None else q.grids[0]

  original = movable.copy()
  low, first = np.zeros_like(original), prefers(np.where(keep, f32(0), original))
  high, found = original.copy(), np.zeros(len(original), bool)
  for share in np.linspace(.1, .99, 8).astype(f32):
    differs = keep & ~found & (prefers(np.where(keep, amax * share, original)) != first)
    high = np.where(differs, amax * share, high)
    found |= differs
  low, high = model.bits_of(low).astype(np.int64), model.bits_of(np.abs(high)).astype(np.int64)
  for _ in range(30):
    middle = (low + high) // 2
    same = prefers(np.where(found, model.float_of(middle.astype(np.uint32)), original)) == first
    low, high = np.where(found & same, middle, low), np.where(found & ~same, middle, high)
  edge = low + rng.integers(-2, 4, len(low))
  movable[:] = np.where(found, model.float_of(np.maximum(edge, 0).astype(np.uint32)), original)
  return quantize_case("knife_edge", index, variant, x, amax=global_amax, about=dict(edges=int(found.sum())))


TAILS = [(variant, kind, n, cols)
         for variant, kind, n in (("e1m2_f32", "none", 1), ("e1m2_f32", "random", 16), ("e1m2_f32", "random", 64),
                                  ("nvfp4", "none", 1), ("nvfp4", "signed", 32), ("mxfp4", "none", 1),
                                  ("mxfp4", "plain", 16), ("mxfp4", "random", 128), ("nvfp4", "random", 256))
         for cols in range(2 * max(n, PRESETS[variant].block) + 2) if n < 128 or cols % 7 < 2 or cols % n < 2]


def tails(rng, index):
  variant, kind, n, cols = TAILS[index % len(TAILS)]
  fmt = VARIANTS[variant].format
  x = matrix(rng, 2, cols, str(rng.choice(["gauss", "cauchy", "ties", "holes"])), fmt)
  transform = any_transform(rng, True, kind, n)
  return quantize_case("tails", index, variant, x, transform, any_rounding(rng))


def shards(rng, index):
  """Parts of a whole: rows, columns, both; at places that need all 64 bits of the index; and misplaced ones."""
  variant = str(rng.choice(["e1m2_f32", "nvfp4", "mxfp4", "nvfp4_square", "mxint4_square", "nvfp4/scale_up",
                            "tetrajet2", "int4_ue5m3_square_32_bf16", "E2M1_e4m3_16_48", "pair_ue5m3_32_96"]))
  v = VARIANTS[variant]
  transform = any_transform(rng, v.all_transforms)
  run = whole_columns(v.format, transform.n)
  rounding = Rounding("stochastic", any_seed(rng), any_seed(rng))
  total = int(rng.integers(1, 4)) * run + int(rng.integers(0, run + 1))
  total = min(total, 900 // run * run + 1)
  grain = v.format.block if v.format.square else 1
  all_rows = int(rng.integers(1, 5)) * grain + int(rng.integers(0, 3))
  full = matrix(rng, all_rows, total, str(rng.choice(MODERATE_KINDS + ("holes", "huge"))), v.format)
  amax = f32(rng.uniform(1, 100)) if v.format.tensor_scale else None
  row = int(rng.integers(0, (all_rows + grain - 1) // grain)) * grain
  col = int(rng.integers(0, (total + run - 1) // run)) * run
  cols = total - col if rng.random() < .5 else min(run * int(rng.integers(1, 3)), total - col)
  rows = all_rows - row if rng.random() < .5 else min(grain, all_rows - row)
  part = full[row:row + rows, col:col + cols]
  mode = index % 4
  if mode < 2:
    return quantize_case("shards", index, variant, part, transform, rounding, amax, Shard(row, col, total),
                         whole=(full, row, col))
  if mode == 2:
    far = Shard(int(rng.integers(0, 2**22)) * grain, int(rng.integers(0, 2**25)) * run, 2**34 + 16)
    cols = part.shape[1] // run * run
    return quantize_case("shards", index, variant, part[:, :cols], transform, rounding, amax, far)
  wrong = [Shard(row, col + 8, total + run), Shard(row, col, col + max(cols - 1, 0))][int(rng.integers(0, 2))]
  return quantize_case("shards", index, variant, part, transform, rounding, amax, wrong)


def bad_amax(rng, index):
  variant = str(rng.choice(["nvfp4", "nvint4", "nvfp4_square"]))
  x = matrix(rng, 2, 32, "gauss", VARIANTS[variant].format)
  return quantize_case("bad_amax", index, variant, x, amax=f32([np.nan, np.inf, -np.inf, -1, -2.0**-149][index % 5]))


def fake(rng, index):
  """fake_quantize, with the transform undone and without."""
  variant = ("e1m2_f32", "nvfp4", "mxfp4")[index % 3]
  v = VARIANTS[variant]
  transform, rounding = any_transform(rng, True), any_rounding(rng)
  rows, cols = any_shape(rng, max(transform.n, v.format.block), False)
  x = matrix(rng, rows, cols, str(rng.choice(KINDS)), v.format)
  undo = bool(rng.random() < .7)
  payload = pack("fake", variant) + pack_matrix(x) + pack_transform(transform) + pack_rounding(rounding) + pack(undo)
  return Case("fake_quantize", index, dict(variant=variant, shape=x.shape, undo=undo, transform=(
      transform.kind, transform.n, transform.to_bf16), rounding=rounding.kind), payload, lambda: [
      Field("out", "float", model.fake_quantize(x, v.format, transform.built(), undo, rounding=rounding))])


def any_quantized(rng, variant, rows, cols, kind, raw):
  """A quantized matrix: of hostile numbers, or of any bits whatever (every code, every scale, NaN among them)."""
  fmt = VARIANTS[variant].format
  if not raw:
    return model.quantize(matrix(rng, rows, cols, kind, fmt), fmt)
  padded = model.round_up(cols, fmt.block)
  codes = rng.integers(0, len(fmt.element.values), (rows, padded)).astype(np.uint8)
  scale_rows = model.round_up(rows, fmt.block) // fmt.block if fmt.square else rows
  shape = (scale_rows, padded // fmt.block)
  if fmt.scale is model.FLOAT:
    scales = model.bits_of(np.exp2(rng.uniform(-80, 80, shape)).astype(f32))
    odd = rng.random(shape) < .1
    extreme = rng.choice(np.array([0, 1, 0x7F7FFFFF, 0x7FC00000, 0x7F000000, 0x00800000], np.uint32), shape)
    scales = np.where(odd, extreme, scales).astype(np.uint32)
  else:
    positive = {model.E4M3: 0x7F, model.E8M0: 0xFF, model.E6M2: 0xFF}[fmt.scale]
    scales = rng.integers(0, positive, shape).astype(np.uint32)
    if rng.random() < .3:
      scales[rng.random(shape) < .05] = positive
  tensor = f32(np.exp2(rng.uniform(-60, 60))) if fmt.tensor_scale else model.ONE
  outer = None
  if fmt.outer is not None:
    count = -(-padded // max(fmt.covered(padded), 1))
    outer = model.bits_of(np.exp2(rng.uniform(-60, 60, (scale_rows, count))).astype(f32))
  grids = rng.integers(0, len(fmt.more) + 1, shape) if fmt.more else None
  exponents = [rng.integers(0, 2, (rows, padded // size)).astype(np.uint8) for size in fmt.groups] or None
  return model.Quantized(fmt, rows, cols, codes, scales, tensor, outer=outer, grids=grids, exponents=exponents)


def hadamard(rng, index):
  """The transform alone, both ways, on whole runs."""
  kind, n = ("plain", "random", "signed")[index % 3], (16, 32, 64, 128, 256)[index // 3 % 5]
  transform = any_transform(rng, True, kind, n)
  x = matrix(rng, int(rng.integers(0, 5)), n * int(rng.integers(0, 4)), str(rng.choice(KINDS)), PRESETS["e1m2_f32"])
  payload = pack("hadamard") + pack_matrix(x, layout=str(rng.choice(["packed", "strided", "transposed"])))
  return Case("hadamard", index, dict(transform=(kind, n, transform.to_bf16), shape=x.shape), payload +
              pack_transform(transform), lambda: [Field("forward", "float", model.forward(x, transform.built())),
                                                  Field("inverse", "float", model.inverse(x, transform.built()))])


def raw_dequantize(rng, index):
  names = [n for n, v in VARIANTS.items() if n in PRESETS or n in ("nvfp4_square", "e1m2_f32_square", "nf4_float_16")]
  variant = names[index % len(names)]
  q = any_quantized(rng, variant, int(rng.integers(0, 20)), int(rng.integers(0, 100)), "", True)
  return Case("dequantize", index, dict(variant=variant, shape=(q.rows, q.cols)), pack("dequantize") +
              pack_view(variant, q), lambda: [Field("out", "float", model.dequantize(q))])


def casts(rng, index):
  """One preset in another: any codes and scales, most of them close together, or those of numbers."""
  names = [n for n, f in PRESETS.items() if len(f.element.values) == 16]
  variant, to = names[index % len(names)], names[index // len(names) % len(names)]
  raw = index // len(names)**2 % 3 != 0
  q = any_quantized(rng, variant, int(rng.integers(0, 12)), int(rng.integers(0, 300)), str(rng.choice(KINDS)), raw)
  if raw and q.format.scale is model.E8M0 and index % 3:
    q.scales[...] = rng.integers(100, 100 + int(rng.integers(1, 24)), q.scales.shape)

  def expect():
    out, report, _ = model.cast(q, PRESETS[to])
    return [Field("padded_cols", "bits", np.array([out.padded_cols], np.uint64)), Field("codes", "bits", out.packed()),
            Field("scales", "bits", out.scale_bytes()),
            Field("tensor_scale", "bits", model.bits_of([out.tensor_scale])),
            Field("report", "bits", np.array(report, np.uint64))]

  return Case("cast", index, dict(variant=variant, to=to, shape=(q.rows, q.cols)), pack("cast", to) +
              pack_view(variant, q), expect)


def any_factors(rng):
  alpha = f32(rng.choice([1, 1, -1, .5, 3.1415927, 0, 1e30, 2.0**-140]))
  beta = f32(rng.choice([0, 0, 0, 1, -1, .3333, 1e-30]))
  return alpha, beta


def any_c(rng, shape, beta, kind):
  c = rng.standard_normal(shape).astype(f32) * f32(10)
  if beta == 0:
    c[:] = f32(np.nan)  # must not be read
  return model.load(model.store(c, kind), kind)


def product_field(out, kind):
  if kind == "float":
    return Field("c", "float", out)
  values = model.load(model.store(out, kind), kind)
  return Field("c", "float", np.where(np.isnan(out), f32(np.nan), values))


def bound_field(e, slack, kind):
  """`slack` grows by half an ulp of the output type at the result; results that leave the type's range are unjudged."""
  smallest, digits, largest = {"float": (-149, 24, 3.4e38), "bf16": (-133, 8, 3.3e38), "fp16": (-24, 11, 65000.)}[kind]
  reach = np.abs(e) + slack
  half_ulp = np.maximum(reach * 2.0**-digits, 2.0**(smallest - 1))
  return Field("c", "bound", e, np.where(reach < largest, slack + half_ulp, np.inf))


def gemm_shape(rng):
  return (int(rng.choice([0, 1, 2, 5, 8, 17, 33])), int(rng.choice([0, 1, 3, 4, 16, 19, 40])),
          int(rng.choice([0, 1, 15, 16, 17, 31, 32, 33, 64, 80, 130])))


def gemm(accumulate):
  def make(rng, index):
    names = PAIRS[index % len(PAIRS)]
    kind = "float"
    if names in PAIRS_16_BIT_OUT and rng.random() < .4:
      kind = str(rng.choice(["bf16", "fp16"]))
    m, n, k = gemm_shape(rng)
    exact = accumulate == "exact_blocks"
    beyond = ("holes", "huge", "tiny", "wide") if accumulate == "fast" else ("holes", "huge")
    data = KINDS if exact else MODERATE_KINDS + beyond
    a, b = (any_quantized(rng, v, r, k, str(rng.choice(data)), exact and rng.random() < .5)
            for v, r in zip(names, (m, n)))
    alpha, beta = any_factors(rng)
    if not exact:
      alpha = f32(rng.choice([1, -1, .5, 3.1415927, 1000]))
    folded = 2.0**-7 if accumulate == "folded_bf16" else 0.0  # 2^-8 for the rounding of either operand
    c = any_c(rng, (m, n), beta, kind)
    layout = str(rng.choice(["packed", "strided"]))
    payload = pack("gemm", accumulate) + pack_view(names[0], a) + pack_view(names[1], b)
    payload += pack_matrix(c, kind, layout) + pack(np.array([alpha, beta], f32))

    def expect():
      if exact:
        return [product_field(model.exact_blocks(a, b, alpha, beta, c), kind)]
      return [bound_field(*model.fast_bound(model.wide(a), model.wide(b), a.tensor_scale, b.tensor_scale, alpha, beta,
                                            c, folded), kind)]

    return Case("gemm/" + accumulate, index, dict(formats=names, mnk=(m, n, k), out=kind, layout=layout, alpha=alpha,
                                                  beta=beta), payload, expect)
  return make


def gemm_plain(accumulate):
  def make(rng, index):
    variant = PLAIN_LEFT[index % len(PLAIN_LEFT)]
    m, n, k = gemm_shape(rng)
    exact = accumulate == "exact_blocks"
    left = str(rng.choice(["float", "bf16", "fp16"]))
    data = KINDS if exact else MODERATE_KINDS + ("huge",)
    a = matrix(rng, m, k, str(rng.choice(data)), VARIANTS[variant].format)
    a = model.load(model.store(a, left), left)
    b = any_quantized(rng, variant, n, k, str(rng.choice(data)), exact and rng.random() < .5)
    alpha, beta = any_factors(rng) if exact else (f32(1.5), f32(rng.choice([0, 1])))
    c = any_c(rng, (m, n), beta, "float")
    layout = str(rng.choice(["packed", "strided", "transposed"]))
    payload = pack("gemm_plain", accumulate) + pack_matrix(a, left, layout) + pack_view(variant, b)
    payload += pack_matrix(c) + pack(np.array([alpha, beta], f32))

    def expect():
      if exact:
        return [Field("c", "float", model.exact_blocks_plain_left(a, b, alpha, beta, c))]
      wide_a = np.zeros((m, b.padded_cols))
      wide_a[:, :k] = a
      return [bound_field(*model.fast_bound(wide_a, model.wide(b), 1, b.tensor_scale, alpha, beta, c), "float")]

    return Case("gemm_plain/" + accumulate, index, dict(right=variant, left=left, mnk=(m, n, k), layout=layout,
                                                        alpha=alpha, beta=beta), payload, expect)
  return make


def gemm_fly(rng, index):
  """Operands quantized inside the GEMM under one random_hadamard<64>, the left one stochastically."""
  names = FLY[index % len(FLY)]
  m, n, k = gemm_shape(rng)
  fa, fb = (VARIANTS[v].format for v in names)
  x, w = (matrix(rng, r, k, str(rng.choice(MODERATE_KINDS + ("holes", "huge"))), f) for r, f in ((m, fa), (n, fb)))
  sign_seed, rounding = any_seed(rng), Rounding("stochastic", any_seed(rng), any_seed(rng))
  transform = model.random_hadamard(64, sign_seed)
  payload = pack("gemm_fly", *names) + pack_matrix(x) + pack_matrix(w) + pack(sign_seed, rounding.seed, rounding.stream)
  return Case("gemm_fly", index, dict(formats=names, mnk=(m, n, k)), payload, lambda: [Field(
      "c", "float", model.exact_blocks(model.quantize(x, fa, transform, rounding), model.quantize(w, fb, transform)))])


def other_project(rng, index):
  """The presets of other projects."""
  names = list(compat.QUANTIZERS)
  name = names[index % len(names)]
  fmt = compat.QUANTIZERS[name][0]
  transform = NamedTransform("random", 16, any_seed(rng)) if rng.random() < .2 else NamedTransform()
  rows, cols = any_shape(rng, max(transform.n, fmt.block), False)
  kind = KINDS[index // len(names) % len(KINDS)]
  x = matrix(rng, rows, cols, kind, fmt)
  amax = any_amax(rng, x) if fmt.tensor_scale and rng.random() < .3 else None
  payload = pack("compat", name) + pack_matrix(x) + pack_transform(transform)
  payload += pack(amax is not None, np.array([0 if amax is None else amax], f32))
  return Case("compat/" + name, index, dict(data=kind, shape=x.shape, transform=(transform.kind, hex(transform.seed)),
              tensor_amax=amax), payload, lambda: quantize_fields(compat.quantize(x, name, transform.built(), amax)))


def ms_eden(rng, index):
  kinds, lengths = ("plain", "random", "signed"), (16, 32, 64, 256)
  how, n = ("random", 128) if index % 2 else (kinds[index // 2 % 3], lengths[index // 6 % 4])
  transform = any_transform(rng, True, how, n)
  kind = str(rng.choice(MODERATE_KINDS + ("wide", "tiny", "huge", "holes", "subnormal")))
  x = matrix(rng, int(rng.integers(1, 12)), int(rng.choice([1, 16, 100, 128, 300, 512])), kind, model.PRESETS["nvfp4"])
  seed, stream = any_seed(rng), any_seed(rng)
  payload = pack("ms_eden") + pack_matrix(x) + pack_transform(transform) + pack(seed, stream)
  return Case("ms_eden", index, dict(kind=kind, shape=x.shape, n=transform.n, seed=hex(seed)), payload,
              lambda: quantize_fields(model.ms_eden(x, transform.built(), seed, stream)))


def derive(rng, index):
  rows = [(any_seed(rng), any_seed(rng), int(rng.integers(0, 2**32)), int(role)) for role in range(24)]
  want = np.array([model.derive(*r) for r in rows], np.uint64)
  return Case("derive", index, {}, pack("derive", np.array(rows, np.uint64)), lambda: [Field("words", "bits", want)])


def linear(rng, index):
  recipe = model.RECIPES[index % len(model.RECIPES)]
  plain = recipe == "bf16"
  which = model.GEMMS[index // len(model.RECIPES) % 3]
  t, k, n = (int(rng.choice([1, 5, 16, 17, 32, 40, 64, 130])) for _ in range(3))
  seed, step, layer = any_seed(rng), int(rng.choice([0, 1, 2**33 + 5])), int(rng.choice([0, 7, 2**16 - 1]))
  shapes = {"fprop": ((t, k), (n, k)), "dgrad": ((t, n), (n, k)), "wgrad": ((t, n), (t, k))}[which]
  fmt = model.PRESETS["e1m2_f32"] if plain else model.recipe_operand(recipe, seed, step, layer, 0)[0]
  data = MODERATE_KINDS + ("wide", "tiny", "huge", "holes")
  left, right = (matrix(rng, *s, str(rng.choice(data)), fmt) for s in shapes)

  def expect():
    if plain:
      bound = model.fast_bound(*model.linear_bf16(which, left, right), 1, 1, 1, 0, None)
      return [dataclasses.replace(bound_field(*bound, "float"), name="out")]
    return [Field("out", "float", model.linear(recipe, seed, step, layer, which, left, right)[2])]

  payload = pack("linear", recipe, which, seed, step, layer) + pack_matrix(left) + pack_matrix(right)
  return Case("linear/" + recipe, index, dict(gemm=which, tkn=(t, k, n), seed=hex(seed), step=step, layer=layer),
              payload, expect)


def measure(rng, index):
  variant = MEASURED[index % len(MEASURED)]
  fmt = VARIANTS[variant].format
  transform = any_transform(rng, False, *(("none", 1), ("random", 16), ("random", 64))[int(rng.integers(0, 3))])
  transform = dataclasses.replace(transform, to_bf16=False)
  cols = 64 * int(rng.integers(1, 5))
  x = matrix(rng, int(rng.integers(1, 40)), cols, str(rng.choice(["gauss", "laplace", "student", "outlier"])), fmt)
  payload = pack("measure", variant) + pack_matrix(x) + pack_transform(transform)

  def expect():
    plain, q = model.quantize(x, fmt), model.quantize(x, fmt, transform.built())
    return [Field("attenuation, sqnr_db, bucket_utilization, delta_sqnr", "close",
                  np.array([*model.measure(q), model.delta_sqnr(plain, q)]))]

  return Case("measure", index, dict(variant=variant, shape=x.shape, transform=transform.kind), payload, expect)


def bin_bias(_, index):
  e = (model.E2M1, model.E1M2, model.INT4, model.E3M0)[index]
  return Case("bin_bias", index, dict(element=e.name), pack("bin_bias", e.name), lambda: [
      Field("bias", "close", np.array([model.bin_bias(e, i) for i in range(8)]))])


# ---- Formats of a program's own ------------------------------------------------------------------------------------

RULE_KINDS = ("nearest", "scale_up", "mx_floor", "mx_even", "mx_ceil", "four_over_six", "percentile")
GRID_ERRORS = ("squared", "absolute", "largest")
SPANS = (None, "tensor", "row", "segment")
FACTORS = (1., 4., .25, f32(6) / f32(7), 1.5, 2.**40, 2.**-40, .3)


def chance(rng, p):
  return bool(rng.random() < p)


def grid_exponent(rng):
  """Of the unit of a grid: half of them 0, the others anywhere in binary32, its ends among them."""
  least, most = ((-149, 123), (-149, -119), (93, 123), (-8, 1))[rng.integers(0, 4)]
  return int(rng.integers(least, most)) if chance(rng, .5) else 0


def any_grid(rng):
  """Sixteen finite numbers, some of them equal, with a +0: integers times a power of two, E2M1, powers of two, or any
  numbers."""
  kind, signs = int(rng.integers(0, 10)), np.repeat([1., -1.], 8)
  if kind == 0:
    v = rng.integers(-1, 2, 16)
  elif kind == 1:
    v = np.arange(16) % 8 * signs
  elif kind == 2:
    v = np.tile(np.array(model.E2M1.magnitudes) * 2, 2) * signs
    v[rng.integers(8, 16)] += 5 * chance(rng, .25)
  elif kind == 3:
    v = rng.integers(0, 16, 16) * rng.choice([1, -1])  # one-sided
  elif kind == 4:
    v = np.arange(16) - 8
  elif kind == 5:
    v = (rng.integers(0, 256, 16) - 127.5) / 128 * rng.integers(1, 257, 16)
  elif kind == 6:
    v = rng.standard_normal(16)
  elif kind == 7:
    v = np.exp2(rng.integers(0, 64, 16)) * rng.choice([1, -1], 16)  # far apart
  else:
    v = rng.integers(-12, 13, 16)
  v = np.ldexp(np.asarray(v, np.float64), grid_exponent(rng)).astype(f32) + f32(0)
  v[~np.isfinite(v)] = 1
  v[0 if kind in (1, 2) else rng.integers(0, 16)] = 0
  if chance(rng, .25):
    v[rng.integers(0, 16)] = -0.
  usable = (model.bits_of(v) == 0).any() and len(np.unique(v)) > 1
  return model.UserGrid.of("user", v) if usable else any_grid(rng)


def any_block(rng):
  """(rows, columns), mostly one row; up to 1024 elements, seldom 4096."""
  rows, cols = 1, 2**int(rng.integers(1, 9))
  if chance(rng, .25):
    rows = cols
  elif chance(rng, .25):
    rows = 2**int(rng.integers(0, 8))
  most = 4096 if chance(rng, .05) else 1024
  return (rows, cols) if rows <= 128 and rows * cols <= most else any_block(rng)


def any_groups(rng, cols):
  wide = cols >> int(rng.integers(0, 4))
  narrow = wide >> int(rng.integers(1, 4)) if chance(rng, .5) else 0
  groups = tuple(g for g in (wide, narrow) if g)
  return groups if sum(cols // g for g in groups) <= 24 else ()


def any_format(rng, rows=None, cols=None):
  """A valid format."""
  block = any_block(rng)
  rows, cols = rows or block[0], cols or block[1]
  scale = model.SCALES[rng.integers(0, 6)]
  more, groups, outer, outer_type = (), (), None, None
  if chance(rng, .33):
    count = int(rng.integers(1, 4)) if scale.bytes == 1 and chance(rng, .33) else 1
    more = tuple((any_grid(rng), f32(FACTORS[rng.integers(0, 8)])) for _ in range(count))
  elif scale.bytes == 1 and rows == 1 and chance(rng, .33):
    groups = any_groups(rng, cols)
  if scale in (model.E4M3, model.UE5M3) and chance(rng, .67):
    outer = SPANS[rng.integers(1, 4)]
    narrow = sum(cols // g for g in groups) <= 8
    outer_type = model.BF16 if chance(rng, .33) and (outer == "tensor" or narrow) else None
    outer = cols * int(rng.integers(1, 10)) if outer == "segment" else outer
  f = Format("user", any_grid(rng), scale, cols, outer == "tensor", more=more, groups=groups,
             outer=None if outer == "tensor" else outer, outer_type=outer_type, rows=rows)
  largest = [f32(f.grid(g).qmax * f.factor(g)) * f32(2**len(groups)) for g in range(len(more) + 1)]
  return f if all(0 < q < np.inf for q in largest) else any_format(rng, rows, cols)


def described(f):
  """A format in a message."""
  grids = [(f.grid(g).by_code, float(f.factor(g))) for g in range(len(f.more) + 1)]
  return dict(grids=grids, scale=f.scale.name, block=(f.strip_rows, f.block), groups=f.groups,
              outer="tensor" if f.tensor_scale else f.outer, outer_type=f.outer_type and f.outer_type.name)


def pack_format(f):
  grids = [f.grid(g).values for g in range(len(f.more) + 1)]
  span = "tensor" if f.tensor_scale else "segment" if isinstance(f.outer, int) else f.outer
  wide, narrow = (*f.groups, 0, 0)[:2]
  numbers = (model.SCALES.index(f.scale), f.strip_rows, f.block, wide, narrow, SPANS.index(span),
             int(f.outer_type is model.BF16), f.outer if span == "segment" else 0)
  return pack(np.concatenate(grids), np.array([f.factor(g) for g in range(1, len(grids))], f32),
              np.array(numbers, np.int64))


def pack_rule(r):
  window = [255 if w is None else w for w in (r.below, r.above)]
  return pack(np.array([RULE_KINDS.index(r.name), r.searches, r.absolute, *window, r.per_mille,
                        GRID_ERRORS.index(r.grids)], np.int64))


def pack_user_matrix(q, numbers=None):
  """numbers: of the grids of the blocks as they are stored, where they may be too large."""
  stored = q if numbers is None else dataclasses.replace(q, grids=numbers)
  t = q.transform
  named = NamedTransform("signed", t.n, 0, t.signs, t.to_bf16) if t.n > 1 else NamedTransform()
  return pack_format(q.format) + pack_transform(named) + pack(q.packed(), stored.scale_bytes(), np.array(
      [q.tensor_scale], f32), q.rows, q.cols)


def any_rule(rng, f):
  """A scale rule that applies to the format."""
  names = ["nearest", "percentile"] if f.scale is not model.E8M0 else ["mx_floor", "mx_even", "mx_ceil", "percentile"]
  if f.scale not in (model.E8M0, model.FLOAT):
    names.append("scale_up")
  if f.two_level and f.element.qmax == 6 and not f.more and not f.groups:
    names.append("four_over_six")
  name = str(rng.choice(names)) if chance(rng, .6) else model.default_rule(f)
  grids = GRID_ERRORS[rng.integers(0, 3)] if f.more else "squared"
  searches = name != "four_over_six" and chance(rng, .35)
  most = (31, 40) if chance(rng, .1) else (6, 12)
  below, above = (int(rng.integers(0, m + 1)) for m in most) if chance(rng, .5) else (None, None)
  return model.Rule(name, searches, chance(rng, .5), below, above, int(rng.integers(1, 1001)), grids)


def user_transform(rng):
  return any_transform(rng, False, *(("none", 1), ("none", 1), ("none", 1), ("random", 16), ("random", 64),
                                     ("plain", 64))[int(rng.integers(0, 6))])


def user_shape(rng, f, n):
  run = whole_columns(f, n) if chance(rng, .5) else max(n, f.block)
  rows = int(rng.choice([1, 1, 2, 3, 5])) if f.strip_rows == 1 else int(rng.integers(1, 2 * f.strip_rows + 2))
  shape = rows, max(1, any_shape(rng, run, False)[1])
  return shape if chance(rng, .97) else (shape[0] * int(rng.integers(0, 2)), 0)


def critical_magnitudes(f):
  """Amaxes near which a constant of the format overflows, saturates or underflows."""
  Q = [float(f32(f.grid(g).qmax * f.factor(g))) * 2**len(f.groups) for g in range(len(f.more) + 1)]
  largest = float(f.scale.largest) if f.scale is not model.E8M0 else 2.**127
  least = {model.FLOAT: 2.**-149, model.BF16: 2.**-133, model.E4M3: 2.**-9, model.UE5M3: 2.**-17, model.E8M0: 2.**-127,
           model.E6M2: 2.**-48}[f.scale]
  most = float(model.FLT_MAX)
  points = [most, 2.**-126, 2.**-149]
  for q in Q:
    points += [q, q * largest, q * least, q * most, q * 2.**-149, q * 2.**-126, largest, least]
    if f.two_level:
      outer = float(model.largest_outer(f))
      points += [q * largest * outer, q * least * outer, largest * outer, q * largest / most, largest / min(1, q),
                 q * largest * 2.**-126]
  return [p for p in points if 0 < p <= 2 * most]


def user_numbers(rng, rows, cols, f):
  """(kind, matrix): of KINDS, or near the magnitudes at which constants of the format overflow or underflow."""
  if chance(rng, .5):
    kind = KINDS[rng.integers(0, len(KINDS))]
    x = matrix(rng, rows, cols, kind, f)
    return kind, x if kind in ("any_bits", "holes", "inf_block") else np.nan_to_num(x)
  kind = ("near_constants", "near_constants", "near_largest", "near_least", "magnitude")[rng.integers(0, 5)]
  shape = (rows, cols)
  x = np.sign(rng.standard_normal(shape)) * np.exp2(-rng.uniform(0, rng.choice([1, 8, 60]), shape))
  if kind == "near_constants":
    points = critical_magnitudes(f)
    x = x * (points[rng.integers(0, len(points))] * rng.choice([1, 1, .5, 2, rng.uniform(.2, 5)]))
  else:
    x = x * 2.**(128 if kind == "near_largest" else -140 if kind == "near_least" else int(rng.integers(-150, 130)))
  if chance(rng, .3):
    x[:, ::int(rng.integers(1, 8))] = 0
  if chance(rng, .2):
    x[:, : f.block] = 0
  return kind, np.clip(x, -float(model.FLT_MAX), float(model.FLT_MAX)).astype(f32)


def user_quantize(rng, index):
  f = any_format(rng)
  transform, rounding, rule = user_transform(rng), any_rounding(rng), any_rule(rng, f)
  data, x = user_numbers(rng, *user_shape(rng, f, transform.n), f)
  amax = any_amax(rng, x) if f.tensor_scale and chance(rng, .3) else None
  payload = pack("user_quantize") + pack_format(f) + pack_matrix(x, layout=str(rng.choice(["packed", "strided"])))
  payload += pack_transform(transform) + pack_rounding(rounding) + pack_rule(rule)
  payload += pack(amax is not None, np.array([0 if amax is None else amax], f32))
  return Case("user/quantize", index, dict(format=described(f), data=data, shape=x.shape, rule=rule, rounding=rounding,
              transform=(transform.kind, transform.n, transform.to_bf16), tensor_amax=amax), payload,
              lambda: quantize_fields(model.quantize(x, f, transform.built(), rounding, rule, amax)))


def any_scales(rng, f, shape):
  """Bits of any scales; most of them positive and close together."""
  if f.scale in (model.FLOAT, model.BF16):
    middle, width = rng.uniform(-140, 126), rng.choice([0, 1, 12, 60])
    scales = f.scale.encode(np.exp2(np.clip(rng.uniform(middle - width, middle + width, shape), -149, 127)).astype(f32))
    special = f.scale.encode(model.float_of(rng.choice(np.array(
        [0, 1, 0x7F7FFFFF, 0x7FC00000, 0x7F000000, 0x800000], np.uint32), shape)))
    sign = 0x80000000 if f.scale is model.FLOAT else 0x8000
  else:
    middle, width = int(rng.integers(0, f.scale.nan)), int(rng.choice([1, 2, 24, 256]))
    scales = np.clip(rng.integers(middle - width + 1, middle + width, shape), 0, f.scale.nan - 1)
    special, sign = np.where(rng.random(shape) < .5, f.scale.nan, 0), 0x80
  scales = np.where(rng.random(shape) < rng.choice([0, 0, .1]), special, scales).astype(np.uint32)
  if f.scale in (model.FLOAT, model.BF16, model.E4M3) and not f.sign_has_grid:
    scales |= np.where(rng.random(shape) < rng.choice([0, 0, .1, .5]), sign, 0).astype(np.uint32)
  return scales


def any_outer(rng, f, shape):
  values = np.exp2(rng.uniform(-1, 1, shape) * rng.choice([0, 1, 40, 126]) + rng.choice([0, 0, -20, 20]))
  values = np.clip(values, 2.**-126, float(model.FLT_MAX)).astype(f32)
  if chance(rng, .5):
    values = np.exp2(np.round(np.log2(values))).astype(f32)
  if values.size and chance(rng, .5):
    values[...] = values.flat[0]
  return (f.outer_type or model.FLOAT).encode(values)


def user_matrix(rng, f, transform, rows, cols, raw):
  """(matrix of a format, stored numbers of the grids): of numbers, or any codes and scales."""
  if not raw:
    return model.quantize(user_numbers(rng, rows, cols, f)[1], f, transform), None
  padded = model.round_up(cols, max(transform.n, f.block))
  strips, count = -(-rows // f.strip_rows), len(f.more) + 1
  shape = (strips, padded // f.block)
  codes = rng.integers(0, 16, (rows, padded)).astype(np.uint8)
  if chance(rng, .3):
    codes[rng.random(codes.shape) < .8] = f.element.zero
  outer, tensor = None, model.ONE
  if f.outer is not None:
    outer = any_outer(rng, f, (strips, -(-padded // max(f.covered(padded), 1))))
  elif f.tensor_scale:
    tensor = (f.outer_type or model.FLOAT).decode(any_outer(rng, f, (1,)))[0]
  grids = rng.integers(0, count, shape) if f.more else None
  if grids is not None and chance(rng, .5):
    grids[...] = grids.flat[0] if grids.size else 0
  exponents = [rng.integers(0, 2, (rows, padded // size)).astype(np.uint8) for size in f.groups] or None
  numbers = None
  if f.more and not f.sign_has_grid and chance(rng, .5):
    numbers = np.where((grids == count - 1) & (rng.random(shape) < .5), rng.integers(count, 256, shape), grids)
  return model.Quantized(f, rows, cols, codes, any_scales(rng, f, shape), tensor, transform, outer=outer, grids=grids,
                         exponents=exponents), numbers


def user_cast(rng, index):
  f = any_format(rng)
  to = any_format(rng, f.strip_rows, None if chance(rng, .5) else f.block)
  if chance(rng, .2):
    to = f
  elif chance(rng, .5):  # of the same grid, or of one with steps in a ratio of a power of two
    by = 2.**int(rng.integers(-3, 4))
    values = [float(f32(v * by)) for v in f.element.by_code]
    if chance(rng, .5):
      values = [float(v) for v in rng.permutation(values)]
    same = model.UserGrid.of("user", values)
    ends = [v for v in np.abs(values) if v]
    changed = dataclasses.replace(to, element=same)
    if ends and (model.bits_of(same.values) == 0).any() and max(ends) * 2.**len(to.groups) < float(model.FLT_MAX):
      to = changed
  transform, raw = user_transform(rng).built(), index % 2 == 0
  q, numbers = user_matrix(rng, f, transform, *user_shape(rng, f, transform.n), raw)

  def expect():
    out, report, sums = model.cast(q, to)
    return [Field("padded_cols", "bits", np.array([out.padded_cols], np.uint64)), Field("codes", "bits", out.packed()),
            Field("scales", "bits", out.scale_bytes()),
            Field("tensor_scale", "bits", model.bits_of([out.tensor_scale])),
            Field("report", "bits", np.array(report, np.uint64)), Field("signal, noise", "relative", np.array(sums))]

  return Case("user/cast", index, dict(format=described(f), to=described(to), shape=(q.rows, q.cols), raw=raw,
              transform=transform.n), pack("user_cast") + pack_format(to) + pack_user_matrix(q, numbers), expect)


def has_subnormal_products(q):
  """Whether a value times its scale, without the tensor scale, is below 2^-126, where folded_bf16 has no bound."""
  v = np.abs(model.wide(q)) / float(q.tensor_scale)
  return bool(((v > 0) & (v < 2.**-126)).any())


def user_gemm(rng, index):
  mode = ("exact_blocks", "fast", "exact_blocks", "fast", "exact_blocks", "folded_bf16")[index % 6]
  exact = mode == "exact_blocks"
  fa = any_format(rng)
  fb = any_format(rng, cols=fa.block)
  transform = user_transform(rng).built()
  m, n, k = gemm_shape(rng) if chance(rng, .1) else np.maximum(gemm_shape(rng), 1).tolist()
  raw = chance(rng, .5)
  (a, a_numbers), (b, b_numbers) = (user_matrix(rng, f, transform, r, k, raw) for f, r in ((fa, m), (fb, n)))
  alpha, beta = any_factors(rng)
  if not exact:
    alpha = f32(rng.choice([1, -1, .5, 3.1415927, 2.**100, 2.**-100]))
  c = any_c(rng, (m, n), beta, "float")
  payload = pack("user_gemm", mode) + pack_user_matrix(a, a_numbers) + pack_user_matrix(b, b_numbers)
  payload += pack_matrix(c, layout=str(rng.choice(["packed", "strided"]))) + pack(np.array([alpha, beta], f32))

  def expect():
    if exact:
      return [Field("c", "float", model.exact_blocks(a, b, alpha, beta, c))]
    folded = 0. if mode == "fast" else np.inf if has_subnormal_products(a) or has_subnormal_products(b) else (
        2.**-7 + 2.**-16)
    e, slack = model.fast_bound(model.wide(a), model.wide(b), a.tensor_scale, b.tensor_scale, alpha, beta, c, folded)
    bound = bound_field(e, np.where(np.isinf(folded), np.inf, slack), "float")
    return [dataclasses.replace(bound, name=name) for name in ("least c", "greatest c")]

  return Case("user/gemm", index, dict(mode=mode, formats=(described(fa), described(fb)), mnk=(m, n, k), raw=raw,
              transform=transform.n, alpha=alpha, beta=beta), payload, expect)


def families():
  """name: (how many at scale 1, maker)."""
  out = {"convert": (20, convert)}
  for name, v in VARIANTS.items():
    searching = compares_errors(v)
    out["quantize/" + name] = (240 if v.all_transforms else 24 if searching else 60, quantize_any(name))
  out.update({"ties": (4 * len(VARIANTS), ties), "knife_edge": (3 * len(SEARCHES), knife_edge),
              "tails": (len(TAILS), tails), "shards": (240, shards), "bad_amax": (10, bad_amax),
              "fake_quantize": (180, fake), "hadamard": (90, hadamard), "dequantize": (66, raw_dequantize),
              "cast": (588, casts),
              "gemm/exact_blocks": (270, gemm("exact_blocks")), "gemm/fast": (180, gemm("fast")),
              "gemm/folded_bf16": (90, gemm("folded_bf16")),
              "gemm_plain/exact_blocks": (120, gemm_plain("exact_blocks")), "gemm_plain/fast": (60, gemm_plain("fast")),
              "gemm_fly": (60, gemm_fly), "compat": (40 * len(compat.QUANTIZERS), other_project),
              "ms_eden": (120, ms_eden), "derive": (20, derive), "linear": (30 * len(model.RECIPES), linear),
              "measure": (100, measure), "bin_bias": (4, bin_bias),
              "user/quantize": (240, user_quantize), "user/cast": (160, user_cast), "user/gemm": (120, user_gemm)})
  return out


def make(seed, family, index):
  rng = np.random.default_rng([seed, zlib.crc32(family.encode()), index])
  return families()[family][1](rng, index)
