#!/usr/bin/env bash
# ufp4 - tests: train_lm under mpirun trains the same bits on 1, 2 and 4 ranks; wrong numbers of ranks are rejected.
# SPDX-License-Identifier: Apache-2.0
#
# train_lm_mpi_test.sh TRAIN_LM
set -uo pipefail
unset CDPATH # with CDPATH set, cd may enter another folder and print its path
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
train_lm=${1:?the program to test}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
fail() {
  echo "FAILED: $*"
  failed=1
}

# A shape with ragged parts: 2 sequences of 32 bytes per microbatch; some of the 4 experts have microbatches without tokens.
tiny=(--layers 1 --width 32 --heads 2 --ffn 48 --sequence 32 --batch 8 --microbatches 4 --eval-windows 4 --threads 1
  --text "$root/include/ufp4/recipe")

# hash_of ARGUMENT...: the hash of the final checkpoint, or the first lines of the output
hash_of() {
  local output
  output=$(timeout 120 "$train_lm" "${tiny[@]}" "$@" --json 2>&1 </dev/null | tr -d '\0')
  sed -n 's/.*"checkpoint_hash": "\([0-9a-f]*\)".*/\1/p' <<<"$output" | grep . || head -n 6 <<<"$output"
}

if ! mpirun --version >/dev/null 2>&1; then
  echo "SKIPPED: there is no working mpirun here (Debian: apt-get install openmpi-bin), so ranks were not tested"
  exit 77
fi
if "$train_lm" --ranks 2 "${tiny[@]}" --steps 1 2>&1 </dev/null | grep -q 'built without'; then
  echo "SKIPPED: train_lm was built without MPI (Debian: apt-get install libopenmpi-dev), so ranks were not tested"
  exit 77
fi

for model in '' '--experts 4 --top-k 2' '--out-control 0.2 --out-window 4'; do
  for recipe in ufp4 nvfp4; do
    # shellcheck disable=SC2086 # words
    one=$(hash_of --steps 20 --recipe $recipe $model)
    [[ $one =~ ^[0-9a-f]{16}$ ]] || fail "$recipe $model on 1 rank: $one"
    for ranks in 2 4; do
      # shellcheck disable=SC2086
      many=$(hash_of --steps 20 --recipe $recipe $model --ranks $ranks)
      [ "$many" = "$one" ] || fail "$recipe $model: checkpoint $many on $ranks ranks, $one on 1"
    done
    [ "$recipe$model" = ufp4 ] && dense=$one
  done
done

# The plain sum of two ranks is (g0 + g1) + (g2 + g3). If it had the bits of ((g0 + g1) + g2) + g3, the checks above would
# not detect a wrong order.
plain=$(hash_of --steps 20 --recipe ufp4 --ranks 2 --all-reduce plain)
[[ $plain =~ ^[0-9a-f]{16}$ && $plain != "$dense" ]] ||
  fail "--all-reduce plain on 2 ranks: $plain, on 1 rank in order: $dense"

# Killed on 2 ranks, resumed on 4.
long=(--steps 120 --recipe nvfp4)
whole=$(hash_of "${long[@]}")
"$train_lm" "${tiny[@]}" "${long[@]}" --ranks 2 --checkpoint-every 5 --out "$folder/run" --quiet \
  </dev/null >/dev/null 2>&1 &
launched=$! # the process is now mpirun; its ranks end when it ends
for _ in {1..1500}; do
  [ -e "$folder/run/checkpoint.safetensors" ] && break
  sleep 0.02
done
kill -KILL $launched
wait $launched 2>/dev/null
sleep 1
[ -e "$folder/run/result.json" ] && echo 'NOTE: this machine is so slow that the run was over before it was killed'
resumed=$(hash_of "${long[@]}" --ranks 4 --checkpoint-every 5 --out "$folder/run" --resume)
[ "$resumed" = "$whole" ] || fail "killed on 2 ranks and resumed on 4: $resumed, uninterrupted on 1: $whole"

# Wrong arguments give one line, before mpirun is started.
rejects() {
  local message=$1 output status
  shift
  output=$(PATH=${path:-$PATH} "$train_lm" "${tiny[@]}" "$@" 2>&1 </dev/null)
  status=$?
  if [ $status != 2 ] || [[ $output != *"$message"* ]] || [[ $output == *$'\n'* ]]; then
    fail "$* ended with status $status and printed: $output"
  fi
}
rejects '--ranks must divide --microbatches, 4, got 3' --ranks 3
rejects '--ranks takes a whole number from 1 to 4096, not 0' --ranks 0
rejects '--all-reduce must be microbatch or plain, got fast' --all-reduce fast
path=/nonexistent rejects '--ranks 2: needs mpirun, which is not on the PATH' --ranks 2

[ $failed = 0 ] && echo "1, 2 and 4 ranks train the same bits"
exit $failed
