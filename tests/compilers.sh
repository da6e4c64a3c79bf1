#!/usr/bin/env bash
# ufp4 - the library under each compiler that README names: no warning, the same bits, one ODR key in an object file.
# SPDX-License-Identifier: Apache-2.0
usage='usage: tests/compilers.sh [--all] [--strict] [COMPILER]... | --line COMPILERS.TXT...
  COMPILER   as g++-14 or clang++-19, installed where missing. Without any: the set of cmake/packages.txt that is named after this
             release of Debian; on other systems the g++ and clang of those sets that are on PATH, and g++
  --all      hours: under each compiler every example, test, bench and header by itself, in each dialect, and the examples with -O0,
             -O3 -march=native, -flto and -fsanitize=address,undefined. Without it README'"'"'s program is run, and the tool, the C interface, the
             Python module and the pages'"'"' programs are compiled, by the newest g++ and clang of the sets alone
  --strict   what cannot be installed counts as failed, not as skipped
  --line     prints the line of README that names the compilers which passed by these files
Environment: UFP4_BUILD_DIR, where to build (default build/ in the source tree). Writes compilers.txt there: for each compiler a line with its
version, the system, and passed or FAILED.
Ends with one line "N passed, N failed, N skipped"; exit status 1 if anything failed.'
set -uo pipefail
shopt -s extglob
unset CDPATH
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$source_dir/cmake/bare_machine.sh"
all=no strict=no compilers=()

# majors NAME FILE...: the major versions of the compilers of that name that passed, as "11, 12, 13".
majors() { sed -n "s/^$1-\([0-9]*\)\t.*\tpassed$/\1/p" /dev/null "${@:2}" | sort -nu | paste -s -d , | sed 's/,/, /g'; }
if [ "${1:-}" = --line ]; then
  echo "g++ $(majors g++ "${@:2}"); clang $(majors clang++ "${@:2}")"
  exit
fi
for word in "$@"; do
  case $word in
    --all) all=yes ;;
    --strict) strict=yes ;;
    --help | -h) echo "$usage"; exit 0 ;;
    -*) echo "unknown argument '$word'" >&2; echo "$usage" >&2; exit 2 ;;
    *) compilers+=("$word") ;;
  esac
done
choose_build_folder "$source_dir"
work=$ufp4_build/compilers
[[ $work != *[[:space:]:\$]* ]] || { echo "compilers: UFP4_BUILD_DIR must have no space, colon or dollar: $ufp4_build" >&2; exit 2; }
cd "$source_dir" || exit

# The compilers of a set of packages.txt, whose packages are g++-N and clang-N.
compilers_of() { packages_of "$1" | tr ' ' '\n' | sed 's/^clang-/clang++-/'; }
choose_compilers() {
  local name
  mapfile -t compilers < <(compilers_of "$(debian_release)")
  [ ${#compilers[@]} -eq 0 ] || return 0
  for name in g++ $(compilers_of bookworm) $(compilers_of trixie) $(compilers_of sid); do
    if have_programs "$name" && [[ " ${compilers[*]} " != *" $name "* ]]; then compilers+=("$name"); fi
  done
}
skip() { echo "SKIPPED: $*" && missing=$((missing + 1)); }
# A compiler that cannot be installed is left out of compilers.txt.
install() {
  local name found=()
  install_build_tools || return
  for name in "${compilers[@]}"; do
    if install_packages "${name/clang++/clang}"; then found+=("$name"); else skip "$name, which cannot be installed"; continue; fi
    if [ $all = yes ] && [[ $name = clang* ]]; then install_packages "libclang-rt-${name#clang++-}-dev" || skip "$name's sanitizers"; fi
  done
  compilers=("${found[@]}")
  [ ${#compilers[@]} -gt 0 ] || { echo "no compiler is left"; return 1; }
  install_packages libeigen3-dev python3 python3-dev python3-venv ca-certificates || skip "what needs these packages"
  [ $all = no ] || install_packages catch2 libbenchmark-dev libopenmpi-dev || skip "the tests and benches"
}

# ---- The jobs are statements of a file for Ninja, which runs them side by side and shows the output of those that fail.

warnings='-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror'
pedantic="$warnings -Wsign-conversion -Wdouble-promotion -Wold-style-cast -Wundef"
# job NAME COMMAND: NAME is the compiler and what it compiles. The command line runs in the source tree; success leaves a file NAME.
job() {
  printf 'build %s/%s: job\n  run = %s\n' "$work" "${1// /_}" "${2//\$/\$\$}" >>"$work/build.ninja"
  echo "${1// /_}" >>"$work/jobs"
}
# dialects COMPILER: the options of C++20, 23 and 26, those that the compiler has.
dialects() {
  local names name
  for names in 'c++20' 'c++23 c++2b' 'c++26 c++2c'; do
    for name in $names; do
      if "$1" "-std=$name" -fsyntax-only -x c++ /dev/null 2>/dev/null; then echo "-std=$name"; break; fi
    done
  done
}
# whole_dialects COMPILER: those in which every header and source compiles. In C++23 clang 17 cannot read the std::map of g++ 14.
whole_dialects() { if [ "$1" = clang++-17 ]; then echo -std=c++20; else dialects "$1"; fi; }
# syntax NAME OPTIONS FILE: the compiler's front end alone.
syntax() { job "$1" "$compiler $2 $include -fsyntax-only $3"; }
# sources GROUP OPTIONS HOW: compiles the sources of every example; HOW is -fsyntax-only, or -c -o /dev/null.
sources() {
  local file
  for file in examples/ufp4/*.cpp; do
    job "$1/$file" "$compiler $2 $warnings $include -DUFP4_EXTERNAL_KERNELS -DUFP4_EXAMPLE_HEADER_DIRS='\"\"' $3 $file"
  done
  for file in cmake/c.cpp $(find examples/snippets examples/compare -name '*.cpp' -not -name torch.cpp); do
    job "$1/$file" "$compiler $2 $warnings $include -DUFP4_EXTERNAL_KERNELS -Wno-unknown-pragmas $3 $file"
  done
  for file in examples/c/*.c; do job "$1/$file" "$compiler -x c -std=c99 ${2##-std=c++*([^ ])} $warnings -Iinclude $3 $file"; done
  [ -z "$python_include" ] || for file in examples/python/src/*.cpp; do
    job "$1/$file" "$compiler $2 $warnings $include $python_include -fvisibility=hidden -DUFP4_EXTERNAL_KERNELS -DUFP4_PYTHON_DEVICE='\"cuda\"' $3 $file"
  done
}
# program NAME OPTIONS FILE CHECK: compiled, linked and run; CHECK is a command that sees the program as $program.
program() { job "$1" "program=$work/${1// /_}.program && $compiler $2 $include -o \$program $3 -pthread && $4"; }

# may_skip COMMAND: whose exit status 77 means that it was skipped.
may_skip() { echo "$1 || { [ \$? -eq 77 ] && echo skipped >>$work/skipped; }"; }

# What every compiler has to do. These functions use the variables compiler and options, its dialects.
default_jobs() {
  local option
  for option in "${options[@]}"; do syntax "$compiler/$option/readme" "$option $warnings" examples/readme.cpp; done
  syntax "$compiler/${options[-1]}/api_tour" "${options[-1]} $warnings" examples/api_tour.cpp
  for option in '-std=gnu++20' '-std=c++20 -fno-exceptions -fno-rtti -include before.hpp'; do
    syntax "$compiler/$option/all_headers" "$option $pedantic" "$work/all.cpp"
    syntax "$compiler/$option/hostile" "$option $pedantic -DUFP4_EXTERNAL_KERNELS" tests/hostile/program.cpp
  done
  # clang 18 to 20 warn about every target region where the processor has AVX10.
  local native='-march=native'
  [[ $compiler != clang++-@(18|19|20) ]] || native+=' -Wno-invalid-feature-combination -Wno-unknown-warning-option'
  option="${options[-1]} $native"
  syntax "$compiler/$option/hostile" "$option $pedantic -DUFP4_EXTERNAL_KERNELS" tests/hostile/program.cpp
  program "$compiler/-O2/bits" "-std=c++20 -O2 $native -ffp-contract=fast $warnings" tests/hostile/program.cpp "$bits_check"
  if [ "$compiler" = g++-14 ]; then # whose AddressSanitizer misplaces vectors (config.hpp), as that of g++ 13
    program "$compiler/-O1_-fsanitize=address,undefined/bits" '-std=c++20 -O1 -fsanitize=address,undefined' tests/hostile/program.cpp "$bits_check"
  fi
  program "$compiler/std_floats" "${options[-1]} -O0 $warnings" tests/hostile/std_floats.cpp "$(may_skip '$program')"
  job "$compiler/one_key" "$(may_skip "tests/cpu/odr/one_key.sh $compiler $work/$compiler/odr")"
}
# The same bits in other settings, and an error that aborts with its message where there are no exceptions.
hostile_jobs() {
  local settings
  for settings in '-O1' '-O1 -fno-exceptions -fno-rtti -include before.hpp' \
    '-O3 -fno-exceptions -ffp-contract=fast -fno-math-errno -fno-trapping-math -fwrapv -fno-strict-aliasing'; do
    program "$compiler/$settings/hostile" "-std=c++20 $settings" tests/hostile/program.cpp "$bits_check"
  done
  program "$compiler/abort/hostile" '-std=c++20 -O1 -fno-exceptions' tests/hostile/program.cpp \
    '! $program mistake 2>$program.log && grep -q "dequantize: shape mismatch: out is 1 x 1, the quantized matrix is 5 x 70" $program.log'
}
# <mdspan> is in libstdc++ from g++ 16 on, and in libc++, for which Catch2 3, a library compiled for libstdc++, cannot be used.
mdspan_jobs() {
  local library catch2=''
  if has_header catch2/catch_all.hpp; then catch2=-lCatch2; fi
  for library in -stdlib=libstdc++ -stdlib=libc++; do
    if [[ $compiler = g++* ]]; then [ $library = -stdlib=libstdc++ ] && library='' || continue; fi
    [ "$library$catch2" != -stdlib=libc++-lCatch2 ] || continue
    # shellcheck disable=SC2086 # a word or none
    echo '#include <mdspan>' | "$compiler" -std=c++23 $library -fsyntax-only -x c++ - 2>/dev/null || continue
    program "$compiler/mdspan$library" "-std=c++23 $library" "tests/interop/mdspan_test.cpp tests/support/main.cpp $catch2" \
      "$(may_skip '$program >$program.log')"
  done
}
all_jobs() {
  local option header
  for option in $(whole_dialects "$compiler"); do
    sources "$compiler/$option" "$option" -fsyntax-only
    for header in $headers; do job "$compiler/$option/$header" "echo '#include <$header>' | $compiler $option $pedantic $include -fsyntax-only -x c++ -"; done
  done
  for option in -O0 -O2 '-O3 -march=native' '-O2 -flto=auto' '-O1 -fsanitize=address,undefined'; do
    program "$compiler/$option/readme" "-std=c++20 $option $warnings" examples/readme.cpp "$readme_check"
    program "$compiler/$option/api_tour" "-std=c++20 $option $warnings" examples/api_tour.cpp '$program >$program.log'
    sources "$compiler/$option" "-std=c++20 $option" '-c -o /dev/null'
  done
  hostile_jobs
  mdspan_jobs
}

prepare() {
  local python
  rm -rf "$work"
  mkdir -p "$work"
  include="-Iinclude -Itests -Itests/hostile -I$work -isystem /usr/include/eigen3"
  bits_check="[ \$(\$program) = 731967330ef30068 ]" # the same bits by every compiler, in every setting
  readme_check="cmake -D README=README.md -D SOURCE=examples/readme.cpp -D PROGRAM=\$program -P tests/readme.cmake"
  # The headers of the standard that ufp4 includes, and the compiler's own, come before the macros.
  {
    grep -rhoE '^#include <[a-z_0-9./]+>' include/ufp4 | grep -vE 'ufp4|hip/|cuda|mdspan|omp\.h' | sort -u |
      sed -E 's/#include (<.*>)/#if __has_include(\1)\n#include \1\n#endif/'
    printf '#if defined(__x86_64__)\n#include <immintrin.h>\n#endif\n#if __has_include(<Eigen/Core>)\n#include <Eigen/Core>\n#endif\n'
    echo '#include "macros.hpp"'
  } >"$work/before.hpp"
  # Lane headers are read once for each instruction set, through kernels_avx2.hpp and others.
  foreign=neon # kernels of the other architecture
  [ "$(uname -m)" != aarch64 ] || foreign='(avx|amx)'
  headers=$(find include/ufp4 -name '*.hpp' | sort -r | grep -v -E '^include/ufp4/((gpu|cuda|hip)/|(cuda|hip)\.hpp|interop/mdspan|cpu/.*lane|cpu/(kernels|simd)/.*'"$foreign"')' |
    sed 's|^include/||')
  [ -d /usr/include/eigen3 ] || headers=$(grep -v eigen <<<"$headers")
  for header in $headers; do echo "#include <$header>"; done >"$work/all.cpp" # in the other order than other tests
  python_include=''
  if ! any_compiles_sources; then :
  elif python=$(make_venv compilers 'nanobind>=3,<4') && have_package python3-dev; then
    python_include="-isystem $("$python" -m nanobind --include_dir) -isystem $("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')"
  else
    skip "the Python module, which needs nanobind and Python's headers"
  fi
  printf '%s\n' "builddir = $work" 'rule job' '  command = ( $run ) && touch $out' '  description = $out' >"$work/build.ninja"
}
# newest NAME: the newest compiler of that name that packages.txt has. Without --all, these two alone compile the tool and its like.
newest() { { compilers_of bookworm; compilers_of trixie; compilers_of sid; } | grep "^$1-" | sort -V | tail -n 1; }
compiles_sources() { [ $all = yes ] || [[ " $(newest g++) $(newest clang++) " = *" $1 "* ]]; }
any_compiles_sources() {
  local compiler
  for compiler in "${compilers[@]}"; do
    if compiles_sources "$compiler"; then return; fi
  done
  return 1
}
write_jobs() {
  local compiler options
  for compiler in "${compilers[@]}"; do
    mapfile -t options < <(dialects "$compiler")
    default_jobs
    if [ $all = yes ]; then
      all_jobs
    elif compiles_sources "$compiler"; then
      program "$compiler/-O2/readme" "-std=c++20 -O2 $warnings" examples/readme.cpp "$readme_check"
      sources "$compiler/-std=c++20" -std=c++20 -fsyntax-only
    fi
  done
}
run_jobs() { ninja -f "$work/build.ninja" -k 0; }

# Every source of the build, tests and benches included, through the front end, in each dialect. An option after CMake's own sets that,
# since an older CMake drops to C++17 where it does not know the year.
front_end() { # COMPILER DIALECT
  local build=$work/$1/every_source$2 quiet=''
  [[ $1 = g++* ]] || quiet=-Qunused-arguments # -c, which CMake gives
  mkdir -p "$work/$1"
  echo "add_compile_options(\$<\$<COMPILE_LANGUAGE:CXX>:$2> -fsyntax-only -Werror $quiet)" >"$build.cmake"
  cmake -S . -B "$build" -G Ninja -D CMAKE_CXX_COMPILER="$1" -D CMAKE_BUILD_TYPE=Debug -D CMAKE_PROJECT_ufp4_INCLUDE="$build.cmake" \
    -D UFP4_TEST_LEVEL=nightly -D UFP4_TEST_BATCH=1 -D UFP4_C=ON -D UFP4_KERNELS=ON -D UFP4_CUDA=OFF \
    -D UFP4_Catch2_USABLE=ON -D UFP4_benchmark_USABLE=ON >"$build.log" 2>&1 || # an older g++ cannot link the newer one's libraries
    { tail -n 20 "$build.log"; return 1; }
  sed -n "s/^-- ufp4: \(.* is left out.*\)/$1 $2: \1/p" "$build.log"
  ninja -C "$build" -t targets all | sed -n 's/: CXX_COMPILER__.*//p' | xargs ninja -C "$build" -k 0
}
every_source() {
  local compiler dialect status=0
  for compiler in "${compilers[@]}"; do
    for dialect in $(whole_dialects "$compiler"); do
      echo "$compiler/every_source$dialect.passed" >>"$work/jobs"
      if front_end "$compiler" "$dialect"; then touch "$work/$compiler/every_source$dialect.passed"
      else echo "FAILED: $compiler $dialect: every source"; status=1; fi
    done
  done
  return $status
}

# left_by_jobs PATTERN: how many jobs with such a name have passed. asked PATTERN: how many there are.
left_by_jobs() { grep -- "$1" "$work/jobs" | (cd "$work" && xargs -d '\n' ls -d 2>/dev/null) | wc -l; }
asked() { grep -c -- "$1" "$work/jobs"; }
# compilers.txt: each compiler, its version, the system, whether all its jobs passed.
report() {
  local compiler system
  system=$(. /etc/os-release && echo "$PRETTY_NAME")
  for compiler in "${compilers[@]}"; do
    printf '%s\t%s\t%s\t%s\n' "$compiler" "$("$compiler" -dumpfullversion 2>/dev/null || "$compiler" -dumpversion)" "$system" \
      "$([ "$(left_by_jobs "^$compiler/")" -eq "$(asked "^$compiler/")" ] && echo passed || echo FAILED)"
  done | tee "$ufp4_build/compilers.txt"
}

[ ${#compilers[@]} -gt 0 ] || choose_compilers
echo "ufp4 under ${compilers[*]}, building in $work"
missing=0
rm -f "$ufp4_build/compilers.txt"
step compiler-packages install || exit 1
prepare
write_jobs
step compilers run_jobs
[ $all = no ] || step every-source every_source
report
summarize_steps
passed=$(left_by_jobs .) failed=$(($(asked .) - $(left_by_jobs .)))
skipped=$(cat "$work/skipped" 2>/dev/null | wc -l) # by jobs, whose processor or standard library lacks something; they have passed too
passed=$((passed - skipped))
if [ $strict = yes ]; then failed=$((failed + missing)); else skipped=$((skipped + missing)); fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
