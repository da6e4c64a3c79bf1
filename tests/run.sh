#!/usr/bin/env bash
# ufp4 - the tests, on a machine that has nothing but what Debian's or Ubuntu's base has: installs what is missing.
# SPDX-License-Identifier: Apache-2.0
usage='usage: tests/run.sh [--strict] [--full | --nightly | --preset NAME...] [--list]
  (nothing)        the default test suite: ten minutes on two cores, installation included
  --full           also: sanitizers, emulated processors, nvcc, the ways to get the library
  --nightly        also clang, optimized builds, HIP, other build systems, sweeps, fuzzing, clang-tidy, every test under sanitizers: hours
  --preset NAME    these workflow presets of CMakePresets.json alone
  --strict         a skipped test counts as failed unless tests/may_skip.txt names it: with every package installed, none should skip
  --list           names the presets and what each tests
Each preset is also `cmake --workflow --preset NAME`, without the installation. Environment: UFP4_BUILD_DIR, where to build (default
build/ in the source tree); UFP4_TEST_SEED, for randomized tests; CTEST_PARALLEL_LEVEL, how many tests run at once.
Ends with one line "N passed, N failed, N skipped"; exit status 1 if anything failed.'
set -uo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
exec 2>&1
. "$source_dir/cmake/bare_machine.sh"

full=(full sanitize aarch64-qemu)
nightly=(nightly sanitize-all threads clang-all bits-all aarch64-qemu)
presets=(default) sets='demo default' strict=no
while [ $# -gt 0 ]; do
  case $1 in
    --full) presets=("${full[@]}") sets='demo default full' ;;
    --nightly) presets=("${nightly[@]}") sets="demo default full nightly" ;;
    --strict) strict=yes ;;
    --list) cd "$source_dir" && awk -F'"' '/"name"/ { name = $4 } /"displayName"/ { printf "%-14s %s\n", name, $4 }' CMakePresets.json; exit ;;
    --preset)
      presets=()
      while [ $# -ge 2 ] && [[ $2 != -* ]]; do
        grep -q "^  *\"name\": \"$2\",$" "$source_dir/CMakePresets.json" || { echo "there is no preset '$2'; --list shows them" >&2; exit 2; }
        presets+=("$2")
        shift
      done
      [ ${#presets[@]} -gt 0 ] || { echo "--preset needs a name; --list shows them" >&2; exit 2; }
      [ "${presets[*]}" = default ] || sets='demo default full' ;;
    --help | -h) echo "$usage"; exit 0 ;;
    *) echo "unknown argument '$1'" >&2; echo "$usage" >&2; exit 2 ;;
  esac
  shift
done

choose_build_folder "$source_dir"
export CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-$(nproc)} PYTHONDONTWRITEBYTECODE=1
passed=0 failed=0 skipped=0
skip() { # a preset
  echo "SKIPPED: $*"
  if [ $strict = yes ]; then failed=$((failed + 1)); else skipped=$((skipped + 1)); fi
}
# A package of the sets full and nightly serves single tests, which skip without it.
install() {
  local package set
  for set in $sets; do
    # shellcheck disable=SC2046 # several words
    install_packages $(packages_of "$set") && continue
    case $set in demo | default) ;; *) for package in $(packages_of "$set"); do install_packages "$package" || true; done ;; esac
  done
  install_build_tools && install_packages catch2
}

# workflow PRESET: what `cmake --workflow` does, in the build folder chosen.
workflow() {
  local folder=$ufp4_build/$1 report=$ufp4_build/$1.junit.xml status=0 before=$failed
  rm -f "$report"
  if [ -z "${UFP4_BUILD_DIR:-}" ]; then
    (cd "$source_dir" && cmake --workflow --preset "$1") || status=1
  else
    case $1 in full | nightly) folder=$ufp4_build/default ;; esac
    cmake --preset "$1" -S "$source_dir" -B "$folder" && cmake --build "$folder" -- -k 0 &&
      ctest --test-dir "$folder" --output-on-failure --progress --no-tests=error --output-junit "$report" || status=1
  fi
  if [ -e "$report" ]; then count_tests "$report"
  elif [ $status -eq 0 ]; then passed=$((passed + 1)); fi # a preset that builds alone
  # Whatever failed that is no test in the report.
  [ $status -eq 0 ] || [ $failed -gt "$before" ] || failed=$((failed + 1))
  return $status
}
# A test without a program failed, though CTest's report calls it skipped.
count_tests() {
  local all bad absent left name unexpected
  all=$(grep -c '<testcase ' "$1")
  absent=$(grep '<skipped ' "$1" | grep -v -c 'SKIP_')
  left=$(($(grep -c '<skipped ' "$1") - absent))
  bad=$(($(grep -c '<failure ' "$1") + absent))
  if [ $strict = yes ]; then
    unexpected=$(grep -B 1 '<skipped message="SKIP_' "$1" | sed -n 's/.*<testcase name="\([^"]*\)".*/\1/p' |
      grep -v -x -E -f <(sed -n 's/^\([^#\t][^\t]*\)\t.*/\1/p' "$source_dir/tests/may_skip.txt"))
    for name in $unexpected; do
      echo "FAILED: $name is skipped, and tests/may_skip.txt does not name it"
      left=$((left - 1)) bad=$((bad + 1))
    done
  fi
  passed=$((passed + all - bad - left)) failed=$((failed + bad)) skipped=$((skipped + left))
}

# needs PRESET: returns 1 and counts the preset as skipped if a required program is missing.
needs() {
  case $1 in
    clang | clang-all) have_programs clang++-19 || { skip "no clang++-19, so nothing is compiled with clang"; return 1; } ;;
    aarch64-qemu)
      have_programs aarch64-linux-gnu-g++ qemu-aarch64-static ||
        { skip "no g++-aarch64-linux-gnu and qemu-user-static, so no aarch64 processor is emulated"; return 1; }
      has_header catch2/catch.hpp aarch64-linux-gnu-g++ ||
        { skip "only Catch2 2.13, headers alone, can be compiled for aarch64, and this Catch2 is another"; return 1; } ;;
    threads) can_run_threads || { skip "ThreadSanitizer does not start on this kernel"; return 1; } ;;
  esac
}
# Kernels that randomize more address bits than this ThreadSanitizer knows stop it at start; the preset turns that off with setarch.
can_run_threads() {
  local probe=$ufp4_build/tsan_probe
  echo 'int main() {}' | g++ -fsanitize=thread -x c++ - -o "$probe" && setarch -R "$probe"
}

echo "ufp4 tests: ${presets[*]}; $(nproc) cores, building in $ufp4_build"
step installation install || exit 1
report_amx || exit 1
for preset in "${presets[@]}"; do
  if needs "$preset"; then step "$preset" workflow "$preset"; fi
done

summarize_steps
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
