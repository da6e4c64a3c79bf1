#!/usr/bin/env bash
# ufp4 - products of ufp4 beside those of other libraries, in the same process in turn, on one thread.
# SPDX-License-Identifier: Apache-2.0
usage='usage: bench/peers/run.sh [--out FILE] [--ggml FOLDER] [--ik-llama FOLDER] [--aocl-dlp FOLDER]
  --out FILE         the table; without it peers.md in the build folder
  --ggml FOLDER      also ggml, whose source is in the folder
  --ik-llama FOLDER  also the ggml of ik_llama.cpp
  --aocl-dlp FOLDER  also AOCL-DLP
Without a folder: Eigen, OpenBLAS, oneDNN and PyTorch of the distribution, numpy and onnxruntime from PyPI. What cannot
be had is left out, with a line that says why. About ten minutes, most of which compile. Environment: UFP4_BUILD_DIR, as
for bench/run.sh; UFP4_PEER_ARGUMENTS, for every program (--smoke: one case each).'
set -euo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$source_dir/cmake/bare_machine.sh"

out='' ggml='' ik_llama='' aocl_dlp=''
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) echo "$usage"; exit 0 ;;
    --out | --ggml | --ik-llama | --aocl-dlp)
      [ $# -ge 2 ] || { echo "$usage" >&2; exit 2; }
      name=${1#--} name=${name//-/_}
      printf -v "$name" %s "$2"
      shift ;;
    *) echo "unknown argument '$1'" >&2; echo "$usage" >&2; exit 2 ;;
  esac
  shift
done
for folder in "$ggml" "$ik_llama" "$aocl_dlp"; do
  [ -z "$folder" ] || [ -f "$folder/CMakeLists.txt" ] || { echo "no CMakeLists.txt in '$folder'" >&2; exit 2; }
done
choose_build_folder "$source_dir"
work=$ufp4_build/peers log=$ufp4_build/peers.log out=${out:-$ufp4_build/peers.md}
mkdir -p "$work"
: >"$log"
install_build_tools
install_packages python3 libeigen3-dev
for package in libopenblas-dev libdnnl-dev python3-torch; do
  install_packages "$package" || echo "left out: what $package brings" >&2
done

left_out_peer() { echo "left out: $1; see $log" >&2; }
# build NAME SOURCE [COMPILER OPTION]...: a program $work/NAME.
build() {
  echo "building $1"
  g++ -std=c++20 -O3 -DNDEBUG -I "$source_dir/include" -o "$work/$1" "$source_dir/bench/peers/$2" "${@:3}" -lpthread \
    >>"$log" 2>&1 || left_out_peer "$1, which does not compile"
}
# build_library NAME FOLDER TARGET: with CMake; its libraries and generated headers are then in $work/NAME.
build_library() {
  echo "building the library $1"
  cmake -S "$2" -B "$work/$1" -D CMAKE_BUILD_TYPE=Release -D BUILD_SHARED_LIBS=ON >>"$log" 2>&1 &&
    cmake --build "$work/$1" --target "$3" -j "$(nproc)" >>"$log" 2>&1 && return
  left_out_peer "$1, which does not build"
  return 1
}
# libraries NAME PATTERN: what a program links to use them where they lie.
libraries() {
  find "$work/$1" -name "$2" -exec readlink -f {} + | sort -u | while read -r library; do
    printf '%s\n-Wl,-rpath,%s\n' "$library" "$(dirname "$library")"
  done
}
# build_ggml NAME FOLDER: the folder has ggml's headers in include or ggml/include.
build_ggml() {
  local include=$2/include
  [ -f "$include/ggml.h" ] || include=$2/ggml/include
  build_library "$1" "$2" ggml || return 0
  mapfile -t found < <(libraries "$1" 'libggml*.so')
  build "peer_$1" ggml.cpp -isystem "$include" "${found[@]}"
}

rm -f "$work"/peer_*
build peer_eigen eigen.cpp -isystem /usr/include/eigen3 -march=native -Wno-maybe-uninitialized
if has_library openblas; then build peer_openblas openblas.cpp -lopenblas; fi
if has_library dnnl; then build peer_onednn onednn.cpp -ldnnl; fi
if [ -n "$ggml" ]; then build_ggml ggml "$ggml"; fi
if [ -n "$ik_llama" ]; then build_ggml ik_llama "$ik_llama"; fi
if [ -n "$aocl_dlp" ] && build_library aocl_dlp "$aocl_dlp" all; then
  mapfile -t found < <(libraries aocl_dlp 'libaocl-dlp*.so')
  mapfile -t headers < <(find "$work/aocl_dlp" -name aocl_dlp_config.h -printf '-isystem\n%h\n')
  build peer_aocl_dlp aocl_dlp.cpp -isystem "$aocl_dlp/include" "${headers[@]}" "${found[@]}"
fi

echo "building the Python package"
if python=$(make_venv peers numpy ml_dtypes onnx onnxruntime); then
  if ! "$python" -m pip install --quiet --no-deps --disable-pip-version-check "$source_dir/examples/python" >>"$log" 2>&1
  then
    left_out_peer 'the package ufp4 for Python, and all comparisons in Python'
    python=''
  fi
fi
if [ -n "$python" ]; then
  # PyTorch of the distribution, for a Python of the same version: PyPI's package for Linux has gigabytes.
  place='import sys, sysconfig; print(*sys.version_info[:2], sysconfig.get_path("purelib"))'
  site=$("$python" -c "$place")
  place="import pathlib, torch; $place; print(pathlib.Path(torch.__file__).parents[1])"
  if torch=$(/usr/bin/python3 -c "$place" 2>>"$log") && [ "${torch%% /*}" = "${site%% /*}" ]; then
    tail -n 1 <<<"$torch" >"${site#* * }/system.pth"
  fi
fi

export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
read -r -a arguments <<<"${UFP4_PEER_ARGUMENTS:-}"
{
  printf '# ufp4 beside other libraries\n\n%s; %s; load average at the start %s.\n' \
    "$(processor)" "$(g++ --version | head -n 1)" "$(cut -d ' ' -f 1 /proc/loadavg)"
  printf 'N = K = 4096, one thread, GFLOP/s.\n\n'
  printf '| library | case | ufp4 | its GFLOP/s | their GFLOP/s | ufp4 / theirs |\n|---|---|---|---:|---:|---:|\n'
} >"$out"
measure() {
  "$@" ${arguments[@]+"${arguments[@]}"} | tee /dev/stderr | sed 's/.*/| & |/' >>"$out" ||
    left_out_peer "the rest of ${*: -1}, which ended with an error"
}
for program in "$work"/peer_*; do measure "$program"; done
if [ -n "$python" ]; then measure "$python" "$source_dir/bench/peers/python_peers.py"; fi
echo "table: $out"
