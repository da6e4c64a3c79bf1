#!/usr/bin/env python3
# ufp4 - weights that the projects' own code packs: auto-gptq, compressed-tensors, transformers.
# SPDX-License-Identifier: Apache-2.0
"""auto-gptq packs GPTQ, compressed-tensors packs NVFP4 and MXFP4, and transformers decodes GPT-OSS's pairs. The library
reads their tensors to the values that these projects decode. Needs PyTorch; nothing runs on a GPU. --driver names any
program in the folder where interop_driver was built."""
import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

try:
  import numpy as np
  import safetensors.torch
  import torch
  from compressed_tensors.compressors import BaseCompressor
  from compressed_tensors.quantization import QuantizationConfig, QuantizationScheme, preset_name_to_scheme
  from transformers import Mxfp4Config
  from transformers.integrations.mxfp4 import convert_moe_packed_tensors
except ImportError as error:
  print(f"SKIPPED: {error}, so nothing was compared with the projects' own code", flush=True)
  raise SystemExit(77)

failures = 0


def equal(what, got, want):
  """Shapes aside, the same float32 bits."""
  global failures
  got, want = np.asarray(got).reshape(-1), want.float().contiguous().numpy().reshape(-1)
  wrong = got.size != want.size or (got.view(np.uint32) != want.view(np.uint32)).any()
  failures += wrong
  print(f"{'FAILED' if wrong else 'ok    '}  {what}: {want.size} numbers"
        f"{'' if not wrong else f': {got[:8]} ... and should be {want[:8]} ...'}")


def gptq_layer():
  """auto-gptq's linear layer; its module is loaded alone, without what the rest of the package needs."""
  package = importlib.util.find_spec("auto_gptq")
  if package is None:
    return None
  spec = importlib.util.spec_from_file_location(
      "qlinear_cuda_old", os.path.join(os.path.dirname(package.origin), "nn_modules", "qlinear", "qlinear_cuda_old.py"))
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module.QuantLinear


def check_gptq(ask, path, random):
  layer = gptq_layer()
  if layer is None:
    print("auto-gptq could not be had from PyPI: not compared")
    return
  inputs, outputs, group = 128, 64, 32
  codes = torch.randint(0, 16, (outputs, inputs), generator=random)
  zeros = torch.randint(1, 16, (outputs, inputs // group), generator=random).float()
  scales = (torch.randint(1, 1000, (outputs, inputs // group), generator=random) * 2.0**-14).float()
  wide = lambda x: x.repeat_interleave(group, dim=1)
  linear = torch.nn.Linear(inputs, outputs, bias=False)
  linear.weight.data = (codes - wide(zeros)) * wide(scales)
  quantized = layer(4, group, inputs, outputs, bias=False)
  quantized.pack(linear, scales, zeros.clone(), None)
  tensors = {"up." + name: t.contiguous() for name, t in quantized.state_dict().items() if name != "g_idx"}
  tensors["up.scales"] = tensors["up.scales"].half()
  safetensors.torch.save_file(tensors, path("gptq.safetensors"))
  equal("ufp4 reads what auto-gptq packed", ask("int4/gptq", "gptq.safetensors", "up"), linear.weight.data)


def check_compressed(ask, path, random):
  for preset, block in (("NVFP4A16", 16), ("MXFP4A16", 32)):
    scheme = preset_name_to_scheme(preset, ["Linear"])
    assert isinstance(scheme, QuantizationScheme)
    kind = "nvfp4" if block == 16 else "mxfp4"
    compressor = BaseCompressor.get_value_from_registry(f"{kind}-pack-quantized")
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
    safetensors.torch.save_file(tensors, path(kind + ".safetensors"))
    equal(f"ufp4 reads what compressed-tensors packed as {kind}", ask("safetensors/" + kind, kind + ".safetensors",
                                                                      "up.weight"), plain)


def check_models(folder):
  """compressed-tensors and transformers take the quantization_config of `ufp4 quantize`, and decode its weights."""
  for kind in ("nvfp4", "mxfp4"):
    with open(os.path.join(folder, kind, "config.json")) as file:
      config = QuantizationConfig.model_validate(json.load(file)["quantization_config"])
    assert config.ignore == ["layers.0.gate", "layers.1.gate"], config.ignore
    scheme = config.config_groups["group_0"]
    compressor = BaseCompressor.get_value_from_registry(config.format)
    tensors = safetensors.torch.load_file(os.path.join(folder, kind, "part1.safetensors"))
    prefix = "layers.1.up."
    state = {name[len(prefix):]: t for name, t in tensors.items() if name.startswith(prefix)}
    got = compressor.decompress(state, scheme)["weight"].float()
    want = torch.from_numpy(np.fromfile(os.path.join(folder, kind[:2] + ".f32"), np.float32)).reshape(got.shape)
    close = torch.allclose(got, want, rtol=2.0**-7, atol=0)  # theirs divides by the tensor scale and rounds to bf16
    print(f"{'ok    ' if close else 'FAILED'}  compressed-tensors decodes a model of ufp4 quantize in {kind}")
    global failures
    failures += not close
  with open(os.path.join(folder, "gpt_oss", "config.json")) as file:
    config = Mxfp4Config(**json.load(file)["quantization_config"])
  assert config.modules_to_not_convert == ["layers.0.gate", "layers.1.gate"]
  print("ok      transformers takes the quantization_config of layout gpt_oss")


def check_pairs(ask, path, random):
  blocks = torch.randint(0, 256, (3, 5, 4, 16), generator=random, dtype=torch.uint8)
  scales = torch.randint(100, 150, (3, 5, 4), generator=random, dtype=torch.uint8)
  safetensors.torch.save_file({"mlp.up_blocks": blocks, "mlp.up_scales": scales}, path("pair.safetensors"))
  theirs = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)  # [experts, inputs, outputs]
  equal("ufp4 reads GPT-OSS's experts as transformers", ask("safetensors/slices", "pair.safetensors", "mlp.up"),
        theirs.transpose(1, 2))


def main():
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--driver", required=True, help="interop_driver, or a program built beside it")
  driver = os.path.join(os.path.dirname(os.path.abspath(parser.parse_args().driver)), "interop_driver")
  if not os.access(driver, os.X_OK):
    parser.error(f"{driver} is no program")
  random = torch.Generator().manual_seed(20260622)
  with tempfile.TemporaryDirectory() as folder:
    def path(name):
      return os.path.join(folder, name)

    def ask(kind, name, tensor):
      done = subprocess.run([driver, "read", kind, path(name), tensor], stdout=subprocess.PIPE, check=True)
      return np.frombuffer(done.stdout, np.float32)

    check_gptq(ask, path, random)
    check_compressed(ask, path, random)
    check_pairs(ask, path, random)
    subprocess.run([driver, "write", folder], check=True)
    check_models(folder)
  sys.exit(1 if failures else 0)


if __name__ == "__main__":
  main()
