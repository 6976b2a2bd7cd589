"""The style sheet of the HTML report: light and dark, no external resource."""

from __future__ import annotations

CSS = """
:root {
  color-scheme: light dark;
  --page: #f5f6f8; --card: #ffffff; --ink: #1b2430; --muted: #5d6b7a; --rule: #dfe4ea; --soft: #eef1f4;
  --link: #0b5cad; --incumbent: #0072b2; --bound: #c2570c; --good: #13744a; --good-soft: #ddf3e7;
  --fair: #0b5cad; --fair-soft: #dfecfa; --bad: #b42318; --bad-soft: #fde7e4; --shade: rgba(0, 114, 178, .09);
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #11161c; --card: #1a2129; --ink: #e6ebf0; --muted: #97a5b3; --rule: #2c3641; --soft: #222b34;
    --link: #78b7f2; --incumbent: #5cb3ea; --bound: #f0975a; --good: #6fd6a2; --good-soft: #173a2a;
    --fair: #86bff3; --fair-soft: #17324d; --bad: #ff9b8f; --bad-soft: #46201c; --shade: rgba(92, 179, 234, .12);
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 82rem; margin: 0 auto; padding: 2.2rem 1.4rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0; letter-spacing: -.01em; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .7rem; }
h3 { font-size: .82rem; margin: 1.6rem 0 .5rem; color: var(--muted); font-weight: 600;
  text-transform: uppercase; letter-spacing: .05em; }
p { margin: .4rem 0; } .muted { color: var(--muted); } a { color: var(--link); text-decoration: none; }
a:hover { text-decoration: underline; }
code { font: .87em ui-monospace, "SF Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
.card { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .93rem; }
th { text-align: left; color: var(--muted); font-weight: 600; font-size: .8rem; white-space: nowrap; }
th, td { padding: .42rem .7rem; border-bottom: 1px solid var(--rule); vertical-align: baseline; }
tbody tr:last-child td { border-bottom: 0; } tbody tr:hover { background: var(--soft); }
.num { text-align: right; white-space: nowrap; }
.pill { display: inline-block; padding: 0 .6em; border-radius: 1em; font-size: .82rem; font-weight: 600;
  background: var(--soft); color: var(--muted); white-space: nowrap; }
.pill.good { background: var(--good-soft); color: var(--good); }
.pill.fair { background: var(--fair-soft); color: var(--fair); }
.pill.bad { background: var(--bad-soft); color: var(--bad); }
.gap { display: inline-block; width: 4.5rem; height: .42rem; margin-left: .6rem; border-radius: 1rem;
  background: var(--soft); overflow: hidden; vertical-align: middle; }
.gap > i { display: block; height: 100%; background: var(--bound); }
details { margin: .9rem 0; overflow: hidden; }
summary { cursor: pointer; padding: .8rem 1.1rem; display: flex; gap: .8rem; align-items: baseline; flex-wrap: wrap; }
summary::-webkit-details-marker { display: none; } summary::before { content: "\\25B8"; color: var(--muted); }
details[open] > summary::before { content: "\\25BE"; }
details.card[open] > summary { border-bottom: 1px solid var(--rule); }
summary b { font-size: 1.02rem; overflow-wrap: anywhere; } .run { padding: .2rem 1.1rem 1.2rem; }
.sub > summary { padding: 0; align-items: center; border: 0; } details.sub { margin-top: 1.2rem; }
.sub h3 { display: inline; margin: .5rem 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(10.5rem, 1fr)); gap: .7rem; margin-top: 1rem; }
.tile { background: var(--soft); border-radius: 8px; padding: .6rem .8rem; }
.tile b { display: block; font-size: 1.2rem; font-variant-numeric: tabular-nums; }
.tile span, .tile small { color: var(--muted); font-size: .82rem; overflow-wrap: anywhere; }
.warning { background: var(--bad-soft); color: var(--bad); border-radius: 8px; padding: .6rem .9rem; margin: .8rem 0; }
svg { display: block; width: 100%; min-width: 40rem; height: auto; } svg text { fill: var(--muted); font-size: 12px; }
svg .axis { stroke: var(--rule); } svg .shade { fill: var(--shade); stroke: none; }
svg .incumbent { stroke: var(--incumbent); } svg .bound { stroke: var(--bound); }
svg polyline { fill: none; stroke-width: 2; stroke-linejoin: round; } svg circle { stroke: none; }
svg circle.incumbent { fill: var(--incumbent); } svg circle.bound { fill: var(--bound); }
svg text.incumbent { fill: var(--incumbent); stroke: none; } svg text.bound { fill: var(--bound); stroke: none; }
img.plot { display: block; width: 100%; background: #fff; border-radius: 8px; border: 1px solid var(--rule); }
@media print { body { background: #fff; } details { break-inside: avoid; } }
"""
