#!/usr/bin/env python3
# ufp4 - copies the pages of the tree for the site. README becomes the first page. A file of the tree that a page links
# to becomes a page too, so that all links work within the site.
# SPDX-License-Identifier: Apache-2.0
#
#   stage.py ROOT FOLDER     writes FOLDER/pages/ and FOLDER/mkdocs.yml
import os
import re
import shutil
import sys
from pathlib import Path

import markdown_text as markdown

LANGUAGES = {".hpp": "cpp", ".cpp": "cpp", ".inl": "cpp", ".cu": "cpp", ".py": "python", ".sh": "bash", ".md": "markdown",
             ".cmake": "cmake", ".txt": "cmake", ".yml": "yaml", ".cff": "yaml"}


class Stage:
    def __init__(self, root, out):
        self.root, self.out = root.resolve(), out
        # the path of each page in the site
        self.place = {page: Path("index.md") if page.name == "README.md" else Path(page.name)
                      for page in markdown.pages(self.root)}
        self.sources = set()

    def place_of(self, file):
        """The path of a file of the tree in the site."""
        if file in self.place:
            return self.place[file]
        if file.parts[:2] == ("docs", "pictures"):
            return Path(*file.parts[1:])
        self.sources.add(file)
        return Path("source") / f"{file}.md"

    def moved(self, page, target):
        if markdown.is_external(target) or target.startswith("#"):
            return target
        file, hash_mark, anchor = target.partition("#")
        goal = (self.root / page.parent / file).resolve().relative_to(self.root)
        here = self.place[page].parent
        return os.path.relpath(self.place_of(goal), here) + hash_mark + anchor

    def line(self, page, line):
        """The line with links to the site's paths. In a table, GitHub writes | inside a code span as \\|."""
        spans = {m.start(): m for m in markdown.CODE_SPAN.finditer(line)}
        bare = markdown.without_spans(line)
        edits = [(m.start(2), m.end(2), self.moved(page, m.group(2)))
                 for pattern in (markdown.LINK, markdown.HTML_LINK) for m in pattern.finditer(bare)]
        edits += [(m.start(), m.end(), m.group().replace("\\|", "|")) for m in spans.values() if line.startswith("|")]
        for first, last, text in sorted(edits, reverse=True):
            line = line[:first] + text + line[last:]
        # Python-Markdown reads Markdown inside an element only with this attribute
        return line.replace("<details>", '<details markdown="1">')

    def page(self, page):
        lines = (self.root / page).read_text(encoding="utf-8").splitlines()
        is_prose = {number for number, _ in markdown.prose("\n".join(lines))}
        done = []
        for number, line in enumerate(lines, 1):
            if number in is_prose:
                # Python-Markdown needs a blank line after a comment and before a list; GitHub does not.
                if done and done[-1].strip().endswith("-->") and line.strip():
                    done.append("")
                if re.match(r"(-|\d+\.) ", line) and done and done[-1].strip() and not re.match(r"\s|-|\d+\.", done[-1]):
                    done.append("")
                line = self.line(page, line)
            done.append(line)
        self.write(self.place[page], "\n".join(done) + "\n")

    def source(self, file):
        path = self.root / file
        if path.is_dir():
            names = sorted(p.name + ("/" if p.is_dir() else "") for p in path.iterdir() if p.name != "__pycache__")
            body = "\n".join(f"- `{name}`" for name in names)
        else:
            text = path.read_text(encoding="utf-8").rstrip()
            language = LANGUAGES.get(path.suffix, "text")
            body = f"````` {language}\n{text}\n`````"
        self.write(Path("source") / f"{file}.md", f"# {file}\n\n{body}\n")

    def write(self, where, text):
        path = self.out / "pages" / where
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def copy(self, file, where):
        """Copies the bytes, not the mode: copies of read-only files could not be replaced."""
        path = self.out / where
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((self.root / file).read_bytes())

    def run(self):
        if self.out.exists():
            shutil.rmtree(self.out)
        for page in self.place:
            self.page(page)
        for file in sorted(self.sources):
            self.source(file)
        for picture in sorted(file for file in (self.root / "docs/pictures").rglob("*") if file.is_file()):
            self.copy(picture, Path("pages", picture.relative_to(self.root / "docs")))
        self.copy("docs/site/extra.css", "pages/extra.css")
        self.copy("docs/site/mkdocs.yml", "mkdocs.yml")
        print(f"{len(self.place)} pages, {len(self.sources)} files of the tree that they link to")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: stage.py ROOT FOLDER")
    Stage(Path(sys.argv[1]), Path(sys.argv[2])).run()
