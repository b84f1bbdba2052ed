"""Pictures: a rewrite, a campaign, a benchmark, each as one HTML page that needs no network.

| module | what it does |
|---|---|
| picture | what a page says of one rewrite: lines of both traces, partners, regions, reasons |
| lifetimes | how long each value is needed and held, and who owns its memory |
| partition | one function under one transform: pictures, verdicts, source lines |
| segments, findings | regions and what stands between them; what the verifier found, by rule and by line |
| drawing, terminal | the same arranged for the page; as text for a terminal |
| campaign, benchmark | what ``cgverify campaign`` and ``cgverify bench --json`` wrote, read and arranged |
| score | what ``cgverify mutants --json`` wrote |
| reading | tells the files of commands apart, and chooses the page |
| charts, heat | scales, ticks and marks of plots and of a heat map, drawn as SVG by templates |
| page | templates, style and script put together into one file |
"""
