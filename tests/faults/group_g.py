"""Rows of the table of fault kinds for group G: traces that are put together wrongly."""

from __future__ import annotations

from tests.faults.table import Fault

TITLE = "Traces put together wrongly"

GROUP_G: tuple[Fault, ...] = (
    Fault(
        "G01",
        "A region deletes a name that is used after it",
        "prevented",
        "All DELs are dropped and placed afresh after the last use; the verifier follows every name (CG102, CG105).",
        "test_g::test_G01_names_live_as_long_as_they_are_used",
    ),
    Fault(
        "G02",
        "Statements of a group lose their order",
        "prevented",
        "Effects are edges of the schedule, and the verifier compares the state that each op sees (CG402).",
        "test_g::test_G02_effects_keep_their_order",
    ),
    Fault(
        "G03",
        "A region misses an input or output",
        "prevented",
        "Live values are computed from uses and RETURN, nested or not; the verifier recomputes them (CG101, CG103).",
        "test_g::test_G03_values_used_by_return_alone_leave_the_region",
    ),
    Fault(
        "G04",
        "The list of saved tensors is pulled into a region",
        "prevented",
        "Ops on Python lists are no region's; the verifier refuses them inside one (CG205).",
        "test_g::test_G04_lists_stay_outside",
    ),
    Fault(
        "G05",
        "Statements or arguments in another order from build to build",
        "prevented",
        "Everything is ordered by position in the trace; two builds give one text.",
        "test_g::test_G05_two_builds_are_equal",
    ),
    Fault(
        "G06",
        "Grouping makes a cycle or crosses a barrier",
        "prevented",
        "Regions are cut from one schedule of all ops, so what a barrier needs comes first, what needs it after.",
        "test_g::test_G06_nothing_crosses_a_barrier",
    ),
    Fault(
        "G07",
        "Equal expressions are merged across a write",
        "prevented",
        "The transform merges nothing, and to the verifier equal ops on memory in another state are different (CG402).",
        "test_g::test_G07_equal_expressions_around_a_write",
    ),
    Fault(
        "G08",
        "The backward trace is recognised by fixed positions",
        "prevented",
        "It is found by tag and symbols, and one transform serves several functions at once.",
        "test_g::test_G08_one_transform_for_traces_of_every_shape",
    ),
    Fault(
        "G09",
        "The mark of a fixed address is missing",
        "prevented",
        "An input without it is copied on every call and written back, which costs time and stays right.",
        "test_g::test_G09_unmarked_parameters_are_copied",
    ),
    Fault(
        "G10",
        "The mark of a fixed address on what is not fixed",
        "prevented",
        "Marks are no promises: addresses are compared before each replay; without that the verifier objects (CG301).",
        "test_g::test_G10_marked_parameters_may_move",
    ),
    Fault(
        "G11",
        "A collective and its wait end up in different regions",
        "ungraphed",
        "Collectives and waits are unknown ops, which stay outside all regions.",
        "test_g::test_G11_collectives_stay_outside",
    ),
    Fault(
        "G12",
        "The transform is there and no graph is used",
        "prevented",
        "The transform's report names each op left out with the reason, and the statistics count graphs and replays.",
        "test_g::test_G12_what_is_not_graphed_is_told",
    ),
)
