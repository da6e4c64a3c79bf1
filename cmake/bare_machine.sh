# ufp4 - what tests/run.sh and examples/demo.sh share: getting the tools they need onto a bare Debian or Ubuntu.
# SPDX-License-Identifier: Apache-2.0
# Sourced by bash; choose_build_folder comes first.
# shellcheck shell=bash

# The smallest version of CMake that reads our presets and header sets.
ufp4_cmake_floor=3.25

have_cmake() {
  command -v cmake >/dev/null || return 1
  local version
  version=$(cmake --version | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p')
  [ "$(printf '%s\n%s\n' "$ufp4_cmake_floor" "$version" | sort -V | head -n 1)" = "$ufp4_cmake_floor" ]
}

# The first python3 that imports the modules named: one of several on PATH may be the user's own.
python_with() {
  local python modules=$1
  for python in python3 /usr/bin/python3 /usr/local/bin/python3; do
    if command -v "$python" >/dev/null && "$python" -c "import $modules" 2>/dev/null; then
      command -v "$python"
      return 0
    fi
  done
  return 1
}

have_catch2() {
  local header
  for header in catch2/catch_all.hpp catch2/catch.hpp; do
    if printf '#include <%s>\n' "$header" | g++ -std=c++20 -x c++ -fsyntax-only - 2>/dev/null; then return 0; fi
  done
  return 1
}

# Where Debian's package puts Eigen, which its pkg-config file and CMake know and a compiler alone does not, or on the
# compiler's own path.
have_eigen() {
  printf '#include <Eigen/Core>\n' | g++ -std=c++20 -isystem /usr/include/eigen3 -x c++ -fsyntax-only - 2>/dev/null
}

# Is what this Debian package brings on the machine, from whatever source?
have_package() {
  case $1 in
    g++) command -v g++ >/dev/null ;;
    cmake) command -v cmake >/dev/null ;;
    ninja-build) command -v ninja >/dev/null ;;
    catch2) have_catch2 ;;
    libeigen3-dev) have_eigen ;;
    clang-19 | clang-22) command -v "clang++${1#clang}" >/dev/null ;;
    hipcc) command -v hipcc >/dev/null || [ -x "${ROCM_PATH:-/opt/rocm}/bin/hipcc" ] ;;
    python3) command -v python3 >/dev/null ;;
    python3-numpy) python_with numpy >/dev/null ;;
    python3-venv) python_with ensurepip,venv >/dev/null ;;
    ca-certificates) [ -e /etc/ssl/certs/ca-certificates.crt ] ;;
    *) dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed' ;;
  esac
}

ufp4_apt_updated=no

# install_packages PACKAGE...: installs those that are missing; on failure says which and returns 1.
install_packages() {
  local package missing=() as_root=()
  for package in "$@"; do
    have_package "$package" || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  if ! command -v apt-get >/dev/null; then
    echo "ufp4: there is no apt-get here to install: ${missing[*]}. Install these (Debian's names) and run this again." >&2
    return 1
  fi
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "ufp4: missing: ${missing[*]}. Run as root: apt-get install ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  echo "installing: ${missing[*]}"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300)
  local log="$ufp4_build/apt.log"
  if [ $ufp4_apt_updated = no ]; then
    "${apt[@]}" update >"$log" 2>&1 </dev/null && ufp4_apt_updated=yes
  fi
  if ! "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1 </dev/null; then
    echo "ufp4: apt-get could not install: ${missing[*]}. Its last words:" >&2
    tail -n 3 "$log" >&2
    return 1
  fi
}

# An own Python environment in the build folder: make_venv NAME REQUIREMENT... prints its python.
make_venv() {
  local python dir=$ufp4_build/venv/$1
  shift
  if [ ! -e "$dir/complete" ]; then
    python=$(python_with ensurepip,venv) || return 1
    rm -rf "$dir"
    "$python" -m venv "$dir" >&2 || return 1
    "$dir/bin/python" -m pip install --quiet --no-cache-dir --disable-pip-version-check --retries 1 \
      "$@" >&2 || return 1
    touch "$dir/complete"
  fi
  echo "$dir/bin/python"
}

# The compilers and build tools; a distribution whose CMake is too old gets a newer one from PyPI.
install_build_tools() {
  install_packages g++ cmake ninja-build || return 1
  have_cmake && return 0
  echo "this CMake is older than $ufp4_cmake_floor: taking one from PyPI"
  install_packages python3 python3-venv ca-certificates || return 1
  local python
  if ! python=$(make_venv cmake "cmake>=$ufp4_cmake_floor,<4"); then
    echo "ufp4: CMake $ufp4_cmake_floor or newer is needed and could not be had from PyPI" >&2
    return 1
  fi
  PATH="$(dirname "$python"):$PATH"
  hash -r
}

# The build folder: UFP4_BUILD_DIR, else build/ in the source tree. Absolute, made, and writable, or the script ends.
choose_build_folder() {
  local source=$1
  ufp4_build=${UFP4_BUILD_DIR:-$source/build}
  if ! mkdir -p "$ufp4_build" 2>/dev/null || [ ! -w "$ufp4_build" ]; then
    echo "ufp4: cannot write to $ufp4_build; set UFP4_BUILD_DIR to a folder that can be written to" >&2
    exit 2
  fi
  ufp4_build=$(cd "$ufp4_build" && pwd)
}
