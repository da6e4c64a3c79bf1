#!/usr/bin/env python3
# ufp4 - finds words that this project once used in a sense of its own. The glossary is in docs/CONTRIBUTING.md.
# SPDX-License-Identifier: Apache-2.0
#
#   check_words.py ROOT            lists every use in README, CHANGELOG, docs/, include/, examples/; exit status 1 if any
#   check_words.py --review ROOT   also lists words that have a usual sense beside the private one; not an error
import re
import sys
from collections import Counter
from pathlib import Path

# Words without a usual sense in this project, and what to write instead.
PRIVATE = {
    r"coins?|toss(es|ed)?": "random bits",
    r"sentences?": "message",
    r"refus(e|es|ed|al|als|ing)": "reject",
    r"rejectd": "rejected",
    r"verbs?": "operation, command",
    r"welcome": "accepted",
    r"tame|wild": "finite, non-finite",
    r"(lies?|lay|lying) along": "is contiguous along",
    r"rooms?|houses?": "folder, module, layer",
    r"gmax": "global_amax",
    r"the day's tests": "the default test suite",
    r"simt executor|played|plays": "CPU simulator, simulates",
    r"turned": "transposed",
}
# Words that also have a usual sense: `--review` lists them. A line that matches `allowed` is not listed.
REVIEW = {
    r"odd": (r"odd (number|code|rank|integer|bits?|lanes?|elements?|rows?|column|position|words?)|round.to.odd|even.*\bodd\b|\bodd\b.*even", "special case"),
    r"floor": (r"floor ?\(|_floor|floor_|std::floor|rounded? down|const .* floor\b|floor \+|floor of", "layer, module"),
    r"turns?": (r"in turn\b", "transpose, become"),
    r"executors?": (r"cpu/|executor_ref|\.executor|thread|task", "CPU simulator, if not the caller's thread pool"),
    r"gone": (r"$^", "underflowed"),
    r"peaks?": (r"peak (rate|memory|rss|bandwidth|flop)", "amax"),
    r"largest": (r"largest (finite|float|power|code|binary32|scale|level|value|E2M1|shape|size|layer|file|tensor|one\b)", "amax, if of magnitudes"),
    r"elsewhere": (r"$^", "in another translation unit, in another place: name it"),
    r"says|said|say": (r"$^", "reports, states, lists"),
    r"somebody|nobody": (r"$^", "a user, no one: name who"),
    r"asks?|asked": (r"ask(s|ed)? for", "requests, requires"),
}
ROOTS = ["README.md", "CHANGELOG.md", "docs", "include", "examples"]
SUFFIXES = {".md", ".hpp", ".cpp", ".cu", ".inl", ".h", ".txt", ".sh", ".py", ".yml", ".css", ".1"}
# This file, and the page that has the glossary.
EXEMPT_FILES = {"docs/site/check_words.py", "docs/CONTRIBUTING.md"}
# Uses in the usual sense, as (path, regular expression of the line).
ALLOWED = [("docs/compare.md", r"summary in sentences"), ("examples/compare/", r"sentence"),  # text of the report
           ("", r"wildcard")]


def pattern_of(words):
    return re.compile(rf"(?<![A-Za-z])(?:{words})(?![A-Za-z])", re.IGNORECASE)


def files(root):
    for name in ROOTS:
        path = root / name
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            relative = str(file.relative_to(root))
            if file.is_file() and file.suffix in SUFFIXES and relative not in EXEMPT_FILES:
                yield relative, file


def is_allowed(name, line):
    return any(name.startswith(prefix) and (not text or re.search(text, line)) for prefix, text in ALLOWED)


def find(root, words):
    """(file, line number, word, line, advice) of every use; words: {regex: (allowed regex or None, advice)}."""
    compiled = [(pattern_of(regex), allowed and re.compile(allowed), advice) for regex, (allowed, advice) in words.items()]
    for name, file in files(root):
        for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            for pattern, allowed, advice in compiled:
                match = pattern.search(line)
                if match and not is_allowed(name, line) and not (allowed and allowed.search(line)):
                    yield name, number, match.group(), line.strip(), advice


def main(arguments):
    review = arguments[:1] == ["--review"]
    arguments = arguments[review:]
    if len(arguments) != 1:
        print("usage: check_words.py [--review] ROOT", file=sys.stderr)
        return 2
    root = Path(arguments[0]).resolve()
    wrong = list(find(root, {regex: (None, advice) for regex, advice in PRIVATE.items()}))
    for name, number, word, line, advice in wrong:
        print(f"{name}:{number}: '{word}': write: {advice}\n    {line[:140]}")
    if review:
        listed = list(find(root, REVIEW))
        for name, number, word, line, advice in listed:
            print(f"review {name}:{number}: '{word}': {advice}?\n    {line[:140]}")
        print(f"{len(listed)} uses to review")
    folders = Counter("/".join(name.split("/")[:3]) for name, *_ in wrong)
    print(f"{len(wrong)} words of the glossary's left column" + "".join(f"\n  {n:4} {f}" for f, n in folders.most_common()))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
