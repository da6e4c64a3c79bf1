#!/usr/bin/env bash
# ufp4 - the tests and measurements for a GPU machine that is borrowed, offline, for fifteen minutes in all: two commands.
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2317 # $OUT is the reader's; functions called through xargs
usage='usage: tests/gpu/borrowed.sh COMMAND [--vendor nvidia|amd] [--targets "90a"] [--seconds N]
  prepare   on a machine without a GPU: builds the programs and packs them into build/borrowed/ready.tar.xz. The first target gets
            code, the others PTX; with AMD every target gets code
  check     only compiles what prepare builds, for the first target, with warnings as errors: NVIDIA to PTX, AMD by the front end
  interpret runs every test as compiled for the first target in the PTX interpreter, without a GPU: minutes
  a         on the GPU machine, 390 s: the device; the first call of each experimental kernel against the host; every other test; the
            bench; the limits; ncu of three kernels; PyTorch
  b         on the GPU machine, 220 s, after reading what A left:
              --tests "NAME..."      these tests of the table, whole logs, and again under memcheck
              --variants "NAME..."   measures choices against the library'"'"'s own: three_blocks, library_first, clusters_of_4; none: "-"
              --profile "ROW;ROW"    ncu of these rows of the bench; without it those of A
              --leave-out "K|K"      kernels that are not measured, as A leaves out those whose first call failed
  build     on the GPU machine, where the programs do not run: builds them there with nvcc (hipcc), g++, cmake and Catch2, whose header
            of version 2 is in the archive
  page      [FILE.json...] [PAGE.md]: writes docs/performance-gpu.md from what A and B left
  rehearse  runs all of it here, without a GPU: tests/gpu/borrowed_rehearsal.sh
The machine needs the tree and ready.tar.xz at its place, which git ignores: docs/gpu.md, "On a GPU". The steps are in the order of
their value; --seconds gives a command less (or more) time, and steps that did not begin are listed. Results are in $OUT (else
build/borrowed/out), each when it is known: at most six files.
Environment: UFP4_BUILD_DIR, the build folder; UFP4_BORROWED_TESTS, an expression for the names of the tests to build.'
set -uo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$source_dir/cmake/bare_machine.sh"
. "$source_dir/tests/gpu/borrowed_build.sh"
command=${1:-} vendor=nvidia targets='' seconds='' tests='' variants='' profile='' leave_out='' arguments=()
shift
while [ $# -gt 0 ]; do
  case $1 in
    --vendor | --targets | --seconds | --tests | --variants | --profile | --leave-out)
      [ $# -ge 2 ] || { echo "$1 needs a value" >&2; exit 2; }
      name=${1#--} && printf -v "${name/-/_}" '%s' "$2"
      shift ;;
    -*) echo "unknown option $1" >&2; echo "$usage" >&2; exit 2 ;;
    /*) arguments+=("$1") ;;
    *) arguments+=("$PWD/$1") ;;
  esac
  shift
done
case $vendor in
  nvidia) targets=${targets:-90a} ;;
  amd) targets=${targets:-gfx90a gfx942 gfx950 gfx1100 gfx1201} ;;
  *) echo "--vendor is nvidia or amd, not '$vendor'" >&2; exit 2 ;;
esac

choose_build_folder "$source_dir"
place=$ufp4_build/borrowed
archive=$place/ready.tar.xz
out=${OUT:-$place/out}
export vendor place archive verdicts=$out/$command.tsv failures=$out/$command.failures.log

. "$source_dir/tests/gpu/borrowed_steps.sh"
# enter FOLDER: makes it, with a link to the tree, and enters it.
enter() { mkdir -p "$1" && ln -sfn "$source_dir" "$1/source" && cd "$1" || exit 2; }

install_compiler() {
  install_build_tools && install_packages catch2 || return
  [ "$vendor" = amd ] || install_packages python3 python3-venv ca-certificates || true # for what PyPI has: each says if it is left out
}
need_compiler() { install_compiler || { echo "SKIPPED: no compiler or no Catch2"; exit 77; }; }
prepare() {
  local headers
  install_compiler && { have_programs xz || install_packages xz-utils; } || return
  enter "$place/ready"
  rm -rf ./* && ln -sfn "$source_dir" source
  headers=$(dirname "$(echo '#include <catch2/catch.hpp>' | g++ -M -x c++ - 2>/dev/null | grep -o '[^ ]*/catch\.hpp' | head -n 1)")
  if [ -e "$headers/catch.hpp" ]; then mkdir catch2 && cp "$headers/catch.hpp" catch2; fi
  build_programs "$targets" && pack_programs "$archive"
}

case $command in
  prepare) prepare; status=$?; echo "prepare: $SECONDS s"; exit $status ;;
  check) need_compiler && enter "$place/check" && check_programs "${targets%% *}"; status=$?; echo "check: $SECONDS s"; exit $status ;;
  interpret) need_compiler && enter "$place/interpret" && interpret_programs "${targets%% *}" ;;
  build)
    enter "$place/ready"
    [ ! -e "$archive" ] || unpack_programs "$archive"
    build_programs "$(this_device)" ;;
  a) enter "$place/ready"; command_a ;;
  b) enter "$place/ready"; command_b ;;
  page)
    python=$(python_with json) || { echo "SKIPPED: there is no python3"; exit 77; }
    page_name=performance-gpu$([ "$vendor" = nvidia ] || echo "-$vendor").md
    [ ${#arguments[@]} -gt 0 ] || arguments=("$out/bench.json")
    case ${arguments[-1]} in *.md) ;; *) arguments+=("$source_dir/docs/$page_name") ;; esac
    "$python" "$source_dir/bench/gpu/page.py" "${arguments[@]}" ;;
  rehearse) exec bash "$source_dir/tests/gpu/borrowed_rehearsal.sh" "${arguments[@]}" ;;
  *) echo "$usage" >&2; exit 2 ;;
esac
