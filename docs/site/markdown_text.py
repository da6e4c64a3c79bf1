# ufp4 - the parts of Markdown that the site's scripts read: headings, their anchors, links, outside code.
# SPDX-License-Identifier: Apache-2.0
import re
from pathlib import Path

FENCE = re.compile(r"^\s*(```|~~~)")
CODE_SPAN = re.compile(r"(`+)(.+?)\1")
# [text](target) and ![text](target); the text may hold one level of brackets.
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\[\]]*\])*\])\(([^()\s]+)\)")
HTML_LINK = re.compile(r"""(<(?:img|a)\b[^>]*?\b(?:src|href)=")([^"]+)(")""")


def without_spans(line):
    """The line with its code spans blanked out, every other character where it was."""
    return CODE_SPAN.sub(lambda m: " " * len(m.group()), line)


def prose(text):
    """(number, line) of every line that is not code."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            inside = not inside
        elif not inside and not line.startswith("    "):
            yield number, line


def slug(heading):
    """GitHub's anchor of a heading."""
    plain = LINK.sub(lambda m: m.group(1).strip("![]"), heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")


def anchors(text):
    found = set()
    for _, line in prose(text):
        match = re.match(r"#{1,6}\s+(.*?)\s*#*$", line)
        if match:
            name, count = slug(match.group(1)), 0
            while (name if count == 0 else f"{name}-{count}") in found:
                count += 1
            found.add(name if count == 0 else f"{name}-{count}")
    return found


def links(text):
    """(number, target) of every link and picture."""
    for number, line in prose(text):
        bare = without_spans(line)
        for pattern in (LINK, HTML_LINK):
            for match in pattern.finditer(bare):
                yield number, match.group(2)


def stray_tags(text):
    """(number, tag) of text that a browser treats as an unknown element and hides: fp4<E2M1> outside a code span."""
    known = {"a", "b", "br", "details", "i", "img", "p", "picture", "source", "sub", "summary", "sup"}
    for number, line in prose(text):
        for match in re.finditer(r"</?([A-Za-z][\w:]*)", without_spans(line)):
            if match.group(1) not in known:
                yield number, match.group() + "…"


def is_external(target):
    return re.match(r"[a-z][a-z+.-]*:", target) is not None


def pages(root):
    """The pages: README, CHANGELOG and docs/*.md, as paths relative to root."""
    return [Path("README.md"), Path("CHANGELOG.md"), *sorted(p.relative_to(root) for p in (root / "docs").glob("*.md"))]
