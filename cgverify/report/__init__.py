"""Pictures: a rewrite, a campaign, a benchmark, each as one HTML page that needs no network.

| module | what it does |
|---|---|
| picture | what a page says of one rewrite: lines of both traces, partners, regions, reasons |
| lifetimes | how long each value is needed and held, and who owns its memory |
| partition | one function under one transform: pictures, verdicts, source lines |
| terminal | the same as text for a terminal |
| campaign, benchmark | what ``cgverify campaign`` and ``cgverify bench --json`` wrote, read and arranged |
| charts | scales, marks and ticks of plots, drawn as SVG by a template |
| page | templates, style and script put together into one file |
"""
