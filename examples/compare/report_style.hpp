// ufp4 - the style sheet of the HTML report, light and dark, for small and large screens.
// SPDX-License-Identifier: Apache-2.0
/// Warm colours are E2M1, cool ones uniform grids. Hollow or pale marks are without the transform, solid ones with it.
/// Plots are laid out in percent and text in fixed sizes, so text does not shrink with the page.
#pragma once

namespace compare {

inline constexpr const char* report_style = R"css(
:root {
  color-scheme: light dark;
  --page: #ffffff; --panel: #f6f7f9; --ink: #14171c; --soft: #59616d; --rule: #dfe3e8; --grid: #e7eaee;
  --e2m1: #c2500f; --uniform: #1f62c9; --best: #e4f3e8; --best-ink: #0c5a2a;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0e1115; --panel: #161a20; --ink: #e9ecf0; --soft: #9ba5b2; --rule: #2a3038; --grid: #252b33;
    --e2m1: #ff9a56; --uniform: #6faeff; --best: #12351f; --best-ink: #86e2a4;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", sans-serif; }
main { max-width: 70rem; margin: 0 auto; padding: clamp(1.25rem, 4vw, 3.5rem) clamp(1rem, 4vw, 2.5rem); }
.over { color: var(--soft); font-size: .85rem; letter-spacing: .04em; margin: 0; }
h1 { font-size: clamp(1.7rem, 4.6vw, 2.75rem); line-height: 1.12; letter-spacing: -.02em; margin: .35rem 0 .8rem;
  text-wrap: balance; }
h2 { font-size: 1.25rem; letter-spacing: -.01em; margin: 0 0 .3rem; }
h3 { font-size: .95rem; margin: 0; }
section, .pair { margin-top: clamp(2rem, 5vw, 3.25rem); }
p { margin: 0 0 .7rem; max-width: 46rem; text-wrap: pretty; }
.source { color: var(--soft); overflow-wrap: anywhere; }
.reading p { font-size: 1.06rem; }
.reading p:last-child { color: var(--soft); font-size: .95rem; }
.note { color: var(--soft); font-size: .92rem; }
code, .mono { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: .92em; }

.opening { display: grid; grid-template-columns: minmax(0, 1.35fr) minmax(0, 1fr);
  gap: clamp(1.5rem, 4vw, 3.25rem); margin-top: 1.9rem; }
@media (max-width: 58rem) { .opening { grid-template-columns: minmax(0, 1fr); } }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 9.4rem), 1fr)); gap: .8rem;
  align-content: start; }
.tile { background: var(--panel); border: 1px solid var(--rule); border-radius: .7rem; padding: .9rem 1.05rem; }
.tile .what { color: var(--soft); font-size: .85rem; }
.tile .number { font-size: 1.9rem; font-weight: 650; letter-spacing: -.02em; line-height: 1.25;
  font-variant-numeric: tabular-nums; }
.tile .unit { font-size: 1rem; font-weight: 500; color: var(--soft); }
.tile .who { font-size: .82rem; white-space: nowrap; }

.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.3rem; font-size: .87rem; color: var(--soft);
  margin: .5rem 0 .9rem; padding: 0; list-style: none; }
.legend li { display: flex; align-items: center; gap: .45rem; }
.legend svg { width: 14px; height: 14px; flex: none; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr));
  gap: clamp(2rem, 4vw, 3rem); }
.pair section { margin-top: 0; min-width: 0; display: flex; flex-direction: column; }
.pair .chart { margin-top: auto; }

.chart { display: grid; grid-template-columns: max-content minmax(0, 1fr) max-content; column-gap: .9rem;
  align-items: center; font-size: .87rem; }
.chart .family { grid-column: 1 / -1; color: var(--soft); font-size: .8rem; margin-top: .55rem; padding-top: .4rem;
  border-top: 1px solid var(--rule); }
.chart .value { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.chart .value .before { color: var(--soft); }
.chart svg { width: 100%; display: block; overflow: visible; }
@media (max-width: 30rem) { .chart { column-gap: .6rem; font-size: .78rem; } }

svg text { font-size: 11.5px; fill: var(--soft); font-variant-numeric: tabular-nums; }
svg .gridline { stroke: var(--grid); stroke-width: 1; }
svg .axis { stroke: var(--soft); stroke-width: 1; }
.e2m1 { --hue: var(--e2m1); }
.uniform { --hue: var(--uniform); }
.plain { --hue: var(--soft); }
svg .link { stroke: var(--hue); stroke-width: 3; opacity: .38; }
svg .hollow { fill: var(--page); stroke: var(--hue); stroke-width: 2; }
svg .solid { fill: var(--hue); }
svg .pale { fill: var(--hue); opacity: .34; }
svg .stem { stroke: var(--hue); stroke-width: 2.5; }
svg .ink { fill: var(--ink); }
svg .number { fill: var(--ink); font-weight: 600; }
svg .tick { stroke: var(--ink); stroke-width: 2; }
svg .bin { fill: var(--hue); opacity: .13; }
svg .bin.alternate { opacity: .27; }

.grids { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: 1.4rem 2.4rem;
  margin-top: 1rem; }
.histograms { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); gap: 1.5rem 2rem; margin-top: 1rem; }
@media (max-width: 44rem) { .histograms { grid-template-columns: 1fr; } }
.grids svg, .histograms svg { width: 100%; display: block; overflow: visible; }
.head { display: flex; justify-content: space-between; gap: .8rem; align-items: baseline; font-size: .85rem;
  color: var(--soft); font-variant-numeric: tabular-nums; }
.head h3 { color: var(--ink); }

.scroll { overflow-x: auto; margin-top: .8rem; border: 1px solid var(--rule); border-radius: .7rem; }
table { border-collapse: collapse; width: 100%; font-size: .87rem; font-variant-numeric: tabular-nums;
  white-space: nowrap; }
th, td { padding: .34rem .75rem; text-align: right; }
th:first-child, td:first-child { text-align: left; padding-left: 1rem; }
thead th { font-weight: 600; vertical-align: bottom; background: var(--panel); border-bottom: 1px solid var(--rule); }
thead small { display: block; font-weight: 400; color: var(--soft); }
tbody tr.first td { border-top: 1px solid var(--rule); }
tbody tr.first:first-child td { border-top: 0; }
td.best { background: var(--best); color: var(--best-ink); font-weight: 650; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .35rem 1.4rem; margin: .8rem 0; font-size: .92rem; }
dt { font-weight: 600; }
dd { margin: 0; color: var(--soft); max-width: 46rem; }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .6rem; } }
@media print { section { break-inside: avoid; } }
)css";

}  // namespace compare
