# ufp4 - functions of borrowed.sh: the programs for a GPU, and the archive in which they travel.
# SPDX-License-Identifier: Apache-2.0
# Sourced by bash in the folder where the programs are made; `source` in it is a link to the tree, so no path has blanks.
# shellcheck shell=bash disable=SC2086,SC2154,SC2206

# Sets compiler, language and code, the compiler's options for the devices.
choose_compiler() { # TARGETS
  local target first=yes
  code=''
  if [ "$vendor" = amd ]; then
    compiler=hipcc language=hip
    for target in $1; do code+=" --offload-arch=$target"; done
    return
  fi
  compiler=nvcc language=cu
  for target in $1; do # code for the first, PTX for the others
    code+=" -gencode arch=compute_$target,code=$([ $first ] && echo sm || echo compute)_$target"
    first=
  done
}

# The test files that this vendor's compiler takes, without that of the PTX interpreter, which needs no GPU. Files with `alone` or
# `separate` on their ctest line are no part of a batch.
test_files() { # batch|alone|separate
  local others='^#include <ufp4/hip/' single='^// ctest: .*\(alone\|separate\)' interpreter='^#include "gpu/ptx/'
  if [ "$vendor" = amd ]; then others='^#include <ufp4/cuda/'; fi
  local files
  files=$(grep -L -e "$others" -e "$interpreter" source/tests/gpu/*_test.cpp | grep -E "/(${UFP4_BORROWED_TESTS:-.*})_test\.cpp\$")
  if [ "$1" = batch ]; then grep -L "$single" $files; else grep -l "^// ctest: .*$1" $files; fi
}

# object NAME COMMAND...: what failed is told with the first lines of its log.
object() {
  local name=$1 began=$SECONDS
  if "${@:2}" >"$name.log" 2>&1; then echo "$name: $((SECONDS - began)) s"; return; fi
  echo "does not compile: $name"
  head -n 20 "$name.log"
  return 1
}
export -f object

# Each line of stdin, "NAME COMMAND...", in parallel.
objects() { xargs -P "${UFP4_JOBS:-$(nproc)}" -L 1 bash -c 'object "$@" || exit 1' _; }

# The tests whose program chooses experimental kernels, too: their random shapes and every preset reach each tile and fold of those.
experimental_files() {
  [ "$vendor" = nvidia ] || return 0
  printf '%s\n' source/tests/gpu/*_test.cpp | grep -E "/(${UFP4_BORROWED_EXPERIMENTAL:-experimental|fuzz|presets})_test\.cpp\$"
}

# build_programs TARGETS: gpu_tests, gpu_experimental, a program for each other test that is one alone, gpu_bench and gpu_limits, and
# tests.tsv: for each test its name, its seconds, and its command.
build_programs() {
  local on_device host link libraries='' name batch files=() alone=() separate=() experimental=() files_x=()
  choose_compiler "$1"
  command -v $compiler >/dev/null || { echo "there is no $compiler here"; return 1; }
  mapfile -t files < <(test_files batch)
  mapfile -t alone < <(test_files alone)
  mapfile -t separate < <(test_files separate)
  mapfile -t experimental < <(experimental_files)
  [ ${#experimental[@]} -eq 0 ] || mapfile -t alone < <(test_files alone | grep -v '/experimental_test')
  rm -f ./*.o ./*.log batch_*.cpp
  host="-std=c++20 ${UFP4_BORROWED_FLAGS:--O2} -Isource/include -Isource/tests -Isource/bench -DUFP4_SOURCE_DIR=\\\"source\\\""
  [ ! -d catch2 ] || host+=' -I.'
  on_device="$compiler -x $language $host $code -DUFP4_EXTERNAL_KERNELS"
  link="$compiler $code"
  if [ "$vendor" = nvidia ]; then
    link+=' -cudart static -Xcompiler -static-libstdc++,-static-libgcc'
    if printf '#include <cublasLt.h>\n' | nvcc -x cu -E - >/dev/null 2>&1; then
      on_device+=' -DUFP4_WITH_CUBLAS' libraries=-lcublasLt
    else
      on_device+=' -DUFP4_BENCH_WITHOUT_CUBLAS'
    fi
  fi
  cmake -D "SOURCES=$(IFS=';'; echo "${files[*]/#/$PWD/}")" -D COUNT=$((${#files[@]} / ${UFP4_JOBS:-$(nproc)} + 1)) \
    -D "OUT=$PWD" -P source/tests/gpu/write_batches.cmake || return 1
  {
    echo "gpu_bench $on_device source/bench/gpu/gpu_bench.cu -c -o gpu_bench.o"
    [ "$vendor" = amd ] || echo "gpu_limits $on_device source/bench/gpu/gpu_limits.cu -c -o gpu_limits.o"
    for name in batch_*.cpp "${alone[@]}" "${separate[@]}"; do
      echo "$(basename $name .cpp) $on_device -c $name -o $(basename $name .cpp).o"
    done
    for name in "${experimental[@]}"; do
      echo "$(basename $name .cpp).x $on_device -DUFP4_EXPERIMENTAL= -c $name -o $(basename $name .cpp).x.o"
    done
    for name in main kernels; do echo "$name g++ $host -c source/tests/support/$name.cpp -o $name.o"; done
  } | objects || return 1

  local test_link="$link main.o kernels.o -ldl" together=()
  for batch in batch_*.cpp; do together+=("${batch%.cpp}.o"); done
  # cublas_test is a program of its own, so that the others start where the library is missing.
  for name in "${separate[@]}"; do
    name=$(basename $name .cpp)
    if [ $name = cublas_test ]; then alone+=($name); else together+=($name.o); fi
  done
  {
    echo "gpu_tests $test_link ${together[*]} -o gpu_tests"
    files_x=("${experimental[@]##*/}")
    [ ${#experimental[@]} -eq 0 ] || echo "gpu_experimental $test_link ${files_x[*]/%.cpp/.x.o} -o gpu_experimental"
    for name in "${alone[@]}"; do
      name=$(basename $name .cpp)
      echo "$name $test_link $name.o $([ $name != cublas_test ] || echo $libraries) -o $name"
    done
    echo "gpu_bench $link gpu_bench.o $libraries -o gpu_bench"
    [ ! -e gpu_limits.o ] || echo "gpu_limits $link gpu_limits.o -o gpu_limits"
  } | objects || return 1

  for name in "${files[@]}" "${separate[@]}"; do
    name=$(basename $name .cpp)
    [ $name = cublas_test ] || printf '%s\t90\t./gpu_tests -# [#%s]~[.]\n' $name $name
  done >tests.tsv
  for name in "${alone[@]}"; do name=$(basename $name .cpp) && printf '%s\t90\t./%s -# ~[.]\n' $name $name; done >>tests.tsv
  for name in "${experimental[@]}"; do
    name=$(basename $name .cpp) && printf '%s, experimental\t90\t./gpu_experimental -# [#%s]~[.]\n' $name $name
  done >>tests.tsv
  rm -f ./*.o batch_*.cpp
}

most_bytes=$((54 << 20)) # of the 64 MiB that travel, less the tree

# Packs the programs, and Catch2's headers for a machine on which they do not run.
pack_programs() { # ARCHIVE
  local bytes
  strip --strip-debug ./gpu_* ./*_test 2>/dev/null
  # The programs contain the same kernels, so the dictionary is longer than several of them.
  tar c --exclude source --exclude '*.log' . | xz --lzma2=preset=3,dict=192MiB >"$1" || return 1
  bytes=$(stat -c %s "$1")
  echo "packed: $1, $((bytes >> 10)) KiB"
  [ "$bytes" -le $most_bytes ] || { echo "that is more than $((most_bytes >> 20)) MiB: prepare for fewer targets"; return 1; }
}
