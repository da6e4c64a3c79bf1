# ufp4 - the results section of docs/study.md.
# SPDX-License-Identifier: Apache-2.0
import blocks
import compose
import records

BEGIN = "<!-- results: written by examples/train_lm/study/run.sh report; edit the generator, not this text -->"
END = "<!-- end of results -->"


class PageError(ValueError):
    pass


def table(t):
    safe = lambda text: text.replace("|", "\\|")
    lines = [
        "| " + " | ".join(map(safe, t.header)) + " |",
        "|" + "|".join("---" if i < t.left else "---:" for i in range(len(t.header))) + "|",
    ]
    lines += [
        "| " + " | ".join(safe(f"`{c}`" if t.header[i] == "command" else c) for i, c in enumerate(row)) + " |"
        for row in t.rows
    ]
    if t.folded:
        return ["<details>", f"<summary>{t.name}</summary>", ""] + lines + ["", "</details>", ""]
    return lines + [""]


def markdown_of(found):
    return markdown_of_blocks(compose.sections(found))


def markdown_of_blocks(parts):
    out = []
    for block in parts:
        if isinstance(block, (blocks.Heading, blocks.Text)) and not block.in_page:
            continue
        if isinstance(block, blocks.Heading):
            out += ["#" * block.level + " " + block.text, ""]
        elif isinstance(block, blocks.Text):
            out += [block.text, ""]
        elif isinstance(block, blocks.Table):
            out += table(block)
        elif block.in_page:
            out += table(block.table)
    return "\n".join(out).rstrip() + "\n"


def update(path, found):
    update_blocks(path, compose.sections(found))


def update_blocks(path, parts):
    """Replaces the text between the markers; the rest of the page is unchanged."""
    if not path.exists():
        raise PageError(f"no page {path}")
    text = path.read_text(encoding="utf-8")
    begin, end = text.find(BEGIN), text.find(END)
    if begin < 0 or end < begin:
        raise PageError(f"{path}: no line '{BEGIN}' followed by '{END}'")
    records.write_atomically(path, text[: begin + len(BEGIN)] + "\n\n" + markdown_of_blocks(parts) + "\n" + text[end:])


def power_lines(pilot):
    seconds = f"; {pilot['seconds_a_run']} s per run" if pilot.get("seconds_a_run") else ""
    return [f"{pilot['model']}: train_lm {' '.join(pilot['arguments'])}{seconds}"] + [
        "  " + line for line in compose.power_messages(pilot) if line
    ]
