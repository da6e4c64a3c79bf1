#!/usr/bin/env bash
# ufp4 - from a bare Debian or Ubuntu to 4-bit formats compared on real data: installs what is missing, builds, runs.
# SPDX-License-Identifier: Apache-2.0
#
# usage: examples/demo.sh [ARGUMENTS OF ufp4 compare]      (examples/demo.sh --help lists them)
# Without arguments it also compares the formats on random numbers, and trains a small transformer under three recipes
# (examples/train_lm).
# Installs (apt): g++ cmake ninja-build, and without arguments libeigen3-dev. Builds into build/, or UFP4_BUILD_DIR.
set -euo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$source_dir/cmake/bare_machine.sh"
choose_build_folder "$source_dir"
build=$ufp4_build/release

targets=(ufp4_tool)

install() {
  install_build_tools || return
  # shellcheck disable=SC2046 # several words
  if [ "$1" -eq 0 ] && install_packages $(packages_of demo); then targets+=(train_lm); fi
}
build() {
  local log=$ufp4_build/demo.log
  cmake --preset release -S "$source_dir" -B "$build" -D UFP4_BUILD_BENCH=OFF >"$log" 2>&1 || { tail -n 40 "$log"; return 1; }
  if [ ${#targets[@]} -gt 1 ] && left_out examples/train_lm "$log"; then targets=(ufp4_tool); fi
  cmake --build "$build" --target "${targets[@]}"
}
# What the steps print goes to stderr: stdout is the report's (--json, --csv).
step installation install $# >&2
step build build >&2

tool=$build/examples/ufp4
[ $# -gt 0 ] && exec "$tool" compare "$@"
step comparison "$tool" compare --html "$ufp4_build/compare.html"

# add_section HTML: puts a section at the end of compare.html.
add_section() {
  if SECTION=$1 awk '
      !told && match($0, /<\/main>/) {
        $0 = substr($0, 1, RSTART - 1) ENVIRON["SECTION"] "\n" substr($0, RSTART)
        told = 1
      }
      { print }
      END { exit !told }' "$ufp4_build/compare.html" >"$ufp4_build/compare.html.new"; then
    mv "$ufp4_build/compare.html.new" "$ufp4_build/compare.html"
  else
    rm -f "$ufp4_build/compare.html.new"
    echo "ufp4: $ufp4_build/compare.html has no </main>, so it was left without this table" >&2
  fi
}

# measure_random FILE: "data format rht sqnr_db" of the formats of 4 bits on random numbers, and of nvfp4 under Four Over Six.
random_data='gauss laplace t5 outliers'
measure_random() {
  local data rule formats
  : >"$1"
  for data in $random_data; do
    for rule in default four_over_six; do
      formats=nvfp4
      [ $rule != default ] || formats=nvfp4,nv_e1m2,mxfp4,mx_e1m2,e2m1_f32,e1m2_f32,extended
      "$tool" compare --random "$data" --format "$formats" --rule $rule --csv "$1.csv" --no-html >/dev/null || return
      awk -F, -v data="$data" -v suffix="$([ $rule = default ] || echo -4/6)" '
        NR == 1 { for (i = 1; i <= NF; ++i) at[$i] = i; next }
        { print data, $at["format"] suffix, $at["rht"], $at["sqnr_db"] }' "$1.csv" >>"$1" || return
    done
  done
}

# random_rows text|html FILE: a line for each format, with the SQNR without and with the transform for each kind of data.
random_rows() {
  LC_ALL=C awk -v columns="$random_data" -v html="$([ "$1" = html ] && echo 1)" '
    !($2 in seen) { seen[$2] = 1; order[++count] = $2 }
    { sqnr[$2, $1, $3 != 0] = sprintf("%.2f", $4) }
    END {
      n = split(columns, data, " ")
      for (i = 1; i <= count; ++i) {
        line = html ? "<tr><td class=\"mono\">" order[i] "</td>" : sprintf("%-10s", order[i])
        for (k = 1; k <= n; ++k) {
          before = sqnr[order[i], data[k], 0]
          after = sqnr[order[i], data[k], 1]
          line = line (html ? "<td>" before " &rarr; " after "</td>" : sprintf("  %6s %6s", before, after))
        }
        print line (html ? "</tr>" : "")
      }
    }' "$2"
}

# side_by_side: a table here, and a section of compare.html.
side_by_side() {
  local numbers=$ufp4_build/side_by_side.txt
  step side-by-side measure_random "$numbers"
  echo
  echo 'SQNR in dB on random numbers: without a transform, and after a Hadamard transform of each block'
  printf '%-10s  %13s  %13s  %13s  %13s\n' format Gauss Laplace 't(5)' outliers
  random_rows text "$numbers"
  echo 'On trained weights, and with searches of scales: docs/side_by_side.md.'
  add_section "<section>
<h2>4-bit formats side by side</h2>
<p class=\"note\">SQNR in dB on 256 x 1024 random numbers, with default scales: without a transform, and after a random \
Hadamard transform of each block. Outliers: Gaussian numbers, one of each 16 columns multiplied by 20. nvfp4-4/6: nvfp4 \
under the rule four_over_six. Trained weights and searches of scales are in docs/side_by_side.md.</p>
<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">format</th><th scope=\"col\">Gauss</th>\
<th scope=\"col\">Laplace</th><th scope=\"col\">t(5)</th><th scope=\"col\">outliers</th></tr></thead>
<tbody>$(random_rows html "$numbers")</tbody></table></div>
</section>"
}
side_by_side

# member NAME FILE: a number of the outermost object of train_lm's result.json, which has a line for each.
member() {
  awk -v name="\"$1\":" '
    $1 == name && /^  "/ { sub(/,$/, "", $2); print $2; found = 1; exit }
    END { if (!found) exit 1 }' "$2" || { echo "ufp4: $2 has no $1" >&2; return 1; }
}

# rounded DIGITS NUMBER: a run whose loss was no longer a number has null.
rounded() { if [ "$2" = null ]; then echo diverged; else printf '%.*f' "$1" "$2"; fi; }

# train_and_tell: three runs that differ in the recipe alone; a table here, and a section of compare.html.
train_and_tell() {
  local recipe runs=$ufp4_build/demo_runs rows='' result section parameters tokens train valid seconds status
  local -x LC_ALL=C # numbers have points
  local caveat='An illustration, not evidence: one seed, one small model, and seeds differ by as much as recipes do.'
  rm -rf "$runs"
  for recipe in bf16 e2m1-baseline ufp4; do
    status=0
    step "train-$recipe" "$build/examples/train_lm" --size nano --recipe "$recipe" --out "$runs/$recipe" \
      >"$ufp4_build/demo_train.log" || status=$?
    if [ $status -ne 0 ] && [ $status -ne 3 ]; then return $status; fi # 3: the loss is no longer a number
  done
  parameters=$(member parameters "$runs/bf16/result.json")
  tokens=$(member tokens "$runs/bf16/result.json")
  echo
  printf 'A transformer of %s parameters, trained on %s bytes of text under three recipes\n' \
    "$parameters" "$tokens"
  printf '%-15s %15s %17s %9s\n' recipe 'training loss' 'validation loss' seconds
  for recipe in bf16 e2m1-baseline ufp4; do
    result=$runs/$recipe/result.json
    train=$(member final_train_loss "$result")
    valid=$(member valid_loss "$result")
    seconds=$(member seconds "$result")
    train=$(rounded 4 "$train") valid=$(rounded 4 "$valid") seconds=$(rounded 1 "$seconds")
    printf '%-15s %15s %17s %9s\n' "$recipe" "$train" "$valid" "$seconds"
    rows+="<tr><td class=\"mono\">$recipe</td><td>$train</td><td>$valid</td><td>$seconds</td></tr>"
  done
  echo "$caveat"
  echo "With error bars: docs/study.md."
  section="<section>
<h2>Training in 4 bits</h2>
<p class=\"note\"><strong>$caveat</strong> A transformer of $parameters parameters, trained on $tokens \
bytes of text; every linear layer's three GEMMs run under the recipe. Cross entropy in nats a \
byte. What follows from many seeds is in docs/study.md.</p>
<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">recipe</th><th scope=\"col\">training loss</th>\
<th scope=\"col\">validation loss</th><th scope=\"col\">seconds</th></tr></thead>
<tbody>$rows</tbody></table></div>
</section>"
  add_section "$section"
}
if [ ${#targets[@]} -gt 1 ]; then train_and_tell; fi

summarize_steps
echo
echo "Open in a browser: file://$ufp4_build/compare.html"
echo "With your data:    examples/demo.sh --npy FILE    (examples/demo.sh --help)"
