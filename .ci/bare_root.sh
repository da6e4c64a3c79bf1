#!/usr/bin/env bash
# ufp4 - a machine on which nothing is installed: a folder with the base of a Debian release, git and a clone of this repository.
# SPDX-License-Identifier: Apache-2.0
usage='usage: .ci/bare_root.sh make FOLDER [RELEASE] | run FOLDER COMMAND
  make FOLDER [RELEASE]  debootstrap (minbase, ca-certificates, git) of a release of the mirror of this machine (bookworm, trixie, sid;
                      default: the release of this machine), with the configuration of apt and pip of this machine, and a clone of this
                      repository in /ufp4
  run FOLDER COMMAND  runs a command line in /ufp4 of that folder; of the environment it gets the variables of CI and pip
Nothing of this machine is visible in the folder but the kernel and that configuration. Needs root. Exit status 77 where debootstrap
cannot be had or does not work here.'
set -euo pipefail
unset CDPATH

make_root() {
  local root=$1 release=${2:-} own source mirror
  source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
  own=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  release=${release:-$own}
  [ "$(id -u)" = 0 ] || { echo "ufp4: a bare root needs root"; return 77; }
  if ! command -v debootstrap >/dev/null; then
    { apt-get -qq update && apt-get -qq install -y --no-install-recommends debootstrap; } >/dev/null 2>&1 ||
      { echo "ufp4: debootstrap cannot be installed"; return 77; }
  fi
  mirror=$({ cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true; } |
    sed -n -e 's/^URIs: *\([^ ]*\).*/\1/p' -e 's/^deb \(\[[^]]*\] \)\?\([^ ]*\) .*/\2/p' | head -n 1)
  mkdir -p "$root"
  debootstrap --variant=minbase --include=ca-certificates,git "$release" "$root" ${mirror:+"$mirror"} >"$root.log" 2>&1 ||
    { tail -n 3 "$root.log"; echo "ufp4: debootstrap failed"; return 77; }
  configure "$root"
  [ "$release" = "$own" ] || use_release "$root" "$mirror" "$release"
  # shellcheck disable=SC2015 # devices may be there already
  for device in null zero full random urandom tty; do [ -e "$root/dev/$device" ] || cp -a "/dev/$device" "$root/dev/"; done
  git -c safe.directory='*' clone -q "$source" "$root/ufp4"
}

# Copies the configuration of apt and pip, and pip's certificate file.
configure() {
  local root=$1 file
  rm -f "$root/etc/apt/sources.list"
  for file in sources.list sources.list.d apt.conf apt.conf.d auth.conf auth.conf.d preferences.d trusted.gpg.d; do
    [ ! -e "/etc/apt/$file" ] || cp -rL "/etc/apt/$file" "$root/etc/apt/"
  done
  for file in /etc/resolv.conf /etc/hosts /etc/pip.conf; do [ ! -e $file ] || cp -L $file "$root/etc/"; done
  mkdir -p "$root/usr/local/share/ca-certificates"
  cp -r /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/" 2>/dev/null || true
  if [ -e "${PIP_CERT:-}" ]; then
    cp -L "$PIP_CERT" "$root/etc/pip-certificates.crt"
    sed -i '/^cert *=/d' "$root/etc/pip.conf" 2>/dev/null || true
  fi
}

# The packages of another release, from the same mirror.
use_release() { # ROOT MIRROR RELEASE
  rm -rf "$1/etc/apt/sources.list.d" "$1/etc/apt/preferences.d"
  mkdir -p "$1/etc/apt/sources.list.d" "$1/etc/apt/preferences.d"
  local mirror=${2:-http://deb.debian.org/debian}
  echo "deb $mirror $3 main" >"$1/etc/apt/sources.list"
  [ "$3" = sid ] || echo "deb ${mirror%/debian}/debian-security $3-security main" >>"$1/etc/apt/sources.list"
}

run_in() {
  local root=$1 line=() name
  for name in "${!PIP_@}"; do
    case $name in PIP_CERT | PIP_FIND_LINKS) ;; *) line+=("$name=${!name}") ;; esac
  done
  [ ! -e "$root/etc/pip-certificates.crt" ] || line+=(PIP_CERT=/etc/pip-certificates.crt)
  # shellcheck disable=SC2016 # for the inner shell
  exec unshare --mount --pid --fork bash -c '
    mount -t proc proc "$1/proc" && mkdir -p "$1/dev/pts" "$1/dev/shm" &&
      mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts" && mount -t tmpfs tmpfs "$1/dev/shm" &&
      ln -sfn pts/ptmx "$1/dev/ptmx" && exec chroot "$1" "${@:2}"' \
    bare_root "$root" /usr/bin/env -i HOME=/root LANG=C PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb CI="${CI:-}" "${line[@]}" \
    bash -c "cd /ufp4 && $2"
}

case ${1:-} in
  make) [ $# -eq 2 ] || [ $# -eq 3 ] || { echo "$usage" >&2; exit 2; }; make_root "${@:2}" ;;
  run) [ $# -eq 3 ] || { echo "$usage" >&2; exit 2; }; run_in "$2" "$3" ;;
  *) echo "$usage" >&2; exit 2 ;;
esac
