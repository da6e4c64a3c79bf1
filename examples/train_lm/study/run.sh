#!/usr/bin/env bash
# ufp4 - runs the study on Debian or Ubuntu: installs missing packages, builds train_lm, starts study.py.
# SPDX-License-Identifier: Apache-2.0
#
# usage: examples/train_lm/study/run.sh power|run|ordering|depth|export|report|grid [OPTION]...     (COMMAND --help lists them)
# Installs (apt): g++ cmake ninja-build libeigen3-dev python3 python3-numpy python3-scipy. Builds into build/, or
# UFP4_BUILD_DIR; run folders go to its study/ unless --out says otherwise.
set -euo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$source_dir/cmake/bare_machine.sh"
choose_build_folder "$source_dir"

# The output of the build goes to stderr; stdout is that of study.py.
{
  python_with numpy,scipy >/dev/null || install_packages python3 python3-numpy python3-scipy
  case ${1:-} in
    power | run | ordering | depth)
      install_build_tools
      install_packages libeigen3-dev
      echo "building examples/train_lm (a minute the first time)"
      if ! { cmake --preset release -S "$source_dir" -B "$ufp4_build/release" -D UFP4_BUILD_BENCH=OFF &&
             cmake --build "$ufp4_build/release" --target train_lm train_lm_depth; } >"$ufp4_build/study.log" 2>&1; then
        left_out examples/train_lm "$ufp4_build/study.log" || tail -n 40 "$ufp4_build/study.log"
        echo "ufp4: the build failed; its whole output: $ufp4_build/study.log"
        exit 1
      fi ;;
  esac
} >&2

export PYTHONDONTWRITEBYTECODE=1 UFP4_BUILD_DIR=$ufp4_build
exec "$(python_with numpy,scipy)" "$source_dir/examples/train_lm/study/study.py" "$@"
