#!/usr/bin/env python3
# ufp4 - quantized weights as models have them: F4, experts, GPT-OSS, AWQ, GPTQ and GGUF's 4-bit types.
# SPDX-License-Identifier: Apache-2.0
"""PyPI's safetensors and gguf write the files, and numpy and ml_dtypes decode them here by the formats' definitions;
what the library reads has the same bits. AWQ and GPTQ are packed here as their projects define it; packers_check.py
compares with these projects' own code. --driver names any program in the folder where interop_driver was built."""
import json
import os

import file_checks
from file_checks import equal, one_zero, scaled, values_of

gguf, ml_dtypes, np, safetensors = file_checks.packages("gguf", "ml_dtypes", "numpy", "safetensors")
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # output 8 j + AWQ_ORDER[i] is in bits 4 i .. 4 i + 3 of number j


def save(path, tensors, types=None):
  """A file by safetensors' own writer; `types` names the types that numpy does not have."""
  kept = {name: np.ascontiguousarray(x) for name, x in tensors.items()}
  spec = {}
  for name, x in kept.items():
    kind = (types or {}).get(name, x.dtype.name)
    spec[name] = safetensors.TensorSpec(dtype=kind, shape=list(x.shape), data_ptr=x.ctypes.data, data_len=x.nbytes)
  with open(path, "wb") as file:
    file.write(safetensors.serialize(spec))


def stack_values(codes, scales, factors=None):
  """Float32 values of stacked E2M1 codes [..., C / 2] and their scales [..., C / B]."""
  rows = scaled(values_of(codes.reshape(-1, codes.shape[-1])), scales.reshape(-1, scales.shape[-1]))
  out = rows.reshape(*codes.shape[:-1], -1)
  if factors is None:
    return out
  wide = np.repeat(scales.astype(np.float32) * factors.reshape(-1, *[1] * (codes.ndim - 1)),
                   out.shape[-1] // scales.shape[-1], axis=-1)
  return values_of(codes.reshape(-1, codes.shape[-1])).reshape(out.shape) * wide


def pack(values, order=range(8)):
  """Eight numbers of 4 bits along the last axis in an int32, in that order from the lowest bits on."""
  values = values.reshape(*values.shape[:-1], -1, 8).astype(np.uint32)
  return sum(values[..., k] << np.uint32(4 * i) for i, k in enumerate(order)).astype(np.uint32).view(np.int32)


def read_written(folder):
  """F4 and GPT-OSS's pairs as the library writes them."""
  path = os.path.join(folder, "f4.safetensors")
  with open(path, "rb") as file:
    tensors = dict(safetensors.deserialize(file.read()))
  nv, mx = (np.fromfile(os.path.join(folder, name + ".f32"), np.float32) for name in ("nv", "mx"))

  def array(name, kind, dtype, shape):
    t = tensors[name]
    assert (t["dtype"], list(t["shape"])) == (kind, shape), (name, t["dtype"], t["shape"])
    return np.frombuffer(bytes(t["data"]), dtype)

  codes = array("nv_f4.weight", "F4", np.uint8, [6, 192]).reshape(6, 96)
  steps = array("nv_f4.weight_scale", "F8_E4M3", ml_dtypes.float8_e4m3fn, [6, 12]).reshape(6, 12)
  equal("safetensors reads nvfp4 in F4", scaled(values_of(codes), steps,
                                                array("nv_f4.weight_scale_2", "F32", np.float32, [])[0]), nv)
  codes = array("mx_f4.weight", "F4", np.uint8, [6, 192]).reshape(6, 96)
  powers = array("mx_f4.weight_scale", "F8_E8M0", ml_dtypes.float8_e8m0fnu, [6, 6]).reshape(6, 6)
  equal("safetensors reads mxfp4 in F4", scaled(values_of(codes), powers), mx)
  codes = array("mx_pair_blocks", "U8", np.uint8, [6, 6, 16]).reshape(6, 96)
  powers = array("mx_pair_scales", "U8", ml_dtypes.float8_e8m0fnu, [6, 6]).reshape(6, 6)
  equal("safetensors reads GPT-OSS's pair", scaled(values_of(codes), powers), mx)


def read_models(folder):
  """Folders of `ufp4 quantize`: the index names what the files have, by safetensors' reader."""
  with open(os.path.join(folder, "model", "config.json")) as file:
    plain = json.load(file)
  for name, ending in (("nvfp4", "_packed"), ("mxfp4", "_packed"), ("gpt_oss", "_blocks")):
    with open(os.path.join(folder, name, "model.safetensors.index.json")) as file:
      index = json.load(file)
    found, total = {}, 0
    for shard in ("part0.safetensors", "part1.safetensors"):
      with open(os.path.join(folder, name, shard), "rb") as file:
        tensors = safetensors.deserialize(file.read())
      found.update((tensor, shard) for tensor, _ in tensors)
      total += sum(len(t["data"]) for _, t in tensors)
    assert index["weight_map"] == found and index["metadata"]["total_size"] == total, (name, index)
    assert "layers.1.up.weight" + ending in found and "layers.1.gate.weight" in found
    with open(os.path.join(folder, name, "config.json")) as file:
      config = json.load(file)
    assert config.pop("quantization_config")["quant_method"] in ("compressed-tensors", "mxfp4") and config == plain
    print(f"ok      the index and config.json of a model in {name}: {len(found)} tensors")


def read_stacks(ask, path, random):
  """F4, experts of three dimensions, and pairs, written by safetensors."""
  codes = random.integers(0, 256, (3, 5, 48), dtype=np.uint8)
  steps = random.integers(0, 0x7F, (3, 5, 6), dtype=np.uint8).view(ml_dtypes.float8_e4m3fn)
  powers = random.integers(64, 192, (3, 5, 3), dtype=np.uint8)
  factors = np.array([0.25, 3, 0.001], np.float32)
  f4, e4m3, e8m0 = "float4_e2m1fn_x2", "float8_e4m3fn", "float8_e8m0fnu"
  save(path("stacks.safetensors"),
       {"nv": codes, "nv_scale": steps.view(np.uint8), "mx": codes, "mx_scale": powers, "one": codes[0],
        "one_scale": steps[0].view(np.uint8), "one_scale_2": factors[:1].reshape(()), "e": codes,
        "e_scale": steps.view(np.uint8), "e_scale_2": factors, "pair_blocks": codes.reshape(3, 5, 3, 16),
        "pair_scales": powers},
       {"nv": f4, "nv_scale": e4m3, "mx": f4, "mx_scale": e8m0, "one": f4, "one_scale": e4m3, "e_scale": e4m3})
  values = lambda name: ask("safetensors/slices", "stacks.safetensors", name)
  equal("ufp4 reads nvfp4 in F4, 3 dimensions", values("nv"), stack_values(codes, steps))
  mxfp4 = stack_values(codes, powers.view(ml_dtypes.float8_e8m0fnu))
  equal("ufp4 reads mxfp4 in F4, 3 dimensions", values("mx"), mxfp4)
  equal("ufp4 reads nvfp4 in F4 with a tensor scale", values("one"),
        scaled(values_of(codes[0]), steps[0], factors[0]))
  equal("ufp4 reads experts with a tensor scale each", values("e"), stack_values(codes, steps, factors))
  equal("ufp4 reads GPT-OSS's experts", values("pair"), mxfp4)


def read_integers(ask, path, random):
  """AWQ and both versions of GPTQ, also with act-order."""
  outputs, inputs, group = 48, 128, 32
  groups = inputs // group
  codes = random.integers(0, 16, (inputs, outputs), dtype=np.uint8)
  zeros = random.integers(1, 16, (groups, outputs), dtype=np.uint8)
  scales = (random.random((groups, outputs)) * 0.02).astype(np.float16)
  in_order = np.arange(inputs) // group
  shuffled = random.permutation(in_order)

  def decoded(index):
    return ((codes.astype(np.float32) - zeros[index].astype(np.float32)) * scales[index].astype(np.float32)).T

  by_inputs = pack(np.ascontiguousarray(codes.T)).T
  files = {"awq": {"qweight": pack(codes, AWQ_ORDER), "qzeros": pack(zeros, AWQ_ORDER), "scales": scales},
           "gptq": {"qweight": by_inputs, "qzeros": pack(zeros - 1), "scales": scales,
                    "g_idx": shuffled.astype(np.int32)},
           "gptq_v2": {"qweight": by_inputs, "qzeros": pack(zeros), "scales": scales,
                       "g_idx": in_order.astype(np.int32)}}
  for layout, tensors in files.items():
    name = layout + ".safetensors"
    save(path(name), {"layers.0.up." + part: x for part, x in tensors.items()})
    equal(f"ufp4 reads {layout}", ask("int4/" + layout, name, "layers.0.up"),
          decoded(shuffled if layout == "gptq" else in_order))


def read_blocks(ask, path, random):
  """GGUF's 4-bit types: quantized by gguf where it has a quantizer, else of random bits with finite scales."""
  kinds = gguf.GGMLQuantizationType
  x = random.standard_normal((3, 512)).astype(np.float32)
  data = {kinds.Q4_0: gguf.quants.quantize(x, kinds.Q4_0), kinds.Q4_1: gguf.quants.quantize(x, kinds.Q4_1)}
  for kind, halves in ((kinds.Q4_K, 2), (kinds.IQ4_NL, 1)):
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (3, 512 // elements, size), dtype=np.uint8)
    blocks[:, :, :2 * halves] = random.standard_normal((3, 512 // elements, halves)).astype(np.float16).view(np.uint8)
    data[kind] = blocks.reshape(3, -1)
  steps = random.integers(0, 0x7F, (2, 3, 4), dtype=np.uint8)
  nvfp4 = random.integers(0, 256, (2, 3, 36), dtype=np.uint8)
  nvfp4[:, :, :4] = steps
  factors = np.array([0.5, 3], np.float32)
  writer = gguf.GGUFWriter(path("types.gguf"), "llama")
  for kind, blocks in data.items():
    writer.add_tensor(kind.name, blocks, raw_dtype=kind)
  writer.add_tensor("experts.weight", nvfp4, raw_dtype=kinds.NVFP4)
  writer.add_tensor("experts.scale", factors)
  writer.write_header_to_file()
  writer.write_kv_data_to_file()
  writer.write_tensors_to_file()
  writer.close()
  for kind, blocks in data.items():
    equal(f"ufp4 reads {kind.name} of GGUF", ask("gguf/values", "types.gguf", kind.name),
          gguf.quants.dequantize(blocks, kind))
  ones = nvfp4.copy()
  ones[:, :, :4] = 0x38  # the e4m3 code of 1
  codes = gguf.quants.dequantize(ones.reshape(6, 36), kinds.NVFP4).reshape(2, 3, 64)
  want = codes * np.repeat(steps.view(ml_dtypes.float8_e4m3fn).astype(np.float32) * factors[:, None, None], 16, axis=-1)
  got = ask("gguf/slices", "types.gguf", "experts.weight")
  equal("ufp4 reads NVFP4 experts of GGUF", one_zero(got), one_zero(want))


def check(files):
  random = np.random.default_rng(20260621)
  files.write()
  read_written(files.folder)
  read_models(files.folder)
  read_stacks(files.ask, files.path, random)
  read_integers(files.ask, files.path, random)
  read_blocks(files.ask, files.path, random)


if __name__ == "__main__":
  file_checks.main(__doc__, check)
