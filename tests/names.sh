#!/usr/bin/env bash
# ufp4 - the public names: what completion shows after `ufp4::` and its public namespaces, against docs/names.md.
# SPDX-License-Identifier: Apache-2.0
#
#   tests/names.sh [--list]     --list prints the names that the headers declare
#
# Fails if a name is on one side only, or if namespace ufp4 has more than 131. Needs clang (CLANG or clang++-N); without it the test is skipped.
set -euo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path
cd "$(dirname "${BASH_SOURCE[0]}")/.."
most=131
clang=${CLANG:-}
for candidate in clang++ clang++-{22,21,20,19,18,17,16}; do
  [ -n "$clang" ] || ! command -v "$candidate" >/dev/null || clang=$candidate
done
[ -n "$clang" ] || { echo "skipped: no clang (apt-get install clang)" && exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C

# shown NAMESPACE: what completion offers there; not private namespaces, inline ones (v0_1...) and operators.
shown() {
  printf '#include <ufp4/ufp4.hpp>\nint x = %s::\n' "$1" >"$work/complete.cpp"
  "$clang" -std=c++20 -Iinclude -fsyntax-only -Xclang -code-completion-at="$work/complete.cpp:2:$((${#1} + 11))" "$work/complete.cpp" 2>/dev/null |
    sed -n 's/^COMPLETION: \([A-Za-z_][A-Za-z_0-9]*\).*/\1/p' | grep -vxE 'detail|operator|Pattern|v[0-9]+_[0-9].*' | sort -u
}
for space in ufp4 ufp4::cpu ufp4::analysis ufp4::compat ufp4::recipe; do
  shown $space | grep -vxE 'cpu|analysis|compat|recipe' | sed "s/^/$space::/"
done >"$work/declared"
awk '/^## /{space = $2} match($0, /^\| `[A-Za-z_0-9]+`/) {print space "::" substr($0, 4, RLENGTH - 4)}' docs/names.md | sort >"$work/listed"
sort -o "$work/declared" "$work/declared"
[ "${1:-}" != --list ] || { cat "$work/declared" && exit; }

[ -s "$work/declared" ] || { echo "FAILED: $clang completes nothing" && exit 1; }
status=0
while read -r name; do echo "FAILED: $name is public, but not in docs/names.md: list it, or move it to a namespace detail" && status=1; done \
  < <(comm -23 "$work/declared" "$work/listed")
while read -r name; do echo "FAILED: docs/names.md lists $name, which no header of ufp4.hpp declares" && status=1; done \
  < <(comm -13 "$work/declared" "$work/listed")
count=$(grep -cE '^ufp4::[A-Za-z_0-9]+$' "$work/declared")
echo "$count names in namespace ufp4, at most $most; $(wc -l <"$work/declared") with its namespaces"
[ "$count" -le $most ] || { echo "FAILED: more than $most names in namespace ufp4" && status=1; }
exit $status
