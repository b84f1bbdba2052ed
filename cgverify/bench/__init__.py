"""Side-by-side timing of cgverify and its peers in one run; the work behind ``cgverify bench``.

| module | what it does |
|---|---|
| cases | what is timed: chains of small ops, and a transformer block in inference and training |
| peers | who is timed: eager, Thunder, Thunder's own transform, cgverify, the floor, torch.compile |
| bare | the floor itself: a raw capture with grouped copies and nothing that makes it safe |
| measure | how: throughput, host time, first call, peak reserved memory |
| memory | the peak of reserved memory of each peer, in a process of its own |
| comparison | runs the peers on the cases, checks each against eager first, and gives rows |
| targets | what the project sets itself, held against the rows |
| soak, soak_histories, soak_functions | random histories of calls on threads and streams, checked, for minutes |
| demonstrations | values and shapes that change on every call, and the graphs and memory that they cost |
| report, plot | rows as tables, as JSON, as bars |
"""
