# ufp4 - inputs, and answers from scalar_driver, for the comparisons with packages of other projects.
# SPDX-License-Identifier: Apache-2.0
import argparse
import os
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "oracle"))
import numerics

NOT_COMPARED = 77  # exit status: skipped


def skip(why):
  print(f"SKIPPED: {why}, so nothing was compared", flush=True)
  sys.exit(NOT_COMPARED)


class Comparison:
  """Queries the driver, compares bits, and prints one line a query."""

  def __init__(self, description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--driver", required=True, help="the scalar_driver that was built")
    self.driver = parser.parse_args().driver
    if not os.access(self.driver, os.X_OK):
      parser.error(f"--driver {self.driver} is not a program")
    self.failures = 0

  def ask(self, operation, numbers, *rest):
    numbers = np.ascontiguousarray(numbers, np.uint32)
    done = subprocess.run([self.driver, operation, *map(str, rest)], input=numbers.tobytes(), stdout=subprocess.PIPE,
                          check=True)
    answers = np.frombuffer(done.stdout, np.uint32)
    assert answers.size == numbers.size, f"{operation}: {answers.size} answers to {numbers.size} numbers"
    return answers

  def convert(self, operation, x, *rest):
    """The codes of float32 values."""
    return self.ask(operation, x.view(np.uint32), *rest)

  def values(self, kind, codes):
    return self.ask(f"{kind}/value", codes).view(np.float32)

  def equal(self, what, inputs, got, want):
    """Integers, or float32 by their bits; any NaN equals any NaN."""
    assert inputs.size == got.size == want.size and inputs.size > 0
    if got.dtype == np.float32:
      got, want = (np.where(np.isnan(v), np.uint32(0x7FC00000), v.view(np.uint32))
                   for v in (got, want.astype(np.float32)))
    wrong = np.flatnonzero(got.astype(np.uint64) != want.astype(np.uint64))
    if wrong.size == 0:
      print(f"ok      {what}: {inputs.size} numbers")
      return
    self.failures += 1
    i = wrong[0]
    shown = inputs.view(np.uint32)[i] if inputs.dtype == np.float32 else inputs[i]
    print(f"FAILED  {what}: {wrong.size} of {inputs.size} differ; input 0x{int(shown):08X} ({inputs[i]!s}) "
          f"gives 0x{int(got[i]):X} and should give 0x{int(want[i]):X}")

  def finish(self):
    sys.exit(1 if self.failures else 0)


def from_bits(bits):
  return np.asarray(bits, np.uint32).view(np.float32)


def every_float(stride):
  """One float in `stride`, NaNs left out."""
  x = from_bits(np.arange(0, 1 << 32, stride, dtype=np.uint64).astype(np.uint32))
  return x[~np.isnan(x)]


def sixteen_bit_floats():
  codes = np.arange(1 << 16, dtype=np.uint32)
  with np.errstate(invalid="ignore"):  # signalling NaNs
    halves = codes.astype(np.uint16).view(np.float16).astype(np.float32)
  x = np.concatenate([from_bits(codes << 16), halves])
  return x[~np.isnan(x)]


def boundaries(values):
  """Every float within four steps of a value, of the middle between two neighbours, and of their negatives."""
  finite = np.unique(np.abs(values[np.isfinite(values)].astype(np.float64)))
  centres = np.concatenate([finite, (finite[1:] + finite[:-1]) / 2]).astype(np.float32)
  bits = centres.view(np.uint32).astype(np.int64)[:, None] + np.arange(-4, 5)
  bits = np.unique(bits[(bits >= 0) & (bits <= 0x7F800000)]).astype(np.uint32)
  return from_bits(np.concatenate([bits, bits | np.uint32(1 << 31)]))


def inputs(values, stride=2003):
  return np.concatenate([boundaries(values), sixteen_bit_floats(), every_float(stride)])


def philox_random_bits(count, seed, stream):
  """16 bits for element 0, 1, ..., from the oracle."""
  return numerics.random_bits(seed, stream, np.arange(count, dtype=np.uint64)).astype(np.int64)
