# ufp4 - checks the machine code of every kernel: where values are, which instructions the loops have, and how much a loop has grown.
# SPDX-License-Identifier: Apache-2.0
#
#   sass_check.py check|write-budgets NVDISASM RELEASE TARGET=CUBIN[,LOG]...
#
# | rule       | fails where                                                                                                 |
# |------------|-------------------------------------------------------------------------------------------------------------|
# | local      | a kernel, or a function that it calls, reads or writes local memory (LDL, STL)                                |
# | generic    | a kernel's own code loads or stores through a generic address (LD, ST without a space): nvcc has lost that it |
# |            | is shared or device memory. Called functions are slow paths with pointers for arguments, and are not checked  |
# | reciprocal | an inner loop, or the loop that kernels.py describes, has MUFU.RCP or I2F: a division that was not hoisted    |
# | registers  | a thread has more registers than the occupancy in expectations.py allows                                      |
# | serialized | ptxas reports that it serializes wgmma instructions, or that it waits for them where the source does not      |
# | budget     | registers, or instructions of a loop or a kernel, exceed budgets.txt, if it is of this release of nvcc          |
#
# RELEASE is the release of nvcc, as its --version prints it. write-budgets writes budgets.txt; a reader of the change judges it.
import re
import sys
from pathlib import Path

import kernels as described
import paths
import sass
from expectations import EXCEPTIONS, OCCUPANCY
from machines import MACHINES

BUDGETS = Path(__file__).with_name("budgets.txt")
GROWTH = 1.02


def described_loops(kernel, target):
    """(Path, the instructions of the loop) of every loop of the kernel that kernels.py describes."""
    for row in described.ROWS:
        if re.search(row.kernel, kernel.name) and target in {MACHINES[m].target for m in row.machines}:
            for part in row.parts:
                loop = paths.find_loop(kernel, part.has) if part.has else None
                if part.has and loop is None:
                    raise SystemExit(f"kernels.py: {row.kernel} on sm_{target}: no loop of {kernel.name} has {part.has}")
                yield paths.longest(kernel, loop, part.trips, part.cold), kernel.text_of(loop) if loop else []


def findings_of(kernel, target):
    """(rule, detail) of everything that a rule forbids."""
    own = [i for b in kernel.blocks for i in b.instructions]
    local = [i for i in kernel.all if i.opcode in ("LDL", "STL")]
    if local:
        yield "local", f"{len(local)} instructions on local memory, the first: {local[0].text}"
    generic = [i for i in own if re.match(r"(LD|ST)[. ]", i.text)]
    if generic:
        yield "generic", f"{len(generic)} loads and stores through generic addresses, the first: {generic[0].text}"
    loops = [kernel.text_of(loop) for loop in kernel.inner_loops()] + [text for _, text in described_loops(kernel, target)]
    slow = {i.address: i for text in loops for i in text if i.text.startswith("MUFU.RCP") or i.opcode == "I2F"}
    if slow:
        yield "reciprocal", f"{len(slow)} in inner loops, the first: {next(iter(slow.values())).text}"
    for pattern, threads, blocks in OCCUPANCY:
        # A warp gets registers in units of 256.
        most = 65536 // (threads * blocks) // 8 * 8
        if re.search(pattern, kernel.name) and kernel.registers > most:
            yield "registers", f"{kernel.registers} registers a thread; {blocks} blocks of {threads} threads allow {most}"


def loop_size(kernel, target):
    """Instructions of one iteration: of the described loops, else of the largest inner loop, else of the kernel."""
    known = {}
    for path, text in described_loops(kernel, target):  # rows may share a loop
        at = text[0].address if text else None
        known[at] = max(path.issue, known.get(at, 0))
    if known:
        return round(sum(known.values()))
    inner = [len(kernel.text_of(loop)) for loop in kernel.inner_loops()]
    return max(inner) if inner else sum(len(b.instructions) for b in kernel.blocks)


def excused(rule, name, target):
    return next((e for e in EXCEPTIONS if e[0] == rule and re.search(e[1], name) and target in e[2].split()), None)


def sizes_of(by_target):
    """(target, name) -> (registers, instructions of the loop, instructions of the kernel)."""
    sizes = {}
    for target, found in by_target.items():
        for k in found:
            if len(k.all) <= 16:  # a kernel that this target does not have: it traps
                continue
            size = k.registers, loop_size(k, target), len(k.all)
            sizes[target, k.name] = tuple(map(max, zip(size, sizes.get((target, k.name), size))))
    return sizes


def write_budgets(release, by_target):
    lines = ["# ufp4 - registers, instructions of the loop and of each whole kernel, written by: tests/gpu/sass_check.sh --write-budgets",
             "# SPDX-License-Identifier: Apache-2.0", f"# nvcc {release}", "# target | kernel | registers | of the loop | of the kernel"]
    sizes = sizes_of(by_target)
    for target, name in sorted(sizes, key=lambda key: (list(by_target).index(key[0]), key[1])):
        lines.append(" | ".join((target, name, *map(str, sizes[target, name]))))
    BUDGETS.write_text("\n".join(lines) + "\n")
    print(f"{BUDGETS}: {len(sizes)} kernels")


def check_budgets(release, by_target):
    """Lines of failures."""
    text = BUDGETS.read_text().splitlines()
    written_for = next(line[7:] for line in text if line.startswith("# nvcc "))
    if written_for != release:
        print(f"SKIPPED: budgets.txt was written for nvcc {written_for}, and this is {release}: nothing is compared with it")
        return []
    budgets = {}
    for line in text:
        if not line.startswith("#"):
            target, name, *size = (w.strip() for w in line.split(" | "))
            budgets[target, name] = tuple(map(int, size))
    failures, sizes = [], sizes_of(by_target)
    for key, size in sizes.items():
        if key not in budgets:
            failures.append(f"sm_{key[0]} {key[1]}: not in budgets.txt (tests/gpu/sass_check.sh --write-budgets)")
        elif size[0] > budgets[key][0] + 8 or any(n > GROWTH * most + 2 for n, most in zip(size[1:], budgets[key][1:])):
            failures.append("sm_{} {}: {} registers, {} instructions in the loop, {} in all; budget: {}, {}, {}".format(
                *key, *size, *budgets[key]))
    for key in budgets:
        if key[0] in by_target and key not in sizes:
            failures.append(f"sm_{key[0]} {key[1]}: in budgets.txt, but not compiled (tests/gpu/sass_check.sh --write-budgets)")
    return failures


def main(command, nvdisasm, release, *inputs):
    by_target, failures, used = {}, [], set()
    for item in inputs:
        target, files = item.split("=", 1)
        cubin, *log = files.split(",")
        by_target[target] = sass.read(cubin, nvdisasm)
        for path in log:
            lines = [l for l in Path(path).read_text().splitlines() if re.search(r"wgmma.*serializ|warpgroup.wait is injected", l)]
            failures += [f"sm_{target} serialized: {l.strip()}" for l in lines]
    if command == "write-budgets":
        return write_budgets(release, by_target)
    for target, found in by_target.items():
        for k in found:
            for rule, detail in findings_of(k, target):
                exception = excused(rule, k.name, target)
                if exception:
                    used.add((exception, target))
                else:
                    failures.append(f"sm_{target} {k.name}: {rule}: {detail}")
    for e in EXCEPTIONS:
        for target in e[2].split():
            if target in by_target and (e, target) not in used:
                failures.append(f"expectations.py: sm_{target}: the exception of {e[1]} from the rule {e[0]} excuses nothing: remove it")
    failures += check_budgets(release, by_target)
    for f in failures:
        print("FAILED  ", f)
    for target, found in by_target.items():
        print(f"sm_{target}: {len(found)} kernels, {len([1 for e, t in used if t == target])} exceptions")
    return 1 if failures else 0


if __name__ == "__main__":
    if len(sys.argv) < 5 or sys.argv[1] not in ("check", "write-budgets"):
        sys.exit("usage: sass_check.py check|write-budgets NVDISASM RELEASE TARGET=CUBIN[,LOG]...")
    sys.exit(main(*sys.argv[1:]))
