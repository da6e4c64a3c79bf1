#!/usr/bin/env bash
# ufp4 - measures the compile time of the headers and of small programs, and the size of the code.
# SPDX-License-Identifier: Apache-2.0
usage='usage: bench/compile_cost.sh                 measures every table and writes build/compile_cost/compile_cost.md, in about ten minutes
       bench/compile_cost.sh --json FOLDER   prints two rows as JSON for bench/render.py; object files go to FOLDER
Environment: CXX and CLANG, the compilers (g++, clang++-19); without the second, its columns hold dashes. EIGEN, a folder. NVCC (nvcc): without it
there is no table of GPU programs. UFP4_BUILD_DIR, the build folder (default build/ in the source tree).'
set -euo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$source_dir/cmake/bare_machine.sh"
cxx=${CXX:-g++}
clang=${CLANG:-clang++-19}
eigen=${EIGEN:-/usr/include/eigen3} # a folder; without Eigen there, its row is left out
nvcc=${NVCC:-$(PATH=$PATH:/usr/local/cuda/bin command -v nvcc || true)}
# Sources in bench/compile_cost or examples/. Eigen, a product of two matrices of float, is what the others are compared with.
programs=(element hadamard dequantize quantize quantized_gemm one_format nine_formats linear readme api_tour eigen)
export LC_ALL=C TIMEFORMAT='%3U %3S'

# seconds_of COMMAND...: prints the user and system seconds of the fastest of five runs, or of the runs that start within three
# seconds. Prints the output of COMMAND to standard error and returns 1 if COMMAND fails.
seconds_of() {
  local best=1000000 all=0 user system ms _
  for _ in 1 2 3 4 5; do
    { time "$@" >"$work/output" 2>&1; } 2>"$work/time" || { cat "$work/output" >&2; return 1; }
    read -r user system <"$work/time"
    ms=$((10#${user/./} + 10#${system/./})) all=$((all + ms))
    [ $ms -ge $best ] || best=$ms
    [ $all -lt 3000 ] || break
  done
  printf '%d.%02d\n' $((best / 1000)) $((best % 1000 / 10))
}
# Code, constants and unwind tables, in bytes.
text_of() { size "$1" | awk 'NR == 2 { print $1 }'; }
kilobytes() { awk -v bytes="$1" 'BEGIN { printf bytes < 10240 ? "%.1f" : "%.0f", bytes / 1024 }'; }

compile() { # COMPILER OPTION...
  local compiler=$1
  shift
  "$compiler" -std=c++20 -I include -isystem "$eigen" "$@"
}

# ---- two rows for the report of the benches

json() {
  local include gemm base
  printf '#include <ufp4/ufp4.hpp>\n' >"$work/include_only.cpp"
  printf 'int main() {}\n' >"$work/empty.cpp"
  include=$(seconds_of compile "$cxx" -fsyntax-only "$work/include_only.cpp")
  gemm=$(seconds_of compile "$cxx" -O2 -c bench/compile_cost/quantized_gemm.cpp -o "$work/quantized_gemm.o")
  "$cxx" "$work/quantized_gemm.o" -o "$work/quantized_gemm" -pthread
  "$cxx" -O2 "$work/empty.cpp" -o "$work/empty" -pthread
  base=$(text_of "$work/empty")
  cat <<JSON
[
  {"what": "\`#include <ufp4/ufp4.hpp>\`, -fsyntax-only", "seconds": $include, "goal": "0.8"},
  {"what": "one call of quantized_gemm, -O2", "seconds": $gemm, "goal": "10", "kilobytes": $(kilobytes $(($(text_of "$work/quantized_gemm") - base)))}
]
JSON
}

# ---- the tables of the report

# cell COMPILER OBJECT OPTION...: compiles to OBJECT and prints "seconds, kilobytes".
cell() {
  local compiler=$1 object=$2 seconds
  shift 2
  command -v "$compiler" >/dev/null || { echo '-'; return; }
  seconds=$(seconds_of compile "$compiler" "$@" -c -o "$object")
  echo "$seconds s, $(kilobytes "$(text_of "$object")") KB"
}

machine() {
  printf '|  |  |\n|---|---|\n| processor | %s |\n' "$(processor)"
  printf '| compilers | %s; %s |\n' "$("$cxx" --version | head -n 1)" \
    "$(command -v "$clang" >/dev/null && "$clang" --version | head -n 1 || echo "no $clang")"
  printf '| date | %s |\n' "$(date -u +%Y-%m-%d)"
}

# shellcheck disable=SC2016 # the backquotes are Markdown
headers() {
  local header lines own seconds=() compiler
  printf '| `#include` | lines | of them ufp4'\''s | g++, s | clang, s |\n|---|---:|---:|---:|---:|\n'
  for header in ufp4/format/fp4.hpp ufp4/device.hpp ufp4/hadamard.hpp ufp4/dequantize.hpp ufp4/quantize.hpp ufp4/gemm.hpp \
    ufp4/recipe/linear.hpp ufp4/ufp4.hpp ufp4/interop/npy.hpp ufp4/interop/safetensors.hpp ufp4/interop/gguf.hpp \
    ufp4/format/io.hpp vector immintrin.h; do
    [ "$header" != immintrin.h ] || [ "$(uname -m)" = x86_64 ] || continue
    echo "#include <$header>" >"$work/header.cpp"
    lines=$(compile "$cxx" -E -P "$work/header.cpp" | wc -l)
    own=$(compile "$cxx" -E "$work/header.cpp" | awk '/^# [0-9]+ "/ { own = $3 ~ /ufp4/ && $3 !~ /header\.cpp/; next } own && NF' | wc -l)
    seconds=()
    for compiler in "$cxx" "$clang"; do
      if command -v "$compiler" >/dev/null; then seconds+=("$(seconds_of compile "$compiler" -fsyntax-only "$work/header.cpp")")
      else seconds+=('-'); fi
    done
    printf '| `<%s>` | %d | %d | %s | %s |\n' "$header" "$lines" "$own" "${seconds[@]}"
  done
}

# program_rows OPTION... : a row for each program, with a cell for each OPTION, "COMPILER OBJECT OPTION...".
program_rows() {
  local program how source
  for program in "${programs[@]}"; do
    source=bench/compile_cost/$program.cpp
    [ -e "$source" ] || source=examples/$program.cpp
    [[ $program != eigen || -e $eigen/Eigen/Dense ]] || continue
    printf '| %s |' "$program"
    # shellcheck disable=SC2086 # several words
    for how in "$@"; do printf ' %s |' "$(cell ${how/@/$work/$program} "$source")"; done
    printf '\n'
  done
}

whole_programs() {
  printf '| program | g++ -O2 | g++ -O3 | g++ -Os | clang -O2 | clang -O3 |\n|---|---:|---:|---:|---:|---:|\n'
  program_rows "$cxx @.o -O2" "$cxx @.o3.o -O3" "$cxx @.os.o -Os" "$clang @.c2.o -O2" "$clang @.c3.o -O3"
}

separate_kernels() {
  printf '| file | g++ -O2 | clang -O2 |\n|---|---:|---:|\n'
  program_rows "$cxx @.e.o -O2 -D UFP4_EXTERNAL_KERNELS" "$clang @.e.o -O2 -D UFP4_EXTERNAL_KERNELS"
  printf '#define UFP4_COMPILE_KERNELS\n#include <ufp4/cpu/kernels.hpp>\n' >"$work/kernels.cpp"
  printf '| kernels.cpp, once | %s | %s |\n' "$(cell "$cxx" "$work/kernels.o" -O2 "$work/kernels.cpp")" \
    "$(cell "$clang" "$work/e.o" -O2 "$work/kernels.cpp")"
}

# shellcheck disable=SC2016 # the backquotes are Markdown
fewer_isas() {
  local isas
  printf '| `UFP4_ISAS` | g++ -O2 | clang -O2 |\n|---|---:|---:|\n'
  for isas in scalar avx2 avx512 avx2,avx512; do
    printf '| %s | %s | %s |\n' "$isas" "$(cell "$cxx" "$work/e.o" -O2 "-DUFP4_ISAS=$isas" bench/compile_cost/one_format.cpp)" \
      "$(cell "$clang" "$work/e.o" -O2 "-DUFP4_ISAS=$isas" bench/compile_cost/one_format.cpp)"
  done
}

# The functions of a tier are in its namespace, ufp4::cpu::detail::<version>::avx2::...
# tiers_of OBJECT: prints lines "tier bytes". `portable` is every other function of ufp4, `rest` everything that is no function of ufp4.
tiers_of() {
  nm -S -t d -C "$1" | awk -v text="$(text_of "$1")" '
    $3 !~ /^[tTwW]$/ { next }
    match($0, /detail::[a-z0-9_]+::(avx2|avx512|avx_vnni|amx|neon|neon_dotprod|neon_i8mm|neon_bf16)::/) {
      split(substr($0, RSTART, RLENGTH), word, "::"); sum[word[3]] += $2; all += $2; next }
    / ufp4::|ufp4::/ { sum["portable"] += $2; all += $2 }
    END { sum["rest"] = text - all; sum["text"] = text; for (tier in sum) print tier, sum[tier] }'
}

bytes() {
  local tier columns=(hadamard dequantize quantize quantized_gemm one_format linear) name bytes
  printf '| KB of | %s |\n|---|' "$(printf '%s | ' "${columns[@]}" | sed 's/ | $//')"
  printf -- '---:|%.0s' "${columns[@]}"
  printf '\n'
  for tier in portable avx2 avx_vnni avx512 amx neon neon_dotprod neon_i8mm neon_bf16 rest text; do
    case $tier in portable) name='portable C++ and dispatch' ;; rest) name='constants, unwind tables, the standard library' ;;
      text) name='**total**' ;; *) name="\`$tier\`" ;; esac
    local cells='' some=0
    for column in "${columns[@]}"; do
      bytes=$(tiers_of "$work/$column.o" | awk -v tier="$tier" '$1 == tier { print $2 }')
      some=$((some + ${bytes:-0})) cells+=" $([ -z "$bytes" ] || kilobytes "$bytes") |"
    done
    [ $some -eq 0 ] || printf '| %s |%s\n' "$name" "$cells"
  done
}

# GPU programs, for sm_90a: by themselves, and with the kernels in a file of their own, which is the last row.
gpu_programs() {
  local program file
  [ -n "$nvcc" ] || { echo 'No nvcc was found.'; return; }
  gpu() { echo "$(seconds_of "$nvcc" -std=c++20 -arch=sm_90a -O2 -I include "$@" -c -o "$work/gpu.o") s"; }
  printf '| program | nvcc -O2 | separate |\n|---|---:|---:|\n'
  for program in gpu_include gpu_quantize gpu_gemm; do
    file=bench/compile_cost/$program.cu
    printf '| %s | %s | %s |\n' "$program" "$(gpu "$file")" "$(gpu "$file" -D UFP4_EXTERNAL_GPU_KERNELS)"
  done
  printf '| the kernels | | %s |\n' "$(gpu cmake/cuda_kernels.cu -D UFP4_COMPILE_GPU_KERNELS)"
}

# shellcheck disable=SC2016 # the backquotes are Markdown
report() {
  local table
  choose_build_folder "$source_dir"
  work=$ufp4_build/compile_cost
  mkdir -p "$work"
  install_packages g++ binutils
  install_packages clang-19 || true
  cd "$source_dir"
  for table in machine headers whole_programs separate_kernels fewer_isas bytes gpu_programs; do
    echo "$table"
    "$table" >"$work/$table.md"
  done
  {
    printf '# Compile time and size of ufp4 on this machine\n\n'
    printf 'Measured by `bench/compile_cost.sh`. s: processor seconds of the compiler, the fastest of up to five runs. KB: 1024 bytes\n'
    printf 'of the column *text* of `size`: code, constants and unwind tables of the object file.\n\n'
    cat "$work/machine.md"
    printf '\n## Headers\n\n`-fsyntax-only`. Lines are counted after preprocessing (`-E -P`).\n\n'
    cat "$work/headers.md"
    printf '\n## Programs\n\nThe sources are in `bench/compile_cost`.\n\n'
    cat "$work/whole_programs.md"
    printf '\n## Programs with UFP4_EXTERNAL_KERNELS\n\nThe last row is the file that defines UFP4_COMPILE_KERNELS.\n\n'
    cat "$work/separate_kernels.md"
    printf '\n## one_format with UFP4_ISAS\n\n'
    cat "$work/fewer_isas.md"
    printf '\n## Bytes by instruction set\n\ng++ -O2: functions by the namespace of their tier (`nm -S -C`).\n\n'
    cat "$work/bytes.md"
    printf '\n## GPU programs\n\nThe last row is the file that defines UFP4_COMPILE_GPU_KERNELS.\n\n'
    cat "$work/gpu_programs.md"
  } >"$work/compile_cost.md"
  echo "report: $work/compile_cost.md"
}

case ${1:-} in
  --help | -h) echo "$usage" ;;
  --json)
    [ -d "${2:-}" ] || { echo "ufp4: compile_cost.sh: --json needs a folder, got '${2:-}'" >&2; exit 2; }
    work=$(realpath "$2")
    cd "$source_dir"
    json ;;
  '') report ;;
  *) echo "unknown argument '$1'" >&2; echo "$usage" >&2; exit 2 ;;
esac
