#!/usr/bin/env bash
# ufp4 - the Conan recipe makes a package that a user's project finds, compiles and runs. Offline: nothing is downloaded.
# SPDX-License-Identifier: Apache-2.0
# usage: conan.sh CONAN SCRATCH-FOLDER CREATE INSTALL
# The last two are the README's commands. They run in the scratch folder, with ufp4 in it, and leave there what INSTALL makes.
set -euo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$source_dir/cmake/bare_machine.sh"
program=$1 work=$2 create=$3 install=$4
remove_tree "$work"
mkdir -p "$work/ufp4/tests"
export CONAN_HOME=$work/home # without the user's profiles and cache
mkdir "$CONAN_HOME"
echo 'tools.cmake.cmaketoolchain:generator=Ninja' >"$CONAN_HOME/global.conf" # make may be absent
cd "$source_dir"
cp -r --no-preserve=mode conanfile.py CMakeLists.txt LICENSE cmake include "$work/ufp4"
cp -r --no-preserve=mode tests/consume "$work/ufp4/tests"
cd "$work"
conan() { command "$program" "$@"; }

# works LOG COMMAND: prints nothing, or the log and exits.
works() { eval "$2" >"$1.log" 2>&1 || { tail -n 40 "$1.log"; echo "failed: $2"; exit 1; }; }
# fails_with LOG MESSAGE COMMAND: for that reason and no other.
fails_with() {
  if eval "$3" >"$1.log" 2>&1; then echo "accepted: $3"; exit 1; fi
  grep -q "$2" "$1.log" || { tail -n 40 "$1.log"; echo "does not report '$2': $3"; exit 1; }
}

works remotes "conan remote disable '*'"
works create "$create -s build_type=Debug"
echo "conan create, and the test package ran"

works install "$install"
[ -e deps/conan_toolchain.cmake ] || { echo "there is no deps/conan_toolchain.cmake after: $install"; exit 1; }
echo "the package made for Debug serves the default profile's Release"

works kernels "$create -s build_type=Debug -o 'ufp4/*:kernels=True'"
echo "conan create with kernels=True, and the test package linked ufp4::kernels"

# A release in the layout of ConanCenter, with an archive in place of the one to download.
works archive 'mkdir release && cp -r ufp4 release/ufp4-0 && tar -C release -czf release.tar.gz ufp4-0'
works center 'python3 ufp4/cmake/packaging/conan_center.py release.tar.gz "file://$PWD/release.tar.gz" index'
version=$(sed -n 's/^  "\(.*\)":$/\1/p' index/recipes/ufp4/config.yml)
works center_create 'conan create index/recipes/ufp4/all "--version=$version" -s compiler.cppstd=20 -s build_type=Debug --user=center'
echo "conan create of the recipe for ConanCenter, and its test package ran"

works version 'conan export ufp4 --version=0.1.77 && conan list ufp4/0.1.77 --format=compact'
grep -q 'ufp4/0\.1\.77#' version.log || { cat version.log; exit 1; }
echo "--version is taken"

fails_with old 'requires at least 20\|is lower than the required' 'conan create ufp4 -s compiler.cppstd=17'
fails_with msvc 'its headers reject MSVC' \
  'conan create ufp4 -s compiler=msvc -s compiler.version=194 -s compiler.runtime=dynamic -s compiler.cppstd=20'
echo "C++17 and MSVC are rejected with a message"
