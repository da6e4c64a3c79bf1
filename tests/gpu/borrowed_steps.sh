# ufp4 - functions of borrowed.sh: what its two commands do on the GPU machine, step by step, each with its own limit.
# SPDX-License-Identifier: Apache-2.0
# Sourced by bash, and run in the folder of the programs.
# shellcheck shell=bash disable=SC2016,SC2154,SC2317

for folder in ${CUDA_HOME:-} /usr/local/cuda /opt/nvidia/nsight-compute/*; do
  [ ! -d "$folder" ] || PATH=$PATH:$folder:$folder/bin
done
PATH=$PATH:${ROCM_PATH:-/opt/rocm}/bin

# ---- Time ----

package_status=$place/package.status # of PyTorch's package, when it is built
# begin SECONDS: the time of this command, unless --seconds gave it. What `kept` says is left to later steps.
begin() {
  mkdir -p "$out"
  rm -f "$place"/*.log "$place"/*.jsonl "$package_status" "$verdicts" "$failures" "$out/b.log" "$out/ncu.txt"
  export deadline=$(($(date +%s) + ${seconds:-$1})) kept=0
  export UFP4_FUZZ_SECONDS=${UFP4_FUZZ_SECONDS:-12} # of four kinds
}
left() { echo $((deadline - kept - $(date +%s))); }

# ---- Steps: each adds its verdict to the command's table, and a failure adds the end of its log to another file, when it ends ----

log_of() { echo "$place/${1//[^A-Za-z0-9_]/_}.log"; }
# step NAME SECONDS COMMAND...
step() {
  local name=$1 began=$SECONDS time status word log
  log=$(log_of "$name")
  time=$(left)
  if [ "$time" -lt 1 ]; then
    printf '%s\tnot begun\t0 s\n' "$name" | tee -a "$verdicts"
    return
  fi
  timeout -k 5 $((time < $2 ? time : $2)) bash -c "${*:3}" >"$log" 2>&1
  status=$?
  case $status in
    0) word=passed ;;
    77) word=skipped ;;
    124 | 137) word='took too long' ;;
    *) word=FAILED ;;
  esac
  printf '%s\t%s\t%s s\n' "$name" "$word" $((SECONDS - began)) | tee -a "$verdicts"
  if [ $status -eq 0 ] || [ $status -eq 77 ]; then return; fi
  { echo "==== $name: $word ($status)"; tail -c 128K "$log"; } >"$log.end"
  cat "$log.end" >>"$failures" # at once, whatever ends at the same time
}
# examined COMMAND...: an experimental kernel whose first call is wrong runs again unchecked, so that the log shows how it is wrong.
examined() {
  "$@"
  local status=$?
  case $status in 0 | 77) ;; *) echo "==== without the check of the first call:" && UFP4_UNCHECKED=1 "$@" ;; esac
  return $status
}
export -f step left log_of examined
# steps NUMBER: lines "NAME<TAB>SECONDS<TAB>COMMAND" of stdin, so many at a time, each within what is left.
steps() {
  xargs -d '\n' -P "$1" -I{} bash -c 'IFS=$(printf "\t") read -r name seconds command <<<"$1"; step "$name" "$seconds" "$command"' _ {}
}
# skip_step NAME WHY...: a step that cannot be.
skip_step() { printf '%s\tskipped\t%s\n' "$1" "${*:2}" | tee -a "$verdicts"; }
# The status is 1 if a step failed or did not begin.
finish() {
  local bad
  bad=$(grep -cv "$(printf '\t')\(passed\|skipped\)$(printf '\t')" "$verdicts")
  printf '%s: %s steps, %s not passed, %s s\n' "$command" "$(wc -l <"$verdicts")" "$bad" $SECONDS
  [ ! -e "$failures" ] || tail -n 60 "$failures"
  [ "$bad" -eq 0 ]
}

# ---- The programs and the device ----

probe() { echo "./gpu_$([ -x gpu_limits ] && echo limits || echo bench)"; } # without a library of its own where there is one

# Unpacks the programs, unless those of this archive are there, and ends where they do not run.
make_ready() {
  local status
  if [ -e "$archive" ] && [ "$(cat unpacked 2>/dev/null)" != "$(cksum "$archive")" ]; then
    unpack_programs "$archive" && cksum "$archive" >unpacked
  fi
  [ -x gpu_bench ] || { echo "no programs: $archive is missing or could not be unpacked; prepare makes it, and git ignores it"; exit 1; }
  for program in ./gpu_bench ./cublas_test; do
    [ ! -x $program ] || find_libraries $program
    ldd $program 2>/dev/null | sed -n "s|^\s*\(.*\) => not found|$program will not start: there is no \1 here|p"
  done
  timeout 60 "$(probe)" --facts >facts.json 2>facts.log
  status=$?
  case $status in
    0) return ;;
    77) echo "SKIPPED: there is no GPU here: $(cat facts.log)"; exit 77 ;;
    78) echo "the programs have code for $(cat targets): $(cat facts.log). Prepare with --targets $(this_device)" ;;
    *) echo "the prepared programs do not run here (exit status $status): $(cat facts.log); \"borrowed.sh build\" builds them here" ;;
  esac
  exit 1
}
# fact NAME: of facts.json.
fact() { sed -n "s/.*\"$1\": \([^,}]*\).*/\1/p" facts.json; }
# Were the programs compiled for this family alone? If not, kernels of that family are not chosen, and nothing that follows means much.
require_specific() {
  local facts
  facts="specific: $(fact specific), architecture $(fact architecture), compiled for $(cat targets)"
  if [ "$vendor" = amd ] || [ "$(fact architecture)" -lt 90 ] || [ "$(fact specific)" = true ]; then
    printf 'device\tpassed\t%s\n' "$facts" | tee -a "$verdicts"
    return
  fi
  printf 'device\tFAILED\t%s\n' "$facts" | tee -a "$verdicts"
  echo "no kernel of this family would be chosen: prepare with --targets $(this_device)"
  exit 1
}
# The target of the device that is here, with the features that only its family has.
this_device() {
  if [ "$vendor" = amd ]; then rocm_agent_enumerator | grep -v gfx000 | head -n 1; return; fi
  local capability
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1)
  capability=${capability/./}
  echo "$capability$([ "$capability" -lt 90 ] || echo a)"
}
# A library that a program needs and the loader does not find, where another package brings it.
find_libraries() { # PROGRAM
  local name found known
  for name in $(ldd "$1" | sed -n 's/^\s*\(.*\) => not found/\1/p'); do
    found=$(timeout 20 find /usr /opt "${HOME:-/root}" -name "$name" -print -quit 2>/dev/null)
    known=${LD_LIBRARY_PATH:-}
    [ -z "$found" ] || export LD_LIBRARY_PATH=$known:${found%/*}
  done
}
describe_device() {
  cat facts.json
  for tool in "nvidia-smi" "nvidia-smi -q -d CLOCK,POWER,ECC" "nvcc --version" "rocminfo" "ncu --version" "uname -a" nproc; do
    # shellcheck disable=SC2086 # several words
    command -v ${tool%% *} >/dev/null && echo "== $tool" && timeout 20 $tool
  done
}

# ---- PyTorch: the package as a user builds it, in the background while tests run ----

# Its status is that of a step.
build_package() {
  python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' || { echo "python3 has no PyTorch with CUDA"; return 77; }
  python3 -m pip list 2>/dev/null | grep -i '^\(torch\|nanobind\|scikit.build.core\|cmake\|ninja\) '
  rm -rf "$package"
  if [ -d python_tools ]; then
    export PYTHONPATH=$PWD/python_tools
    nanobind=$(python3 -m nanobind --cmake_dir) && set -- -C "cmake.define.nanobind_DIR=$nanobind"
  fi
  nice -n 10 timeout "$(left)" python3 -m pip install --quiet --no-index --no-deps --no-build-isolation --target "$package" \
    "$source_dir/examples/python" -C cmake.define.UFP4_CUDA=ON -C cmake.define.UFP4_STUBS=OFF \
    -C "cmake.define.CMAKE_CUDA_ARCHITECTURES=$(this_device)-real" "$@"
}
begin_package() {
  export package=$place/python
  { build_package; echo $? >"$package_status"; } >"$place/package.log" 2>&1 &
}
await_package() { # SECONDS
  step torch.package "$1" "trap 'cat package.log' EXIT; cd '$place'; until [ -e package.status ]; do sleep 1; done; exit \$(cat package.status)"
}
torch_step() { # NAME SECONDS COMMAND
  [ "$(cat "$package_status" 2>/dev/null)" = 0 ] || { skip_step "$1" "no package"; return; }
  PYTHONPATH=$package PYTHONDONTWRITEBYTECODE=1 step "$@"
}

# ---- The bench ----

# The lines of the benches as one array.
write_bench_json() {
  {
    echo '['
    printf '{"kind": "run", "date": "%s", "commit": "%s"}\n' "$(date -u +%F)" "$(cat commit)"
    cat "$place"/*.jsonl 2>/dev/null | grep '^{.*}$' | sed 's/^/,/'
    echo ']'
  } >"$out/bench.json"
}

# Experimental kernels of which a first call failed, or that --leave-out names, with | between them: one that hangs, or ends the context,
# would end the bench.
wrong_kernels() {
  {
    echo "$leave_out" | tr '|' '\n'
    first_calls_failed
  } | grep . | sort -u | paste -sd'|'
}
first_calls_failed() {
  grep -v "$(printf '\t')\(passed\|skipped\)" "$verdicts" 2>/dev/null |
    sed -n 's/^first_call:\(gem[mv][a-z0-9_]*\)_\(keeps\|gives\|computes\)_.*/\1/p'
}
# bench_step NAME SECONDS WORDS: rows of the bench in a process of their own. If it does not reach its end, again without the kernels
# that have not run before.
bench_step() {
  local wrong rows=$place/2$1
  wrong=$(wrong_kernels)
  step "bench.$1" "$2" "./gpu_bench $small --leave-out '$wrong' --only '$3' >'$rows.jsonl'"
  if [ -e "$rows.jsonl" ] && ! grep -q '"kind": "end"' "$rows.jsonl"; then
    wrong+='|gemm_wgmma_sm90|gemm_wgmma_rounded_sm90|gemm_blocks_sm90'
    step "bench.$1.again" "$2" "./gpu_bench $small --leave-out '$wrong' --only '$3' >'$rows.again.jsonl'"
  fi
  write_bench_json
}

# ncu of two launches of each row.
profiled='quantize_both/nvfp4/bf16 + RHT-16 + SR;gemm/nvfp4/fast/8192x8192x8192;gemm/nvfp4/fast/8x8192x8192'
profile_steps() {
  local row rows sections='--metrics dram__bytes_read.sum,dram__bytes_write.sum --set basic --section WarpStateStats --section MemoryWorkloadAnalysis --section ComputeWorkloadAnalysis'
  if [ "$vendor" = amd ]; then return; fi
  if ! command -v ncu >/dev/null; then skip_step ncu "not here"; return; fi
  IFS=';' read -ra rows <<<"${profile:-$profiled}"
  for row in "${rows[@]}"; do
    step "ncu $row" 30 "ncu --clock-control none --profile-from-start off --launch-count 2 $sections \
./gpu_bench --once $small --leave-out '$(wrong_kernels)' --only '$row' >>'$out/ncu.txt' 2>&1"
  done
}

# ---- The two commands ----

command_a() {
  begin 390
  small=${UFP4_BORROWED_SMALL:-}
  make_ready
  describe_device >"$out/device.txt" 2>&1
  require_specific
  [ "$vendor" = amd ] || begin_package # its operations are NVIDIA's
  kept=180 # for what follows the tests
  grep '^first_call' tests.tsv | steps 4
  grep -v '^first_call' tests.tsv | steps 10
  kept=0
  bench_step memory 40 'copy|quantize|hadamard'
  bench_step layers 30 layer/
  bench_step products 90 'gemm/|cublasLt/'
  [ ! -x gpu_limits ] || step limits 40 "./gpu_limits $small >'$place/1limits.jsonl'"
  write_bench_json
  profile_steps
  [ "$vendor" = amd ] || await_package "$(left)"
  torch_step torch.step 30 "python3 '$source_dir/bench/gpu/torch_step.py' $small >'$place/3torch.jsonl'"
  write_bench_json
  torch_step torch.tests 90 "cd '$source_dir/tests/python' && python3 -m pytest -q -p no:cacheprovider cuda_test.py"
  finish
}

# measure_variant NAME ROWS OPTIONS...: the rows with the library's choice, with the other, and again with the library's.
measure_variant() {
  local turn
  for turn in own "$1" again; do
    step "$1: $turn" 25 "./gpu_bench $small --leave-out '$(wrong_kernels)' --only '$2' --label '$1: $turn' \
$([ "$turn" != "$1" ] || echo "${*:3}") >'$place/2$1.$turn.jsonl'"
  done
  write_bench_json
}
variant() {
  case $1 in
    three_blocks) measure_variant "$1" 'quantize/nvfp4/bf16|quantize_both/nvfp4/bf16' --tile-blocks 3 ;;
    library_first) measure_variant "$1" 'gemm/nvfp4/fast/8192x|gemm/nvfp4/fast/1024x|layer/ufp4<nv_e1m2>' --leave-out "'gemm_wgmma_sm90|$(wrong_kernels)'" ;;
    clusters_of_4) measure_variant "$1" 'gemm/nvfp4/fast/64x|gemm/nvfp4/fast/32x|gemm/nvfp4/fast/256x|gemm/mxfp4/fast/64x' --cluster 4 ;;
    *) skip_step "$1" "there is no such variant" ;;
  esac
}
# logged_step NAME SECONDS COMMAND...: a step whose whole log comes back.
logged_step() {
  step "$@"
  { echo "==== $1"; tail -c 1M "$(log_of "$1")"; } >>"$out/b.log"
}
# again NAME: a test of the table, and under memcheck.
again() {
  local line seconds command
  line=$(awk -F'\t' -v name="$1" '$1 == name' tests.tsv)
  [ -n "$line" ] || { skip_step "$1" "there is no such test"; return; }
  IFS=$(printf '\t') read -r _ seconds command <<<"$line"
  logged_step "$1" "$seconds" "$command"
  if ! command -v compute-sanitizer >/dev/null; then skip_step "memcheck of $1" "no compute-sanitizer here"; return; fi
  logged_step "memcheck of $1" 60 "UFP4_FUZZ_SECONDS=${UFP4_BORROWED_FUZZ:-3} compute-sanitizer --tool memcheck --error-exitcode 99 \
${command#examined }"
}

command_b() {
  local name
  begin 220
  small=${UFP4_BORROWED_SMALL:-}
  make_ready
  require_specific
  for name in $tests; do again "$name"; done
  for name in ${variants:-three_blocks library_first clusters_of_4}; do [ "$name" = - ] || variant "$name"; done
  profile_steps
  finish
}
