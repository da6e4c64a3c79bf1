#!/usr/bin/env bash
# ufp4 - reports which lines and branches of include/ufp4 the tests run, by folder and by file.
# SPDX-License-Identifier: Apache-2.0
usage='usage: tests/coverage.sh [--report]
  --report   builds and runs nothing; reports the counts of the last run
Writes build/coverage.report: coverage.md (by folder and by file), coverage.txt and coverage.csv (by file), html/index.html (by line).
A line counts only if a compiled function contains it: code for other processors and templates that no test calls do not count.
Environment: UFP4_BUILD_DIR, the build folder. Exit status 77 if gcovr is missing and cannot be installed.'
set -uo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$source_dir/cmake/bare_machine.sh"

run=yes command="tests/coverage.sh${*:+ $*}"
while [ $# -gt 0 ]; do
  case $1 in
    --report) run=no ;;
    --help | -h) echo "$usage"; exit 0 ;;
    *) echo "unknown argument '$1'" >&2; echo "$usage" >&2; exit 2 ;;
  esac
  shift
done
choose_build_folder "$source_dir"
build=$ufp4_build/coverage out=$ufp4_build/coverage.report
mkdir -p "$ufp4_build/logs" "$out/html"

# Release 7, in an environment of its own: Debian's 5 fails on a function that has other lines in another program, and 8
# counts a line once for each instantiation of its template.
find_gcovr() {
  local python
  install_packages python3 python3-venv ca-certificates >&2 && python=$(make_venv gcovr 'gcovr>=7,<8') && gcovr=("$python" -m gcovr)
}

# From nothing: counts of an earlier run, and notes of deleted sources, would be reported too.
run_tests() {
  remove_tree "$build"
  bash "$source_dir/tests/run.sh" --preset coverage
}

report() {
  # Branches to a landing pad are the compiler's, not the program's. The filter is a regular expression, of a path from here where it
  # begins without /: the source tree's own path is none.
  (cd "$source_dir" && "${gcovr[@]}" --root . --object-directory "$build" --filter include/ufp4/ \
    --merge-mode-functions=merge-use-line-min --exclude-throw-branches --exclude-unreachable-branches \
    --txt "$out/coverage.txt" --csv "$out/coverage.csv" --json "$out/coverage.json" --html-details "$out/html/index.html" "$build") >"$ufp4_build/logs/coverage.gcovr.log" 2>&1 || {
    tail -n 20 "$ufp4_build/logs/coverage.gcovr.log"
    return 1
  }
}

# Columns of coverage.csv: filename, lines, lines run, share, branches, branches taken, share.
by_folder() {
  LC_ALL=C awk -F, 'NR > 1 && $2 > 0 {
      split($1, part, "/"); folder = part[4] == "" ? "top level: operations and umbrella headers" : part[3]
      if (folder == "cuda" || folder == "hip") folder = "gpu"
      if (folder == "cpu") folder = part[4] == "kernels" || part[4] == "simd" ? "cpu: kernels" : "cpu: dispatch, threads, drivers"
      for (name = folder; ; name = "total") {
        files[name]++; lines[name] += $2; hit[name] += $3; branches[name] += $5; taken[name] += $6
        if (name == "total") break
      }
    }
    function share(part, whole) { return whole ? sprintf("%.1f%%", int(1000 * part / whole) / 10) : "" }
    END {
      print "| folder | files | lines | run | branches | taken |\n|---|---:|---:|---:|---:|---:|"
      n = split("detail,format,round,hadamard,block,matrix,top level: operations and umbrella headers,cpu: dispatch; threads; drivers,cpu: kernels,recipe,analysis,interop,gpu,total", order, ",")
      for (i = 1; i <= n; i++) {
        name = order[i]; gsub(/;/, ",", name)
        if (name in lines) printf "| %s | %d | %d | %s | %d | %s |\n", name, files[name], lines[name], share(hit[name], lines[name]), branches[name], share(taken[name], branches[name])
      }
    }' "$out/coverage.csv"
}

by_file() {
  echo '| file | lines | not run | branches | not taken |'
  echo '|---|---:|---:|---:|---:|'
  awk -F, 'NR > 1 && $2 > 0 { sub(/^include\/ufp4\//, "", $1); printf "| `%s` | %d | %d | %d | %d |\n", $1, $2, $2 - $3, $5, $5 - $6 }' "$out/coverage.csv"
}

# shellcheck disable=SC2016 # the backquotes are Markdown
markdown() {
  printf '# Coverage of include/ufp4\n\n|  |  |\n|---|---|\n| command | `%s` |\n' "$command"
  printf '| processor | %s |\n' "$(processor)"
  printf '| compiler | %s, -O0 |\n' "$(LC_ALL=C g++ --version | head -n 1)"
  printf '| date | %s |\n' "$(date -u +%Y-%m-%d)"
  [ $status -eq 0 ] || printf '| tests | **not all were built and passed: the counts are incomplete** |\n'
  printf '\n## By folder\n\n'
  by_folder
  printf '\n## By file\n\n'
  by_file
}

gcovr=()
if ! find_gcovr; then
  echo "SKIPPED: gcovr 7 could not be had from PyPI, so no coverage was measured"
  exit 77
fi
status=0
[ $run = no ] || run_tests || status=1
report || exit 1
markdown >"$out/coverage.md" || exit 1
by_folder
echo "report: $out/coverage.md; by line: $out/html/index.html"
exit $status
