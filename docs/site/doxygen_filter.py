#!/usr/bin/env python3
# ufp4 - what Doxygen reads in place of a header: the same lines, in the form that Doxygen understands.
# SPDX-License-Identifier: Apache-2.0
#
#   doxygen_filter.py HEADER     prints the header; line N of the output is line N of the header
#
# - The comment at the top of a header becomes the documentation of the file.
# - Inline namespaces, whose names depend on the version and the instruction set, disappear.
# - Tables in comments become HTML tables: ours have no separator line, which Doxygen asks for.
# - `<` in a comment is text: fp4<E2M1> is no HTML tag.
import re
import sys
from pathlib import Path

COMMENT = re.compile(r"^(\s*)///(?!<)(.*)$")
SEPARATOR = re.compile(r"^\s*\|[\s|:-]+\|\s*$")
CODE_SPAN = re.compile(r"(`+)(.+?)\1")

# Members that a concept requires have their contract there; the reference repeats it in a few words.
CONCEPT_MEMBERS = [(re.compile(pattern), text) for pattern, text in [
    (r"\bround_up\(const neighbours", "Required by rounding_policy: true picks the upper neighbour."),
    (r"\bspec\(\) const", "The policy as data, as kernels and recipes read it."),
    (r"#define UFP4_VERSION_", "The version, as numbers and as text."),
    (r"\bto_bf16\(\) const", "The same transform with its result rounded to bf16."),
    (r"\bstatic constexpr bool exact_products\b", "Block dot products are exact in any order (numerics 1)."),
    (r"\bfrom_bits\(std::uint8_t bits\)", "The element of a code; the high four bits are ignored."),
    (r"\bbits\(\) const", "The code."),
    (r"\bconstexpr float value\(\) const", "The number as a float, exact."),
    (r"\bfloat\(max\)\(\)", "The largest finite value."),
    (r"\bstatic constexpr (detail::)?minifloat layout\(\)", "The fields of a code."),
    (r"\bconstexpr explicit (fp4|int4|table_element|e4m3|ue5m3|e8m0|bf16|fp16)\(float x\)", "Converts from binary32: numerics 1 and 2."),
    (r"\b(rows|cols)\(\) const \{ return ", "The extent of the matrix."),
    (r"\btensor_scale\(\) const", "The tensor scale; 1 for a format with one level."),
    (r"\bscale_bytes\(\) const", "The block scales as bytes; spec().scale is their type."),
    (r"\bstorage\(\) \{", "The memory, for quantize_into."),
    (r"\bview\(\) const \{", "A view of the whole matrix."),
    (r"\bfloat operator\(\)\(std::size_t row, std::size_t col\) const", "The decoded element (row, col)."),
    (r"\bpadded_cols\(\) const", "The columns with padding: numerics 4."),
    (r"\bcodes\(\) const", "The packed codes: numerics 5."),
    (r"\bscales\(\) const", "The block scales: numerics 5."),
    (r"\bdata\(\) const", "Element (0, 0)."),
    (r"\btransform\(\) const", "The transform that was applied."),
    (r"\btext\(\) const", "As text."),
    (r"\bpath\(\) const", "The path as given."),
    (r"\bvoid fail\(const auto&\.\.\. what\) const", "Throws file_error with the path and `what`."),
    (r"\busing (format|type) = ", "The block format."),
    (r"\busing coder = ", "The block coder."),
    (r"\busing scale_type = typename", "The type of the block scales."),
    (r"\busing element_type = T;", "The type of an element, const for a read-only view."),
    (r"\boperator (any_)?quantized_view(<Format>)?\(\) const", "A view of the whole matrix."),
    (r"\bstruct matrix_element<", "An element type of matrices."),
    (r"\bstatic constexpr dtype kind =", "How the elements are stored."),
    (r"\bstruct (te|torchao|ggml)_\w+ \{", "A preset: see the table at the top of this file."),
    (r"\bstruct scale_traits<", "A scale type that kernels support."),
    (r"\bstatic constexpr scale_kind kind =", "The type as data."),
]]


def escaped(text):
    """`<`, `#`, `@`, `\\` and `%` as text, outside code spans."""
    parts, last = [], 0
    for span in CODE_SPAN.finditer(text):
        parts += [plain(text[last:span.start()]), span.group()]
        last = span.end()
    return "".join(parts) + plain(text[last:])


def plain(text):
    return text.replace("\\", "\\\\").replace("<", "\\<").replace("@", "\\@").replace("#", "\\#")


def is_row(text):
    return text.strip().startswith("|") and text.strip().endswith("|") and len(text.strip()) > 1


def row(text, tag, columns):
    """A row as HTML, its last cell open. A | beyond the last column is text: |x|."""
    cells = text.strip()[1:-1].split("|", columns - 1)
    return f"<tr><{tag}>" + f"</{tag}><{tag}>".join(escaped(cell.strip()) for cell in cells)


def with_tables(texts):
    """The lines of one comment, its tables as HTML."""
    out = []
    for i, text in enumerate(texts):
        if not is_row(text):
            out.append(escaped(text))
            continue
        if i == 0 or not is_row(texts[i - 1]):
            columns = min(texts[j].count("|") - 1 for j in range(i, len(texts)) if all(is_row(x) for x in texts[i:j + 1]))
        begins, ends = i == 0 or not is_row(texts[i - 1]), i + 1 == len(texts) or not is_row(texts[i + 1])
        head = not ends and SEPARATOR.match(texts[i + 1])
        # a blank line before a table ends the paragraph; here the tag alone has to do it
        continues = not begins and text.strip().startswith("|  ") and not SEPARATOR.match(text)
        if SEPARATOR.match(text):
            body = ""
        elif continues:  # an empty first cell: the text goes on in the last cell of the row above
            body = escaped(text.strip()[1:-1].split("|", columns - 1)[-1].strip())
        else:
            body = row(text, "th" if head else "td", columns)
        continued = not ends and texts[i + 1].strip().startswith("|  ")
        if not continued and not SEPARATOR.match(text):
            body += "</th></tr>" if head else "</td></tr>"
        out.append(" " + ("<table>" if begins else "") + body + ("</table>" if ends else ""))
    return out


def comment_blocks(lines):
    """Comments of `///` lines, with tables and `<` made safe."""
    i = 0
    while i < len(lines):
        match = COMMENT.match(lines[i])
        if not match:
            i += 1
            continue
        first = i
        while i < len(lines) and COMMENT.match(lines[i]):
            i += 1
        texts = with_tables([COMMENT.match(line).group(2) for line in lines[first:i]])
        indent = match.group(1)
        lines[first:i] = [f"{indent}///{text}" for text in texts]


DECLARATORS = re.compile(r"^(\s*)((?:static |constexpr |const )*[\w:]+(?:<[^;]*?>)?) ([^;()]*,[^;()]*);\s*///< (.*)$")


def with_split_declarators(lines):
    """`float a, b;  ///< text` as two declarations: Doxygen gives the comment to the last name only."""
    for i, line in enumerate(lines):
        match = DECLARATORS.match(line)
        if match:
            indent, kind, names, text = match.groups()
            lines[i] = indent + " ".join(f"/** {text} */ {kind} {name.strip()};" for name in names.split(","))


def with_concept_members(lines):
    """Comments for undocumented members of CONCEPT_MEMBERS, on their own lines."""
    for i, line in enumerate(lines):
        above = lines[i - 1].strip() if i else ""
        if "///" in line or above.startswith("///") or (above.startswith("template") and lines[i - 2].strip().startswith("///")):
            continue
        for pattern, text in CONCEPT_MEMBERS:
            if pattern.search(line) and line.strip()[:2] != "//":
                target = i - 1 if above.startswith("template <") else i
                lines[target] = f"/** {text} */ " + lines[target]
                break


def main(path):
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    if len(lines) > 1 and lines[0].startswith("// ufp4 - ") and "SPDX" in lines[1]:
        purpose = lines[0][len("// ufp4 - "):]
        lines[0], lines[1] = "/// \\file", f"/// \\brief {escaped(purpose)}"
        for i in range(2, len(lines)):
            if not lines[i].startswith("//"):
                break
            lines[i] = "/" + lines[i]
        head = lines[2:i]
        texts = with_tables([line[3:] for line in head])
        lines[2:i] = ["///" + text for text in texts]
        rest = lines[i:]
    else:
        i, rest = 0, lines
    with_split_declarators(rest)
    with_concept_members(rest)
    comment_blocks(rest)
    lines[i:] = rest
    for i, line in enumerate(lines):
        line = re.sub(r"(///<)(.*)$", lambda m: m.group(1) + escaped(m.group(2)), line)
        if line.startswith("namespace ") or line.startswith("}  // namespace "):
            line = re.sub(r"(::)?inline UFP4_(TYPES|CODE|GPU)", "", line)
        lines[i] = line
    print("\n".join(lines))


if __name__ == "__main__":
    main(sys.argv[1])
