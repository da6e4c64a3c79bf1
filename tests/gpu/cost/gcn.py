# ufp4 - reads the assembly that clang writes for AMD GPUs into the structures of sass.py.
# SPDX-License-Identifier: Apache-2.0
import re

import sass

_LABEL = re.compile(r"^(\.LBB\d+_\d+):")
_CODE = re.compile(r"^\t([a-z][a-z0-9_]+)(\s.*)?$")
_TARGET = re.compile(r"(\.LBB\d+_\d+)")
_ENDS = {"s_endpgm", "s_branch", "s_setpc_b64"}


def read(path):
    """The kernels of an assembly file; registers are those of vectors, with the accumulation registers."""
    kernels, items = [], []
    for line in open(path):
        if re.match(r"^_Z\w+:", line):
            items = []
        elif label := _LABEL.match(line):
            items.append(label[1])
        elif code := _CODE.match(line.split(";")[0].rstrip()):
            text = (code[1] + (code[2] or "")).strip()
            target = _TARGET.search(text) if code[1].startswith(("s_branch", "s_cbranch")) else None
            items.append(sass.Instruction(len(items), text, code[1], code[1].startswith("s_cbranch"), target and target[1]))
        elif kernel := re.match(r"^\s+\.amdhsa_kernel (\w+)", line):
            blocks = sass.graph(items, lambda i: i.opcode in _ENDS or i.guarded, lambda i: i.guarded)
            everything = [i for i in items if not isinstance(i, str)]
            kernels.append(sass.Kernel(kernel[1], "", 0, blocks, everything, sass.loops_of(blocks)))
        elif size := re.match(r"^\s+\.amdhsa_next_free_vgpr (\d+)", line):
            kernels[-1].registers = int(size[1])
    sass.name_all(kernels)
    return kernels
