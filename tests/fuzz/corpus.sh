#!/usr/bin/env bash
# ufp4 - unpacks and packs the fuzz corpus, tests/fuzz/corpus.tar.xz: corpus/TARGET/INPUT.
# SPDX-License-Identifier: Apache-2.0
usage='usage: tests/fuzz/corpus.sh unpack FOLDER | pack FOLDER
  unpack FOLDER  replaces FOLDER/corpus with the content of the archive; needs cmake
  pack FOLDER    replaces the archive with the content of FOLDER/corpus; needs GNU tar and xz
The bytes of the archive depend on the names and the content of the inputs alone.'
set -euo pipefail
unset CDPATH

archive=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/corpus.tar.xz
[ $# -eq 2 ] || { echo "$usage" >&2; exit 2; }
cd "$2"
case $1 in
  unpack)
    rm -rf corpus
    cmake -E tar xf "$archive" ;;
  pack)
    # -T1: with several threads xz writes other bytes.
    tar --create --format=ustar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rw,go=r,a+X corpus |
      xz -9e -T1 >corpus.tar.xz
    mv corpus.tar.xz "$archive" ;;
  *) echo "$usage" >&2; exit 2 ;;
esac
