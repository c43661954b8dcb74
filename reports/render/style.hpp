// The style sheet of a page: light, dark, printed, narrow.
#pragma once

namespace assay::render {

inline constexpr const char* kStyle = R"css(
:root { --text: #1b1f24; --soft: #57606a; --back: #ffffff; --raised: #f6f8fa; --line: #d0d7de;
  --good: #0a6b3d; --bad: #b3261e; --warn: #8a5a00; --neutral: #3b4652; --link: #0058a3;
  --series-1: #0072b2; --series-2: #d55e00; --series-3: #009e73; --series-4: #cc79a7;
  --series-5: #e69f00; --series-6: #56b4e9; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e8eb; --soft: #a3acb6; --back: #14171a; --raised: #1e2226; --line: #3a4149;
    --good: #5ecb91; --bad: #ff8a80; --warn: #f0b429; --neutral: #b7c0ca; --link: #7cc0ff;
    --series-1: #4aa8e0; --series-2: #ff8b3d; --series-3: #3fcf9f; --series-4: #e9a3c9;
    --series-5: #f5c04a; --series-6: #a5d8f7; }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; color: var(--text); background: var(--back);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1, h2, h3, p, li, dd, td, th, figcaption, caption, summary { overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; padding-bottom: .2rem;
  border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
p, ul { margin: .5rem 0; max-width: 75ch; }
a { color: var(--link); }
.subtitle { color: var(--soft); margin: 0 0 1rem; max-width: none; }
.verdict { --tone: var(--neutral); border-left: .35rem solid var(--tone);
  background: var(--raised); padding: .7rem 1rem; margin: 1rem 0; max-width: none;
  border-radius: 0 .3rem .3rem 0; }
.verdict strong { color: var(--tone); font-size: 1.1rem; margin-right: .5rem; }
.good { --tone: var(--good); } .bad { --tone: var(--bad); } .warn { --tone: var(--warn); }
td.good, td.bad, td.warn { color: var(--tone); font-weight: 600; }
.scroll { overflow-x: auto; margin: .8rem 0; }
table { border-collapse: collapse; font-size: .9rem; }
.caption { color: var(--soft); font-size: .9rem; margin: .8rem 0 0; max-width: 90ch; }
.caption + .scroll { margin-top: .2rem; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; overflow-wrap: normal; }
td:first-child { min-width: 8rem; }
th { border-bottom-width: 2px; font-weight: 600; vertical-align: bottom; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
pre { background: var(--raised); padding: .7rem .9rem; overflow-x: auto; font-size: .85rem;
  border-radius: .3rem; margin: .6rem 0; }
figure { margin: 1rem 0; break-inside: avoid; }
.panels { display: flex; flex-wrap: wrap; gap: .5rem; }
.panel { flex: 1 1 300px; min-width: 0; }
.panel svg { display: block; width: 100%; height: auto; color: var(--text); }
.panel svg text { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
figcaption { color: var(--soft); font-size: .9rem; max-width: 90ch; margin-top: .3rem; }
details { margin: .6rem 0; } summary { cursor: pointer; }
.download { font-size: .9rem; }
footer { font-size: .9rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: .5rem 0; }
dt { color: var(--soft); } dd { margin: 0; font-family: ui-monospace, "DejaVu Sans Mono", monospace;
  font-size: .85rem; }
@media (max-width: 600px) {
  main { padding: 1rem .75rem 2rem; } h1 { font-size: 1.3rem; }
  dl { grid-template-columns: 1fr; } dd { margin-bottom: .4rem; }
}
@media print {
  :root { --text: #000; --soft: #333; --back: #fff; --raised: #f3f3f3; --line: #999;
    --good: #0a6b3d; --bad: #b3261e; --warn: #7a4f00; --neutral: #333; --link: #000; }
  body { font-size: 10.5pt; } main { max-width: none; padding: 0; }
  .verdict { border: 1px solid var(--tone); border-left-width: .35rem; }
  .scroll, pre { overflow: visible; } pre { white-space: pre-wrap; }
  h2, h3 { break-after: avoid; } tr, figure { break-inside: avoid; } thead { display: table-header-group; }
  table { font-size: 8pt; } td:first-child { min-width: 0; } th, td { padding: .15rem .4rem; } .n { white-space: normal; }
  .download { display: none; }
}
)css";

}  // namespace assay::render
