#!/usr/bin/env bash
# ufp4 - every way to get the library, each by building a separate small project that uses it.
# SPDX-License-Identifier: Apache-2.0
usage='usage: tests/consume/run.sh [--list] WAY
Builds in UFP4_BUILD_DIR (default build/ in the source tree), in the folder packages. The way `install` comes first: the others use what
it installed. Exit status 0, 1, or 77 after a line with the reason if something is missing. CTest: packages_WAY.'
set -uo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$source_dir/cmake/bare_machine.sh"
case ${1:-} in
  --list) sed -n 's/^way_\([a-z_]*\)() .*/\1/p' "${BASH_SOURCE[0]}"; exit 0 ;;
  '' | -*) echo "$usage" >&2; exit 2 ;;
esac
way=$1

choose_build_folder "$source_dir"
out=$ufp4_build/packages
# Moved after the installation, and with a blank in its name: nothing installed may contain its original path.
prefix="$out/moved here"
# Ignore the user's git hooks.
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0=/dev/null

# need PROGRAM: prints SKIPPED and exits with 77 if it does not run.
need() {
  have_programs "$1" && return 0
  echo "SKIPPED: there is no working $1 here"
  exit 77
}

# in_cmake NAME SOURCE [CMAKE ARGUMENT]...: configures, builds and runs a separate project, not optimised.
in_cmake() {
  cmake --no-warn-unused-cli -S "$source_dir/tests/consume/$2" -B "$out/$1" -G Ninja -D CMAKE_BUILD_TYPE=Debug "${@:3}" &&
    cmake --build "$out/$1" && ctest --test-dir "$out/$1" --output-on-failure --no-tests=error
}

# The README's command, without optimization; the program must print the README's output.
way_include() {
  local command
  # shellcheck disable=SC2016 # the backquotes are the page's
  command=$(sed -n 's/.*`\(g++ -std=c++20 -O3 -I include examples\/readme\.cpp[^`]*\)`.*/\1/p' "$source_dir/README.md")
  [ -n "$command" ] || { echo "README.md has no g++ command for examples/readme.cpp"; return 1; }
  cd "$source_dir" && ${command/-O3/-O0} -o "$out/readme" &&
    readme_prints "$out/readme"
}
# in_readme ROW TEXT: the command with that text in a row of the README's table of ways.
in_readme() {
  local command
  command=$(sed -n "s/^| $1 |.*\`\([^\`]*$2[^\`]*\)\`.*/\1/p" "$source_dir/README.md")
  [ -n "$command" ] || { echo "README.md has no '$2' in the row $1" >&2; return 1; }
  echo "$command"
}
# readme_files FOLDER: the README's own project, with the README's program.
readme_files() {
  mkdir -p "$out/$1"
  # shellcheck disable=SC2016 # the backquotes are the page's
  sed -n '/^```cmake$/,/^```$/{/^```/d;p}' "$source_dir/README.md" >"$out/$1/CMakeLists.txt"
  cp "$source_dir/examples/readme.cpp" "$out/$1/main.cpp"
}
# readme_build FOLDER [CMAKE ARGUMENT]...: from that folder, as the README has it, not optimised.
readme_build() {
  (cd "$out/$1" && cmake --no-warn-unused-cli -B build -G Ninja -D CMAKE_BUILD_TYPE=Debug "${@:2}" && cmake --build build) &&
    readme_prints "$out/$1/build/app"
}
# readme_prints PROGRAM: what it prints is in the README as well.
readme_prints() {
  cmake -D README="$source_dir/README.md" -D SOURCE="$source_dir/examples/readme.cpp" -D PROGRAM="$1" -P "$source_dir/tests/readme.cmake"
}
way_readme() {
  need git
  local how
  for how in fetched installed subdirectory; do readme_files "readme $how"; done
  make_repository readme || return 1
  readme_build 'readme fetched' -D UFP4_GIT="file://$out/repository_readme" -D CMAKE_DISABLE_FIND_PACKAGE_ufp4=ON &&
    readme_build 'readme installed' -D CMAKE_PREFIX_PATH="$prefix" || return 1
  ln -sfn "$source_dir" "$out/readme subdirectory/ufp4"
  sed -i 's/^include(FetchContent)$/add_subdirectory(ufp4)/; /^FetchContent/d' "$out/readme subdirectory/CMakeLists.txt"
  readme_build 'readme subdirectory'
}
way_package() { in_cmake package . -D HOW=package -D CMAKE_PREFIX_PATH="$prefix"; }
way_subdirectory() { in_cmake subdirectory . -D HOW=subdirectory -D UFP4="$source_dir"; }

# A repository that can be fetched: what the build description reads, in one commit.
make_repository() {
  local to=$out/repository_$1
  remove_tree "$to" && mkdir "$to" || return
  cp -r --no-preserve=mode "$source_dir"/{CMakeLists.txt,LICENSE,cmake,include} "$to"
  git -C "$to" init --quiet --initial-branch=main && git -C "$to" add . &&
    git -C "$to" -c user.name=ufp4 -c user.email=ufp4@localhost -c commit.gpgsign=false -c core.hooksPath=/dev/null \
      commit --quiet -m ufp4
}
fetch() {
  need git
  make_repository "$1" && in_cmake "$1" . -D HOW=fetch -D FOUND="$2" -D GIT="file://$out/repository_$1" "${@:3}"
}
way_fetch_found() {
  fetch fetch_found ON -D CMAKE_PREFIX_PATH="$prefix" || return
  [ ! -e "$out/fetch_found/_deps/ufp4-src" ] || { echo "ufp4 is installed and was fetched all the same"; return 1; }
}
# No prefix is searched: a ufp4 on the machine itself would be found.
way_fetch_missing() {
  fetch fetch_missing OFF -D CMAKE_DISABLE_FIND_PACKAGE_ufp4=ON || return
  [ -e "$out/fetch_missing/_deps/ufp4-src/LICENSE" ] || { echo "ufp4 was not fetched"; return 1; }
}

way_pkgconfig() {
  need pkg-config
  export PKG_CONFIG_PATH=$prefix/share/pkgconfig
  local flags version
  flags=$(pkg-config --cflags --libs ufp4) && version=$(pkg-config --modversion ufp4) || return 1
  eval "g++ -std=c++20 '$source_dir/tests/consume/main.cpp' $flags -o '$out/pkgconfig'" && "$out/pkgconfig" || return 1
  readme_pkgconfig || return 1
  [ "$version" = "$(version_of_headers)" ] || { echo "ufp4.pc has the version $version, and version.hpp another"; return 1; }
}
version_of_headers() {
  printf '#include <ufp4/version.hpp>\nUFP4_VERSION_MAJOR.UFP4_VERSION_MINOR.UFP4_VERSION_PATCH\n' |
    g++ -I"$source_dir/include" -x c++ -E -P - | tr -d ' ' | tail -n 1
}

# The README's two commands, word for word but for the optimisation, in a folder where there is a PREFIX.
readme_pkgconfig() (
  path=$(in_readme pkg-config 'PKG_CONFIG_PATH=') && command=$(in_readme pkg-config 'g++ ') || exit 1
  readme_files readme_pkgconfig && cd "$out/readme_pkgconfig" && ln -sfn "$prefix" PREFIX || exit 1
  unset PKG_CONFIG_PATH
  eval "$path" && eval "${command/-O3/-O0}" && readme_prints "$PWD/a.out"
)

# fails_with MESSAGE FIND-PACKAGE-ARGUMENT...: find_package must fail with that message.
fails_with() {
  local log=$out/components.log project=$out/components
  mkdir -p "$project"
  printf 'cmake_minimum_required(VERSION 3.23)\nproject(rejected LANGUAGES CXX)\nfind_package(ufp4 %s CONFIG REQUIRED %s)\n' \
    "$2" "${*:3}" >"$project/CMakeLists.txt"
  if cmake -S "$project" -B "$project/build" -G Ninja -D CMAKE_CXX_COMPILER=g++ -D CMAKE_PREFIX_PATH="$prefix" >"$log" 2>&1; then
    echo "find_package(ufp4 ${*:2}) did not fail"
    return 1
  fi
  # CMake breaks the lines of its messages.
  tr -s ' \n' '  ' <"$log" | grep -qF "$1" || { cat "$log"; echo "find_package(ufp4 ${*:2}) does not report: $1"; return 1; }
}
way_components() {
  fails_with "ufp4::cuda needs CUDA as a language of the project" 0.1 COMPONENTS cuda &&
    fails_with "ufp4::hip needs hipcc as the C++ compiler" 0.1 COMPONENTS hip &&
    fails_with "none called 'opencl'" 0.1 COMPONENTS opencl &&
    fails_with "ufp4::kernels is not installed" 0.1 COMPONENTS kernels &&
    fails_with "ufp4::c is not installed" 0.1 COMPONENTS c &&
    fails_with 'compatible with requested version "0.99"' 0.99
}

# The compiled library: installed, moved, found by CMake and by pkg-config; and as a part of the project that uses it.
way_kernels() {
  local moved="$out/kernels moved"
  cmake -S "$source_dir" -B "$out/kernels_build" -G Ninja -D CMAKE_BUILD_TYPE=Debug -D UFP4_BUILD_TESTS=OFF -D UFP4_BUILD_EXAMPLES=OFF \
    -D UFP4_BUILD_BENCH=OFF -D UFP4_KERNELS=ON '-D UFP4_ISAS=avx2;neon' -D CMAKE_INSTALL_LIBDIR=lib &&
    cmake --build "$out/kernels_build" && cmake --install "$out/kernels_build" --prefix "$out/kernels_prefix" || return 1
  remove_tree "$moved" && mv "$out/kernels_prefix" "$moved" || return 1
  in_cmake kernels . -D HOW=kernels -D CMAKE_PREFIX_PATH="$moved" &&
    in_cmake kernels_subdirectory . -D HOW=kernels -D KERNELS=subdirectory -D UFP4="$source_dir" || return 1
  need pkg-config
  local flags
  flags=$(PKG_CONFIG_PATH="$moved/lib/pkgconfig:$moved/share/pkgconfig" pkg-config --cflags --libs ufp4-kernels) &&
    eval "g++ -std=c++20 '$source_dir/tests/consume/main.cpp' '$source_dir/tests/consume/kernels.cpp' $flags -o '$out/kernels_pkgconfig'" &&
    "$out/kernels_pkgconfig"
}

# The C interface, static and shared: installed, moved, found by CMake in a project that is C alone, and by pkg-config.
way_c() {
  need gcc
  need pkg-config
  local kind moved flags
  for kind in OFF ON; do
    moved="$out/c moved $kind"
    cmake -S "$source_dir" -B "$out/c_build_$kind" -G Ninja -D CMAKE_BUILD_TYPE=Debug -D UFP4_BUILD_TESTS=OFF -D UFP4_BUILD_EXAMPLES=OFF \
      -D UFP4_BUILD_BENCH=OFF -D UFP4_C=ON -D BUILD_SHARED_LIBS=$kind '-D UFP4_ISAS=avx2;neon' -D CMAKE_INSTALL_LIBDIR=lib &&
      cmake --build "$out/c_build_$kind" && cmake --install "$out/c_build_$kind" --prefix "$out/c_prefix" || return 1
    remove_tree "$moved" && mv "$out/c_prefix" "$moved" || return 1
    in_cmake "c_$kind" c -D CMAKE_PREFIX_PATH="$moved" -D PROGRAM="$source_dir/examples/c/first.c" || return 1
    flags=$(PKG_CONFIG_PATH="$moved/lib/pkgconfig" pkg-config --cflags --libs --static ufp4-c) &&
      eval "gcc -std=c99 '$source_dir/examples/c/first.c' $flags '-Wl,-rpath,$moved/lib' -o '$out/c_pkgconfig'" && "$out/c_pkgconfig" || return 1
  done
  bash "$source_dir/tests/c/exports.sh" "$out/c moved ON/lib/libufp4.so" && bare_c
}
# The files of the shared library have the version of the binary interface, as the page states; a program needs that name.
bare_c() {
  local abi name
  abi=$(sed -n 's/^#define UFP4_ABI_VERSION //p' "$source_dir/include/ufp4/ufp4.h")
  name=$(readelf -d "$out/c moved ON/lib/libufp4.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
  [ "$name" = "libufp4.so.$abi" ] || { echo "libufp4.so has the name $name, and UFP4_ABI_VERSION is $abi"; return 1; }
}

# The library in one header, as the README's command writes it: it builds the README's program and the tour.
way_one_header() {
  need python3
  local command compiler
  command=$(in_readme 'one header' 'one_header.py include') || return 1
  mkdir -p "$out/one_header" && cd "$out/one_header" && ln -sfn "$source_dir"/{cmake,include} . && eval "$command" || return 1
  for program in readme api_tour; do
    sed 's|#include <ufp4/ufp4.hpp>|#include "ufp4_all.hpp"|' "$source_dir/examples/$program.cpp" >"$program.cpp"
  done
  rm cmake include # nothing but the one header
  cmake --build "$out/build" --target one_header && cmp ufp4_all.hpp "$out/build/ufp4_all.hpp" || return 1
  for compiler in g++ clang++-19; do
    have_programs "$compiler" || { echo "no $compiler: left out"; continue; }
    "$compiler" -std=c++20 -Wall -Wextra -Werror readme.cpp -o readme -pthread && readme_prints ./readme &&
      "$compiler" -std=c++20 api_tour.cpp -o api_tour -pthread && ./api_tour >/dev/null || return 1
  done
}

# CPM's function, as far as the page's lines need it: FetchContent with these arguments. CPM itself is in no registry of packages.
way_cpm() {
  need git
  make_repository cpm && readme_files cpm || return 1
  {
    echo 'cmake_minimum_required(VERSION 3.24)
project(app LANGUAGES CXX)
include(FetchContent)
function(CPMAddPackage)
  cmake_parse_arguments(PARSE_ARGV 0 cpm "" "NAME;VERSION;GIT_REPOSITORY;GIT_TAG" "")
  if(cpm_UNPARSED_ARGUMENTS OR NOT cpm_NAME OR NOT cpm_GIT_TAG)
    message(FATAL_ERROR "CPMAddPackage(${ARGV}) is not NAME, VERSION, GIT_REPOSITORY, GIT_TAG")
  endif()
  FetchContent_Declare(${cpm_NAME} GIT_REPOSITORY ${cpm_GIT_REPOSITORY} GIT_TAG ${cpm_GIT_TAG})
  FetchContent_MakeAvailable(${cpm_NAME})
  file(WRITE ${CMAKE_BINARY_DIR}/cpm_version ${cpm_VERSION})
endfunction()
add_executable(app main.cpp)'
    # shellcheck disable=SC2016 # the backquotes are the page's
    sed -n '/^## CPM$/,/^## /p' "$source_dir/docs/build_systems.md" | sed -n '/^```cmake$/,/^```$/{/^```/d;p}' |
      sed "s|GIT_REPOSITORY URL|GIT_REPOSITORY file://$out/repository_cpm|"
  } >"$out/cpm/CMakeLists.txt"
  readme_build cpm || return 1
  [ "$(cat "$out/cpm/build/cpm_version")" = "$(version_of_headers)" ] || { echo "the page's CPM lines have another version"; return 1; }
}

# The port as vcpkg's registry holds it: for an archive at any address, which is built, and for one of GitHub's.
registry_port() {
  local work=$out/vcpkg_registry
  remove_tree "$work" && mkdir -p "$work/sources/ufp4-0" && cp -r "$source_dir"/{CMakeLists.txt,LICENSE,cmake,include} "$work/sources/ufp4-0" &&
    tar -C "$work/sources" -czf "$work/ufp4.tar.gz" ufp4-0 || return 1
  python3 "$source_dir/tests/consume/vcpkg_registry.py" "$source_dir" "$work/ufp4.tar.gz" "$work" "$(version_of_headers)" &&
    cmake -D UFP4="$source_dir" -D PORTS="$work/registry/ports" -D WORK="$work/port" -D COMPILER=g++ -D ARCHIVE="$work/ufp4.tar.gz" \
      -P "$source_dir/tests/consume/vcpkg.cmake"
}

# From the overlay that the README names; vcpkg checks the installed files with pkg-config.
way_vcpkg() {
  need g++
  need pkg-config
  local install ports
  install=$(in_readme vcpkg 'vcpkg install') || return 1
  ports=$source_dir/${install#*--overlay-ports=ufp4/}
  cmake -D UFP4="$source_dir" -D PORTS="$ports" -D WORK="$out/vcpkg_port" -D COMPILER=g++ \
    -P "$source_dir/tests/consume/vcpkg.cmake" || return 1
  mv "$out/vcpkg_port/packages" "$out/vcpkg_port/installed" # as vcpkg does
  in_cmake vcpkg . -D HOW=usage -D USAGE="$ports/ufp4/usage" -D CMAKE_PREFIX_PATH="$out/vcpkg_port/installed" || return 1
  readme_files 'readme vcpkg'
  readme_build 'readme vcpkg' -D CMAKE_PREFIX_PATH="$out/vcpkg_port/installed" && stray_port "$ports" || return 1
  cmake -D UFP4="$source_dir" -D PORTS="$ports" -D WORK="$out/vcpkg_kernels" -D COMPILER=g++ -D FEATURES=kernels \
    -P "$source_dir/tests/consume/vcpkg.cmake" && registry_port
}
# A copy of the port outside the source tree must fail with that message. Its folder has the same depth as the port's.
stray_port() {
  local log=$out/stray_port.log stray=$out/stray/cmake/packaging
  mkdir -p "$stray"
  cp -r --no-preserve=mode "$1" "$stray/vcpkg"
  if cmake -P "$stray/vcpkg/ufp4/portfile.cmake" >"$log" 2>&1; then
    echo "a port outside the source tree was accepted"
    return 1
  fi
  tr -s ' \n' '  ' <"$log" | grep -qF 'builds the source tree that it lies in' || { cat "$log"; return 1; }
}

# The README's commands, and its project with what they made, which is for Release; not optimised all the same.
way_conan() {
  local conan=${UFP4_CONAN:-} python
  if [ -z "$conan" ]; then
    python=$(make_venv conan 'conan>=2,<3') || { echo "SKIPPED: Conan could not be had from PyPI"; return 77; }
    conan=$(dirname "$python")/conan
  fi
  local create install toolchain
  create=$(in_readme 'Conan 2' 'conan create') && install=$(in_readme 'Conan 2' 'conan install') &&
    toolchain=$(in_readme 'Conan 2' '-DCMAKE_TOOLCHAIN_FILE') || return 1
  bash "$source_dir/tests/consume/conan.sh" "$conan" "$out/conan" "$create" "$install" || return 1
  readme_files conan
  readme_build conan "$toolchain" -D CMAKE_BUILD_TYPE=Release -D CMAKE_CXX_FLAGS_RELEASE=
}

# The wrap, with a repository in place of URL, and the program of the README against either dependency.
way_meson() {
  need meson
  need git
  need pkg-config
  local work=$out/meson name
  make_repository meson && remove_tree "$work" && mkdir -p "$work/subprojects" || return 1
  cp -r "$source_dir"/cmake/packaging/meson/* "$work/subprojects" && cp "$source_dir/examples/readme.cpp" "$work/main.cpp" || return 1
  sed -i "s|^url = URL$|url = file://$out/repository_meson|" "$work/subprojects/ufp4.wrap"
  # shellcheck disable=SC2016 # the backquotes are the page's
  sed -n '/^```meson$/,/^```$/{/^```/d;p}' "$source_dir/docs/build_systems.md" >"$work/meson.build"
  printf "%s\n" "executable('app_kernels', 'main.cpp', dependencies: dependency('ufp4-kernels'))" >>"$work/meson.build"
  meson setup --buildtype=debug "$work/build" "$work" && meson compile -C "$work/build" || return 1
  for name in app app_kernels; do readme_prints "$work/build/$name" || return 1; done
  grep -q "version: '$(version_of_headers)'" "$work/subprojects/ufp4/meson.build" ||
    { echo "meson.build has another version than version.hpp"; return 1; }
}
# Bazel 7 and Spack are in no registry of packages that the tests use: what their files declare is evaluated and built.
way_bazel() {
  local python
  python=$(make_venv bazel 'starlark-pyo3==2026.1.*') || { echo "SKIPPED: starlark-pyo3 could not be had from PyPI"; return 77; }
  "$python" "$source_dir/tests/consume/bazel.py" "$source_dir" "$out/bazel" "$source_dir/examples/readme.cpp" "$(version_of_headers)" || return 1
  readme_prints "$out/bazel/headers" && readme_prints "$out/bazel/kernels"
}
# Bazel itself, of Debian: version 4 reads BUILD.bazel, and rules from folders instead of MODULE.bazel. Its rules for C++ are built in.
way_bazel_program() {
  local work=$out/bazel_program rules=/usr/share/bazel name overrides=()
  if ! command -v bazel >/dev/null || ! [ -d $rules/rules/java ]; then
    echo "SKIPPED: there is no Bazel here (apt-get install bazel-bootstrap bazel-rules-java bazel-rules-proto bazel-platforms)"
    return 77
  fi
  remove_tree "$work" && mkdir -p "$work"/{app,ufp4/cmake,rules_cc/cc} && touch "$work"/{app,ufp4,rules_cc}/WORKSPACE "$work/rules_cc/cc/BUILD" &&
    cp -r "$source_dir"/{include,LICENSE,cmake/packaging/bazel/BUILD.bazel} "$work/ufp4" && cp "$source_dir/cmake/kernels.cpp" "$work/ufp4/cmake" &&
    cp "$source_dir/examples/readme.cpp" "$work/app/main.cpp" || return 1
  for name in cc_binary cc_import cc_library cc_test cc_toolchain cc_toolchain_suite; do echo "$name = native.$name"; done >"$work/rules_cc/cc/defs.bzl"
  for name in ufp4 rules_cc; do echo "local_repository(name = '$name', path = '../$name')"; done >"$work/app/WORKSPACE"
  # shellcheck disable=SC2016 # the backquotes are the page's
  sed -n '/^```python$/,/^```$/{/^```/d;p}' "$source_dir/docs/build_systems.md" | sed -n '/^# BUILD.bazel$/,$p' | sed 's/"-O3"/"-O0"/' >"$work/app/BUILD.bazel"
  for name in java proto; do overrides+=("--override_repository=rules_$name=$rules/rules/$name"); done
  (cd "$work/app" && bazel --batch --output_user_root="$work/output" build "--override_repository=platforms=$rules/platforms" "${overrides[@]}" //:app) ||
    return 1
  readme_prints "$work/app/bazel-bin/app"
}
# xmake itself, with the page's project; without its own packages, which it would fetch.
way_xmake() (
  python=$(make_venv xmake 'xmake-wheel==3.0.*') || { echo "SKIPPED: xmake could not be had from PyPI"; return 77; }
  PATH=$(dirname "$python"):$PATH
  export XMAKE_GLOBALDIR=$out/xmake/global XMAKE_ROOT=y XMAKE_COLORTERM=nocolor
  remove_tree "$out/xmake" && mkdir -p "$out/xmake" && cd "$out/xmake" && ln -s "$source_dir" ufp4 && cp ufp4/examples/readme.cpp main.cpp || return 1
  # shellcheck disable=SC2016 # the backquotes are the page's
  sed -n '/^```lua$/,/^```$/{/^```/d;p}' ufp4/docs/build_systems.md >xmake.lua
  xmake global --network=private >/dev/null && xmake config --yes --mode=debug && xmake build && readme_prints "$(find build -type f -name app)"
)
way_spack() {
  need python3
  local options
  python3 "$source_dir/tests/consume/spack.py" "$source_dir" kernels c shared >/dev/null || return 1
  mapfile -t options < <(python3 "$source_dir/tests/consume/spack.py" "$source_dir")
  cmake -S "$source_dir" -B "$out/spack" -G Ninja "${options[@]}" && cmake --install "$out/spack" --prefix "$out/spack/prefix" &&
    readme_files 'readme spack' && readme_build 'readme spack' -D CMAKE_PREFIX_PATH="$out/spack/prefix"
}

# on_gpu VENDOR HOW [CMAKE ARGUMENT]...
on_gpu() {
  in_cmake "$1_$2" gpu -D VENDOR="$1" -D HOW="$2" -D UFP4="$source_dir" -D CMAKE_PREFIX_PATH="$prefix" "${@:3}"
}
cuda() {
  local nvcc
  nvcc=$(find_nvcc) || { echo "SKIPPED: there is no nvcc here"; return 77; }
  PATH=$(dirname "$nvcc"):$PATH
  on_gpu cuda "$1" -D CMAKE_CUDA_ARCHITECTURES=80
}
hip() {
  PATH=$PATH:${ROCM_PATH:-/opt/rocm}/bin
  need hipcc
  on_gpu hip "$1" -D CMAKE_CXX_COMPILER=hipcc -D AMDGPU_TARGETS=gfx90a -D GPU_TARGETS=gfx90a
}
way_cuda_package() { cuda package; }
way_cuda_subdirectory() { cuda subdirectory; }
way_hip_package() { hip package; }
way_hip_subdirectory() { hip subdirectory; }

way_install() {
  remove_tree "$out"
  mkdir -p "$out" || return 1
  cmake -S "$source_dir" -B "$out/build" -G Ninja -D UFP4_BUILD_TESTS=OFF -D UFP4_BUILD_EXAMPLES=OFF -D UFP4_BUILD_BENCH=OFF &&
    cmake --install "$out/build" --prefix "$out/prefix" &&
    cmake -D UFP4="$source_dir" -D PREFIX="$out/prefix" -D BUILD="$out/build" -P "$source_dir/tests/consume/check.cmake" &&
    mv "$out/prefix" "$prefix"
}

declare -F "way_$way" >/dev/null || { echo "there is no way '$way'; --list shows them" >&2; exit 2; }
[ "$way" = install ] || [ -e "$prefix" ] || { echo "first: tests/consume/run.sh install" >&2; exit 1; }
"way_$way"
