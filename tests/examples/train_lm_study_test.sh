#!/usr/bin/env bash
# ufp4 - tests: starts train_lm_study_test.py with a Python that has what the study needs.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
unset CDPATH # where it is set, cd may go elsewhere, and says so on stdout
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../../cmake/bare_machine.sh"
if ! python=$(python_with numpy,scipy); then
  echo "SKIPPED: no python3 here has numpy and scipy, so the study's statistics, runner and report were not tested"
  exit 77
fi
export PYTHONDONTWRITEBYTECODE=1
exec "$python" "$here/train_lm_study_test.py" "$@"
