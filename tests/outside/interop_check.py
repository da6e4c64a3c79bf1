#!/usr/bin/env python3
# ufp4 - files against the readers and writers of PyPI's safetensors, numpy with ml_dtypes, and gguf, both ways.
# SPDX-License-Identifier: Apache-2.0
"""What the library writes is read by the packages and decoded here with ml_dtypes' types; what they write, the library
reads. Values are compared bit for bit. --driver names any program in the folder where interop_driver was built."""
import os

import file_checks
from file_checks import equal, one_zero, scaled, values_of

gguf, ml_dtypes, np, safetensors, _ = file_checks.packages("gguf", "ml_dtypes", "numpy", "safetensors",
                                                           "safetensors.numpy")

ELEMENTS = {"F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16, "U8": np.uint8,
            "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E8M0": ml_dtypes.float8_e8m0fnu}

def raw_safetensors(path):
  """name -> array, also of the types that safetensors.numpy has no names for."""
  with open(path, "rb") as file:
    return {name: np.frombuffer(bytes(t["data"]), ELEMENTS[t["dtype"]]).reshape(t["shape"])
            for name, t in safetensors.deserialize(file.read())}


def own_layout(tensors, said, name):
  words = dict(word.split("=") for word in said.split())
  grid = np.array([float(v) for v in words["grid"].split(",")], np.float32)
  rows, _ = (int(n) for n in words["block"].split("x"))
  codes, scales = tensors[name + "_packed"], tensors[name + "_scale"]
  values = grid[np.stack([codes & 15, codes >> 4], axis=-1).reshape(codes.shape[0], -1)]
  scales = np.repeat(scales.astype(np.float32), rows, axis=0)[:codes.shape[0]]
  return scaled(values, scales)[:, :int(words["cols"])]


def read_ours(folder):
  def path(name):
    return os.path.join(folder, name)

  def expected(name):
    return np.fromfile(path(name + ".f32"), np.float32)

  x = expected("f32")
  shape = (6, 192)
  for name, dtype in (("f32", np.float32), ("f16", np.float16), ("bf16", ml_dtypes.bfloat16)):
    array = np.load(path(name + ".npy"))
    assert array.shape == shape and array.flags.c_contiguous
    equal(f"numpy reads {name}.npy", array.view(dtype), x.astype(dtype))

  plain = raw_safetensors(path("plain.safetensors"))
  equal("safetensors reads F32", plain["f32"], x)
  equal("safetensors reads F16", plain["f16"], x.astype(np.float16))
  equal("safetensors reads BF16", plain["bf16 \"quoted\"\n"], x.astype(ml_dtypes.bfloat16))
  equal("safetensors reads U8", plain["odd"], [1, 2, 255])
  with safetensors.safe_open(path("plain.safetensors"), framework="np") as file:
    assert file.metadata() == {"made": "by\n\"hand\""}
    equal("safe_open reads one tensor", file.get_tensor("f32"), x)

  q = raw_safetensors(path("quantized.safetensors"))
  with safetensors.safe_open(path("quantized.safetensors"), framework="np") as file:
    metadata = file.metadata()
  divisor = q["nv.weight_global_scale"]
  assert divisor.shape == (1,) and q["nv_modelopt.weight_scale_2"].shape == ()
  equal("nvfp4 as compressed-tensors has it",
        scaled(values_of(q["nv.weight_packed"]), q["nv.weight_scale"], 1 / divisor), expected("nv"))
  equal("nvfp4 as ModelOpt has it", scaled(values_of(q["nv_modelopt.weight"]), q["nv_modelopt.weight_scale"],
                                           q["nv_modelopt.weight_scale_2"]), expected("nv"))
  powers = q["mx.weight_scale"].view(ml_dtypes.float8_e8m0fnu)
  equal("mxfp4 as compressed-tensors has it", scaled(values_of(q["mx.weight_packed"]), powers), expected("mx"))
  for name in ("own", "square"):
    equal(f"the ufp4 layout, {name}", own_layout(q, metadata[f"ufp4.{name}.weight"], name + ".weight"), expected(name))
  codes = np.load(path("codes.npy"))
  equal("numpy reads codes.npy", codes, q["nv.weight_packed"])

  reader = gguf.GGUFReader(path("all.gguf"))
  assert reader.fields["general.architecture"].contents() == "llama"
  assert reader.fields["general.name"].contents() == "h\u00e9"
  tensors = {t.name: t for t in reader.tensors}
  decode = lambda name: gguf.quants.dequantize(tensors[name].data, tensors[name].tensor_type)
  for name in ("nv", "one_level", "mx", "f32"):
    assert list(tensors[name + ".weight"].shape) == [192, 6]
  equal("gguf reads F32", tensors["f32.weight"].data, x)
  equal("gguf reads BF16", decode("bf16.weight"), x.astype(ml_dtypes.bfloat16))
  equal("gguf decodes MXFP4", decode("mx.weight"), expected("ggml_mx"))
  equal("gguf decodes NVFP4", decode("one_level.weight"), expected("one_level"))
  without = scaled(values_of(q["nv.weight_packed"]), q["nv.weight_scale"])  # its tensor scale stands beside it
  equal("gguf decodes the blocks of nvfp4", decode("nv.weight"), one_zero(without))
  equal("gguf reads the tensor scale of nvfp4", tensors["nv.scale"].data, q["nv_modelopt.weight_scale_2"])


def read_tools(folder):
  """Files of `ufp4 quantize`, which writes codes and scales a few rows at a time."""
  want = np.fromfile(os.path.join(folder, "nv.f32"), np.float32)
  q = raw_safetensors(os.path.join(folder, "tool.safetensors"))
  with safetensors.safe_open(os.path.join(folder, "tool.safetensors"), framework="np") as file:
    assert sorted(file.keys()) == ["f32_global_scale", "f32_packed", "f32_scale"]
  equal("safetensors reads what ufp4 quantize wrote",
        scaled(values_of(q["f32_packed"]), q["f32_scale"], 1 / q["f32_global_scale"]), want)
  tensors = {t.name: t for t in gguf.GGUFReader(os.path.join(folder, "tool.gguf")).tensors}
  without = scaled(values_of(q["f32_packed"]), q["f32_scale"])
  equal("gguf decodes what ufp4 quantize wrote",
        gguf.quants.dequantize(tensors["f32"].data, tensors["f32"].tensor_type), one_zero(without))
  equal("gguf reads its tensor scale", tensors["f32.scale"].data, 1 / q["f32_global_scale"])


def read_theirs(files):
  random = np.random.default_rng(20260620)
  path, ask = files.path, files.ask
  x = random.standard_normal((7, 192)).astype(np.float32)
  for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
    for order in "CF":
      name = f"theirs_{np.dtype(dtype).name}_{order}.npy"
      np.save(path(name), np.asarray(x.astype(dtype), order=order))
      equal(f"ufp4 reads {name}", ask("npy", name), x.astype(dtype))
  np.save(path("bytes.npy"), np.arange(256, dtype=np.uint8).reshape(4, 64))
  equal("ufp4 reads bytes.npy", ask("npy", "bytes.npy"), np.arange(256))

  codes = random.integers(0, 256, (7, 96), dtype=np.uint8)
  scales = random.integers(0, 0x7F, (7, 12), dtype=np.uint8).view(ml_dtypes.float8_e4m3fn)
  powers = random.integers(64, 192, (7, 6), dtype=np.uint8)
  divisor, factor = np.array([1234.5], np.float32), np.array(0.00123, np.float32)
  tensors = {"x": x, "half": x.astype(np.float16), "brain": x.astype(ml_dtypes.bfloat16), "scales": scales,
             "powers": powers.view(ml_dtypes.float8_e8m0fnu),
             "ct.weight_packed": codes, "ct.weight_scale": scales, "ct.weight_global_scale": divisor,
             "mo.weight": codes, "mo.weight_scale": scales, "mo.weight_scale_2": factor,
             "mx.weight_packed": codes, "mx.weight_scale": powers,
             "ao._weight_qdata": codes, "ao._weight_scale": scales, "ao._weight_per_tensor_scale": factor}
  with open(path("theirs.safetensors"), "wb") as file:
    file.write(safetensors.numpy.save(tensors, metadata={"format": "pt"}))
  for name in ("x", "half", "brain", "scales", "powers"):
    equal(f"ufp4 reads {tensors[name].dtype.name}", ask("safetensors", "theirs.safetensors", name), tensors[name])
  for name, scale in (("ct", 1 / divisor), ("mo", factor), ("ao", factor)):
    equal(f"ufp4 reads nvfp4, {name}", ask("safetensors/nvfp4", "theirs.safetensors", name + ".weight"),
          scaled(values_of(codes), scales, scale))
  equal("ufp4 reads mxfp4", ask("safetensors/mxfp4", "theirs.safetensors", "mx.weight"),
        scaled(values_of(codes), powers.view(ml_dtypes.float8_e8m0fnu)))

  kinds = gguf.GGMLQuantizationType
  mxfp4 = gguf.quants.quantize(x, kinds.MXFP4)
  blocks = random.integers(0, 256, (7, 3, 36), dtype=np.uint8)
  blocks[:, :, :4] %= 0x7F
  nvfp4 = blocks.reshape(7, 108)
  writer = gguf.GGUFWriter(path("theirs.gguf"), "llama")
  writer.add_array("tokenizer.ggml.tokens", ["a", "bc", "\u00e9"])
  writer.add_array("numbers", [1, 2, 3])
  writer.add_float32("f", 1.5)
  writer.add_custom_alignment(64)
  writer.add_tensor("x", x)
  writer.add_tensor("half", x.astype(np.float16))
  writer.add_tensor("mx.weight", mxfp4, raw_dtype=kinds.MXFP4)
  writer.add_tensor("nv.weight", nvfp4, raw_dtype=kinds.NVFP4)
  writer.add_tensor("two.weight", nvfp4, raw_dtype=kinds.NVFP4)
  writer.add_tensor("two.scale", factor.reshape(1))
  writer.write_header_to_file()
  writer.write_kv_data_to_file()
  writer.write_tensors_to_file()
  writer.close()
  equal("ufp4 reads F32 of GGUF", ask("gguf", "theirs.gguf", "x"), x)
  equal("ufp4 reads F16 of GGUF", ask("gguf", "theirs.gguf", "half"), x.astype(np.float16))
  equal("ufp4 reads MXFP4 of GGUF", ask("gguf/mxfp4", "theirs.gguf", "mx.weight"),
        gguf.quants.dequantize(mxfp4, kinds.MXFP4))
  want = gguf.quants.dequantize(nvfp4, kinds.NVFP4)
  equal("ufp4 reads NVFP4 of GGUF", one_zero(ask("gguf/ggml_nvfp4", "theirs.gguf", "nv.weight")),
        one_zero(want))
  steps = blocks[:, :, :4].reshape(7, 12).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
  ones = blocks.copy()
  ones[:, :, :4] = 0x38  # the e4m3 code of 1
  two = scaled(gguf.quants.dequantize(ones.reshape(7, 108), kinds.NVFP4), steps, factor)
  equal("ufp4 reads NVFP4 with a tensor scale", one_zero(ask("gguf/nvfp4", "theirs.gguf", "two.weight")),
        one_zero(two))


def check(files):
  files.write()
  read_ours(files.folder)
  read_tools(files.folder)
  read_theirs(files)


if __name__ == "__main__":
  file_checks.main(__doc__, check)
