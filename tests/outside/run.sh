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
  if ! python=$(make_venv packers torch numpy safetensors compressed-tensors transformers auto-gptq); then
    echo "SKIPPED: PyTorch, compressed-tensors, transformers and auto-gptq could not be had from PyPI, so nothing was compared"
    exit 77
  fi
elif ! python=$(make_venv outside numpy ml_dtypes gfloat safetensors gguf); then
  echo "SKIPPED: ml_dtypes, gfloat, safetensors and gguf could not be had from PyPI, so nothing was compared with them"
  exit 77
fi
exec "$python" "$here/$1_check.py" --driver "$2"
