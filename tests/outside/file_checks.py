# ufp4 - common part of the checks of files: what interop_driver writes and reads, values of codes, comparison of bits.
# SPDX-License-Identifier: Apache-2.0
import argparse
import importlib
import os
import subprocess
import sys
import tempfile


def packages(*names):
  """Modules of PyPI's packages; without one of them the check is skipped."""
  try:
    return [importlib.import_module(name) for name in names]
  except ImportError as error:
    print(f"SKIPPED: {error}, so no files were compared", flush=True)
    raise SystemExit(77)


[np] = packages("numpy")
failures = []
left_out = []  # what could not be compared; the check counts as skipped if nothing else failed


def compared(what, right, detail=""):
  """One line of the report."""
  if not right:
    failures.append(what)
  print(f"{'ok    ' if right else 'FAILED'}  {what}{detail}", flush=True)


def equal(what, got, want):
  """Shapes aside, the same float32 bits."""
  got, want = (np.asarray(x).astype(np.float32).reshape(-1) for x in (got, want))
  assert want.size > 0
  right = got.size == want.size and not (got.view(np.uint32) != want.view(np.uint32)).any()
  compared(what, right, f": {want.size} numbers" + ("" if right else f": {got[:8]} ... and should be {want[:8]} ..."))


def values_of(codes):
  """Float32 values of packed E2M1 codes, the even column low."""
  [ml_dtypes] = packages("ml_dtypes")
  codes = np.stack([codes & 15, codes >> 4], axis=-1).reshape(codes.shape[0], -1)
  return codes.astype(np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float32)


def scaled(values, scales, tensor_scale=np.float32(1)):
  block = values.shape[1] // scales.shape[1]
  return values * np.repeat(scales.astype(np.float32) * tensor_scale, block, axis=1)


def one_zero(x):
  """ggml's table has 0 for code 8, where others have -0."""
  return x + np.float32(0)


class Files:
  """A folder, and interop_driver, which writes files to it and reads them."""

  def __init__(self, driver, folder):
    self.driver, self.folder = driver, folder

  def path(self, name):
    return os.path.join(self.folder, name)

  def write(self):
    """The files that the library and the tool write."""
    subprocess.run([self.driver, "write", self.folder], check=True)

  def ask(self, kind, name, tensor="-"):
    """Float32 values of a tensor of a file, as the library reads it."""
    done = subprocess.run([self.driver, "read", kind, self.path(name), tensor], stdout=subprocess.PIPE, check=True)
    return np.frombuffer(done.stdout, np.float32)


def main(description, check):
  """Runs check(Files) and ends the program with its status."""
  parser = argparse.ArgumentParser(description=description)
  parser.add_argument("--driver", required=True, help="interop_driver, or a program built beside it")
  driver = os.path.join(os.path.dirname(os.path.abspath(parser.parse_args().driver)), "interop_driver")
  if not os.access(driver, os.X_OK):
    parser.error(f"{driver} is no program")
  with tempfile.TemporaryDirectory() as folder:
    check(Files(driver, folder))
  if left_out and not failures:
    print("SKIPPED: not compared: " + "; ".join(left_out), flush=True)
  sys.exit(1 if failures else 77 if left_out else 0)
