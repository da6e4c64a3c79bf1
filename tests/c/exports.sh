#!/usr/bin/env bash
# ufp4 - a shared library of the C interface exports the functions that ufp4.h declares, and nothing else.
# SPDX-License-Identifier: Apache-2.0
# usage: exports.sh LIBRARY
set -euo pipefail
unset CDPATH
header=$(dirname "${BASH_SOURCE[0]}")/../../include/ufp4/ufp4.h
diff <(sed -n 's/^UFP4_C_API.*[ *]\(ufp4_[a-z0-9_]*\)(.*/\1/p' "$header" | sort) \
  <(nm -D --defined-only "$1" | sed -n 's/^[^ ]* [^A] //p' | sed 's/@.*//' | sort)
