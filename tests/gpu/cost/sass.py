# ufp4 - reads a cubin: each kernel's registers, its instructions as nvdisasm prints them, and its loops.
# SPDX-License-Identifier: Apache-2.0
#
# A loop is a natural loop of the control flow graph: a header that dominates the branch back to it, and what reaches that branch. Code
# that the compiler has moved behind the function's end belongs to the loop that it returns to; the bodies of called functions (slow
# paths of divisions) do not.
import re
import struct
import subprocess
from dataclasses import dataclass, field

_LABEL = re.compile(r"^(\.L_\w+):")
_CODE = re.compile(r"^\s+/\*([0-9a-f]+)\*/\s+(.*?)\s*;")
_GUARD = re.compile(r"^(@!?U?P[0-9T]+)\s+")
_TARGET = re.compile(r"`\((\.L_\w+)\)")
_ENDS = {"EXIT", "RET", "BRA", "BRX", "JMP", "JMX", "KILL", "BPT"}


@dataclass
class Instruction:
    address: int
    text: str
    opcode: str  # without its modifiers
    guarded: bool
    target: str | None


@dataclass
class Block:
    instructions: list = field(default_factory=list)
    successors: list = field(default_factory=list)


@dataclass
class Loop:
    header: int
    blocks: set
    parent: "Loop | None" = None
    children: list = field(default_factory=list)


@dataclass
class Kernel:
    symbol: str
    name: str  # demangled, without arguments and namespaces of the library
    registers: int
    blocks: list
    all: list  # every instruction, called functions included
    loops: list = field(default_factory=list)

    def text_of(self, loop):
        return [i for b in sorted(loop.blocks) for i in self.blocks[b].instructions]

    def inner_loops(self):
        return [loop for loop in self.loops if not loop.children]


def _registers(path):
    """Registers of a thread, by symbol: attribute REGCOUNT of section .nv.info, four bytes of header, symbol index, count."""
    data = open(path, "rb").read()
    offset, = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]

    def string(table, at):
        start = headers[table][4] + at
        return data[start:data.index(b"\0", start)].decode()

    sections = {string(names, h[0]): h for h in headers}
    symbols = sections[".symtab"]
    at, end, found = sections[".nv.info"][4], sum(sections[".nv.info"][4:6]), {}
    while at < end:
        form, attribute, length = struct.unpack_from("<BBH", data, at)
        if form == 4 and attribute == 0x2F:
            symbol, registers = struct.unpack_from("<II", data, at + 4)
            name, = struct.unpack_from("<I", data, symbols[4] + 24 * symbol)
            found[string(symbols[6], name)] = registers
        at += 4 + (length if form == 4 else 0)
    return found


def _features(found):
    """A value of block/features.hpp, whose bits may get other places."""
    bits = int(found[1])
    return "features::all" if bits & (bits + 1) == 0 else "some features"


def short_name(demangled):
    name = re.sub(r"\bv\d+_\d+(_\w+)?::", "", demangled).removeprefix("void ")
    name = re.sub(r"\(anonymous namespace\)::|_INTERNAL_\w+::", "", name)
    name = name.replace("ufp4::gpu::kernels::", "").replace("ufp4::gpu::", "").replace("ufp4::", "")
    name = re.sub(r"\((?:\w+::)*features\)(\d+)", _features, name)
    depth = 0
    for i, c in enumerate(name):  # up to the arguments, which a template's own parentheses precede
        depth += (c == "<") - (c == ">")
        if c == "(" and depth == 0:
            name = name[:i]
            break
    return re.sub(r"\((?:unsigned int|int|bool|unsigned long)\)|<void>$", "", name)


def name_all(kernels):
    symbols = "\n".join(k.symbol for k in kernels)
    names = subprocess.run(["c++filt"], input=symbols, capture_output=True, text=True, check=True).stdout.splitlines()
    for k, name in zip(kernels, names):
        k.name = short_name(name)


def _parse(line):
    text = line
    guard = _GUARD.match(text)
    if guard:
        text = text[guard.end():]
    target = _TARGET.search(text)
    return text, text.split(None, 1)[0].split(".")[0], bool(guard) and guard[1] not in ("@PT", "@UPT"), target and target[1]


def _functions(listing):
    """(section, body lines of the entry, all lines) of each section."""
    for part in re.split(r"^//-+ \.text\.", listing, flags=re.M)[1:]:
        yield part.split(None, 1)[0], part.splitlines()


def _falls_through(last):
    # A branch on a predicate that is an operand (BRA.DIV, BRA P0, ...) may not be taken.
    return last.guarded or (last.opcode == "BRA" and re.match(r"BRA\S*\s+!?U?[PR]", last.text))


def graph(entry, jumps=lambda i: i.opcode in _ENDS, falls_through=_falls_through):
    """Blocks of a list of Instruction and label strings, in order."""
    blocks, at, labels = [Block()], {}, {}
    for item in entry:
        if isinstance(item, str):
            if blocks[-1].instructions:
                blocks.append(Block())
            labels[item] = len(blocks) - 1
            continue
        blocks[-1].instructions.append(item)
        if jumps(item):
            blocks.append(Block())
    for i, block in enumerate(blocks):
        last = block.instructions[-1] if block.instructions else None
        is_jump = last is not None and jumps(last)
        if is_jump and last.target in labels:
            block.successors.append(labels[last.target])
        if (not is_jump or falls_through(last)) and i + 1 < len(blocks):
            block.successors.append(i + 1)
    return blocks


def loops_of(blocks):
    order, seen, stack = [], {0}, [(0, iter(blocks[0].successors))]
    while stack:
        node, rest = stack[-1]
        for s in rest:
            if s not in seen:
                seen.add(s)
                stack.append((s, iter(blocks[s].successors)))
                break
        else:
            order.append(node)
            stack.pop()
    order.reverse()
    rank = {b: i for i, b in enumerate(order)}
    before = {b: [] for b in order}
    for b in order:
        for s in blocks[b].successors:
            before[s].append(b)
    dominator = {order[0]: order[0]}

    def meet(a, b):
        while a != b:
            while rank[a] > rank[b]:
                a = dominator[a]
            while rank[b] > rank[a]:
                b = dominator[b]
        return a

    changed = True
    while changed:
        changed = False
        for b in order[1:]:
            new = None
            for p in before[b]:
                if p in dominator:
                    new = p if new is None else meet(p, new)
            if dominator.get(b) != new:
                dominator[b], changed = new, True

    def dominates(a, b):
        while rank[b] > rank[a]:
            b = dominator[b]
        return a == b

    bodies = {}
    for b in order:
        for s in blocks[b].successors:
            if dominates(s, b):
                body, work = bodies.setdefault(s, {s}), [b]
                while work:
                    x = work.pop()
                    if x not in body:
                        body.add(x)
                        work += before[x]
    loops = sorted((Loop(h, body) for h, body in bodies.items()), key=lambda l: len(l.blocks))
    for i, loop in enumerate(loops):
        loop.parent = next((o for o in loops[i + 1:] if loop.blocks < o.blocks), None)
        if loop.parent:
            loop.parent.children.append(loop)
    return loops


def read(cubin, nvdisasm):
    """The kernels of a cubin, by symbol."""
    run = subprocess.run([nvdisasm, "-c", cubin], capture_output=True, text=True)
    if run.returncode != 0:
        raise RuntimeError(f"{nvdisasm} {cubin}: {run.stderr.strip()}")
    registers = _registers(cubin)
    kernels = {}
    for symbol, lines in _functions(run.stdout):
        entry, everything, inside = [], [], True
        for line in lines:
            if ",@function" in line and ".type" in line:
                inside = f" {symbol},@function" in line
            elif (label := _LABEL.match(line)) and inside:
                entry.append(label[1])
            elif code := _CODE.match(line):
                i = Instruction(int(code[1], 16), *_parse(code[2]))
                everything.append(i)
                if inside:
                    entry.append(i)
        blocks = graph(entry)
        kernels[symbol] = Kernel(symbol, "", registers[symbol], blocks, everything, loops_of(blocks))
    name_all(kernels.values())
    return list(kernels.values())
