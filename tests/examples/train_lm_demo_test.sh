#!/usr/bin/env bash
# ufp4 - tests: examples/demo.sh puts all numbers into its tables and its page, with stand-ins for all it builds.
# SPDX-License-Identifier: Apache-2.0
#
# train_lm_demo_test.sh [FOLDER]: where the stand-ins are made and run; without it where mktemp makes folders
set -uo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(mktemp -d ${1:+-p "$1"}) || exit 1
trap 'rm -rf "$folder"' EXIT
failed=0

# program NAME: a script at that path, from stdin.
program() {
  mkdir -p "$(dirname "$1")"
  { echo '#!/usr/bin/env bash'; cat; } >"$1"
  chmod +x "$1"
}
# contains WHAT TEXT FILE
contains() {
  grep -qF -- "$2" "$3" && return
  echo "FAILED: $1: '$2' is not in:"
  cat "$3"
  failed=1
}

program "$folder/bin/cmake" <<<'echo "cmake version 3.31.0"'
# Where its stand-in cannot run, demo.sh would find the real one and build for minutes.
if ! "$folder/bin/cmake" >/dev/null 2>&1; then
  echo "FAILED: programs in $folder cannot be run: TMPDIR may be mounted so"
  exit 1
fi
program "$folder/bin/g++" <<<'cat >/dev/null'
program "$folder/bin/ninja" <<<'exit 0'
program "$folder/build/release/examples/ufp4" <<'STUB'
case "$1 $2" in
  'compare --html') printf '%s\n' "$PAGE" >"$3" ;;
  'compare --random') # compare --random NAME --format LIST --rule RULE --csv FILE --no-html
    [ "${SCATTERS:-}" = "$3" ] && { echo 'ufp4 compare: there are no numbers' >&2; exit 1; }
    after=20.75
    [ "$3" = outliers ] && after=28.004
    format=if4
    [ "$7" = four_over_six ] && format=$5 after=21.5
    { echo format,element,rht,sqnr_db; echo "$format,2 grids,0,20.5"; echo "$format,2 grids,16,$after"; } >"$9" ;;
esac
STUB
program "$folder/build/release/examples/train_lm" <<'STUB'
while [ $# -gt 0 ]; do
  case $1 in --recipe) recipe=$2 ;; --out) out=$2 ;; esac
  shift
done
[ "${FAILS:-}" = "$recipe" ] && { echo "train_lm: there is no text" >&2; exit 1; }
mkdir -p "$out"
loss=2.34567
[ "${DIVERGES:-}" = "$recipe" ] && loss=null
cat >"$out/result.json" <<JSON
{
  "config": {
    "steps": 7,
    "tokens": 99
  },
  "final_train_loss": $loss,
  "valid_loss": $loss,
  ${TOKENS:-\"tokens\": 1.536e+05,}
  "parameters": 139584,
  "seconds": 4.25,
  "eigen": "AVX, \"x\": 1"
}
JSON
[ $loss = null ] && exit 3
exit 0
STUB
# demo NAME=VALUE...: the output of the demo, in $folder/output.
demo() {
  env PATH="$folder/bin:$PATH" UFP4_BUILD_DIR="$folder/build" "$@" bash "$root/examples/demo.sh" >"$folder/output" 2>&1
}
page=$folder/build/compare.html

demo PAGE='<main><h1>Compared</h1></main></body>' || { echo "FAILED: exit status $?"; cat "$folder/output"; failed=1; }
contains 'the table' 'A transformer of 139584 parameters, trained on 1.536e+05 bytes' "$folder/output"
contains 'the table' 'ufp4                     2.3457            2.3457       4.2' "$folder/output"
contains 'the page' '<tr><td class="mono">e2m1-baseline</td><td>2.3457</td><td>2.3457</td><td>4.2</td></tr>' "$page"
contains 'the page' '</main></body>' "$page"
contains 'the table' 'if4          20.50  20.75   20.50  20.75   20.50  20.75   20.50  28.00' "$folder/output"
contains 'the table' 'nvfp4-4/6    20.50  21.50' "$folder/output"
contains 'the page' '<tr><td class="mono">if4</td><td>20.50 &rarr; 20.75</td>' "$page"
contains 'the page' '<td>20.50 &rarr; 28.00</td></tr>' "$page"
contains 'the table' 'An illustration, not evidence: one seed' "$folder/output"
contains 'the page' 'An illustration, not evidence: one seed' "$page"
if [ "$(grep -c '<h2>4-bit formats side by side</h2>' "$page")" != 1 ] ||
   [ "$(grep -c '<h2>Training in 4 bits</h2>' "$page")" != 1 ] || [ "$(tail -n 1 "$page")" != '</main></body>' ]; then
  echo 'FAILED: the sections do not stand once, before </main>'
  failed=1
fi

demo PAGE='<p>another page</p>' || { echo 'FAILED: a page without </main> ended the demo'; failed=1; }
contains 'a page without </main>' 'has no </main>, so it was left without this table' "$folder/output"
contains 'a page without </main>' '<p>another page</p>' "$page"

demo PAGE='</main>' DIVERGES=ufp4 || { echo 'FAILED: a run that diverged ended the demo'; failed=1; }
contains 'a run that diverged' '<td class="mono">ufp4</td><td>diverged</td>' "$page"

demo PAGE='</main>' FAILS=ufp4 && { echo 'FAILED: a run that failed did not end the demo'; failed=1; }
contains 'a run that failed' 'there is no text' "$folder/output"

demo PAGE='</main>' SCATTERS=t5 && { echo 'FAILED: a comparison that failed did not end the demo'; failed=1; }
contains 'a comparison that failed' 'there are no numbers' "$folder/output"

demo PAGE='</main>' TOKENS='"x": 0,' && { echo 'FAILED: a result without tokens did not end the demo'; failed=1; }
contains 'a result without tokens' 'result.json has no tokens' "$folder/output"
exit $failed
