# ufp4 - what one iteration of a loop executes: the longest path through it, instructions counted by the unit that executes them.
# SPDX-License-Identifier: Apache-2.0
#
# The longest path is an upper bound where a branch selects between alternatives at run time; `cold` excludes alternatives that the
# described case does not take. Predicated instructions take an issue slot either way and are counted.
import re
import sys
from collections import Counter

sys.setrecursionlimit(20000)  # longest() visits blocks depth first

# Cycles that a warp's instruction occupies its unit, for the scheduler's quarter of a multiprocessor. Source: CUDA C++ Programming
# Guide, "Throughput of Native Arithmetic Instructions" (results in a clock cycle and multiprocessor: 128 is one cycle, 64 two, 16 eight).
UNITS = {
    "80": {"alu": 2, "fma": 2, "imad": 2, "half": 1, "special": 8},
    "90a": {"alu": 2, "fma": 1, "imad": 2, "half": 1, "special": 8},
    "100a": {"alu": 2, "fma": 1, "imad": 2, "half": 1, "special": 8},
    "120a": {"alu": 2, "fma": 1, "imad": 2, "half": 1, "special": 8},
    "gfx942": {"vector": 4},  # a wave of 64 on 16 lanes; matrix instructions take as long to issue (CDNA 3 ISA)
    "gfx950": {"vector": 4},
}
_ALU = set("LOP3 LOP IADD3 IADD VIADD SHF SHL SHR PRMT ISETP FSETP SEL FSEL IMNMX VIMNMX FMNMX LEA MOV F2FP PLOP3 SGXT BMSK IABS FCHK "
           "HSETP2 HMNMX2 VOTE LEPC IDP I2FP VABSDIFF VHMNMX FSET".split())
_FMA = set("FFMA FMUL FADD FFMA2 FADD2 FMUL2".split())
_SPECIAL = set("MUFU F2I I2F F2F FRND POPC FLO BREV".split())
_HALF = set("HFMA2 HADD2 HMUL2".split())


def unit_of(instruction):
    op = instruction.opcode
    if op.startswith("v_"):
        return "vector"
    if op == "IMAD":
        return "imad"
    if op in _ALU:
        return "alu"
    if op in _FMA:
        return "fma"
    if op in _SPECIAL:
        return "special"
    return "half" if op in _HALF else None


def shared_bytes(instruction):
    """Bytes of shared memory that a warp's instruction reads or writes; a shuffle passes through the same unit."""
    op, text = instruction.opcode, instruction.text
    if op in ("LDS", "STS"):
        width = re.search(r"\.(128|64|U?16|[SU]?8)\b", text)
        return 32 * ({"128": 16, "64": 8, "16": 4, "U16": 4}.get(width[1], 4) if width else 4)
    if op in ("LDSM", "STSM"):
        return 128 * int(re.search(r"\.(\d)\b", text)[1] if re.search(r"M88\.(\d)\b", text) else 1)
    if ds := re.match(r"ds_(?:read|write|bpermute)(2?)_b(\d+)", op):
        return 64 * int(ds[2]) // 8 * (2 if ds[1] else 1)
    if op == "LDGSTS":
        return 512 if ".128" in text else 256 if ".64" in text else 128
    return 128 if op in ("SHFL", "MOVM") else 0


def matrix_work(instruction):
    """(kind, multiply-adds) of a warp's, or for wgmma of a warpgroup's, matrix instruction."""
    op, text = instruction.opcode, instruction.text
    if op in ("HGMMA", "IGMMA", "QGMMA"):
        m, n, k = (int(x) for x in re.search(r"(\d+)x(\d+)x(\d+)", text).groups())
        return {"HGMMA": "wgmma f16", "IGMMA": "wgmma s8", "QGMMA": "wgmma f8"}[op], m * n * k
    if mfma := re.match(r"v_mfma_f32_(\d+)x(\d+)x(\d+)_?(?:b?f16)", op):
        return "mfma f16", int(mfma[1]) * int(mfma[2]) * int(mfma[3])
    if scaled := re.match(r"v_mfma_(?:ld_)?scale_f32_(\d+)x(\d+)x(\d+)_f8f6f4", op):  # cbsz:4 blgp:4: both sides E2M1
        kind = "mfma f4" if "cbsz:4" in text and "blgp:4" in text else "mfma f8"
        return kind, int(scaled[1]) * int(scaled[2]) * int(scaled[3])
    if op in ("HMMA", "IMMA", "QMMA", "OMMA"):
        shape = re.search(r"\.(168)(\d+)", text)
        if not shape:
            return None
        kind = {"HMMA": "mma f16", "IMMA": "mma s8", "QMMA": "mma f8", "OMMA": "mma f4"}[op]
        return kind, 16 * 8 * int(shape[2])
    return None


class Path:
    """Weighted instructions. A weight below one: executed by a part of the warps, or by one of several iterations."""

    def __init__(self):
        self.items = []

    def add(self, instructions, weight=1.0):
        self.items += [(i, weight) for i in instructions]

    @property
    def issue(self):
        return sum(w for _, w in self.items)

    def unit_cycles(self, target):
        units = Counter()
        for i, w in self.items:
            if unit := unit_of(i):
                units[unit] += w * UNITS[target][unit]
        if target.startswith("gfx"):
            return units
        # IMAD shares the units of FFMA; from sm_90 on FFMA has twice as many.
        floats, products = units["fma"] + units["half"], units.pop("imad", 0)
        units["fma"] = floats + products if target == "80" else max(floats + products / 2, products)
        units.pop("half", None)
        return units

    @property
    def shared(self):
        return sum(w * shared_bytes(i) for i, w in self.items)

    def matrix(self):
        work = Counter()
        for i, w in self.items:
            if found := matrix_work(i):
                work[found[0]] += w * found[1]
        return work


def longest(kernel, loop=None, trips=(), cold=()):
    """The Path of one iteration of `loop`, or of the whole kernel. trips: (pattern, count) for inner loops that contain an instruction
    that matches; others run once."""
    inside = loop.blocks if loop else set(range(len(kernel.blocks)))
    header = loop.header if loop else 0
    children = loop.children if loop else [l for l in kernel.loops if l.parent is None]
    owner = {b: c for c in children for b in c.blocks}
    texts = lambda blocks: [i.text for b in blocks for i in kernel.blocks[b].instructions]
    is_cold = {b for b in inside if b not in owner and b != header
               and any(re.search(p, t) for p in cold for t in texts([b]))}

    def weight_of(child):
        for pattern, count in trips:
            if any(re.search(pattern, t) for t in texts(child.blocks)):
                return count
        return 1

    bodies = {}

    def body(child):
        if id(child) not in bodies:
            path = Path()
            for i, w in longest(kernel, child, trips, cold).items:
                path.items.append((i, w * weight_of(child)))
            bodies[id(child)] = path
        return bodies[id(child)]

    def step(node):
        """(instructions with weights, next nodes) of a block or of a whole inner loop, which its header stands for."""
        child = owner.get(node)
        blocks = child.blocks if child else {node}
        after = {owner[s].header if s in owner else s for b in blocks for s in kernel.blocks[b].successors
                 if s in inside and s not in blocks and s != header and s not in is_cold}
        return (body(child).items if child else [(i, 1.0) for i in kernel.blocks[node].instructions]), after

    ends = {b for b in inside if header in kernel.blocks[b].successors} if loop else None
    best, active = {}, set()

    def visit(node):
        """The largest (weight, node after) from node to an end; None where no end is reached."""
        if node in best or node in active:
            return best.get(node)
        active.add(node)
        items, after = step(node)
        child = owner.get(node)
        blocks = child.blocks if child else {node}
        at_end = (not loop and not after) or (loop and blocks & ends)
        options = [(0.0, None)] if at_end else []
        for s in after:
            if (found := visit(s)) is not None:
                options.append((found[0], s))
        active.discard(node)
        if not options:
            return None
        weight, following = max(options, key=lambda o: o[0])
        best[node] = (weight + sum(w for _, w in items), following)
        return best[node]

    path = Path()
    if visit(header) is None:
        return path
    node = header
    while node is not None:
        path.items += step(node)[0]
        node = best[node][1]
    return path


def find_loop(kernel, has):
    """The innermost loop that contains an instruction for every pattern."""
    for loop in kernel.loops:  # inner loops first
        texts = [i.text for i in kernel.text_of(loop)]
        if all(any(re.search(p, t) for t in texts) for p in has):
            return loop
    return None
