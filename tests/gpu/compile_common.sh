# ufp4 - functions of compile.sh and compile_hip.sh: arguments, the work list, and the report of results.
# SPDX-License-Identifier: Apache-2.0
# Sourced by bash. The caller has `usage`, and a function `work KIND WHAT` that leaves <name>.log, and its verdict through `verdict`.
# shellcheck shell=bash disable=SC2016,SC2034,SC2154

unset CDPATH # with CDPATH set, cd may enter another folder and print its path
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export source_dir out

# read_arguments FOLDER TARGETS ARGUMENT...: sets out and targets.
read_arguments() {
  out=${UFP4_BUILD_DIR:-$source_dir/build}/$1 targets=$2
  shift 2
  while [ $# -gt 0 ]; do
    case $1 in
      --out) out=$2; shift ;;
      --targets) targets=$2; shift ;;
      *) echo "$usage" >&2; exit 2 ;;
    esac
    shift
  done
}

# Everything is compiled in that folder, from a link in it: paths without blanks, whatever the tree's own is, for lists of words and
# for compilers that are scripts.
make_out() {
  mkdir -p "$out" && out=$(cd -- "$out" && pwd) && ln -sfn "$source_dir" "$out/source" && cd "$out" || exit 2
  rm -f ./*.verdict ./*.log
}

# logged NAME COMMAND...: appends its output to its log; prints yes or no.
logged() {
  if "${@:2}" >>"$out/$1.log" 2>&1; then echo yes; else echo no; fi
}
# verdict NAME WORD...
verdict() { echo "${*:2}" >"$out/$1.verdict"; }
# try_run PROGRAM LOG: the column "run" of a program that ends with 77 where there is no GPU.
try_run() {
  "$1" >>"$2" 2>&1
  case $? in 0) echo yes ;; 77) echo no-GPU ;; *) echo not-on-this-GPU ;; esac
}
export -f logged verdict try_run

list=()
work_through_list() { printf '%s\n' "${list[@]}" | xargs -P "${UFP4_JOBS:-$(nproc)}" -L 1 bash -c 'work "$0" "$1"'; }

status=0
failed() {
  status=1
  head -n 30 "$out/$1.log"
}
# tell NAME MESSAGE: one verdict, which must be yes.
tell() {
  local answer seconds
  read -r answer seconds <"$out/$1.verdict"
  echo "$2: $answer ($seconds s)"
  [ "$answer" = yes ] || failed "$1"
}
