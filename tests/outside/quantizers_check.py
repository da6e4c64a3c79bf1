#!/usr/bin/env python3
# ufp4 - quantizers of other projects as PyPI has them: torchao's NVFP4 and the NF4 of bitsandbytes.
# SPDX-License-Identifier: Apache-2.0
"""compat::torchao_nvfp4 against torchao's nvfp4_quantize with a tensor scale, scales, codes and tensor scale, on every
kind of finite numbers of the oracle's cases whose tensor amax is 0 or at least 2688 * 2^-128, below which torchao
divides by 0. The codes of nf4 for x / amax against bitsandbytes' quantize_4bit in blocks of 64; below 1e-38 that
divides by 1e-38. Needs PyTorch; nothing runs on a GPU. --driver names the oracle_driver that was built."""
import argparse
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "oracle"))
try:
  import bitsandbytes.functional
  import numpy as np
  import torch
  import torchao
  from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize, per_tensor_amax_to_scale
except ImportError as error:
  print(f"SKIPPED: {error}, so nothing was compared with torchao and bitsandbytes", flush=True)
  raise SystemExit(77)

import cases
import check

ROWS, COLS, COPIES = 64, 512, 3


def nibbles(packed, high_first=False):
  low, high = packed & 15, packed >> 4
  return np.stack([high, low] if high_first else [low, high], axis=-1).reshape(-1)


def matrices():
  rng = np.random.default_rng(20261127)
  for kind in cases.FINITE_KINDS * COPIES:
    yield cases.matrix(rng, ROWS, COLS, kind, cases.PRESETS["nvfp4"])


def asked(program, payloads):
  answers, status = check.ask(program, payloads)
  assert status == 0 and all(answer[0] == check.OK for answer in answers), "the driver reports an error"
  return [fields for _, fields in answers]


def result(what, counted, wrong):
  print(f"{'FAILED ' if wrong else 'ok     '} {what}: {counted} blocks, {wrong} differ")
  return wrong == 0


def torchao_nvfp4(program):
  data = [x for x in matrices() if not 0 < np.abs(x).max() < 2688 * 2.0**-128]
  none = cases.pack_transform(cases.NamedTransform()) + cases.pack(False, np.zeros(1, np.float32))
  ours = asked(program, [cases.pack("compat", "torchao_nvfp4") + cases.pack_matrix(x) + none for x in data])
  wrong = 0
  for x, (_, codes, scales, tensor, *_) in zip(data, ours):
    numbers = torch.from_numpy(x)
    P = per_tensor_amax_to_scale(numbers.abs().max())
    if P == 0:  # 0/0 there
      continue
    theirs, packed = nvfp4_quantize(numbers, 16, P)
    differ = nibbles(packed.view(torch.uint8).numpy()) != nibbles(np.frombuffer(codes, np.uint8))
    differ = differ.reshape(-1, 16).any(1)
    differ |= theirs.view(torch.uint8).numpy().ravel() != np.frombuffer(scales, np.uint8)
    wrong += int(differ.sum()) + (np.float32(P.item()).tobytes() != tensor)
  return result(f"compat::torchao_nvfp4, torchao {torchao.__version__}", len(data) * ROWS * COLS // 16, wrong)


def nf4(program):
  data = [x.reshape(-1, 64) for x in matrices()]
  data = [x[np.abs(x).max(1) >= 1e-38] for x in data]
  data = [x for x in data if len(x)]
  scaled = [(x / np.abs(x).max(1)[:, None]).astype(np.float32) for x in data]
  every = np.arange(16, dtype=np.uint32)
  ours = asked(program, [cases.pack("convert", "nf4", t.view(np.uint32), every) for t in scaled])
  wrong = 0
  for x, (codes, values) in zip(data, ours):
    packed, state = bitsandbytes.functional.quantize_4bit(torch.from_numpy(x), blocksize=64, quant_type="nf4",
                                                          compress_statistics=False)
    differ = nibbles(packed.numpy().ravel(), True) != np.frombuffer(codes, np.uint32)
    wrong += int(differ.reshape(-1, 64).any(1).sum()) + (state.code.numpy().tobytes() != values)
  return result("nf4, bitsandbytes", sum(map(len, data)), wrong)


def main():
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--driver", required=True, help="the oracle_driver that was built")
  program = parser.parse_args().driver
  sys.exit(0 if all([torchao_nvfp4(program), nf4(program)]) else 1)


if __name__ == "__main__":
  main()
