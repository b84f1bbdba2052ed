"""``cgverify fidelity``: compare the emulation with a GPU, this machine's or one whose answers were recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cgverify.commands.options import STANDARD_OUTPUT, CommandError, JsonOption, one_line_errors, write_json

import typer


def fidelity(
    recordings: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE...]", help="Recordings of a GPU's answers.")
    ] = None,
    programs: Annotated[int, typer.Option(help="Random programs that this machine's GPU is asked about.", min=1)] = 150,
    seed: Annotated[int, typer.Option(help="Chooses them.")] = 0,
    record_file: Annotated[
        str | None,
        typer.Option("--record", metavar="FILE", help="Write down what the GPU here answers, and stop."),
    ] = None,
    json_file: JsonOption = None,
) -> int:
    """Ask a GPU and the emulation the same questions: 0 all answers are equal, 1 not.

    What does a capture allow, of every operation; what are the verdicts on random programs with Thunder's transform and
    with ours; and, where arithmetic is exact, what are the bits. Without recordings this machine's GPU is asked, and
    where there is none, the recordings that come with the repository are taken.
    """
    from cgverify.fidelity import Agreement, compare, compare_here, load_recording, record
    from cgverify.loading import CheckError

    import torch

    with one_line_errors(CheckError):
        if record_file is not None:
            record(Path(record_file), programs, seed)
            return 0
        agreements: dict[str, Agreement] = {}
        if not recordings and torch.cuda.is_available():
            agreements[torch.cuda.get_device_name()] = compare_here(programs, seed)
        else:
            for path in recordings or _recordings_beside_the_package():
                recording = load_recording(Path(path))
                if not recording.answers:
                    raise CommandError(f"{path} holds no answers, so nothing can differ; record again with --record")
                head = recording.head
                agreements[f"{head.gpu}, torch {head.torch}, {head.day}"] = compare(recording)
    if json_file is not None:
        import msgspec

        write_json("fidelity", {"gpus": msgspec.to_builtins(agreements)}, json_file)
    if json_file != STANDARD_OUTPUT:
        for gpu, agreement in agreements.items():
            print(f"{gpu}\n{agreement.render()}")
    return 1 if any(agreement.differences for agreement in agreements.values()) else 0


def _recordings_beside_the_package() -> list[str]:
    import cgverify

    found = sorted(map(str, (Path(cgverify.__file__).parents[1] / "tests" / "golden").glob("fidelity_*.jsonl.gz")))
    if not found:
        raise CommandError("no GPU and no recorded answers here: give a recording, or clone the repository")
    return found
