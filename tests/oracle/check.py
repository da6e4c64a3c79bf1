#!/usr/bin/env python3
# ufp4 - compares the library with the model of its numerical specification, bit for bit.
# SPDX-License-Identifier: Apache-2.0
"""Runs tests/oracle/driver.cpp (built) over cases with difficult numbers and compares every field of its answers.

One line per family; a mismatch is shown with its case, element index, expected and got. Exit status 1 if there is any.
"""
import argparse
import collections
import fnmatch
import os
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np

import cases
import numerics as model

OK, INVALID_ARGUMENT, OTHER_ERROR = 0, 1, 2
SHOWN_PER_FAMILY = 3


def read_results(path):
  """Per case (status, [bytes]); shorter than the cases if the driver ended early."""
  with open(path, "rb") as file:
    data = file.read()
  at, out = 0, []
  while at < len(data):
    status, count = struct.unpack_from("<QQ", data, at)
    at += 16
    fields = []
    for _ in range(count):  # the driver writes an answer whole
      size, = struct.unpack_from("<Q", data, at)
      fields.append(data[at + 8:at + 8 + size])
      at += 8 + size
    out.append((status, fields))
  return out


def ask(driver, payloads):
  """(answers, exit status) of the driver."""
  with tempfile.TemporaryDirectory() as folder:
    file, answers = os.path.join(folder, "cases"), os.path.join(folder, "answers")
    with open(file, "wb") as out:
      for payload in payloads:
        out.write(struct.pack("<Q", len(payload)) + payload)
    ended = subprocess.run([driver, file, answers]).returncode
    return (read_results(answers) if os.path.exists(answers) else []), ended


def hexed(value):
  if value.dtype.kind == "f":
    return f"0x{value.view(f'u{value.itemsize}'):0{2 * value.itemsize}x} ({value!s})"
  return f"0x{int(value):0{2 * value.itemsize}x}"


def compare(field, raw):
  """None, or a message about the first difference."""
  dtype = np.dtype(np.float32) if field.mode == "bound" else field.value.dtype
  size = field.value.size * dtype.itemsize
  if len(raw) != size:
    return f"{field.name}: {size} bytes expected, got {len(raw)}"
  got, want = np.frombuffer(raw, dtype), np.ascontiguousarray(field.value).ravel()
  if field.mode == "bits":
    differs = got != want
  elif field.mode == "float":
    differs = (model.bits_of(got) != model.bits_of(want)) & ~(np.isnan(got) & np.isnan(want))
  elif field.mode == "relative":
    differs = ~(np.abs(got - want) <= 1e-10 * np.abs(want))
  elif field.mode == "close":
    differs = ~(np.abs(got - want) <= 1e-10 * np.maximum(1, np.abs(want)))
  else:
    slack = field.slack.ravel()
    within = np.where(np.isnan(want), np.isnan(got), np.abs(got.astype(np.float64) - want) <= slack)
    differs = ~(within | (slack == np.inf))
  if not differs.any():
    return None
  i = int(np.argmax(differs))
  where = np.unravel_index(i, field.value.shape)
  text = f"{field.name}{[int(w) for w in where]}: expected {hexed(want[i])}, got {hexed(got[i])}"
  if field.mode == "bound":
    text += f", allowed {field.slack.ravel()[i]}"
  return text + f" ({int(differs.sum())} of {differs.size} differ)"


def judge(case, result):
  if result is None:
    return "the driver ended before it answered"
  status, fields = result
  message = fields[0].decode(errors="replace") if status != OK and fields else ""
  try:
    expected = case.expect()
  except model.InvalidArgument as rejected:
    if status == INVALID_ARGUMENT:
      return None
    return f"expected invalid_argument ({rejected}), got status {status} {message}"
  if status != OK:
    return f"expected a result, got status {status}: {message}"
  if len(fields) != len(expected):
    return f"{len(expected)} fields expected, got {len(fields)}"
  return next((text for text in map(compare, expected, fields) if text), None)


def chosen_cases(args):
  """Batches of cases."""
  if args.only:
    family, _, index = args.only.rpartition(":")
    yield [cases.make(args.seed, family, int(index))]
    return
  counts = {family: count for family, (count, _) in cases.families().items()
            if fnmatch.fnmatchcase(family, args.family)}
  if not counts:
    sys.exit(f"no family matches --family {args.family}")
  if not args.seconds:
    yield [cases.make(args.seed, family, index) for family, count in counts.items()
           for index in range(max(1, round(count * args.cases)) if family != "bin_bias" else count)]
    return
  end, first = time.time() + args.seconds, 0
  while time.time() < end:  # of every family in turn
    yield [cases.make(args.seed, family, index) for index in range(first, first + 20)
           for family, count in counts.items() if family != "bin_bias" or index < count]
    first += 20


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--driver", required=True, help="the built tests/oracle/driver.cpp")
  parser.add_argument("--seed", type=int, help="of all cases (default 20606; with --seconds another one every time)")
  parser.add_argument("--cases", type=float, default=1, help="times the usual number of cases (default 1: about 12000)")
  parser.add_argument("--seconds", type=float, help="cases of the families in turn until this time is over")
  parser.add_argument("--family", default="*", help="only families that match this pattern")
  parser.add_argument("--only", metavar="FAMILY:INDEX", help="one case")
  args = parser.parse_args()
  if args.seed is None:
    args.seed = int.from_bytes(os.urandom(4), "little") if args.seconds else 20606
  print(f"seed {args.seed}", flush=True)
  begin = time.time()

  total, wrong, failures = collections.Counter(), collections.Counter(), []
  for batch in chosen_cases(args):
    results, ended = ask(args.driver, [case.payload for case in batch])
    failures += [ended] if ended != 0 else []
    for at, case in enumerate(batch):
      total[case.family] += 1
      problem = judge(case, results[at] if at < len(results) else None)
      if problem:
        wrong[case.family] += 1
        if wrong[case.family] <= SHOWN_PER_FAMILY:
          name = case.family.partition("/")[0] if case.family.startswith(("linear/", "compat/")) else case.family
          print(f"MISMATCH --seed {args.seed} --only {name}:{case.index}\n  {case.about}\n  {problem}", flush=True)
  for family, count in total.items():
    print(f"{family:34s} {count:5d} cases  {wrong[family]:5d} mismatches")
  print(f"{sum(total.values())} cases, {sum(wrong.values())} mismatches, {time.time() - begin:.0f} s")
  for ended in failures:
    print(f"the driver ended with status {ended}")
  sys.exit(1 if failures or wrong else 0)


if __name__ == "__main__":
  main()
