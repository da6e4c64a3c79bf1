#!/usr/bin/env bash
# ufp4 - from a bare Debian or Ubuntu to the study: installs what is missing, builds train_lm, starts study.py.
# SPDX-License-Identifier: Apache-2.0
#
# usage: examples/train_lm/study/run.sh power|run|export|report|grid [OPTION]...     (COMMAND --help lists them)
# Installs (apt): g++ cmake ninja-build libeigen3-dev python3 python3-numpy python3-scipy. Builds into build/, or
# UFP4_BUILD_DIR; run folders go to its study/ unless --out says otherwise.
set -euo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$source_dir/cmake/bare_machine.sh"
choose_build_folder "$source_dir"
build=$ufp4_build/release

# What is said of the build goes to stderr: stdout is the study's.
{
  python_with numpy,scipy >/dev/null || install_packages python3 python3-numpy python3-scipy
  case ${1:-} in
    power | run)
      install_build_tools
      install_packages libeigen3-dev
      echo "building examples/train_lm (a minute the first time)"
      if ! { cmake --preset release -S "$source_dir" -B "$build" -D UFP4_BUILD_BENCH=OFF &&
             cmake --build "$build" --target train_lm; } >"$ufp4_build/study.log" 2>&1; then
        left_out examples/train_lm "$ufp4_build/study.log" || tail -n 40 "$ufp4_build/study.log"
        echo "ufp4: the build failed; all of its output is in $ufp4_build/study.log"
        exit 1
      fi ;;
  esac
} >&2

export PYTHONDONTWRITEBYTECODE=1 UFP4_BUILD_DIR=$ufp4_build
exec "$(python_with numpy,scipy)" "$source_dir/examples/train_lm/study/study.py" "$@"
