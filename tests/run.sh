#!/usr/bin/env bash
# ufp4 - all tests, on a machine that has nothing but what Debian's or Ubuntu's base has: installs what is missing.
# SPDX-License-Identifier: Apache-2.0
usage='usage: tests/run.sh [--all] [--step NAME]... [--list]
  --all         the long sweeps too (hours)
  --step NAME   this step only; may be given again
  --list        name the steps and end
Environment: UFP4_BUILD_DIR, where to build (default build/ in the source tree); UFP4_TEST_SEED, for randomised tests.
Ends with one line "N passed, N failed, N skipped"; exit status 1 if anything failed.'
set -uo pipefail
unset CDPATH # where it is set, cd may go elsewhere, and says so on stdout

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$source_dir/cmake/bare_machine.sh"

# name: what it shows. A step is the function step_<name>; it returns 0, 1, or 77 for "skipped, and I said why".
# A step that counts no tests of its own is one test.
steps=(
  "gcc: every test of the day with g++: those of formats, kernels and bits with -O2, the others with -Og; the layer rule and the tour are among them"
  "clang: formats, rounding, transforms, blocks, kernels and recipes with clang 19, or another from 16 on; everything with --all"
  "sanitize: formats to kernels to recipes, files and fuzz corpora with g++ under AddressSanitizer and UndefinedBehaviorSanitizer; everything with --all"
  "threads: the tests labelled threads under ThreadSanitizer"
  "bits: of formats, rounding, transforms, blocks, kernels and recipes, the tests labelled bits with -O3 -march=native -ffp-contract=fast; every verb's with --all"
  "headers: every public header compiles alone, with g++ and all warnings"
  "packages: the library installed, added, fetched, and from pkg-config, Conan and vcpkg, each in a project of its own"
  "misuse: what must not compile does not, and says the sentence that it should"
  "budgets: what including the public headers costs"
  "emulated: the kernels on older x86-64 processors and on three kinds of aarch64 (there every verb with --all), under QEMU; files built for different ones linked together"
  "gpu: every kernel compiled by nvcc for four architectures, and the instructions in it; the GPU's tests where there is a GPU"
  "hip: every kernel compiled for AMD's architectures, linked for gfx90a, and the instructions in it; the GPU's tests where there is an AMD GPU"
  "oracle: an independent reading of the numerics page, in Python, gives the same bits"
  "outside: packages of other projects give the same bits"
  "docs: the pages' links and pictures, and the site that docs/build.sh makes of them"
)
long_steps=(
  "nightly: the tests labelled nightly: all 2^32 floats, matrices beyond 2^31 elements, libFuzzer for ten minutes a target"
  "tidy: clang-tidy finds nothing in the headers, those for GPUs too, and in the tool"
  "coverage: which lines of the headers the tests run, by room, and which not, line by line in build/coverage.report"
  "hostile: the headers behind others' macros, without exceptions and RTTI, with more warnings, by four compilers; mdspan with libc++"
  "clang_all: every test with clang"
  "sanitize_all: every test under the sanitizers"
  "bits_all: every test labelled bits with -O3 -march=native -ffp-contract=fast"
  "gpu_tests: every test of the GPU kernels compiled by nvcc, and by hipcc"
  "torch: the drop-in Linear for libtorch, which this step installs; where it is installed, the step gcc has the same tests"
)

jobs=$(nproc)
everything='' # --all, for the scripts that have more to do then
wanted=()
while [ $# -gt 0 ]; do
  case $1 in
    --all) steps+=("${long_steps[@]}") everything=--all ;;
    --list) printf '%s\n' "${steps[@]}" "${long_steps[@]/%/ (--all)}"; exit 0 ;;
    --step)
      [ $# -ge 2 ] || { echo "--step needs a name; --list shows them" >&2; exit 2; }
      wanted+=("$2")
      shift ;;
    --help | -h) echo "$usage"; exit 0 ;;
    *) echo "unknown argument '$1'" >&2; echo "$usage" >&2; exit 2 ;;
  esac
  shift
done
if [ ${#wanted[@]} -gt 0 ]; then
  chosen=()
  for name in "${wanted[@]}"; do
    found=
    for step in "${steps[@]}" "${long_steps[@]}"; do
      [ "${step%%:*}" = "$name" ] && found=$step
    done
    [ -n "$found" ] || { echo "there is no step '$name'; --list shows them" >&2; exit 2; }
    chosen+=("$found")
  done
  steps=("${chosen[@]}")
fi

choose_build_folder "$source_dir"
mkdir -p "$ufp4_build/logs"
export PYTHONDONTWRITEBYTECODE=1 # the source tree may be read-only
if [ ! -w "${HOME:-/nonexistent}" ]; then
  export HOME=$ufp4_build/home
  mkdir -p "$HOME"
fi
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi

passed=0 failed=0 skipped=0

skip() {
  echo "SKIPPED: $*"
  return 77
}

# script COMMAND...: a step that is a script of its own. Counts one test, and what it left out, which it says in lines with SKIPPED:.
script() {
  local status log=$ufp4_build/logs/${step%%:*}.txt
  "$@" 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  [ "$status" -ne 0 ] || passed=$((passed + 1))
  [ "$status" -eq 77 ] || skipped=$((skipped + $(grep -c '^SKIPPED:' "$log")))
  return "$status"
}

# configure PRESET FOLDER [CMAKE ARGUMENT]...
configure() {
  local preset=$1 folder=$2
  shift 2
  local log=$ufp4_build/logs/$folder.configure.log
  if ! cmake --preset "$preset" -S "$source_dir" -B "$ufp4_build/$folder" -Wno-dev "$@" >"$log" 2>&1; then
    tail -n 40 "$log"
    echo "configuring failed; all of its output is in $log"
    return 1
  fi
}

# compile FOLDER TARGET...: goes on after an error, so that what builds can be run.
compile() {
  local folder=$1
  shift
  local log=$ufp4_build/logs/$folder.build.log began=$SECONDS
  if ! cmake --build "$ufp4_build/$folder" --target "$@" -- -j "$jobs" -k 0 >"$log" 2>&1; then
    grep -E -A 15 '^FAILED|(error|Error):|ninja: error' "$log" | head -n 120
    echo "building failed; all of its output is in $log"
    return 1
  fi
  echo "built in $((SECONDS - began)) s"
}

# run_tests FOLDER [CTEST ARGUMENT]...: counts what CTest counted. A test without a binary did not build: it failed,
# though CTest's report calls it skipped.
run_tests() {
  local folder=$1 status all=0 bad=0 left=0 absent=0 report=$ufp4_build/logs/$1.junit.xml
  shift
  rm -f "$report"
  "${runner[@]}" ctest --test-dir "$ufp4_build/$folder" --parallel "$jobs" --output-on-failure --no-tests=error \
    --output-junit "$report" "$@" 2>&1 | grep -v -e '^Looked in the following' -e "^/\?${ufp4_build#/}/"
  status=${PIPESTATUS[0]}
  if [ -e "$report" ]; then
    all=$(grep -c '<testcase ' "$report")
    absent=$(grep '<skipped ' "$report" | grep -v -c 'SKIP_')
    left=$(($(grep -c '<skipped ' "$report") - absent))
    bad=$(($(grep -c '<failure ' "$report") + absent))
  fi
  passed=$((passed + all - bad - left)) failed=$((failed + bad)) skipped=$((skipped + left))
  return "$status"
}
runner=()

# suite PRESET FOLDER TARGETS CTEST-SELECTION [CMAKE ARGUMENT]...
suite() {
  local preset=$1 folder=$2 targets=$3 selection=$4 built=0
  shift 4
  install_build_tools || return 1
  install_packages catch2 || return 1
  install_packages libeigen3-dev || skip "no Eigen, so neither examples/train_lm nor interop/eigen.hpp is tested" || true
  configure "$preset" "$folder" "$@" || return 1
  # shellcheck disable=SC2086 # targets and selection are several words each
  compile "$folder" $targets || built=1
  # shellcheck disable=SC2086
  run_tests "$folder" $selection || return 1
  return $built
}

day='-LE ^nightly$'
core='detail|format|round|hadamard|block|matrix|cpu|recipe' # the rooms of tests/CMakeLists.txt's core_tests

# The oracles' drivers are built here and not when they are needed, so that one long compilation goes beside many.
step_gcc() {
  install_packages libbenchmark-dev python3 || skip "no Google Benchmark, so no bench was built" || true
  install_packages python3-numpy python3-scipy libopenmpi-dev openmpi-bin || skip "neither the study nor several ranks are tested" || true
  suite dev gcc 'day_tests torch_tests oracle_driver scalar_driver interop_driver' "$day"
}

# clang_suite TARGETS CTEST-SELECTION
clang_suite() {
  local clang='' name
  install_packages clang-19
  for name in clang++-19 clang++-{18,17,16,20,21,22} clang++; do
    command -v "$name" >/dev/null || continue
    [ "$("$name" -dumpversion | cut -d. -f1)" -ge 16 ] && clang=$name && break
  done
  if [ -z "$clang" ]; then
    skip "no clang from 16 on could be had, so nothing was compiled with clang"
    return
  fi
  suite clang-19 clang "$1" "$2" -D CMAKE_CXX_COMPILER="$clang" -D UFP4_BUILD_BENCH=OFF
}
step_clang() { clang_suite core_tests "-L ^($core)$ $day"; }
step_clang_all() { clang_suite day_tests '-LE ^(nightly|script|torch)$'; }

step_sanitize() {
  suite asan asan memory_tests "-L ^($core|interop|fuzz)$ $day" -D UFP4_BUILD_BENCH=OFF
}
step_sanitize_all() { suite asan asan day_tests '-LE ^(nightly|script|torch)$' -D UFP4_BUILD_BENCH=OFF; }

step_threads() {
  # Kernels that randomise more address bits than this ThreadSanitizer knows stop it at start; setarch -R turns that off.
  install_packages g++ || return 1
  local probe=$ufp4_build/tsan_probe
  echo 'int main() {}' | g++ -fsanitize=thread -x c++ - -o "$probe" || return 1
  if ! "$probe" 2>/dev/null; then
    runner=(setarch "$(uname -m)" -R)
    if ! "${runner[@]}" "$probe" 2>/dev/null; then
      skip "ThreadSanitizer does not start on this kernel"
      return
    fi
  fi
  suite tsan tsan threads_tests '-L ^threads$' -D UFP4_BUILD_BENCH=OFF
}

step_bits() {
  suite contract contract core_bits_tests "-L ^bits$ -L ^($core)$" -D UFP4_BUILD_BENCH=OFF
}
step_bits_all() { suite contract contract bits_tests '-L ^bits$' -D UFP4_BUILD_BENCH=OFF; }

step_nightly() { suite dev gcc nightly_tests '-L ^nightly$'; }

# 120 MB to fetch, 500 on the disk.
step_torch() {
  install_packages libtorch-dev || skip "no libtorch-dev could be had, so examples/torch_linear was not compiled" || return
  suite dev gcc torch_tests '-L ^torch$'
}

step_emulated() {
  local status verdicts=$ufp4_build/emulated/verdicts
  install_build_tools || return 1
  install_packages catch2 || return 1
  configure dev gcc || return 1
  compile gcc day_tests || return 1
  bash "$source_dir/tests/emulated.sh" "$source_dir" "$ufp4_build" $everything
  status=$?
  [ -e "$verdicts" ] || return $status
  passed=$((passed + $(grep -c '^passed' "$verdicts"))) failed=$((failed + $(grep -c '^FAILED' "$verdicts")))
  skipped=$((skipped + $(grep -c '^skipped' "$verdicts")))
  return $status
}

step_gpu() {
  install_packages g++ catch2 || return 1
  script bash "$source_dir/tests/gpu/compile.sh" --out "$ufp4_build/gpu" || return
  if ! nvidia-smi -L >/dev/null 2>&1; then
    echo "No GPU here: every kernel that the executor plays ran on the CPU in the step gcc; nothing ran on a GPU."
    return 0
  fi
  bash "$source_dir/tests/gpu/run.sh" --page "$ufp4_build/gpu/performance-gpu.md"
}

# hipcc brings its compiler and headers, about 100 MB to fetch; clang-22, which knows newer architectures, 50 MB more.
install_hip() {
  install_packages g++ catch2 || return 1
  install_packages hipcc || skip "no hipcc could be had, so nothing was compiled for AMD's GPUs" || return
  install_packages clang-22 || echo "no clang-22 could be had: hipcc's own architectures alone"
}

step_hip() {
  install_hip || return
  script bash "$source_dir/tests/gpu/compile_hip.sh" --out "$ufp4_build/hip" || return
  if ! [ -e /dev/kfd ]; then
    echo "No AMD GPU here: every kernel that the executor plays ran on the CPU in the step gcc; nothing ran on a GPU."
    return 0
  fi
  bash "$source_dir/tests/gpu/run.sh" --vendor amd --page "$ufp4_build/hip/performance-gpu.md"
}

step_gpu_tests() {
  local nvcc=0 hipcc=0
  install_packages g++ catch2 || return 1
  bash "$source_dir/tests/gpu/compile.sh" --out "$ufp4_build/gpu_tests" --targets 80 --tests || nvcc=$?
  if install_hip; then bash "$source_dir/tests/gpu/compile_hip.sh" --out "$ufp4_build/hip_tests" --targets gfx90a --tests || hipcc=$?
  else hipcc=$?; fi
  case $nvcc,$hipcc in
    77,77) return 77 ;;
    0,0 | 0,77 | 77,0) return 0 ;;
    *) return 1 ;;
  esac
}

step_headers() {
  install_build_tools || return 1
  configure dev headers -D UFP4_BUILD_TESTS=OFF -D UFP4_BUILD_EXAMPLES=OFF -D UFP4_BUILD_BENCH=OFF \
    -D CMAKE_CXX_FLAGS_DEBUG="-O0 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror" || return 1
  compile headers verify
}

step_packages() {
  local status verdicts=$ufp4_build/packages/verdicts
  rm -f "$verdicts"
  install_build_tools || return 1
  install_packages python3-venv pkg-config git || echo "not every way to get the library can be tried"
  install_packages hipcc || echo "no hipcc could be had: no way to the target for AMD's GPUs is tried"
  UFP4_BUILD_DIR=$ufp4_build bash "$source_dir/tests/consume/run.sh"
  status=$?
  [ -e "$verdicts" ] || return $status
  passed=$((passed + $(grep -c '^passed' "$verdicts"))) failed=$((failed + $(grep -c '^FAILED' "$verdicts")))
  skipped=$((skipped + $(grep -c '^skipped' "$verdicts")))
  return $status
}

step_misuse() {
  install_packages g++ || return 1
  install_packages hipcc || echo "no hipcc could be had: what AMD's compiler says is not looked at"
  script bash "$source_dir/tests/compile_fail/check.sh"
}
step_coverage() {
  install_packages g++ || return 1
  bash "$source_dir/tests/coverage.sh" --gpu
}
step_hostile() {
  local package
  install_packages g++ || return 1
  for package in g++-11 clang-16 clang-19 libc++-19-dev libc++abi-19-dev libeigen3-dev; do install_packages $package || true; done
  script bash "$source_dir/tests/hostile/check.sh" --all
}
step_tidy() {
  install_packages clang-tidy-19 g++-aarch64-linux-gnu libeigen3-dev || skip "no clang-tidy-19 could be had" || return
  script bash "$source_dir/tests/tidy.sh"
}

step_docs() { script bash "$source_dir/docs/build.sh"; }

step_budgets() {
  install_packages g++ || return 1
  script bash "$source_dir/tests/include_budget.sh"
}

# driver NAME: builds the program that a Python oracle questions.
driver() {
  install_build_tools || return 1
  install_packages catch2 || return 1
  configure dev gcc || return 1
  compile gcc "$1"
}

step_oracle() {
  install_packages python3 python3-numpy || return 1
  driver oracle_driver || return 1
  timeout 900 "$(python_with numpy)" "$source_dir/tests/oracle/check.py" --driver "$ufp4_build/gcc/tests/oracle_driver"
}

step_outside() {
  local python status=0 script
  if ! install_packages python3 python3-venv ca-certificates || ! python=$(make_venv outside_2 numpy ml_dtypes gfloat safetensors gguf); then
    skip "ml_dtypes, gfloat, safetensors and gguf could not be had from PyPI, so nothing was compared with them"
    return
  fi
  driver scalar_driver || return 1
  driver interop_driver || return 1
  for script in "$source_dir"/tests/outside/*_check.py; do
    echo "-- ${script##*/}"
    timeout 900 "$python" "$script" --driver "$ufp4_build/gcc/tests/scalar_driver"
    case $? in
      0) passed=$((passed + 1)) ;;
      77) skipped=$((skipped + 1)) ;;
      *) failed=$((failed + 1)) status=1 ;;
    esac
  done
  return $status
}

echo "ufp4 tests: ${#steps[@]} steps, $jobs jobs, building in $ufp4_build"
summary=()
for step in "${steps[@]}"; do
  name=${step%%:*} began=$SECONDS runner=()
  passed_before=$passed failed_before=$failed skipped_before=$skipped
  printf '\n==== %s\n' "$step"
  "step_$name"
  case $? in
    0) verdict=passed; [ $((passed + skipped)) -gt $((passed_before + skipped_before)) ] || passed=$((passed + 1)) ;;
    77) verdict=skipped; [ $skipped -gt $skipped_before ] || skipped=$((skipped + 1)) ;;
    *) verdict=FAILED; [ $failed -gt $failed_before ] || failed=$((failed + 1)) ;;
  esac
  line=$(printf '%-8s %s, %d:%02d min' "$name" $verdict $(((SECONDS - began) / 60)) $(((SECONDS - began) % 60)))
  echo "---- $line"
  summary+=("$line")
done

printf '\n==== summary\n'
printf '%s\n' "${summary[@]}"
echo "all steps: $((SECONDS / 60)):$(printf %02d $((SECONDS % 60))) min"
[ $SECONDS -lt 1800 ] || [ ${#wanted[@]} -gt 0 ] || echo "over half an hour: make the long tests nightly"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
