#!/usr/bin/env bash
# ufp4 - starts a Python test with the first python3 that has the modules it needs.
# SPDX-License-Identifier: Apache-2.0
# usage: python.sh MODULES SCRIPT ARGUMENT...      (MODULES: a,b)
set -euo pipefail
unset CDPATH
. "$(dirname "${BASH_SOURCE[0]}")/../../cmake/bare_machine.sh"
modules=$1
shift
if ! python=$(python_with "$modules"); then
  echo "SKIPPED: no python3 here has $modules, so ${1##*/} did not run"
  exit 77
fi
export PYTHONDONTWRITEBYTECODE=1 # the source tree may be read-only
exec "$python" "$@"
