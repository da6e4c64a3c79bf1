#!/usr/bin/env python3
# ufp4 - weights that the projects' own code packs: AutoAWQ, auto-gptq, GPTQModel, compressed-tensors, transformers.
# SPDX-License-Identifier: Apache-2.0
"""AutoAWQ packs AWQ, auto-gptq and GPTQModel pack both versions of GPTQ with g_idx, compressed-tensors packs NVFP4 and
MXFP4, and transformers decodes GPT-OSS's pairs. The library reads their tensors to the values that these projects decode.
Needs PyTorch; nothing runs on a GPU. Of AutoAWQ, auto-gptq and GPTQModel only the module with the packing runs: the rest
needs GPUs or other versions of transformers. --driver names any program in the folder where interop_driver was built."""
import ast
import contextlib
import importlib
import importlib.util
import json
import math
import os
import sys
import types

import file_checks
from file_checks import compared, equal

np, torch, safetensors_torch, compressors, quantization, transformers, mxfp4 = file_checks.packages(
    "numpy", "torch", "safetensors.torch", "compressed_tensors.compressors", "compressed_tensors.quantization",
    "transformers", "transformers.integrations.mxfp4")


def folder_of(package):
  """Where a package is installed, or None; it is not imported."""
  found = importlib.util.find_spec(package)
  return None if found is None else os.path.dirname(found.origin)


class Layer:
  """A linear layer of which each group of inputs has codes, scales and zero points: what the projects pack."""

  def __init__(self, random, inputs=128, outputs=64, group=32, act_order=False):
    self.inputs, self.outputs, self.group, groups = inputs, outputs, group, inputs // group
    self.g_idx = torch.arange(inputs, dtype=torch.int32) // group
    if act_order:
      self.g_idx = self.g_idx[torch.randperm(inputs, generator=random)]
    codes = torch.randint(0, 16, (outputs, inputs), generator=random)
    self.zeros = torch.randint(1, 16, (outputs, groups), generator=random).float()
    self.scales = (torch.randint(1, 1000, (outputs, groups), generator=random) * 2.0**-14).float()
    self.linear = torch.nn.Linear(inputs, outputs, bias=False)
    groups_of = self.g_idx.long()
    self.linear.weight.data = (codes - self.zeros[:, groups_of]) * self.scales[:, groups_of]

  @property
  def weight(self):
    return self.linear.weight.data

  def compare(self, files, what, kind, tensors):
    """What the library reads of these tensors is the weight."""
    name = kind.replace("/", "_") + ".safetensors"
    kept = {"up." + key: t.contiguous() for key, t in tensors.items()}
    kept["up.scales"] = kept["up.scales"].half()
    safetensors_torch.save_file(kept, files.path(name))
    equal(what, files.ask(kind, name, "up"), self.weight)


def awq_layer():
  """AutoAWQ's linear layer, without the packages' own imports, which need other versions of transformers."""
  folder = folder_of("awq")
  if folder is None:
    return None
  for name in ("awq", "awq.modules", "awq.modules.linear", "awq.utils"):
    package = types.ModuleType(name)
    package.__path__ = [os.path.join(folder, *name.split(".")[1:])]
    sys.modules[name] = package
  return importlib.import_module("awq.modules.linear.gemm").WQLinear_GEMM


def check_awq(files, random):
  packed_by = awq_layer()
  if packed_by is None:
    file_checks.left_out.append("AWQ: autoawq could not be had from PyPI")
    return
  layer = Layer(random)
  made = packed_by.from_linear(layer.linear, 4, layer.group, scales=layer.scales.t().contiguous(),
                               zeros=layer.zeros.t().contiguous())
  layer.compare(files, "ufp4 reads what AutoAWQ packed", "int4/awq",
                {name: getattr(made, name) for name in ("qweight", "qzeros", "scales")})


def auto_gptq_layer(name):
  """A linear layer of auto-gptq, whose module is loaded alone."""
  folder = folder_of("auto_gptq")
  if folder is None:
    return None
  spec = importlib.util.spec_from_file_location(name, os.path.join(folder, "nn_modules", "qlinear", name + ".py"))
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module.QuantLinear


def check_gptq(files, random):
  """Version 1, without and with g_idx."""
  if folder_of("auto_gptq") is None:
    file_checks.left_out.append("GPTQ: auto-gptq could not be had from PyPI")
    return
  for module, act_order in (("qlinear_cuda_old", False), ("qlinear_cuda", True)):
    layer = Layer(random, act_order=act_order)
    made = auto_gptq_layer(module)(4, layer.group, layer.inputs, layer.outputs, bias=False)
    made.pack(layer.linear, layer.scales, layer.zeros.clone(), layer.g_idx if act_order else None)
    tensors = {name: t for name, t in made.state_dict().items() if act_order or name != "g_idx"}
    layer.compare(files, f"ufp4 reads what auto-gptq packed{', with g_idx' if act_order else ''}", "int4/gptq", tensors)


def gptqmodel_pack():
  """GPTQModel's packing, a method of a class whose module needs the rest of the package; or None."""
  folder = folder_of("gptqmodel")
  if folder is None:
    return None
  path = os.path.join(folder, "nn_modules", "qlinear", "__init__.py")
  with open(path) as file:
    tree = ast.parse(file.read())
  methods = [node for part in tree.body if isinstance(part, ast.ClassDef) and part.name == "PackableQuantLinear"
             for node in part.body if isinstance(node, ast.FunctionDef) and node.name == "pack_original"]
  limits = types.SimpleNamespace(threadpool_limits=lambda threads: contextlib.nullcontext())
  names = {"THREADPOOLCTL": limits, "_ConvNd": torch.nn.modules.conv._ConvNd, "math": math, "nn": torch.nn, "np": np,
           "t": torch, "transformers": transformers}
  exec(compile(ast.Module(methods, []), path, "exec"), names)
  return names["pack_original"]


def check_gptq_v2(files, random):
  """Version 2: zero points as they are."""
  pack = gptqmodel_pack()
  if pack is None:
    file_checks.left_out.append("GPTQ of version 2: gptqmodel could not be had from PyPI")
    return
  for act_order in (False, True):
    layer = Layer(random, act_order=act_order)
    made = torch.nn.Module()
    made.bits, made.maxq, made.planar, made.pack_factor, made.pack_dtype_bits = 4, 15, False, 8, 32
    made.pack_np_math_dtype, made.pack_np_dtype, made.pack_dtype = np.uint32, np.int32, torch.int32
    pack(made, layer.linear, layer.scales, layer.zeros, layer.g_idx)
    layer.compare(files, f"ufp4 reads what GPTQModel packed{', in another order' if act_order else ''}",
                  "int4/gptq_v2", dict(made.named_buffers()))


def check_compressed(files, random):
  for preset, block in (("NVFP4A16", 16), ("MXFP4A16", 32)):
    scheme = quantization.preset_name_to_scheme(preset, ["Linear"])
    assert isinstance(scheme, quantization.QuantizationScheme)
    kind = "nvfp4" if block == 16 else "mxfp4"
    compressor = compressors.BaseCompressor.get_value_from_registry(f"{kind}-pack-quantized")
    x = torch.randn(8, 128, generator=random)
    amax = x.reshape(8, -1, block).abs().amax(-1)
    state = {"weight": x}
    if kind == "nvfp4":
      state["weight_global_scale"] = torch.tensor([512.0])  # a power of two: their quotient and our product agree
      state["weight_scale"] = (amax / 6 * 512).to(torch.float8_e4m3fn).float()
    else:
      state["weight_scale"] = 2.0 ** torch.floor(torch.log2(amax / 6) + 1)
    packed = compressor.compress(dict(state), scheme)
    plain = compressor.decompress(dict(packed), scheme)["weight"]
    tensors = {"up." + name: t.contiguous() for name, t in packed.items()}
    safetensors_torch.save_file(tensors, files.path(kind + ".safetensors"))
    equal(f"ufp4 reads what compressed-tensors packed as {kind}",
          files.ask("safetensors/" + kind, kind + ".safetensors", "up.weight"), plain.float())


def check_models(folder):
  """compressed-tensors and transformers take the quantization_config of `ufp4 quantize`, and decode its weights."""
  for kind in ("nvfp4", "mxfp4"):
    with open(os.path.join(folder, kind, "config.json")) as file:
      config = quantization.QuantizationConfig.model_validate(json.load(file)["quantization_config"])
    assert config.ignore == ["layers.0.gate", "layers.1.gate"], config.ignore
    scheme = config.config_groups["group_0"]
    compressor = compressors.BaseCompressor.get_value_from_registry(config.format)
    tensors = safetensors_torch.load_file(os.path.join(folder, kind, "part1.safetensors"))
    prefix = "layers.1.up."
    state = {name[len(prefix):]: t for name, t in tensors.items() if name.startswith(prefix)}
    got = compressor.decompress(state, scheme)["weight"].float()
    want = torch.from_numpy(np.fromfile(os.path.join(folder, kind[:2] + ".f32"), np.float32)).reshape(got.shape)
    close = torch.allclose(got, want, rtol=2.0**-7, atol=0)  # theirs divides by the tensor scale and rounds to bf16
    compared(f"compressed-tensors decodes a model of ufp4 quantize in {kind}", close)
  with open(os.path.join(folder, "gpt_oss", "config.json")) as file:
    config = transformers.Mxfp4Config(**json.load(file)["quantization_config"])
  assert config.modules_to_not_convert == ["layers.0.gate", "layers.1.gate"]
  print("ok      transformers takes the quantization_config of layout gpt_oss")


def check_pairs(files, random):
  blocks = torch.randint(0, 256, (3, 5, 4, 16), generator=random, dtype=torch.uint8)
  scales = torch.randint(100, 150, (3, 5, 4), generator=random, dtype=torch.uint8)
  safetensors_torch.save_file({"mlp.up_blocks": blocks, "mlp.up_scales": scales}, files.path("pair.safetensors"))
  theirs = mxfp4.convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)  # [experts, inputs, outputs]
  equal("ufp4 reads GPT-OSS's experts as transformers", files.ask("safetensors/slices", "pair.safetensors", "mlp.up"),
        theirs.transpose(1, 2).float())


def check(files):
  random = torch.Generator().manual_seed(20260622)
  check_awq(files, random)
  check_gptq(files, random)
  check_gptq_v2(files, random)
  check_compressed(files, random)
  check_pairs(files, random)
  files.write()
  check_models(files.folder)


if __name__ == "__main__":
  file_checks.main(__doc__, check)
