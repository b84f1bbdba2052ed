"""The pages of a benchmark and of a campaign, and what is said where a file makes no page."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cgverify import cli
from cgverify.bench.measure import Timing
from cgverify.bench.report import render_json
from cgverify.bench.rows import FAILED, Row, with_ratios
from cgverify.fuzzing.campaign import Campaign, Found, Merged, Sample, Totals, Unit
from cgverify.fuzzing.coverage import Coverage
from cgverify.report.benchmark import render_benchmark, size_of
from cgverify.report.campaign import render_campaign
from cgverify.report.score import read_score
from cgverify.scoring import Score
from tests.unit.report.html import Page, find_page_faults

import msgspec
import pytest

HOSTILE = """</script><img src="x" onerror=alert(1)>'"&<!--"""

SOURCE = "def program(x0):\n    t1 = torch.mul(x0, x0)\n    return t1"

Output = pytest.CaptureFixture[str]


def rows() -> list[Row]:
    """Two chains and one other case, timed for two peers; a third failed."""
    found = []
    for case, time in (("chain-6x2", 10.0), ("chain-128x64", 200.0), ("block-inference", 90.0)):
        timing = Timing(time, time / 2, 100)
        found += with_ratios(
            [
                Row(case, "", "eager", whole=Timing(2 * time, time, 100), first_ms=1.0, reserved=1 << 20),
                Row(case, "torch", "cgverify", whole=timing, computation=timing, first_ms=300.0, reserved=2 << 20),
                Row(case, "torch", "floor", computation=Timing(time / 2, time / 4, 100)),
                Row(case, "torch", "thunder-graphs", status=FAILED, remark=f"raised {HOSTILE}"),
            ]
        )
    return found


def benchmark() -> dict[str, Any]:
    """What ``cgverify bench --json`` writes."""
    content: dict[str, Any] = json.loads(render_json({"device": HOSTILE, "torch": "2.11"}, rows()))
    return content


def campaign(failures: int = 2) -> dict[str, Any]:
    """What ``cgverify campaign merge`` writes."""
    found = tuple(
        Found(
            key=f"wrong-result-mul-{k}",
            invariant="wrong-result",
            kinds=("mul",),
            evidence=HOSTILE,
            source=SOURCE,
            program="{}",
            script="raise SystemExit(1)",
        )
        for k in range(failures)
    )
    totals = Totals(
        programs=400,
        hashes="0",
        statuses={"jit": {"programs": 400, "ok": 398, "fail": 2}},
        coverage=Coverage({"mul": 30, "add": 12}, (("mul", "add", 7), ("mul", "mul", 1)), {"rank 2": 5, "size 0": 1}),
        failures=found,
        met={one.key: 5 + index for index, one in enumerate(found)},
        base_faults=(HOSTILE,),
        parts=(2, 3),
        conflicts=(Unit("jit", 0, 1),),
    )
    merged = Merged(
        campaign=Campaign(name=HOSTILE, target="thunder", properties={"jit": 1}, programs=600),
        totals=totals,
        samples=tuple(
            Sample(begun=begun, seconds=10.0, programs=200, failures=1, host=f"host{begun}", unit=Unit("jit", 0, 0))
            for begun in (100.0, 105.0)
        ),
        versions=({"torch": "2.11"},),
        devices=("emulated",),
        recovered=(),
    )
    content: dict[str, Any] = json.loads(msgspec.json.encode(merged))
    return content


def mutants() -> dict[str, Any]:
    """What ``cgverify mutants --json`` writes."""
    told = {"caught": "", "ok": False, "possible": True, "programs": 1000, "size": None}
    hunts = [
        {**told, "name": "Forgets"},
        {**told, "name": "Copies", "caught": "wrong-result", "ok": True, "programs": 3, "size": 2},
        {**told, "name": "Races", "ok": True, "possible": False, "programs": 0},
    ]
    scores = [Score("drops-a-del", "CG102", 5, 5), Score("swaps", "CG501", 5, 4)]
    return {"mutators": [asdict(score) for score in scores], "mutants": hunts}


def test_benchmark_page_is_one_sound_file() -> None:
    """The page parses, loads nothing, and shows every case, peer and reason as text."""
    page = Page(render_benchmark(benchmark()))
    assert find_page_faults(page) == []
    assert "img" not in page.tags
    for word in ("chain-6x2", "block-inference", "cgverify", "thunder-graphs", "raised </script>"):
        assert word in page.text
    assert page.tags.count("tbody") >= 3


def test_benchmark_page_has_a_plot_for_each_question() -> None:
    """Whole calls and computations are drawn against ops and against inputs, each with a mark for each time."""
    html = render_benchmark(benchmark())
    titles = [
        f"{what} against {axis}, executor torch"
        for what in ("Whole call", "Computation only")
        for axis in ("ops", "inputs")
    ]
    assert [title for title in titles if title not in html] == []
    assert html.count("<title>cgverify: chain-128x64, 200 us</title>") == 4
    assert html.count("<title>cgverify: 0.50 of eager, 10.0 us</title>") == 1


@pytest.mark.parametrize(
    ("case", "size"),
    [("chain-6x2", (6, 2)), ("chain-64x16-16out", None), ("chain-6x2-1048576", None), ("block-training", None)],
)
def test_only_plain_chains_have_a_size(case: str, size: tuple[int, int] | None) -> None:
    """Chains of small tensors with one result lie on the plots; what is not comparable does not."""
    assert size_of(case) == size


def test_campaign_page_is_one_sound_file() -> None:
    """The page parses, loads nothing, and shows each failure with its program and script as text."""
    page = Page(render_campaign(campaign(), read_score(mutants())))
    assert find_page_faults(page) == []
    assert "img" not in page.tags
    for word in ("wrong-result-mul-1", "met 6 times", "torch.mul(x0, x0)", "raise SystemExit(1)", "Not deterministic"):
        assert word in page.text
    assert page.text.index("wrong-result-mul-1") < page.text.index("wrong-result-mul-0")


def test_campaign_page_without_failures_says_so() -> None:
    """A campaign that found nothing has a page that says it."""
    page = Page(render_campaign(campaign(0)))
    assert "no failure" in page.text
    assert "Planted faults" not in page.text


def test_programs_are_spread_over_the_time_they_took() -> None:
    """Two parts of 200 programs, five seconds apart and ten long: 40 a second where they overlap, else 20."""
    html = render_campaign(campaign())
    assert html.count("<title>all shards: 20.0 programs/s</title>") == 32
    assert html.count("<title>all shards: 40.0 programs/s</title>") == 16


def test_score_counts_what_could_show() -> None:
    """A fault that needs a GPU counts for nothing, one missed now and then as missed, and those missed come first."""
    score = read_score(mutants())
    assert (score.caught, score.possible, score.impossible) == (2, 4, 1)
    assert [entry.name for entry in score.entries[:2]] == ["Forgets", "swaps"]


def write(folder: Path, name: str, content: object) -> str:
    file = folder / name
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(file)


def test_the_file_that_is_wrong_is_named(tmp_path: Path, capsys: Output) -> None:
    """Of two files the one that lacks something is named, with what wrote it."""
    planted = write(tmp_path, "mutants.json", {"format": "cgverify-mutants", "version": 1, "mutators": []})
    assert cli.main(["report", write(tmp_path, "campaign.json", campaign()), planted]) == 2
    error = capsys.readouterr().err
    assert error == (
        f"error: {planted} is not what cgverify mutants --json writes (KeyError: 'mutants'): write it again\n"
    )


def test_report_chooses_the_page(tmp_path: Path, capsys: Output) -> None:
    """``report`` tells files apart by their format and writes the page beside the first."""
    bench = write(tmp_path, "bench.json", benchmark())
    both = [
        write(tmp_path, "campaign.json", campaign()),
        write(tmp_path, "mutants.json", {"format": "cgverify-mutants", "version": 1, **mutants()}),
    ]
    assert cli.main(["report", bench]) == 0
    assert cli.main(["report", *both, "--html", str(tmp_path / "page.html")]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"drawn in {tmp_path / 'bench.html'}",
        f"drawn in {tmp_path / 'page.html'}",
    ]
    assert "What a call costs" in (tmp_path / "bench.html").read_text()
    assert "planted faults caught" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "{} is not JSON: Expecting property name"),
        ([], "{} holds nothing that can be drawn: give what one of these wrote: cgverify bench --json, "),
        ({"format": "cgverify-program", "version": 1}, "{} holds nothing that can be drawn"),
        ({"format": "cgverify-benchmark", "version": 7}, "{} has version 7, and this cgverify draws version 1"),
        (
            {"format": "cgverify-benchmark", "version": 1},
            "{} is not what cgverify bench --json writes (KeyError: 'rows'",
        ),
        (
            {"format": "cgverify-mutants", "version": 1},
            "no page shows cgverify-mutants together: give a benchmark",
        ),
        (None, "cannot read {}: No such file or directory; give a file that a command wrote"),
    ],
)
def test_unusable_file_is_one_line(content: object, message: str, tmp_path: Path, capsys: Output) -> None:
    """A file that makes no page exits 2 with one line that names it and says what to give."""
    file = write(tmp_path, "found.json", content) if content is not None else str(tmp_path / "found.json")
    assert cli.main(["report", file]) == 2
    written = capsys.readouterr()
    assert written.err.startswith(f"error: {message.replace('{}', file)}")
    assert written.err.count("\n") == 1
