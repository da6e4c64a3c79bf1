#!/usr/bin/env bash
# ufp4 - measures this machine: installs what is missing on Debian or Ubuntu, builds the benches, runs them and writes a report.
# SPDX-License-Identifier: Apache-2.0
usage='usage: bench/run.sh [--quick] [--out FILE]
  --quick      fewer rows and shorter: about two minutes instead of ten
  --out FILE   the report; without it bench/performance.md in the build folder
Environment: UFP4_BUILD_DIR, the build folder (default build/ in the source tree).'
set -euo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$source_dir/cmake/bare_machine.sh"

quick=() report=
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=(--quick) ;;
    --out)
      [ $# -ge 2 ] || { echo "$usage" >&2; exit 2; }
      report=$2
      shift ;;
    --help | -h) echo "$usage"; exit 0 ;;
    *) echo "unknown argument '$1'" >&2; echo "$usage" >&2; exit 2 ;;
  esac
  shift
done
choose_build_folder "$source_dir"
build=$ufp4_build/bench
results=$build/results
report=${report:-$build/performance.md}

install_build_tools
install_packages libbenchmark-dev libeigen3-dev python3 binutils
report_amx
echo "building the benches (a minute or two the first time)"
if ! { cmake --preset bench -S "$source_dir" -B "$build" &&
       cmake --build "$build"; } >"$ufp4_build/bench.log" 2>&1; then
  grep -m 10 -E -A 5 'error:|CMake Error' "$ufp4_build/bench.log" || tail -n 40 "$ufp4_build/bench.log"
  echo "ufp4: the build failed; all of its output is in $ufp4_build/bench.log"
  exit 1
fi
if left_out 'every bench' "$ufp4_build/bench.log"; then exit 1; fi

rm -rf "$results"
mkdir -p "$results"
echo "limits of this machine"
"$build/bench/peaks" "${quick[@]}" --json "$results/peaks.json" >"$results/peaks.txt"
# By their sources, as bench/CMakeLists.txt names them: the folder may hold programs of deleted sources.
mapfile -t sources < <(find "$source_dir/bench" -name '*_bench.cpp' -printf '%P\n' | LC_ALL=C sort)
for source in "${sources[@]}"; do
  name=${source%.cpp} name=${name//\//_}
  echo "$name"
  "$build/bench/$name" "${quick[@]}" --benchmark_enable_random_interleaving=true --benchmark_out="$results/$name.json" \
    >"$results/$name.txt"
done
echo "compiling a small program"
bash "$source_dir/bench/compile_cost.sh" --json "$results" >"$results/compile.json"
python3 "$source_dir/bench/render.py" "$results" --out "$report"
echo "report: $report ($((SECONDS / 60)):$(printf %02d $((SECONDS % 60))) min; all output in $results)"
