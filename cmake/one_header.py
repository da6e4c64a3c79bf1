#!/usr/bin/env python3
"""ufp4 - writes the library for host programs as one header: ufp4/ufp4.hpp with everything that it includes.

SPDX-License-Identifier: Apache-2.0

usage: one_header.py INCLUDE_FOLDER OUTPUT

A header that is included under a condition is repeated where it is included again, unless the same condition holds there; each copy
has a guard. A lane header (architecture.md, decision 4) has one of its own, and is repeated where that was reset. Comments are left out.
"""
import re
import sys
from pathlib import Path

INCLUDE = re.compile(r"\s*#\s*include\s*<(ufp4/[^>]+)>")
LANE_GUARD = re.compile(r"!defined\((UFP4_\w+_LANES)\)\n#define \1\n")
CONDITION = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b(.*)")


class Writer:
    def __init__(self, folder):
        self.folder = folder
        self.written = {}  # the conditions around each copy of a header
        self.lines = []

    def add(self, name, around):
        """The text of a header at this place, inside the conditions `around`."""
        text = (self.folder / name).read_text(encoding="utf-8").replace("\\\n", "\0")
        once = "#pragma once" in text
        lane_guard = LANE_GUARD.search(text)
        key = lane_guard[1] if lane_guard else name
        if any(conditions <= set(around) for conditions in self.written.get(key, [])):
            return
        guard = "UFP4_ONE_" + re.sub(r"\W", "_", name)
        if once or lane_guard:
            self.written.setdefault(key, []).append(set(around))
        if once:
            self.lines += [f"// ---- {name}", f"#ifndef {guard}", f"#define {guard}"]
        open_conditions = list(around)
        for line in text.splitlines():
            if re.fullmatch(r"\s*(//.*)?", line) or line == "#pragma once":
                continue
            self.follow(CONDITION.match(line), open_conditions)
            self.written.pop(line.removeprefix("#undef "), None)
            target = INCLUDE.match(line)
            if target:
                self.add(target[1], open_conditions)
            else:
                self.lines.append(line.replace("\0", "\\\n"))
        if once:
            self.lines.append("#endif")

    @staticmethod
    def follow(condition, open_conditions):
        """The open conditions after a line, each as its text; what an #else or #elif stands for differs from every text."""
        if condition is None:
            return
        word, text = condition[1], " ".join(condition[2].split())
        if word in ("endif", "elif", "else"):
            before = open_conditions.pop()
            if word != "endif":
                open_conditions.append(f"not {before} {word} {text}")
        else:
            open_conditions.append(re.sub(r"UFP4_\w+_LANES", "a lane guard", f"{word} {text}"))


def main(arguments):
    if len(arguments) != 2:
        print(__doc__.split("\n\n")[2], file=sys.stderr)
        return 2
    folder, output = Path(arguments[0]), Path(arguments[1])
    writer = Writer(folder)
    writer.add("ufp4/ufp4.hpp", [])
    head = ["// ufp4 - the whole library for host programs in one header, made by cmake/one_header.py; do not edit it.",
            "// SPDX-License-Identifier: Apache-2.0", "#pragma once"]
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text("\n".join(head + writer.lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
