# ufp4 - the study as one HTML page without external files.
# SPDX-License-Identifier: Apache-2.0
import html
import re

import blocks
import compose

STYLE = """
:root { color-scheme: light dark;
  --page: #ffffff; --panel: #f6f7f9; --ink: #14171c; --soft: #59616d; --rule: #dfe3e8; --grid: #e7eaee;
  --bf16: #3d434c; --e2m1: #c2500f; --ufp4: #0062b0; --plain: #2c93cf; --all: #b07a00; --nv: #a8477f; --other: #007a5a;
  --good: #0c5a2a; --good-page: #e4f3e8; --bad: #8a1c1c; --bad-page: #fbe6e4; --open-page: #eef0f3; }
@media (prefers-color-scheme: dark) { :root {
  --page: #0e1115; --panel: #161a20; --ink: #e9ecf0; --soft: #9ba5b2; --rule: #2a3038; --grid: #252b33;
  --bf16: #c6ccd4; --e2m1: #ff8a45; --ufp4: #5aa5ff; --plain: #7fd0ff; --all: #f0b429; --nv: #e893c6; --other: #3fd0a4;
  --good: #86e2a4; --good-page: #12351f; --bad: #ffaea5; --bad-page: #451714; --open-page: #20262e; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", sans-serif; }
main { max-width: 74rem; margin: 0 auto; padding: clamp(1.25rem, 4vw, 3.5rem) clamp(1rem, 4vw, 2.5rem); }
h1 { font-size: clamp(1.7rem, 4.6vw, 2.6rem); line-height: 1.12; letter-spacing: -.02em; margin: 0 0 .8rem;
  text-wrap: balance; }
h2 { font-size: 1.3rem; letter-spacing: -.01em; margin: clamp(2rem, 5vw, 3.25rem) 0 .5rem; text-wrap: balance; }
h3 { font-size: 1rem; margin: 1.6rem 0 .3rem; }
p { margin: 0 0 .7rem; max-width: 48rem; text-wrap: pretty; }
.note { color: var(--soft); font-size: .92rem; }
code { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: .88em;
  background: var(--panel); padding: .08em .3em; border-radius: .3em; overflow-wrap: anywhere; }
nav { font-size: .88rem; margin: 1rem 0 0; display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; }
a { color: var(--ufp4); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1.2rem 2.4rem; }
figure { margin: .6rem 0 0; min-width: 0; }
figcaption { font-size: .88rem; font-weight: 600; }
.plot { overflow-x: auto; }
.plot svg { width: 100%; min-width: 25rem; max-width: 46rem; display: block; }
svg text { font-size: 12px; fill: var(--soft); font-variant-numeric: tabular-nums; }
svg text.name { fill: var(--ink); font-size: 12.5px; }
svg .gridline { stroke: var(--grid); stroke-width: 1; }
svg .axis { stroke: var(--soft); stroke-width: 1; }
.r-bf16 { --hue: var(--bf16); } .r-e2m1 { --hue: var(--e2m1); } .r-ufp4 { --hue: var(--ufp4); }
.r-plain { --hue: var(--plain); --dash: 7 4; } .r-all { --hue: var(--all); --dash: 7 4; }
.r-nv { --hue: var(--nv); --dash: 2 4; } .r-other { --hue: var(--other); --dash: 1 3; }
svg .curve { fill: none; stroke: var(--hue); stroke-width: 2; stroke-dasharray: var(--dash, none);
  stroke-linejoin: round; }
svg .band { fill: var(--hue); opacity: .13; }
svg .mark { fill: var(--hue); stroke: var(--page); stroke-width: 1; }
svg .mark.r-nv, svg .mark.r-other { fill: none; stroke: var(--hue); stroke-width: 2.2; }
svg .stem { fill: none; stroke: var(--hue); stroke-width: 2; opacity: .8; }
.bar-quantize { fill: var(--all); background: var(--all); } .bar-gemm { fill: var(--ufp4); background: var(--ufp4); }
.bar-rest { fill: var(--rule); background: var(--rule); }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; font-size: .86rem; color: var(--soft); margin: .3rem 0;
  padding: 0; list-style: none; }
.legend li { display: flex; align-items: center; gap: .4rem; }
.legend svg { width: 34px; height: 14px; flex: none; }
.key { width: 14px; height: 14px; border-radius: 3px; display: inline-block; }
.scroll { overflow-x: auto; margin: .6rem 0 1rem; border: 1px solid var(--rule); border-radius: .7rem; }
table { border-collapse: collapse; width: 100%; font-size: .86rem; font-variant-numeric: tabular-nums; }
th, td { padding: .36rem .5rem; text-align: right; white-space: nowrap; }
th.w, td.w { text-align: left; }
td.wide { min-width: 15rem; white-space: normal; }
td code { white-space: nowrap; padding: 0; background: none; overflow-wrap: normal; }
thead th { font-weight: 600; vertical-align: bottom; background: var(--panel); border-bottom: 1px solid var(--rule);
  white-space: normal; }
tbody tr + tr td { border-top: 1px solid var(--grid); }
caption { text-align: left; font-size: .82rem; color: var(--soft); padding: .5rem .75rem 0; }
.confirmed, .reversed, .unresolved { border-radius: .4rem; padding: .1rem .5rem; font-weight: 600;
  white-space: nowrap; }
.confirmed { background: var(--good-page); color: var(--good); }
.reversed { background: var(--bad-page); color: var(--bad); }
.unresolved { background: var(--open-page); color: var(--soft); }
details { margin: .4rem 0 1rem; } summary { cursor: pointer; font-size: .88rem; color: var(--soft); }
@media print { section { break-inside: avoid; } details { display: none; } }
"""


def text(words):
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(words, quote=False))


def cell(words):
    for label in ("confirmed", "reversed", "unresolved"):
        if words.startswith(blocks.LABELS[label]):
            return f'<span class="{label}">{html.escape(words)}</span>'
    return text(words)


def table(t):
    head = "".join(
        f'<th scope="col"{" class=w" if i < t.left else ""}>{html.escape(h)}</th>' for i, h in enumerate(t.header)
    )
    wide = [max((len(row[i]) for row in t.rows), default=0) > 34 for i in range(len(t.header))]
    rows = "".join(
        "<tr>"
        + "".join(
            f'<td class="{"w" if i < t.left else ""}{" wide" if wide[i] else ""}">{cell(c)}</td>'
            for i, c in enumerate(row)
        )
        + "</tr>"
        for row in t.rows
    )
    inner = (
        '<div class="scroll"'
        f' tabindex="0"><table><caption>{html.escape(t.name)}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )
    return f"<details><summary>Table: {html.escape(t.name)}</summary>{inner}</details>" if t.folded else inner


def html_of(found):
    out, nav, in_charts = [], [], False
    parts = compose.sections(found)
    for k, block in enumerate(parts):
        if in_charts and not isinstance(block, blocks.Chart):
            out.append("</div>")
            in_charts = False
        if isinstance(block, blocks.Heading):
            out.append(f'<h{block.level} id="s{k}">{html.escape(block.text)}</h{block.level}>')
            if block.level == 2 and k:
                nav.append(f'<a href="#s{k}">{html.escape(block.text.split(":")[0])}</a>')
        elif isinstance(block, blocks.Text):
            out.append(f'<p{" class=note" if block.note else ""}>{text(block.text)}</p>')
        elif isinstance(block, blocks.Table):
            out.append(table(block))
        else:
            beside = block.table.folded and k + 1 < len(parts) and isinstance(parts[k + 1], blocks.Chart)
            if beside and not in_charts:
                out.append('<div class="charts">')
                in_charts = True
            out.append(
                f"<figure><figcaption>{html.escape(block.table.name)}</figcaption>"
                f"{block.svg}{table(block.table)}</figure>"
                if block.table.folded
                else f"<figure>{block.svg}</figure>{table(block.table)}"
            )
    if in_charts:
        out.append("</div>")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        'content="width=device-width, initial-scale=1"><title>4-bit training recipes on small models</title>'
        f"<style>{STYLE}</style></head>\n<body><main><h1>4-bit training recipes on small models: do the UFP4 paper's results hold?</h1>"
        "<p>Small byte-level language models are trained with the GEMMs of every linear layer in 4 bits, under several "
        f"recipes, and compared with the same training in bf16.</p><nav aria-label=\"Contents\">{''.join(nav)}</nav>\n"
        + "\n".join(out)
        + "\n</main></body></html>\n"
    )
