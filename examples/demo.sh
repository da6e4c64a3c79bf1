#!/usr/bin/env bash
# ufp4 - from a bare Debian or Ubuntu to 4-bit formats compared on real data: installs what is missing, builds, runs.
# SPDX-License-Identifier: Apache-2.0
#
# usage: examples/demo.sh [ARGUMENTS OF COMPARE]      (examples/demo.sh --help lists them)
# Installs (apt): g++ cmake ninja-build. Builds into build/, or UFP4_BUILD_DIR.
set -euo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$source_dir/cmake/bare_machine.sh"
choose_build_folder "$source_dir"
build=$ufp4_build/release

# What is said of the build goes to stderr: stdout is compare's (--json, --csv).
{
  install_build_tools
  echo "building examples/compare (half a minute the first time)"
  if ! { cmake --preset release -S "$source_dir" -B "$build" -D UFP4_BUILD_BENCH=OFF &&
         cmake --build "$build" --target compare; } >"$ufp4_build/demo.log" 2>&1; then
    tail -n 40 "$ufp4_build/demo.log"
    echo "ufp4: the build failed; all of its output is in $ufp4_build/demo.log"
    exit 1
  fi
} >&2

compare=$build/examples/compare
[ $# -gt 0 ] && exec "$compare" "$@"
"$compare" --html "$ufp4_build/compare.html"
echo
echo "Open in a browser: file://$ufp4_build/compare.html"
echo "With your data:    examples/demo.sh --npy FILE    (examples/demo.sh --help)"
