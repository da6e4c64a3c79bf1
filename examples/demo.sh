#!/usr/bin/env bash
# ufp4 - from a bare Debian or Ubuntu to 4-bit formats compared on real data: installs what is missing, builds, runs.
# SPDX-License-Identifier: Apache-2.0
#
# usage: examples/demo.sh [ARGUMENTS OF COMPARE]      (examples/demo.sh --help lists them)
# Without arguments it also trains a small transformer under three recipes (examples/train_lm).
# Installs (apt): g++ cmake ninja-build, and without arguments libeigen3-dev. Builds into build/, or UFP4_BUILD_DIR.
set -euo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$source_dir/cmake/bare_machine.sh"
choose_build_folder "$source_dir"
build=$ufp4_build/release

targets=(compare)
what='examples/compare (half a minute the first time)'

# What is said of the build goes to stderr: stdout is compare's (--json, --csv).
{
  install_build_tools
  if [ $# -eq 0 ] && install_packages libeigen3-dev; then
    targets+=(train_lm)
    what='examples/compare and examples/train_lm (a minute or two the first time)'
  fi
  echo "building $what"
  if ! { cmake --preset release -S "$source_dir" -B "$build" -D UFP4_BUILD_BENCH=OFF &&
         cmake --build "$build" --target "${targets[@]}"; } >"$ufp4_build/demo.log" 2>&1; then
    tail -n 40 "$ufp4_build/demo.log"
    echo "ufp4: the build failed; all of its output is in $ufp4_build/demo.log"
    exit 1
  fi
} >&2

compare=$build/examples/compare
[ $# -gt 0 ] && exec "$compare" "$@"
"$compare" --html "$ufp4_build/compare.html"

# member NAME FILE: of the outermost object of train_lm's result.json, which has a line for each.
member() { sed -n "s/^  \"$1\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" "$2"; }

# train_and_tell: three runs that differ in the recipe alone; a table here, and a section of compare.html.
train_and_tell() {
  local recipe runs=$ufp4_build/demo_runs rows='' result first section
  local -x LC_ALL=C # numbers have points
  local caveat='An illustration, not evidence: one seed, one small model, and seeds differ by as much as recipes do.'
  rm -rf "$runs"
  for recipe in bf16 e2m1-baseline ufp4; do
    "$build/examples/train_lm" --size nano --recipe "$recipe" --out "$runs/$recipe" >"$ufp4_build/demo_train.log"
  done
  first=$runs/bf16/result.json
  echo
  printf 'A transformer of %s parameters, trained on %s bytes of text under three recipes\n' \
    "$(member parameters "$first")" "$(member tokens "$first")"
  printf '%-15s %15s %17s %9s\n' recipe 'training loss' 'validation loss' seconds
  for recipe in bf16 e2m1-baseline ufp4; do
    result=$runs/$recipe/result.json
    printf '%-15s %15.4f %17.4f %9.1f\n' "$recipe" "$(member final_train_loss "$result")" \
      "$(member valid_loss "$result")" "$(member seconds "$result")"
    rows+=$(printf '<tr><td class="mono">%s</td><td>%.4f</td><td>%.4f</td><td>%.1f</td></tr>' "$recipe" \
      "$(member final_train_loss "$result")" "$(member valid_loss "$result")" "$(member seconds "$result")")
  done
  echo "$caveat"
  echo "With error bars: docs/study.md."
  section="<section>
<h2>Training in 4 bits</h2>
<p class=\"note\"><strong>$caveat</strong> A transformer of $(member parameters "$first") parameters, trained on \
$(member tokens "$first") bytes of text; every linear layer's three GEMMs run under the recipe. Cross entropy in nats a \
byte. What follows from many seeds is in docs/study.md.</p>
<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">recipe</th><th scope=\"col\">training loss</th>\
<th scope=\"col\">validation loss</th><th scope=\"col\">seconds</th></tr></thead>
<tbody>$rows</tbody></table></div>
</section>"
  SECTION=$section awk '$0 == "</main>" { print ENVIRON["SECTION"] } { print }' "$ufp4_build/compare.html" \
    >"$ufp4_build/compare.html.new"
  mv "$ufp4_build/compare.html.new" "$ufp4_build/compare.html"
}
if [ ${#targets[@]} -gt 1 ]; then train_and_tell; fi

echo
echo "Open in a browser: file://$ufp4_build/compare.html"
echo "With your data:    examples/demo.sh --npy FILE    (examples/demo.sh --help)"
