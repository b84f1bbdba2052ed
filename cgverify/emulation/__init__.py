"""CUDA graphs without a GPU: a CUDA device on the CPU, put in force by patching torch.

```python
with EmulatedCUDA() as cuda:
    x = torch.ones(4, device="cuda")        # lives in the arena; x.device says cuda:0
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):               # torch's own class, unmodified
        y = x * 2                           # recorded, not run
    x.fill_(3.0)
    g.replay()                              # y's memory is written now
```

Code under test keeps calling `torch.cuda`; there is no interface between it and the emulation. A graph holds addresses,
never tensors, so faults of lifetime and aliasing corrupt data here as they do on a GPU.

| module | what it does |
|---|---|
| allocator, blocks, counters | the caching allocator's rules: where a block goes, when it is reused, what it counts |
| arena | the memory; a tensor is on the device if and only if its address lies in it |
| ops, judged, legality | what aten ops do besides computing, and what a capture forbids |
| rng | (seed, offset) generators; replays draw what eager execution draws |
| graph, capture, streams | torch.cuda.CUDAGraph, Stream, Event |
| modes, transfers | Python calls see cuda:0; `.to()`, `.cuda()`, `.cpu()` |
| dispatch, execution, recording, copies | each aten op: run on the CPU, or recorded |
| patches, bindings, memory_statistics | what is replaced in torch meanwhile |
| device | `EmulatedCUDA`, which holds it all together |

How faithful it is, measured against an H200 with torch 2.11: tests/golden. What it cannot do:

- CPU kernels and CPU decompositions compute: dropout, attention, convolution and batch norm use other ops than on CUDA,
  a launch moves the generator by 4 whatever it draws, and nothing of the GPU's numerics shows.
- Only eager torch runs, and what torch.compile is given runs eagerly. nvFuser, Triton, cuDNN, Transformer Engine and
  NCCL do not run.
- Streams are labels: no races, and a missing wait does not show. There is one device. Modes belong to a thread: another
  thread takes part with `with cuda.in_thread():`. Two captures at once raise, where a GPU's process aborts.
- C++ code that asks a tensor for its device hears `cpu`, and so does Python code inside functions that torch overrides
  (torch.nn.functional) and in tensor hooks. `torch.autocast("cuda")` has no effect.
- Under a dispatch mode some C++ functions take the way meant for tensor subclasses: the backward of `prod` is allowed
  in a capture, where CUDA's looks for zeros and waits. Nor does a capture fail because cuBLAS was not used before.
- A FakeTensor on "cuda" that requires grad aborts a process whose torch has no CUDA: autograd asks C++ for
  the device's guard where nothing may be thrown. Thunder makes such tensors to trace torch functions that it
  registers by itself (`F.l1_loss`, `F.dropout1d`, `torch.ravel`, encoder layers) with gradients.
- `out=` and `resize_` that grow a tensor, sparse layouts and `torch.cuda.MemPool` are not supported.
- Zero-size tensors share one address. Expandable segments, `max_split_size_mb` and the deferred frees of
  `record_stream` are not modelled.
- An index out of range raises at replay where a GPU asserts later; memory that nobody wrote holds zeros or old values
  (NaN with `poison=True`).
- Error texts are those of torch 2.11. Whether a capture allows an op was asked of a GPU for the ops in `judged.JUDGED`;
  for others schema and tags decide, and `EmulatedCUDA.unjudged_ops` names them.
"""

from cgverify.emulation.device import EmulatedCUDA
from cgverify.emulation.errors import CaptureError, HostCopyError, UseAfterFree

__all__ = ["CaptureError", "EmulatedCUDA", "HostCopyError", "UseAfterFree"]
