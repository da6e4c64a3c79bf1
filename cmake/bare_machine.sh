# ufp4 - what tests/run.sh and examples/demo.sh share: getting the tools they need onto a bare Debian or Ubuntu.
# SPDX-License-Identifier: Apache-2.0
# Sourced by bash; choose_build_folder comes first.
# shellcheck shell=bash

# What the caller's shell has for its own work and our commands would take for ours: a git hook's repository (git add would go into
# its index), the folder that a packager installs into, another generator than the presets'.
# shellcheck disable=SC2046 # several names
if command -v git >/dev/null; then unset $(git rev-parse --local-env-vars); fi
unset CDPATH DESTDIR CMAKE_GENERATOR CMAKE_GENERATOR_PLATFORM CMAKE_GENERATOR_TOOLSET CMAKE_GENERATOR_INSTANCE

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

# has_header HEADER [COMPILER OPTION]...: does the compiler find the file? What the file includes is not checked.
has_header() {
  printf '#if !__has_include(<%s>)\n#error none\n#endif\n' "$1" | "${2:-g++}" -std=c++20 "${@:3}" -x c++ -E - >/dev/null 2>&1
}
# has_library NAME: does the linker find it?
has_library() {
  local kind
  for kind in so a; do [ ! -e "$(g++ -print-file-name="lib$1.$kind" 2>/dev/null)" ] || return 0; done
  return 1
}
have_catch2() { has_header catch2/catch_all.hpp || has_header catch2/catch.hpp; }

# Where Debian's package puts Eigen, which its pkg-config file and CMake know and a compiler alone does not, or on the
# compiler's own path.
have_eigen() { has_header Eigen/Core g++ -isystem /usr/include/eigen3; }

# have_programs NAME...: do they run? A wrapper whose compiler or interpreter is missing exists and does not.
have_programs() {
  local name
  for name in "$@"; do "$name" --version >/dev/null 2>&1 || return 1; done
}

# Is what this Debian package brings on the machine, from whatever source?
have_package() {
  case $1 in
    g++ | cmake | git | pkg-config | clang-tidy-* | g++-[0-9]*) have_programs "$1" ;;
    python3) python_with sys >/dev/null ;;
    ninja-build) have_programs ninja ;;
    binutils) have_programs nm size objdump ;;
    catch2) have_catch2 ;;
    libeigen3-dev) have_eigen ;;
    libbenchmark-dev) has_header benchmark/benchmark.h && has_library benchmark ;;
    libtorch-dev) has_header torch/csrc/api/include/torch/torch.h && has_library torch ;;
    openmpi-bin) have_programs mpirun ;;
    libopenmpi-dev) has_header mpi.h mpicxx ;;
    qemu-user-static) have_programs qemu-x86_64-static qemu-aarch64-static ;;
    g++-aarch64-linux-gnu) have_programs aarch64-linux-gnu-g++ ;;
    clang-[0-9]*) have_programs "clang++${1#clang}" ;;
    libc++-19-dev) has_header __config clang++-19 -stdlib=libc++ ;;
    libc++abi-19-dev) [ -e "$(clang++-19 -print-file-name=libc++abi.so 2>/dev/null)" ] ;;
    libclang-rt-*-dev) compgen -G "$("clang++-${1//[!0-9]/}" -print-resource-dir 2>/dev/null)/lib/*/libclang_rt.fuzzer*.a" >/dev/null ;;
    hipcc) have_programs hipcc || have_programs "${ROCM_PATH:-/opt/rocm}/bin/hipcc" ;;
    python3-numpy) python_with numpy >/dev/null ;;
    python3-scipy) python_with numpy,scipy >/dev/null ;;
    python3-yaml) python_with yaml >/dev/null ;;
    python3-dev) python_with sys >/dev/null && has_header Python.h g++ -isystem "$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')" ;;
    python3-venv) python_with ensurepip,venv >/dev/null ;;
    mkdocs-material) python_with mkdocs,material >/dev/null ;;
    ca-certificates) [ -e /etc/ssl/certs/ca-certificates.crt ] ;;
    *) dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed' ;;
  esac
}

# report_amx: one line, whether this machine runs the AMX kernels, in the library's own words. Needs g++.
report_amx() {
  local include probe=$ufp4_build/amx_probe
  include=$(dirname "${BASH_SOURCE[0]}")/../include
  printf '#include <ufp4/cpu/detect.hpp>\n#include <cstdio>\nint main() { std::puts(ufp4::cpu::amx_rejection()); }\n' |
    g++ -std=c++20 -I "$include" -x c++ - -o "$probe" || return
  local why
  why=$("$probe")
  if [ -z "$why" ]; then echo "AMX: present; its kernels run on this processor"
  else echo "AMX: $why; its kernels are tested on emulated tiles and are not measured"; fi
}

# debian_release: the name of this release of Debian, as bookworm or sid; another distribution's own name.
debian_release() {
  local name
  name=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  if [ "$(cat /etc/debian_version 2>/dev/null)" = "$name/sid" ]; then name=sid; fi # unstable has the name of the next release
  echo "$name"
}

# packages_of SET: the Debian packages of a set of packages.txt.
packages_of() { sed -n "s/^$1: //p" "$(dirname "${BASH_SOURCE[0]}")/packages.txt"; }

ufp4_apt_updated=no

# install_packages PACKAGE...: installs those that are missing; on failure prints them and returns 1.
install_packages() {
  local package missing=() as_root=()
  for package in "$@"; do
    have_package "$package" || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  if [ -n "${UFP4_NO_INSTALL:-}" ]; then # a CTest test: another may be at it too
    echo "ufp4: missing: ${missing[*]}; tests/run.sh installs packages" >&2
    return 1
  fi
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
    echo "ufp4: apt-get could not install: ${missing[*]}. Last lines:" >&2
    tail -n 3 "$log" >&2
    return 1
  fi
}

# left_out WHAT LOG: succeeds where CMake has reported in its log that WHAT is left out, and prints that line.
left_out() { sed -n "s|^-- \(ufp4: $1 is left out: .*\)|\1|p" "$2" | grep .; }

# An own Python environment in the build folder: make_venv NAME REQUIREMENT... prints its python, or on stderr one line
# with the reason why there is none. One made in another place, with another Python or for other requirements is replaced.
make_venv() {
  local python dir=$ufp4_build/venv/$1 log=$ufp4_build/venv/$1.log
  shift
  if [ "$(cat "$dir/complete" 2>/dev/null)" != "$(describe_venv "$dir" "$@")" ]; then
    if ! python=$(python_with ensurepip,venv); then
      echo "ufp4: $* from PyPI is left out: no python3 here has ensurepip and venv (apt-get install python3-venv)" >&2
      return 1
    fi
    rm -rf "$dir"
    mkdir -p "${dir%/*}"
    if ! { "$python" -m venv "$dir" &&
           "$dir/bin/python" -m pip install --quiet --no-cache-dir --disable-pip-version-check --retries 1 "$@"
         } >"$log" 2>&1; then
      echo "ufp4: $* from PyPI is left out: $(grep . "$log" | tail -n 1), see $log" >&2
      return 1
    fi
    describe_venv "$dir" "$@" >"$dir/complete"
  fi
  echo "$dir/bin/python"
}
# describe_venv FOLDER REQUIREMENT...
describe_venv() { printf '%s\n' "$1" "$("$1/bin/python" -V 2>&1)" "${@:2}"; }

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

# The processor in words. A virtual machine may hide the name of the model; family and model still identify it.
processor() {
  LC_ALL=C lscpu | awk -F': *' '
    /^Model name/ { name = $2 } /^CPU family/ { family = $2 } /^Model:/ { model = $2 } /^CPU\(s\)/ { threads = $2 }
    END { print name (family ? ", family " family " model " model : "") ", " threads " threads" }'
}

# The build folder: UFP4_BUILD_DIR, else build/ in the source tree. Absolute, made, and writable, or the script ends.
choose_build_folder() {
  local source=$1
  ufp4_build=${UFP4_BUILD_DIR:-$source/build}
  if ! mkdir -p "$ufp4_build" 2>/dev/null || [ ! -w "$ufp4_build" ]; then
    echo "ufp4: cannot write to $ufp4_build; set UFP4_BUILD_DIR to a folder that can be written to" >&2
    exit 2
  fi
  ufp4_build=$(cd -- "$ufp4_build" && pwd)
}

# remove_tree FOLDER: with what was copied into it from a source tree that cannot be written to; or the script ends.
remove_tree() {
  [ ! -d "$1" ] || chmod -R u+w "$1"
  rm -rf "$1" && return
  echo "ufp4: cannot remove $1, which an earlier run has left" >&2
  exit 2
}

# find_nvcc prints the path of an nvcc that runs: on PATH, in CUDA_HOME or its usual place, else from PyPI (270 MB, x86-64 and aarch64).
find_nvcc() {
  local folder python
  for folder in "$(dirname "$(command -v nvcc || echo /none)")" "${CUDA_HOME:-/none}/bin" "${CUDA_PATH:-/none}/bin" /usr/local/cuda/bin; do
    if have_programs "$folder/nvcc"; then echo "$folder/nvcc"; return; fi
  done
  python=$(make_venv cuda {nvidia-cuda-{nvcc,runtime,crt,cccl},nvidia-nvvm}==13.0.\*) || return
  folder=$("$python" -c 'import nvidia, pathlib; print(pathlib.Path(nvidia.__path__[0], "cu13"))') || return
  ln -sfn lib "$folder/lib64" # where nvcc looks for the runtime
  echo "$folder/bin/nvcc"
}

# ---- Steps: what runs now, how long it took the last time, and a summary at the end; on stderr.

ufp4_steps=()
clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# step NAME COMMAND...: NAME is the name of a file too. Returns what the command returns.
step() {
  local name=$1 began=$SECONDS status=0 verdict=passed last='' times=$ufp4_build/step_times
  shift
  mkdir -p "$times"
  [ ! -s "$times/$name" ] || last=" (last time $(clock "$(cat "$times/$name")") min)"
  echo "==== $name$last" >&2
  "$@" || status=$? verdict=FAILED
  echo $((SECONDS - began)) >"$times/$name"
  ufp4_steps+=("$(printf '%-20s %s, %s min' "$name" $verdict "$(clock $((SECONDS - began)))")")
  echo "---- ${ufp4_steps[-1]}" >&2
  return $status
}
summarize_steps() {
  printf '\n==== summary\n' >&2
  printf '%s\n' "${ufp4_steps[@]}" "everything: $(clock $SECONDS) min" >&2
}
