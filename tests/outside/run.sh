#!/usr/bin/env bash
# ufp4 - starts CHECK_check.py in an environment with the packages of PyPI that it compares with.
# SPDX-License-Identifier: Apache-2.0
# usage: run.sh CHECK DRIVER
set -euo pipefail
unset CDPATH
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../../cmake/bare_machine.sh"
choose_build_folder "$here/../.."
if [ "$1" = packers ]; then
  if ! python=$(make_venv packers torch numpy safetensors compressed-tensors transformers auto-gptq setuptools wheel); then
    echo "SKIPPED: PyTorch, compressed-tensors, transformers and auto-gptq could not be had from PyPI, so nothing was compared"
    exit 77
  fi
  # Without what they require: only their packing runs. The check reports which of them is absent.
  for package in awq:autoawq==0.2.9 gptqmodel:gptqmodel==7.7.0; do
    "$python" -c "import importlib.util as u, sys; sys.exit(u.find_spec('${package%%:*}') is None)" ||
      "$python" -m pip install --quiet --no-deps --no-build-isolation --disable-pip-version-check "${package#*:}" || true
  done
elif [ "$1" = quantizers ]; then
  if ! python=$(make_venv quantizers torch numpy torchao==0.18.0 bitsandbytes==0.50.2); then
    echo "SKIPPED: PyTorch, torchao and bitsandbytes could not be had from PyPI, so nothing was compared"
    exit 77
  fi
elif ! python=$(make_venv outside numpy ml_dtypes gfloat safetensors gguf); then
  echo "SKIPPED: ml_dtypes, gfloat, safetensors and gguf could not be had from PyPI, so nothing was compared with them"
  exit 77
fi
exec "$python" "$here/$1_check.py" --driver "$2"
