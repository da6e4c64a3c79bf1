#!/usr/bin/env bash
# ufp4 - every C++ source is formatted as clang-format 19 formats it, and has no line over 120 characters.
# SPDX-License-Identifier: Apache-2.0
#
#   format_check.sh [CLANG_FORMAT]     (default: $CLANG_FORMAT, clang-format-19 on PATH, or 19.1.7 from PyPI)
#
# Prints FILE:LINE: for each problem. Exit status 1 if there is one, 2 if CLANG_FORMAT is not version 19, 77 if skipped.
set -euo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/cmake/bare_machine.sh"

is_version_19() { [[ $("$1" --version 2>/dev/null) == *'version 19.'* ]]; }

clang_format=${1:-${CLANG_FORMAT:-clang-format-19}}
if ! is_version_19 "$clang_format"; then
  if [ -n "${1:-${CLANG_FORMAT:-}}" ]; then echo "format_check.sh: not clang-format 19: $clang_format" >&2; exit 2; fi
  choose_build_folder "$root"
  if ! install_packages python3 python3-venv ca-certificates >&2 || ! python=$(make_venv format 'clang-format==19.1.7'); then
    echo "SKIPPED: no clang-format 19 on PATH or from PyPI, so no source was checked"
    exit 77
  fi
  clang_format=$(dirname "$python")/clang-format
fi

folders=("$root"/{include,tests,bench,examples,docs,cmake})
mapfile -d '' -t sources < <(find "${folders[@]}" -name build -prune -o -type f \
  \( -name '*.hpp' -o -name '*.cpp' -o -name '*.cu' -o -name '*.inl' \) -print0 | sort -z)
[ ${#sources[@]} -gt 0 ] || { echo "format_check.sh: no C++ source in $root" >&2; exit 1; }
status=0
log=$("$clang_format" --style="file:$root/.clang-format" --dry-run --Werror "${sources[@]}" 2>&1) || status=1
grep -E ':[0-9]+:[0-9]+: error:' <<<"$log" || [ $status -eq 0 ] || echo "$log" # not a format violation: all that it said
! LC_ALL=C.UTF-8 grep -anHE '^.{121}' "${sources[@]}" | sed -E 's/^(.*:[0-9]+):.*/\1: over 120 characters/' || status=1
echo "${#sources[@]} C++ sources, $("$clang_format" --version): $([ $status -eq 0 ] && echo passed || echo FAILED)"
exit $status
