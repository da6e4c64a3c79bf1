#!/usr/bin/env bash
# ufp4 - the Conan recipe makes a package that a stranger's project finds, compiles and runs. Offline: nothing is downloaded.
# SPDX-License-Identifier: Apache-2.0
# usage: conan.sh CONAN SCRATCH-FOLDER
set -euo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
conan=$1 work=$2
rm -rf "$work"
mkdir -p "$work/source/tests"
export CONAN_HOME=$work/home # neither the user's profiles nor his cache
cd "$source_dir"
cp -r conanfile.py LICENSE include "$work/source"
cp -r tests/consume "$work/source/tests"
version=$(sed -n 's/^#define UFP4_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' include/ufp4/version.hpp | paste -sd.)

"$conan" profile detect >/dev/null 2>&1
settings=(-s compiler.cppstd=20 -s build_type=Debug --no-remote)
"$conan" create "$work/source" "${settings[@]}" >"$work/create.log" 2>&1 || { tail -n 40 "$work/create.log"; exit 1; }
echo "conan create, and the test package ran"

"$conan" install --requires="ufp4/$version" "${settings[@]}" -s build_type=Release -g PkgConfigDeps -of "$work/pc" >"$work/install.log" 2>&1 ||
  { tail -n 40 "$work/install.log"; echo "the Debug package ufp4/$version does not serve Release"; exit 1; }
echo "one package serves every build type"

if "$conan" create "$work/source" -s compiler.cppstd=17 --no-remote >"$work/old.log" 2>&1; then
  echo "C++17 was accepted"
  exit 1
fi
grep -q 'requires at least 20\|is lower than the required' "$work/old.log" || { tail "$work/old.log"; exit 1; }
echo "C++17 is refused with a sentence"
