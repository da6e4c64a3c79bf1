# ufp4 - functions of borrowed.sh: the programs for a GPU, compiled as a check or built and packed into the archive that travels.
# SPDX-License-Identifier: Apache-2.0
# Sourced by bash in the folder where the programs are made; `source` in it is a link to the tree, so no path has blanks.
# shellcheck shell=bash disable=SC2086,SC2154,SC2206

# Sets compiler, language and code, the compiler's options for the devices; installs what Debian or PyPI has of it.
choose_compiler() { # TARGETS
  local target first=yes
  code=''
  if [ "$vendor" = amd ]; then
    compiler=hipcc language=hip
    for target in $1; do code+=" --offload-arch=$target"; done
  else
    compiler=$(find_nvcc || echo nvcc) language=cu
    for target in $1; do # code for the first, PTX for the others
      code+=" -gencode arch=compute_$target,code=$([ $first ] && echo sm || echo compute)_$target"
      first=
    done
  fi
  command -v $compiler >/dev/null || { echo "SKIPPED: there is no $compiler here"; return 77; }
}

# Sets libraries, and adds to on_device, for what uses cublasLt: of the toolkit, else of PyPI.
choose_cublas() {
  local python
  if [ -n "${interpreted:-}" ]; then
    on_device+=' -DUFP4_BENCH_WITHOUT_CUBLAS'
  elif printf '#include <cublasLt.h>\n' | $compiler -x cu -E - >/dev/null 2>&1; then
    on_device+=' -DUFP4_WITH_CUBLAS' libraries=-lcublasLt
  elif [ "${UFP4_BORROWED_PYPI:-yes}" = yes ] && python=$(make_venv cublas 'nvidia-cublas==13.0.*'); then
    ln -sfn "$("$python" -c 'import nvidia, pathlib; print(pathlib.Path(nvidia.__path__[0], "cu13"))')" cublas
    on_device+=' -DUFP4_WITH_CUBLAS -Icublas/include' libraries='-Lcublas/lib -l:libcublasLt.so.13'
  else
    echo "SKIPPED: no cublasLt, so what uses it is not compiled"
    on_device+=' -DUFP4_BENCH_WITHOUT_CUBLAS'
  fi
}

# The test files that this vendor's compiler takes and a GPU runs, or the PTX interpreter, which has no graphs and no library. Files with
# `separate` on their ctest line are no part of a batch, nor is experimental_test, a program with others of its kind.
test_files() { # batch|separate
  local files others='^#include <ufp4/hip/' single='^// ctest: .*\(alone\|separate\)' interpreter='^#include "gpu/ptx/'
  if [ "$vendor" = amd ]; then others='^#include <ufp4/cuda/'; fi
  if [ -n "${interpreted:-}" ]; then others+='\|StreamBeginCapture\|^#include <dlfcn.h>\|^#include <ufp4/cuda/cublas.hpp>'; fi
  files=$(grep -L -e "$others" -e "$interpreter" -e '^// ctest: .*simulator' source/tests/gpu/*_test.cpp |
    grep -E "/(${UFP4_BORROWED_TESTS:-.*})_test\.cpp\$")
  if [ "$1" = batch ]; then grep -L "$single" $files; else grep -l "^// ctest: .*$1" $files; fi
}
# Tests of a program that chooses experimental kernels, too: their random shapes and every preset reach each tile and fold of those.
experimental_files() {
  [ "$vendor" = nvidia ] || return 0
  printf '%s\n' source/tests/gpu/*_test.cpp | grep -E "/(${UFP4_BORROWED_EXPERIMENTAL:-experimental|fuzz|presets})_test\.cpp\$"
}
names_of() { local file; for file; do basename "${file%.cpp}"; done; }

# write_batches PREFIX COUNT FILE...: files of so many test files each.
write_batches() {
  cmake -Wno-dev -D "SOURCES=$(IFS=';'; echo "${*/#/$PWD/}" | cut -d';' -f3-)" -D COUNT="$2" -D PREFIX="$1" -D "OUT=$PWD" \
    -P source/tests/gpu/write_batches.cmake
}

# object NAME COMMAND...: what failed is told with the first lines of its log.
object() {
  local name=$1 began=$SECONDS
  if "${@:2}" >"$name.log" 2>&1; then echo "$name: $((SECONDS - began)) s"; return; fi
  echo "FAILED: does not compile: $name"
  head -n 20 "$name.log"
  return 1
}
export -f object
# Each line of stdin, "NAME COMMAND...", in parallel.
objects() { xargs -P "${UFP4_JOBS:-$(nproc)}" -L 1 bash -c 'object "$@" || exit 1' _; }

# prepare_objects TARGETS BATCHES: sets compiler, host, on_device, libraries, catch2 and the lists of files; writes the batches.
prepare_objects() {
  choose_compiler "$1" || return
  mapfile -t files < <(test_files batch)
  mapfile -t separate < <(test_files separate)
  mapfile -t experimental < <(experimental_files)
  rm -f ./*.o ./*.log batch_*.cpp experimental_*.cpp
  write_batches batch_ $((${#files[@]} / $2 + 1)) "${files[@]}" || return
  [ ${#experimental[@]} -eq 0 ] || write_batches experimental_ ${#experimental[@]} "${experimental[@]}" || return
  host="-std=c++20 ${UFP4_BORROWED_FLAGS:--O2} -Isource/include -Isource/tests -Isource/bench -DUFP4_SOURCE_DIR=\\\"source\\\""
  [ ! -d catch2 ] || host+=' -I.'
  on_device="$compiler -x $language $host $code -DUFP4_EXTERNAL_KERNELS"
  libraries='' catch2=''
  if has_header catch2/catch_all.hpp; then catch2=-lCatch2; fi
  [ "$vendor" = amd ] || choose_cublas
}
# The lines for objects(), each with these options.
device_objects() {
  local name
  echo "gpu_bench $on_device $* source/bench/gpu/gpu_bench.cu -c -o gpu_bench.o"
  [ "$vendor" = amd ] || echo "gpu_limits $on_device $* source/bench/gpu/gpu_limits.cu -c -o gpu_limits.o"
  for name in batch_*.cpp "${separate[@]}"; do
    echo "$(names_of $name) $on_device $* -c $name -o $(names_of $name).o"
  done
  [ ${#experimental[@]} -eq 0 ] ||
    echo "experimental $on_device $* -DUFP4_EXPERIMENTAL= '-DUFP4_TUNE_UNCHECKED=(std::getenv(\"UFP4_UNCHECKED\")!=nullptr)' \
-include cstdlib -c experimental_0.cpp -o experimental.o"
}

# The same for what the host's compiler compiles of a test program.
host_objects() { local name; for name in main kernels; do echo "$name g++ $host -c source/tests/support/$name.cpp -o $name.o"; done; }

# Every source that prepare would compile, with warnings as errors: to PTX, without the assembler, which takes most of the time; for AMD
# by the front end alone.
check_programs() { # TARGET
  local options
  if [ "$vendor" = amd ]; then
    options='-fsyntax-only -Wall -Wextra -Wno-unused-parameter -Wno-unused-command-line-argument -Werror'
  else
    options='-Werror all-warnings -Xcompiler -Wall,-Wextra,-Wno-unused-parameter,-fsyntax-only'
  fi
  prepare_objects "$1" 1 || return
  if [ "$vendor" = nvidia ]; then
    on_device=${on_device/code=sm_/code=compute_}
    case $($compiler --help) in *--Ofast-compile*) options+=' --Ofast-compile=max' ;; esac
  fi
  device_objects $options | objects || return
  echo "compiled for $1: $((${#files[@]} + ${#separate[@]})) tests, ${#experimental[@]} of them with experimental kernels too; the bench"
}

# build_programs TARGETS: gpu_tests, gpu_experimental, cublas_test, gpu_bench and gpu_limits; tests.tsv; the files targets and commit.
build_programs() {
  local link together=() name
  prepare_objects "$1" "${UFP4_JOBS:-$(nproc)}" || return
  { device_objects; host_objects; } | objects || return

  link="$compiler $code"
  [ "$vendor" = amd ] || link+=' -cudart static -Xcompiler -static-libstdc++,-static-libgcc'
  # cublas_test is a program of its own, so that the others start where the library is missing.
  for name in $(names_of batch_*.cpp "${separate[@]}"); do
    if [ $name != cublas_test ]; then together+=($name.o); elif [ -n "$libraries" ]; then local cublas_test=yes; fi
  done
  {
    echo "gpu_tests $link ${together[*]} main.o kernels.o $catch2 -ldl -o gpu_tests"
    [ ! -e experimental.o ] || echo "gpu_experimental $link experimental.o main.o kernels.o $catch2 -ldl -o gpu_experimental"
    [ -z "${cublas_test:-}" ] || echo "cublas_test $link cublas_test.o main.o kernels.o $catch2 $libraries -ldl -o cublas_test"
    echo "gpu_bench $link gpu_bench.o $libraries -o gpu_bench"
    [ ! -e gpu_limits.o ] || echo "gpu_limits $link gpu_limits.o -o gpu_limits"
  } | objects || return
  list_tests >tests.tsv
  echo "$1" >targets
  carry_python_tools
  git -C "$source_dir" describe --always --dirty >commit 2>/dev/null || echo unknown >commit
  rm -f ./*.o batch_*.cpp experimental_*.cpp
}

# Every test, the bench and the limits as compiled for a target, in the PTX interpreter: what a GPU of that target would run.
interpret_programs() { # TARGET
  local name interpreter='' interpreted=yes
  prepare_objects "$1" "${UFP4_JOBS:-$(nproc)}" || return
  on_device=${on_device/code=sm_/code=compute_}
  for name in source/tests/gpu/ptx/*.cpp; do interpreter+=" ptx_$(names_of $name).o"; done
  {
    device_objects --no-compress
    host_objects
    for name in $interpreter; do
      echo "${name%.o} $compiler -std=c++20 -O2 -Isource/tests -c source/tests/gpu/ptx/$(basename ${name#ptx_} .o).cpp -o $name"
    done
  } | objects || return
  g++ $(names_of batch_*.cpp "${separate[@]}" | sed 's/$/.o/') main.o kernels.o $interpreter $catch2 -lpthread -ldl -o gpu_tests &&
    g++ experimental.o main.o kernels.o $interpreter $catch2 -lpthread -ldl -o gpu_experimental || return
  for name in bench limits; do g++ gpu_$name.o $interpreter -lpthread -ldl -o gpu_$name || return; done
  {
    list_tests
    printf '%s\t60\t./gpu_%s --small\n' bench bench limits limits
  } >tests.tsv
  echo "compiled: $SECONDS s"
  begin 3600
  UFP4_PTX_DEVICE=${1//[!0-9]/} steps "${UFP4_JOBS:-$(nproc)}" <tests.tsv
  finish
}

# A line "NAME<TAB>SECONDS<TAB>COMMAND" for each test case of experimental_test, then for each test file, the longest first.
list_tests() {
  local name title
  limit_of() { case $1 in fuzz_test) echo 70 ;; *) echo 30 ;; esac; } # seconds; random shapes take what they are given
  if [ -x gpu_experimental ]; then
    while read -r title; do
      printf 'first_call:%s\t25\texamined ./gpu_experimental "%s"\n' "${title// /_}" "$title"
    done < <(sed -n 's/^TEST_CASE("\([^"]*\)".*/\1/p' source/tests/gpu/experimental_test.cpp)
    for name in $(names_of "${experimental[@]}" | grep -v '^experimental_test$'); do
      printf '%s.experimental\t%s\t./gpu_experimental -# [#%s]~[.]\n' $name "$(limit_of $name)" $name
    done
  fi
  for name in $(names_of "${files[@]}" "${separate[@]}" | sed 's/^\(fuzz\|presets\)_/0&/' | sort | sed 's/^0//'); do
    case $name in
      cublas_test) [ ! -x cublas_test ] || printf 'cublas_test\t30\t./cublas_test -# ~[.]\n' ;;
      *) printf '%s\t%s\t./gpu_tests -# [#%s]~[.]\n' $name "$(limit_of $name)" $name ;;
    esac
  done
}

# What builds PyTorch's package there, in a folder for PYTHONPATH: the machine may have older ones.
carry_python_tools() {
  local python
  [ "$vendor" = nvidia ] && [ "${UFP4_BORROWED_PYPI:-yes}" = yes ] && [ ! -d python_tools ] || return 0
  python=$(make_venv pip pip) &&
    "$python" -m pip install --quiet --no-compile --target python_tools 'scikit-build-core>=1.1' 'nanobind>=3,<4' >python_tools.log 2>&1 ||
    echo "SKIPPED: PyPI does not answer, so the machine's own nanobind builds the package of PyTorch"
}

most_bytes=$((54 << 20)) # of 64 MiB that travel, less the tree; for one target it is a tenth

# Packs the programs, and Catch2's headers for a machine on which they do not run.
pack_programs() { # ARCHIVE
  local bytes
  strip --strip-debug ./gpu_* ./*_test 2>/dev/null
  # The programs contain the same kernels, so the dictionary is longer than several of them.
  tar c --exclude source --exclude cublas --exclude '*.log' . | xz --lzma2=preset=3,dict=192MiB >"$1" || return 1
  bytes=$(stat -c %s "$1")
  echo "packed: $1, $((bytes >> 10)) KiB, for: $(cat targets)"
  [ "$bytes" -le $most_bytes ] || { echo "that is more than $((most_bytes >> 20)) MiB: prepare for fewer targets"; return 1; }
}
# Unpacks it, with Python where there is no xz.
unpack_programs() { # ARCHIVE
  if have_programs xz; then xz -dc "$1" | tar x; return; fi
  python3 -c 'import lzma, shutil, sys; shutil.copyfileobj(lzma.open(sys.argv[1]), sys.stdout.buffer)' "$1" | tar x
}
