#!/usr/bin/env python3
# ufp4 - the API reference: Doxygen over include/ufp4, and the check that no public name is undocumented.
# SPDX-License-Identifier: Apache-2.0
#
#   api_reference.py ROOT OUT             writes the HTML pages to OUT
#   api_reference.py --check ROOT OUT     writes to OUT and lists undocumented names; exit status 1 if there are any
#   api_reference.py --count ROOT OUT     the same list as counts by folder and by file
#
# Exit status 77: doxygen is not installed.
#
# Private, and therefore not in the reference: namespaces `detail`, and in gpu/ the kernels and the wrappers of matrix
# instructions (gpu::kernels, gpu::mma). A function counts as documented if one of its overloads is: overloads differ
# in the form of an operand. Operators == and <=>, copies and moves need no comment.
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml
from collections import Counter
from pathlib import Path

UNDOCUMENTED = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+): warning: (?P<kind>Member|Compound) (?P<text>.*) is not documented\.$")
MEMBER = re.compile(r"^(?P<name>~?[\w:]+|operator.*?)(?:<.*>)?(?:\(.*\).*|\[.*\])? \((?P<kind>[\w ]+)\) of (?:\w+ )?(?P<scope>\S.*)$")


def run_doxygen(root, out, extra):
    """Runs Doxygen with the settings of Doxyfile and `extra`; its warnings as lines."""
    here = Path(__file__).resolve().parent
    if out.exists():
        shutil.rmtree(out)
    out.mkdir(parents=True)
    log = out / "warnings.txt"
    settings = {"INPUT": f'"{root}/include/ufp4" "{here}/api_main_page.md" "{here}/namespaces.dox"', "USE_MDFILE_AS_MAINPAGE": f'"{here}/api_main_page.md"',
                "STRIP_FROM_PATH": f'"{root}/include"', "STRIP_FROM_INC_PATH": f'"{root}/include"',
                "OUTPUT_DIRECTORY": f'"{out}"', "WARN_LOGFILE": f'"{log}"',
                "FILTER_PATTERNS": " ".join(f'"*.{end}=\\"{sys.executable}\\" \\"{here}/doxygen_filter.py\\""' for end in ("hpp", "h")),
                "HTML_EXTRA_STYLESHEET": f'"{here}/api.css"', **extra}
    text = (here / "Doxyfile").read_text(encoding="utf-8") + "".join(f"{k} = {v}\n" for k, v in settings.items())
    subprocess.run(["doxygen", "-"], input=text, text=True, check=True, stderr=subprocess.DEVNULL)
    lines = log.read_text(encoding="utf-8").splitlines()
    log.unlink()
    return lines


def has_text(node):
    return node is not None and "".join(node.itertext()).strip() != ""


def documented_functions(folder):
    """(scope, name) of every function with a comment."""
    found = set()
    for path in folder.glob("*.xml"):
        compound = xml.parse(path).getroot().find("compounddef")
        if compound is None:
            continue
        for member in compound.iter("memberdef"):
            if member.get("kind") == "function" and (
                    has_text(member.find("briefdescription")) or has_text(member.find("detaileddescription"))):
                found.add((compound.findtext("compoundname"), member.findtext("name")))
    return found


def is_copy_or_move(text):
    """Whether text is `name(const name &...)` or `name(name &&...)`."""
    return re.match(r"(\w+)\((const )?\1(< \w+ >)? &&?\w*\)", text) is not None


def undocumented(root, out):
    """(file, line, text) of every public name without a comment."""
    lines = run_doxygen(root, out, {"GENERATE_HTML": "NO", "GENERATE_XML": "YES", "XML_PROGRAMLISTING": "NO"})
    documented = documented_functions(out / "xml")
    found = []
    for line in lines:
        match = UNDOCUMENTED.match(line)
        if not match:
            continue
        member = MEMBER.match(match["text"]) if match["kind"] == "Member" else None
        if member and member["kind"] == "function" and (
                (member["scope"], member["name"]) in documented or re.match(r"operator(==|<=>|=$)", member["name"]) or is_copy_or_move(match["text"])):
            continue
        file = Path(match["file"])
        file = file.relative_to(root) if file.is_relative_to(root) else file
        found.append((str(file), int(match["line"]), match["text"]))
    return sorted(set(found))


def main(arguments):
    mode = arguments.pop(0) if arguments and arguments[0].startswith("--") else ""
    if len(arguments) != 2 or mode not in ("", "--check", "--count"):
        print("usage: api_reference.py [--check | --count] ROOT OUT", file=sys.stderr)
        return 2
    root, out = Path(arguments[0]).resolve(), Path(arguments[1]).resolve()
    if shutil.which("doxygen") is None:
        print("SKIPPED: doxygen is not installed")
        return 77
    if not mode:
        run_doxygen(root, out, {"HTML_OUTPUT": "."})
        return 0
    found = undocumented(root, out)
    if mode == "--count":
        for key in (lambda file: "/".join(file.split("/")[2:-1]) or ".", lambda file: file):
            for name, count in Counter(key(file) for file, _, _ in found).most_common():
                print(f"{count:5} {name}")
            print()
    else:
        for file, line, text in found:
            print(f"{file}:{line}: {text} is not documented")
    print(f"{len(found)} public names without a doc comment")
    return 1 if found and mode == "--check" else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
