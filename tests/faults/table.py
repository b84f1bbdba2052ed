"""The kinds of fault seen with CUDA graphs, what this project does about each, and the test that shows it.

`python -m tests.faults.table > docs/faults.md` writes the page; a test compares them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Decision = Literal["prevented", "refused", "ungraphed", "out-of-scope"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault.

    Attributes:
        id: a letter for the group and a number.
        kind: what goes wrong, where nothing is done about it.
        decision: what is done about it.
        why: how, or why not, in one sentence.
        test: a test that shows it, as `file::function`; empty where nothing can be shown.
    """

    id: str
    kind: str
    decision: Decision
    why: str
    test: str = ""


GROUPS = {
    "A": "Wrong values without an error: aliases, writes, lifetime of buffers",
    "B": "Host work frozen at the capture",
    "C": "Wrong gradients",
    "R": "Random numbers",
    "D": "Memory gone, or not a graph's own",
    "E": "Streams, devices, threads",
    "F": "Captures that fail",
    "G": "Traces put together wrongly",
    "H": "Caching, memory, speed",
    "I": "Communication",
    "J": "Tools and last bits",
}

FAULTS: tuple[Fault, ...] = (
    Fault(
        "A01",
        "A write to an input lands in a private copy of it",
        "prevented",
        "Each region knows which inputs it writes; a copied one is copied back on every call.",
        "test_a::test_A01_write_to_a_copied_input",
    ),
    Fault(
        "A02",
        "A result of an earlier call changes",
        "prevented",
        "Results are copied from graph memory to fresh storage on every call.",
        "test_a::test_A02_earlier_results_change",
    ),
    Fault(
        "A03",
        "Weights or constants move, and the graph reads the old address",
        "prevented",
        "Addresses of inputs read in place are compared before every replay, and constants are inputs.",
        "test_a::test_A03_storage_behind_a_static_input_moves",
    ),
    Fault(
        "A04",
        "One tensor is passed twice, or two views overlap, and one is written",
        "ungraphed",
        "Ranges of addresses are compared on every call; an overlap with a written input runs the body.",
        "test_a::test_A04_one_tensor_as_two_arguments",
    ),
    Fault(
        "A05",
        "A warm-up repeats what the program writes",
        "prevented",
        "The one real, un-graphed first call is the warm-up.",
        "test_a::test_A05_warm_up_repeats_effects",
    ),
    Fault(
        "A06",
        "First, second and third call behave differently",
        "prevented",
        "A capture executes nothing: the call that captures returns a replay like every later one.",
        "test_a::test_A06_call_counts_differ",
    ),
    Fault(
        "A07",
        "A function's own result is its next argument",
        "prevented",
        "No result that a caller gets is graph memory, so no argument is.",
        "test_a::test_A07_own_output_fed_back",
    ),
    Fault(
        "A08",
        "Un-graphed work between two regions hands over memory at a new address",
        "prevented",
        "What Thunder promises to stay, or a graph lends, is read in place, under guard; all else is copied in.",
        "test_a::test_A08_fresh_tensors_between_two_graphs",
    ),
    Fault(
        "A09",
        "State that the program rebinds stays at its old tensor",
        "prevented",
        "The rebinding stays with Thunder, outside the region, and gets a fresh tensor on every call.",
        "test_a::test_A09_rebound_state",
    ),
    Fault(
        "A10",
        "An op writes an argument and does not say so",
        "ungraphed",
        "Unknown ops stay out and keep their order; for one vouched for, the capture compares version counters.",
        "test_a::test_A10_hidden_mutation",
    ),
    Fault(
        "A11",
        "An argument returned unchanged comes back as a private buffer",
        "prevented",
        "A result that is an input is handed out as the caller's own object.",
        "test_a::test_A11_argument_returned_unchanged",
    ),
    Fault(
        "A12",
        "Results that share memory, with each other or an argument, lose that",
        "prevented",
        "Sharing is read off addresses at the capture and rebuilt on every call.",
        "test_a::test_A12_results_that_share_memory",
    ),
    Fault(
        "A13",
        "A clone is taken for an alias",
        "prevented",
        "To the alias analysis a clone is new memory, and no op is dropped.",
        "test_a::test_A13_clone_taken_for_an_alias",
    ),
    Fault(
        "A14",
        "Of several writes to one tensor some are dropped or swapped",
        "prevented",
        "Writes and reads of one alias class keep their order, and the verifier proves it.",
        "test_a::test_A14_several_copies_to_one_destination",
    ),
    Fault(
        "A15",
        "A write through a view is not seen through the base",
        "prevented",
        "Order is kept per alias class, whichever name an op uses.",
        "test_a::test_A15_stale_name_after_a_write_through_a_view",
    ),
    Fault(
        "A16",
        "A static buffer has other strides than the argument",
        "prevented",
        "Buffers have the argument's exact strides, which are part of an entry.",
        "test_a::test_A16_layouts_of_static_buffers",
    ),
    Fault(
        "A17",
        "Copying into memory that overlaps itself",
        "prevented",
        "Repeated dimensions are narrowed, other overlaps copied as a span; a written one runs un-graphed.",
        "test_a::test_A17_expanded_and_overlapping_inputs",
    ),
    Fault(
        "A18",
        "An address is aligned otherwise than at the capture",
        "prevented",
        "The address modulo 16 is part of an entry, and buffers keep it.",
        "test_a::test_A18_alignment_of_an_argument",
    ),
    Fault(
        "A19",
        "Padding, or an argument left out, shows in results",
        "prevented",
        "Nothing is padded: each size has a graph of its own.",
        "test_a::test_A19_padding_leaks",
    ),
    Fault(
        "A20",
        "A warm-up reads buffers that nobody filled",
        "prevented",
        "Nothing is executed on a buffer before the caller's values are in it.",
        "test_a::test_A20_garbage_in_static_buffers",
    ),
    Fault(
        "B01",
        "A Python number is baked into a kernel",
        "prevented",
        "Thunder keys constants; numbers known at run time stay outside, or are read where they lie on the device.",
        "test_b::test_B01_numbers_baked_into_kernels",
    ),
    Fault(
        "B02",
        "CPU work in a region runs once",
        "ungraphed",
        "An op with a CPU tensor is in no region.",
        "test_b::test_B02_cpu_work_runs_at_capture_only",
    ),
    Fault(
        "B03",
        "A CPU scalar tensor keeps its first value",
        "ungraphed",
        "An op with a CPU tensor, of whatever size, is in no region.",
        "test_b::test_B03_scalar_tensor_on_the_cpu",
    ),
    Fault(
        "B04",
        "A branch on data is frozen to one side",
        "refused",
        "Thunder refuses to trace a branch on a tensor, with graphs as without.",
        "test_b::test_B04_branch_frozen_to_one_side",
    ),
    Fault(
        "B05",
        "State built lazily in the warm-up is missing from the graph",
        "ungraphed",
        "Ops with state are unknown ops, which stay out.",
        "test_b::test_B05_state_built_in_the_warm_up",
    ),
    Fault(
        "B06",
        "Metadata tensors that the host rebuilds are read where they were",
        "prevented",
        "Every tensor that a region reads is an input of it, copied in on each call.",
        "test_b::test_B06_metadata_rebuilt_on_each_step",
    ),
    Fault(
        "B07",
        "A copy from host memory is replayed after that memory changed",
        "ungraphed",
        "Copies between host and device are in no region.",
        "test_b::test_B07_copy_from_host_memory",
    ),
    Fault(
        "B08",
        "A tensor made of Python values is a frozen constant",
        "ungraphed",
        "Ops that make tensors of host values are in no region.",
        "test_b::test_B08_tensor_made_of_python_values",
    ),
    Fault(
        "B09",
        "Settings are chosen from the data of the capture",
        "prevented",
        "Only ops that launch the same kernels whatever the values are known as capturable.",
        "test_b::test_B09_settings_chosen_from_the_data_of_the_capture",
    ),
    Fault(
        "B10",
        "Autocast's cache of casts crosses the capture",
        "prevented",
        "Thunder turns autocast into casts of the trace and runs traces with autocast off.",
        "test_b::test_B10_autocast_cast_cache",
    ),
    Fault(
        "B11",
        "Global switches change after the capture",
        "prevented",
        "Switches that choose kernels are part of an entry; Thunder guards train, eval and grad mode.",
        "test_b::test_B11_global_switches_change",
    ),
    Fault(
        "B12",
        "Scales and flags of quantised training are stepped by the host",
        "ungraphed",
        "Such ops are unknown ops, which stay out.",
        "test_b::test_B12_state_stepped_by_the_host",
    ),
    Fault(
        "B13",
        "An op behaves otherwise under capture",
        "ungraphed",
        'Unknown ops stay out; for one vouched for, check="first" compares the first replay with the body.',
        "test_b::test_B13_op_behaves_differently_under_capture",
    ),
    Fault(
        "B14",
        "Prints, counters and hooks run once",
        "ungraphed",
        "Ops with effects in Python are unknown ops, and hooks of modules are outside the trace.",
        "test_b::test_B14_python_effects_disappear",
    ),
    Fault(
        "C01",
        "A second forward overwrites what the first one saved",
        "prevented",
        "No graph replays over a saved tensor that somebody holds: the call runs un-graphed; later ones copy it out.",
        "test_c::test_C01_several_forwards_before_the_first_backward",
    ),
    Fault(
        "C02",
        "Gradients are graph memory",
        "prevented",
        "Gradients are results of the backward region, in fresh storage.",
        "test_c::test_C02_gradients_kept_by_the_caller",
    ),
    Fault(
        "C03",
        "A shared pool recycles what a backward still needs",
        "prevented",
        "What a graph keeps for a backward is taken for captures after it; a graph captured before it gives way.",
        "test_c::test_C03_saved_tensors_in_a_shared_pool",
    ),
    Fault(
        "C04",
        "The backward reads what another entry of the forward saved",
        "prevented",
        "Saved tensors come as arguments of the backward region: lent ones are compared by address, others copied in.",
        "test_c::test_C04_forward_captured_again_for_other_strides",
    ),
    Fault(
        "C05",
        "The incoming gradient has other strides",
        "prevented",
        "Strides of cotangents are part of an entry, as of any input.",
        "test_c::test_C05_layouts_of_incoming_gradients",
    ),
    Fault(
        "C06",
        "Some results get no gradient",
        "prevented",
        "Autograd and Thunder fill what is absent before the region sees it; a region has tensors only.",
        "test_c::test_C06_outputs_without_a_gradient",
    ),
    Fault(
        "C07",
        "Recomputation in the backward changes lifetimes",
        "prevented",
        "Lifetimes come from the trace, not from a recorded run.",
        "test_c::test_C07_recomputation_in_backward",
    ),
    Fault(
        "C08",
        "Accumulators remember a stream from before",
        "prevented",
        "The autograd engine never runs inside a capture.",
        "test_c::test_C08_accumulators_remember_a_stream",
    ),
    Fault(
        "C09",
        "Hooks on gradients are not run",
        "prevented",
        "Regions end where gradients are made; accumulation and hooks are autograd's.",
        "test_c::test_C09_hooks_on_gradients",
    ),
    Fault(
        "C10",
        "Dropped gradients move what an optimiser reads",
        "prevented",
        "Gradients given to a graphed update are copied in.",
        "test_c::test_C10_gradients_set_to_none",
    ),
    Fault(
        "C11",
        "Every call returns the same tensor object",
        "prevented",
        "Results are new tensor objects on every call.",
        "test_c::test_C11_one_tensor_object_for_every_call",
    ),
    Fault(
        "R01",
        "Replays draw the same numbers, or ignore a new seed",
        "prevented",
        "Only draws from the device's default generator are captured, and torch moves it at each replay.",
        "test_r::test_R01_every_replay_draws_the_same_numbers",
    ),
    Fault(
        "R02",
        "The host reads the generator's state inside a region",
        "ungraphed",
        "Queries of the state are in no region and keep their order with draws.",
        "test_r::test_R02_generator_state_read_on_the_host",
    ),
    Fault(
        "R03",
        "Draws change their order",
        "prevented",
        "Draws keep program order within and between regions.",
        "test_r::test_R03_draws_change_order",
    ),
    Fault(
        "R04",
        "A warm-up advances the generator",
        "prevented",
        "Nothing runs twice, and a capture draws nothing.",
        "test_r::test_R04_warm_up_draws_advance_the_generator",
    ),
    Fault(
        "R05",
        "Several generators meet in a capture",
        "ungraphed",
        "Ops with a generator of their own are in no region; one capture at a time holds a lock.",
        "test_r::test_R05_several_generators",
    ),
    Fault(
        "R06",
        "A recomputed forward draws other numbers",
        "prevented",
        "Replays move the generator as un-graphed calls do, so saving and restoring its state works.",
        "test_r::test_R06_recomputed_forward_draws_other_numbers",
    ),
    Fault(
        "D01",
        "Memory that a graph reads was freed",
        "prevented",
        "Inputs are copied into buffers that the graph holds, or their address is compared first.",
        "test_d::test_D01_constants_freed_before_a_replay",
    ),
    Fault(
        "D02",
        "A library's workspace is freed, grown or shared",
        "prevented",
        "Captures have streams that torch hands out to nobody, so their cuBLAS workspaces are theirs alone and lie in "
        "their pool.",
        "test_d::test_D02_library_workspaces",
    ),
    Fault(
        "D03",
        "Graphs of one pool replay in another order",
        "prevented",
        "Copy-in, replay and copy-out of one call are enqueued together; what outlives them keeps older graphs still.",
        "test_d::test_D03_graphs_of_one_pool_in_any_order",
    ),
    Fault(
        "D04",
        "A lasting buffer is allocated on scratch memory",
        "prevented",
        "Caches come to be in the un-graphed first call, outside the pool.",
        "test_d::test_D04_long_lived_buffer_on_scratch_memory",
    ),
    Fault(
        "D05",
        "A pool is released under live graphs",
        "prevented",
        "Graphs hold their pool, and a pool whose last graph is gone is not used again.",
        "test_d::test_D05_pool_released_under_live_graphs",
    ),
    Fault(
        "D06",
        "A tensor escapes from graph memory by a side door",
        "prevented",
        "Whatever leaves a region is a result of it: copied out, or lent where only the trace itself uses it.",
        "test_d::test_D06_tensor_that_escapes_by_a_side_door",
    ),
    Fault(
        "E01",
        "Capture on another device or stream than the work",
        "prevented",
        "Capture and replay follow the region's device, not the current one; an empty graph is dropped.",
        "test_e::test_E01_current_device_is_another",
    ),
    Fault(
        "E02",
        "A region touches two devices",
        "ungraphed",
        "Ops on two devices are in no region, and each region has one device.",
        "test_e::test_E02_region_on_two_devices",
    ),
    Fault(
        "E03",
        "A kernel goes to a stream of its own",
        "ungraphed",
        'Unknown ops stay out; for one vouched for, check="first" finds the missing work.',
        "test_e::test_E03_kernel_on_another_stream",
    ),
    Fault(
        "E04",
        "An input is made on another stream",
        "prevented",
        "Copy-in runs on the caller's stream, after all that it waits for.",
        "test_e::test_E04_input_from_another_stream",
    ),
    Fault(
        "E05",
        "Copy-in, replay and use are not ordered",
        "prevented",
        "All three run on the caller's stream, which first waits for the stream of the call before. In a backward over "
        "several streams Thunder itself does not wait (docs/transform.md).",
        "test_e::test_E05_calls_on_alternating_streams",
    ),
    Fault(
        "E06",
        "Two threads use one graph at once",
        "prevented",
        "One lock covers captures, replays and disposal.",
        "test_e::test_E06_threads_and_streams_at_once",
    ),
    Fault(
        "E07",
        "Another thread's call kills a capture",
        "prevented",
        "Captures concern their own thread only (mode thread_local).",
        "test_e::test_E07_another_thread_uses_the_device",
    ),
    Fault(
        "E08",
        "A forked stream is not joined",
        "ungraphed",
        "Unknown ops stay out; for one vouched for, the capture fails and the entry stays un-graphed.",
        "test_e::test_E08_side_stream_that_is_not_joined",
    ),
    Fault(
        "F01",
        "An op in a region waits for the device",
        "ungraphed",
        "Ops that hand values to the host are in no region.",
        "test_f::test_F01_work_that_waits_for_the_device",
    ),
    Fault(
        "F02",
        "Whether an op is safe depends on its arguments",
        "ungraphed",
        "Each op is judged with its arguments; unsafe ones are left out, with the reason.",
        "test_f::test_F02_safety_depends_on_arguments",
    ),
    Fault(
        "F03",
        "A kernel reads on the host unseen",
        "ungraphed",
        "Unknown ops stay out; for one vouched for, the capture fails and the entry stays un-graphed.",
        "test_f::test_F03_hidden_read_by_the_host",
    ),
    Fault(
        "F04",
        "A kernel is built inside the capture",
        "prevented",
        "An entry runs un-graphed with the same metadata before it is captured.",
        "test_f::test_F04_kernel_built_inside_the_capture",
    ),
    Fault(
        "F05",
        "A finaliser releases resources inside a capture",
        "prevented",
        "Collection pauses during a capture, and graphs that die then are disposed of later.",
        "test_f::test_F05_finaliser_in_the_middle_of_a_capture",
    ),
    Fault(
        "F06",
        "Somebody else is capturing",
        "ungraphed",
        "Inside another capture the body runs as it is and becomes part of that graph.",
        "test_f::test_F06_somebody_else_is_capturing",
    ),
    Fault(
        "F07",
        "A failed capture leaves the process broken",
        "ungraphed",
        "Stream, generator, allocator and buffers are put back, the call runs un-graphed, one warning says so.",
        "test_f::test_F07_a_method_of_the_graph_fails",
    ),
    Fault(
        "F08",
        "A region has no tensor inputs",
        "prevented",
        "A region's device comes from its plan, not from its arguments.",
        "test_f::test_F08_region_without_tensor_inputs",
    ),
    Fault(
        "F09",
        "There is nothing to capture",
        "ungraphed",
        "Views alone make no region, and a capture without launches marks its entry un-graphed.",
        "test_f::test_F09_nothing_to_capture",
    ),
    Fault(
        "F10",
        "Values that are no plain tensors cross the boundary",
        "ungraphed",
        "Regions take tensors only; subclasses, other layouts and lazy bits run the body.",
        "test_f::test_F10_values_that_are_no_tensors",
    ),
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
    Fault(
        "H01",
        "An entry serves a call that it does not fit",
        "prevented",
        "Dtype, size, strides, alignment, addresses of inputs in place and switches are part of an entry.",
        "test_h::test_H01_entry_reused_where_it_does_not_fit",
    ),
    Fault(
        "H02",
        "Every new size costs a capture",
        "prevented",
        "An entry is captured when it comes a second time, at most max_graphs graphs live, moving inputs get copied.",
        "test_h::test_H02_a_capture_for_every_size",
    ),
    Fault(
        "H03",
        "A step counter costs a capture per value",
        "prevented",
        "Numbers are no inputs of regions.",
        "test_h::test_H03_steps_in_the_key",
    ),
    Fault(
        "H04",
        "Copies double the memory",
        "prevented",
        "Parameters, buffers and saved tensors are read in place, and buffers of one transform are shared.",
        "test_h::test_H04_static_copies_double_memory",
    ),
    Fault(
        "H05",
        "Every graph has a pool of its own",
        "prevented",
        "One pool per device and transform.",
        "test_h::test_H05_a_pool_per_graph",
    ),
    Fault(
        "H06",
        "Graphs outlive their function",
        "prevented",
        "The region owns its entries; a finaliser drops them.",
        "test_h::test_H06_graphs_outlive_the_function",
    ),
    Fault(
        "H07",
        "Fixed costs of many graphs add up",
        "prevented",
        "The number of graphs is bounded, the least recently used goes first, `reset` drops all.",
        "test_h::test_H07_fixed_costs_add_up",
    ),
    Fault(
        "H08",
        "A graph is slower than none",
        "prevented",
        "Copies are grouped into one launch each way, and regions are as few as order allows.",
        "test_h::test_H08_graph_slower_than_no_graph",
    ),
    Fault(
        "I01",
        "Ranks disagree on capture and replay",
        "ungraphed",
        "Collectives are in no region, so ranks may decide alone.",
        "test_ij::test_collectives_and_waits_stay_out_of_regions[I01-torch_all_reduce_prim_impl]",
    ),
    Fault(
        "I02",
        "A graph waits for communication begun outside",
        "ungraphed",
        "Waits are in no region.",
        "test_ij::test_collectives_and_waits_stay_out_of_regions[I02-torch_wait_prim_impl]",
    ),
    Fault(
        "I03",
        "Set-up or teardown of a communicator meets graphs",
        "out-of-scope",
        "No graph here uses a communicator; whoever must free all graphs before a teardown calls `reset`.",
    ),
    Fault(
        "J01",
        "Profiler and graphs crash together",
        "out-of-scope",
        "That is between CUPTI and the driver; replays are named by NVTX ranges, and the test shows results only.",
        "test_ij::test_J01_profiler_around_replays",
    ),
    Fault(
        "J02",
        "Replays differ in the last bits",
        "ungraphed",
        'check="first" compares the first replay bit for bit and gives up a graph that differs.',
        "test_ij::test_J02_replays_differ_in_the_last_bits",
    ),
)


def render() -> str:
    """The page of the documentation."""
    lines = [
        "# Kinds of fault",
        "",
        "What goes wrong with CUDA graphs elsewhere, what the transform does about it, and the test that shows it (in",
        "`tests/faults/`). *Prevented*: it cannot happen. *Ungraphed*: what it concerns runs as without graphs, and",
        "`report()` or `stats()` says why. *Refused*: an error. *Out of scope*: the row says why. What goes wrong when",
        "a trace is built (group G) the verifier looks for too: [its rules](rules.md) have the codes.",
        "",
    ]
    for group, title in GROUPS.items():
        lines += [f"## {title}", "", "| id | kind | decision | how | test |", "|---|---|---|---|---|"]
        lines += [
            f"| {f.id} | {f.kind} | {f.decision} | {f.why} | {f'`{f.test}`' if f.test else ''} |"
            for f in FAULTS
            if f.id.startswith(group)
        ]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(render(), end="")
