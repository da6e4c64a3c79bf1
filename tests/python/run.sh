#!/usr/bin/env bash
# ufp4 - the Python package, examples/python: built with pip in an environment of its own, tested with pytest.
# SPDX-License-Identifier: Apache-2.0
# usage: run.sh wheel | tests | first_steps | readme | sdist | from_sdist | sanitize | cuda | torch [TOOL]
#   wheel        builds the wheel from the source tree; auditwheel reads which systems it runs on; installs it for the other checks
#   tests        tests/python/*_test.py; TOOL is the program ufp4, which is to write the same bits
#   first_steps  examples/python/first_steps.py, with its plots
#   readme       the commands of the README's row Python, in a copy of the tree; pip builds in an environment of its own. Prints the seconds
#   sdist        the source distribution has the library
#   from_sdist   the same, and a wheel is built from it
#   sanitize     the tests with AddressSanitizer
#   cuda         ufp4.cuda compiled by nvcc; without a GPU its calls report that, and nothing else is tested
#   torch        ufp4.torch and, compiled for the CPU simulator of GPU kernels, ufp4.cuda, with PyTorch from PyPI (5 GB); two short training runs
# Environment: UFP4_BUILD_DIR; CXX. Exit status 0, 1, or 77 after SKIPPED: and the reason.
set -euo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$source_dir/cmake/bare_machine.sh"
choose_build_folder "$source_dir"
out=$ufp4_build/python
package=$source_dir/examples/python
mkdir -p "$out"
export PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1

skip() { echo "SKIPPED: $*"; exit 77; }
# The packages: what pyproject.toml names to build, to run and to test, and tools that check the result.
python=$(make_venv python 'scikit-build-core>=1.1' 'nanobind>=3,<4' ninja numpy ml_dtypes pytest hypothesis safetensors \
  matplotlib build auditwheel mypy) || skip "nanobind, pytest and others could not be had from PyPI, so the Python package was not built"
builder=$python
need_headers() {
  "$builder" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ||
    skip "there is no Python.h here (apt-get install python3-dev)"
}
# wheel_of FOLDER SOURCE [OPTION]...: one wheel, in an empty folder.
wheel_of() {
  need_headers
  rm -rf "$1"
  "$builder" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$@"
}
# package_in NAME: the wheel in the folder of that name, installed in a folder of its own.
package_in() {
  rm -rf "$out/$1_package"
  "$builder" -m pip install --quiet --no-deps --target "$out/$1_package" "$out/$1"/*.whl
}
# The layer of examples/torch_linear, with the libtorch in PyTorch's package.
build_torch_linear() {
  local torch
  torch=$("$python" -c 'import os, torch; print(os.path.dirname(torch.__file__))')
  "${CXX:-g++}" -std=c++20 -O0 -w -fopenmp -I "$source_dir/include" -I "$source_dir/examples" -isystem "$torch/include" \
    -isystem "$torch/include/torch/csrc/api/include" "$source_dir/tests/python/torch_linear_bits.cpp" \
    -L "$torch/lib" -Wl,-rpath,"$torch/lib" -Wl,--no-as-needed -ltorch -ltorch_cpu -lc10 -o "$out/torch_linear_bits"
}
need_package() {
  "$python" -c 'import ufp4' 2>/dev/null || skip "the package is not installed: the check 'wheel' did not build it"
}
without_stubs=--config-settings=cmake.define.UFP4_STUBS=OFF
run_tests() {
  (cd "$source_dir/tests/python" && UFP4_TOOL=${1:-} "$python" -m pytest -q -p no:cacheprovider -rs \
    -o python_files='*_test.py' -W error "${@:2}" .)
}

case ${1:-} in
  wheel)
    wheel_of "$out/wheel" "$package"
    "$python" -m pip install --quiet --no-deps --force-reinstall "$out"/wheel/*.whl
    # Only libraries that every Linux has, none newer than this system's C library.
    "$python" -m auditwheel show "$out"/wheel/*.whl | tr -s '\n ' ' ' | tee "$out/auditwheel.txt" | grep -E 'platform tag: "manylinux_2_[0-9]+_'
    (cd / && "$python" -c 'import ufp4; print(ufp4.__version__, ufp4.__file__)')
    ;;
  tests)
    need_package
    run_tests "${2:-}"
    ;;
  first_steps)
    need_package
    (cd "$out" && MPLBACKEND=Agg "$python" -W error "$package/first_steps.py" plots)
    for picture in grids sqnr hadamard; do [ -s "$out/plots/$picture.svg" ]; done
    ;;
  readme)
    need_headers
    # shellcheck disable=SC2016 # the backquotes are the page's
    command=$(sed -n 's/^| Python | `\([^`]*\)`.*/\1/p' "$source_dir/README.md")
    [ -n "$command" ] || { echo "README.md has no command in the row Python"; exit 1; }
    rm -rf "$out/readme" && mkdir -p "$out/readme" && cd "$out/readme"
    cp -r --no-preserve=mode "$source_dir"/{include,cmake,examples,LICENSE} .
    SECONDS=0
    if ! MPLBACKEND=Agg bash -c "$command" >readme.log 2>&1; then
      tail -n 40 readme.log
      ! grep -qE 'No matching distribution|Could not fetch|Connection' readme.log || skip "pip could not get its packages from PyPI"
      exit 1
    fi
    for picture in grids sqnr hadamard; do [ -s "build/plots/$picture.svg" ]; done
    echo "README's commands for Python: $SECONDS s"
    ;;
  sdist | from_sdist)
    rm -rf "$out/sdist"
    "$python" -m build --sdist --no-isolation --outdir "$out/sdist" "$package" >"$out/sdist.log" 2>&1 || { cat "$out/sdist.log"; exit 1; }
    tar -xzf "$out"/sdist/*.tar.gz -C "$out/sdist"
    diff -r "$source_dir/include" "$out"/sdist/ufp4-*/include
    diff "$source_dir/cmake/kernels.cpp" "$out"/sdist/ufp4-*/cmake/kernels.cpp
    diff "$source_dir/LICENSE" "$out"/sdist/ufp4-*/LICENSE
    diff -r -x __pycache__ "$package/src" "$out"/sdist/ufp4-*/src
    [ "$1" = sdist ] || wheel_of "$out/from_sdist" "$out"/sdist/*.tar.gz
    ;;
  sanitize)
    asan=$("${CXX:-g++}" -print-file-name=libasan.so)
    [ -e "$asan" ] || skip "${CXX:-g++} has no AddressSanitizer"
    options='-fsanitize=address -fno-omit-frame-pointer'
    CXXFLAGS=$options LDFLAGS=$options wheel_of "$out/sanitized" "$package" --config-settings=install.strip=false "$without_stubs"
    package_in sanitized
    # Python itself leaks; the operator new of ASan aborts where memory cannot be had; its exceptions are libstdc++'s.
    log=$out/asan.log
    rm -f "$log".*
    trap 'cat "$log".* 2>/dev/null || true' EXIT
    LD_PRELOAD="$asan $("${CXX:-g++}" -print-file-name=libstdc++.so.6)"
    export LD_PRELOAD ASAN_OPTIONS=detect_leaks=0:log_path=$log PYTHONPATH=$out/sanitized_package PYTHONMALLOC=malloc
    run_tests "${2:-}" --ignore=package_test.py -k 'not memory_cannot_hold'
    ;;
  cuda)
    nvcc=$(find_nvcc) || skip "there is no nvcc here, so ufp4.cuda was not compiled"
    CUDACXX=$nvcc wheel_of "$out/cuda" "$package" --config-settings=cmake.define.UFP4_CUDA=ON "$without_stubs"
    package_in cuda
    PYTHONPATH=$out/cuda_package "$python" "$source_dir/tests/python/without_gpu.py"
    ;;
  torch)
    need_package
    python=$(make_venv python_torch torch numpy ml_dtypes pytest hypothesis safetensors matplotlib) ||
      skip "PyTorch could not be had from PyPI, so ufp4.torch was not tested"
    "$python" -m pip install --quiet --no-deps --force-reinstall "$out"/wheel/*.whl
    build_torch_linear
    (cd "$source_dir/tests/python" && UFP4_TORCH_LINEAR=$out/torch_linear_bits "$python" -m pytest -q -p no:cacheprovider torch_test.py)
    wheel_of "$out/simulated" "$package" --config-settings=cmake.define.UFP4_SIMULATOR="$source_dir/tests" \
      "$without_stubs"
    package_in simulated
    (cd "$source_dir/tests/python" && PYTHONPATH=$out/simulated_package "$python" -m pytest -q -p no:cacheprovider cuda_test.py)
    "$python" "$source_dir/bench/gpu/torch_step.py" --small --device cpu
    (cd "$out" && MPLBACKEND=Agg "$python" "$package/train_text.py" --steps 50 --folder losses)
    [ -s "$out/losses/losses.svg" ]
    ;;
  *) sed -n 's/^# usage: /usage: /p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
