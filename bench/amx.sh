#!/usr/bin/env bash
# ufp4 - the first run on a machine with AMX: the tests on its tiles, the benches, and a page of both.
# SPDX-License-Identifier: Apache-2.0
usage='usage: bench/amx.sh [--out FILE] [--rehearse]
  --out FILE   the page; without it docs/performance_amx.md
  --rehearse   without AMX too: the same steps with the quick benches and a page in the build folder, which says that no tile ran
About half an hour on two cores. Writes no page if a test fails. Environment: UFP4_BUILD_DIR, as for tests/run.sh and bench/run.sh.'
set -euo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$source_dir/cmake/bare_machine.sh"

page='' rehearse=no
while [ $# -gt 0 ]; do
  case $1 in
    --rehearse) rehearse=yes ;;
    --out)
      [ $# -ge 2 ] || { echo "$usage" >&2; exit 2; }
      page=$2
      shift ;;
    --help | -h) echo "$usage"; exit 0 ;;
    *) echo "unknown argument '$1'" >&2; echo "$usage" >&2; exit 2 ;;
  esac
  shift
done
choose_build_folder "$source_dir"
install_build_tools

amx=$(report_amx)
quick=()
if [ $rehearse = yes ]; then
  quick=(--quick) page=${page:-$ufp4_build/performance_amx.md}
elif [[ $amx != 'AMX: present; its kernels run'* ]]; then
  echo "$amx. --rehearse runs the same steps all the same." >&2
  exit 1
fi
page=${page:-$source_dir/docs/performance_amx.md}

# The preset bits compiles everything with -O3, as the benches do.
tests=$ufp4_build/amx_tests.log report=$ufp4_build/amx_bench.md
if ! bash "$source_dir/tests/run.sh" --preset default bits 2>&1 | tee "$tests"; then
  echo "ufp4: a test failed, so nothing was measured; all output is in $tests" >&2
  exit 1
fi
bash "$source_dir/bench/run.sh" "${quick[@]}" --out "$report"
{
  sed -n 1p "$report"
  printf '\n%s. Tests, presets default and bits: %s.\n' "$amx" "$(tail -n 1 "$tests")"
  sed 1d "$report"
} >"$page"
echo "page: $page; what AMX's kernels were expected to reach: docs/performance.md, bench/goals.txt"
