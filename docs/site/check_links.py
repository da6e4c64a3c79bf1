#!/usr/bin/env python3
# ufp4 - finds dead links and text that a browser hides, in the Markdown of the tree or in the built site.
# SPDX-License-Identifier: Apache-2.0
#
#   check_links.py ROOT          README, CHANGELOG and docs/*.md: files exist with this spelling, anchors are headings
#   check_links.py --html SITE   every href, src and id of a built site, except between the pages of the API reference
#
# Nothing is downloaded: links to other sites are counted, not followed.
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import markdown_text as markdown


def check_markdown(root):
    root = root.resolve()
    texts = {root / page: (root / page).read_text(encoding="utf-8") for page in markdown.pages(root)}
    headings = {path: markdown.anchors(text) for path, text in texts.items()}
    dead, seen, external = [], 0, 0
    for path, text in texts.items():
        for number, tag in markdown.stray_tags(text):
            dead.append(f"{path.relative_to(root)}:{number}: '{tag}' is read as HTML and not shown: put it in backticks")
        for number, target in markdown.links(text):
            seen += 1
            if markdown.is_external(target):
                external += 1
                continue
            file, _, anchor = target.partition("#")
            goal = (path.parent / unquote(file)).resolve() if file else path
            where = f"{path.relative_to(root)}:{number}: '{target}'"
            if not goal.exists():
                dead.append(f"{where}: there is no such file")
            elif not goal.is_relative_to(root):
                dead.append(f"{where}: leads out of the tree")
            elif anchor and anchor not in headings.get(goal, set()):
                dead.append(f"{where}: {goal.relative_to(root)} has no heading with that anchor")
    return dead, f"{len(texts)} pages, {seen} links, {external} of them to other sites and not followed"


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.targets = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            if name in ("href", "src") and value and not value.startswith(("data:", "javascript:")):
                self.targets.append(value)


def check_html(site):
    site = site.resolve()
    parsed = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    dead, seen = [], 0
    for path, page in parsed.items():
        if path.name == "404.html" or path.is_relative_to(site / "api"):
            continue  # the links of 404.html begin at the server's root; those inside api/ are Doxygen's
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            seen += 1
            goal = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if goal.is_dir():
                goal = goal / "index.html"
            where = f"{path.relative_to(site)}: '{target}'"
            if not goal.exists():
                dead.append(f"{where}: there is no such file")
            elif parts.fragment and goal in parsed and unquote(parts.fragment) not in parsed[goal].ids:
                dead.append(f"{where}: no element has that id")
    return dead, f"{len(parsed)} pages, {seen} links inside the site"


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "--html":
        dead, what = check_html(Path(arguments[1]))
    elif len(arguments) == 1 and not arguments[0].startswith("-"):
        dead, what = check_markdown(Path(arguments[0]))
    else:
        print("usage: check_links.py ROOT | --html SITE", file=sys.stderr)
        return 2
    for message in dead:
        print(message)
    print(f"{what}: {len(dead)} wrong")
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
