#!/usr/bin/env bash
# ufp4 - builds the pages of docs/ and the API reference as a site; fails on a dead link, a stale picture or a warning of mkdocs.
# SPDX-License-Identifier: Apache-2.0
usage='usage: docs/build.sh [--pictures | --links]
  --pictures   draws docs/pictures/ from the values of the library
  --links      checks the links of the Markdown only; needs python3
The site is written to build/site/html; its pages open without a server. Environment: UFP4_BUILD_DIR, where to build.
mkdocs-material comes from PyPI, or with apt (then the search needs a server). The API reference needs doxygen.
Exit status 77: links and pictures are right, but mkdocs-material is not available, so no site was built.'
set -uo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$source_dir/cmake/bare_machine.sh"
site=$source_dir/docs/site
export PYTHONDONTWRITEBYTECODE=1 # the source tree may be read-only

case ${1:-} in
  '' | --pictures | --links) ;;
  --help | -h) echo "$usage"; exit 0 ;;
  *) echo "unknown argument '$1'" >&2; echo "$usage" >&2; exit 2 ;;
esac
choose_build_folder "$source_dir"
install_packages python3 || exit 1
python3 "$site/check_links.py" "$source_dir" || exit 1
[ "${1:-}" = --links ] && exit 0

# The pictures are drawn from the values in the headers.
install_packages g++ || exit 1
values=$ufp4_build/grid_values
g++ -std=c++20 -I "$source_dir/include" "$site/grid_values.cpp" -o "$values" || exit 1
if [ "${1:-}" = --pictures ]; then
  "$values" | python3 "$site/pictures.py" "$source_dir/docs/pictures"
  exit
fi
"$values" | python3 "$site/pictures.py" --check "$source_dir/docs/pictures" || exit 1

remove_tree "$ufp4_build/site"
python3 "$site/stage.py" "$source_dir" "$ufp4_build/site" || exit 1
config=$ufp4_build/site/mkdocs.yml
if install_packages doxygen; then
  python3 "$site/api_reference.py" "$source_dir" "$ufp4_build/site/pages/api" || exit 1
else
  echo "doxygen is not installed: the site is made without the API reference"
  sed -i '/api\/index.html/d' "$config"
fi
if install_packages python3-venv ca-certificates && python=$(make_venv site 'mkdocs>=1.6,<2' 'mkdocs-material>=9.5,<10'); then
  :
elif install_packages mkdocs-material; then
  echo "mkdocs-material is not available from PyPI: the site is made with Debian's, and its search needs a server"
  python=$(python_with mkdocs,material) || exit 1
  # settings that mkdocs 1.4 and material 8 do not have; check_links.py finds what `validation` would find
  sed -i -e '/^validation:/,/^$/d' -e '/^not_in_nav:/,/^ /d' -e 's/plugins: \[search, offline\]/plugins: [search]/' "$config"
else
  echo "SKIPPED: mkdocs-material is available neither from PyPI nor with apt, so no site was built; links and pictures are right"
  exit 77
fi
log=$ufp4_build/site/mkdocs.log # not --quiet, under which --strict sees no warnings
if ! NO_MKDOCS_2_WARNING=1 "$python" -m mkdocs build --strict --config-file "$config" >"$log" 2>&1; then
  grep -E -v '^INFO' "$log" | tail -n 30
  exit 1
fi
python3 "$site/check_links.py" --html "$ufp4_build/site/html" || exit 1
echo "the site: $ufp4_build/site/html/index.html"
