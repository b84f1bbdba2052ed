"""160 snippets: does a capture allow them, and if not, what do the call and the end of the capture say?

An answer is a list: "eager ..." if the snippet fails outside a capture too, then "ok" or "op ..." and, if the capture
itself became invalid, "end ...". "AFTER ..." means that the next capture failed: the process is no longer of use.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.golden.probes.asking import DEVICE, capture, error_line

import torch
import torch.nn.functional as F


def answers() -> dict[str, list[str]]:
    """Ask about every snippet, in one process."""
    return {name: judge(name) for name in SNIPPETS}


def warm_up() -> None:
    """Load the libraries that refuse to be loaded in a capture."""
    F.relu(torch.randn(4, 4, device=DEVICE) @ torch.randn(4, 4, device=DEVICE))
    F.conv2d(torch.randn(1, 1, 4, 4, device=DEVICE), torch.randn(1, 1, 4, 4, device=DEVICE))


def judge(name: str) -> list[str]:
    """Run one snippet eagerly, then in a capture."""
    code = compile(SNIPPETS[name], name, "eval")
    found: list[str] = []
    try:
        eval(code, environment())
    except Exception as error:
        found.append(f"eager {error_line(error)}")
    variables = environment()
    torch.cuda.synchronize()
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            try:
                eval(code, variables)
            except BaseException as error:
                found.append(f"op {error_line(error)}")
                raise
        found.append("ok")
    except Exception as error:
        if not found or error_line(error) not in found[-1]:
            found.append(f"end {error_line(error)}")
    try:
        graph, _ = capture(lambda: variables["x"] + 1)
        graph.replay()
        torch.cuda.synchronize()
    except Exception as error:
        found.append(f"AFTER {error_line(error)}")
    return found


def environment() -> dict[str, Any]:
    """Return the names that snippets use: x, y float32[4, 4], i int64[4] and others on the device; h... on the host."""
    torch.manual_seed(0)
    x, y = torch.randn(4, 4, device=DEVICE), torch.randn(4, 4, device=DEVICE)
    replayable, _ = capture(lambda: y * 2)
    w = torch.ones(4, 4, device=DEVICE).requires_grad_()
    w.grad = torch.ones(4, 4, device=DEVICE)
    return {
        "torch": torch,
        "F": F,
        "DEVICE": DEVICE,
        "capture": capture,
        "x": x,
        "y": y,
        "w": w,
        "v": torch.randn(32, device=DEVICE),
        "e": torch.eye(4, device=DEVICE),
        "i": torch.tensor([0, 1, 2, 1], device=DEVICE),
        "m1": torch.tensor([True, False, False, False], device=DEVICE),
        "rm": torch.zeros(4, device=DEVICE),
        "rv": torch.ones(4, device=DEVICE),
        "lp": torch.randn(5, 1, 4, device=DEVICE).log_softmax(2),
        "h": torch.randn(4, 4),
        "h0": torch.tensor(2.0),
        "h1": torch.tensor([1, 2]),
        "hi": torch.tensor([0, 1]),
        "tg": torch.tensor([[1, 2]]),
        "g0": replayable,
        "gen": torch.Generator(device=DEVICE),
        "doomed": [torch.ones(3, device=DEVICE)],
    }


SNIPPETS = {
    "item": "x.sum().item()",
    "bool": "bool(x.sum()>0)",
    "int": "int(i[0])",
    "if": "x+1 if x.sum()>0 else x",
    "nonzero": "x.nonzero()",
    "where1": "torch.where(x>0)",
    "mask_get": "x[x>0]",
    "mask_set_scalar": "x.__setitem__(x>0,1.)",
    "mask_set_0d": "x.__setitem__(x>0,y[0,0])",
    "mask_set_cpu0d": "x.__setitem__(x>0,h0)",
    "mask_set_vec": "x.__setitem__(m1,y[:1])",
    "masked_fill": "x.masked_fill(x>0,1.)",
    "masked_fill_cpu0d": "x.masked_fill(x>0,h0)",
    "masked_select": "x.masked_select(x>0)",
    "masked_scatter": "x.masked_scatter(x>0,y)",
    "unique": "x.unique()",
    "unique_consecutive": "x.unique_consecutive()",
    "tensor_scalar": "torch.tensor(3.,device=DEVICE)",
    "tensor_list": "torch.tensor([1.,2.],device=DEVICE)",
    "new_tensor": "x.new_tensor([1.,2.])",
    "as_tensor": "torch.as_tensor(3.,device=DEVICE)",
    "scalar_tensor": "torch.scalar_tensor(3.,device=DEVICE)",
    "full": "torch.full((3,),2.,device=DEVICE)",
    "arange": "torch.arange(5,device=DEVICE)",
    "linspace": "torch.linspace(0,1,5,device=DEVICE)",
    "eye": "torch.eye(3,device=DEVICE)",
    "zeros_like": "torch.zeros_like(x)",
    "new_zeros": "x.new_zeros(3)",
    "cpu": "x.cpu()",
    "to_cpu_nb": "x.to('cpu',non_blocking=True)",
    "h2d": "h.to(DEVICE)",
    "h2d_nb": "h.to(DEVICE,non_blocking=True)",
    "h0_2d": "h0.to(DEVICE)",
    "d2h_copy_": "h.copy_(x)",
    "d2h_copy_nb": "h.copy_(x,non_blocking=True)",
    "h2d_copy_": "x.copy_(h)",
    "h2d_copy_nb": "x.copy_(h,non_blocking=True)",
    "h0_copy_": "x.copy_(h0)",
    "fill_cpu0d": "x.fill_(h0)",
    "fill_dev0d": "x.fill_(y[0,0])",
    "add_cpu0d": "x+h0",
    "add_cpu": "x+h",
    "mul_cpu0d_first": "h0*x",
    "getitem_int": "x[1]",
    "getitem_cpuidx": "x[hi]",
    "getitem_devidx": "x[i]",
    "getitem_list": "x[[0,2]]",
    "setitem_devidx": "x.__setitem__(i,y[:4])",
    "setitem_cpuidx": "x.__setitem__(hi,y[:2])",
    "setitem_py": "x.__setitem__(0,3.)",
    "setitem_cpu0d": "x.__setitem__(0,h0)",
    "index_put_acc": "x.index_put_((i,),y[:4],accumulate=True)",
    "index_select": "x.index_select(0,i)",
    "index_select_cpu": "x.index_select(0,hi)",
    "gather": "x.gather(0,i.view(1,4))",
    "sync": "torch.cuda.synchronize()",
    "stream_sync": "torch.cuda.current_stream().synchronize()",
    "event_query": "torch.cuda.Event().query()",
    "event_rec": "torch.cuda.Event().record()",
    "equal": "torch.equal(x,y)",
    "allclose": "torch.allclose(x,y)",
    "tolist": "x.tolist()",
    "numpy": "x.numpy()",
    "repr": "repr(x)",
    "rep_int": "x.repeat_interleave(2,0)",
    "rep_int_t": "x.repeat_interleave(i,0)",
    "rep_int_out": "x.repeat_interleave(i,0,output_size=4)",
    "bincount": "torch.bincount(i)",
    "histc": "torch.histc(x,4,0,1)",
    "histc_auto": "torch.histc(x,4)",
    "multinomial": "torch.multinomial(x.abs()+1,1)",
    "randperm": "torch.randperm(8,device=DEVICE)",
    "rand": "torch.rand(3,device=DEVICE)",
    "randint": "torch.randint(5,(3,),device=DEVICE)",
    "dropout": "F.dropout(x,.5)",
    "uniform_": "x.uniform_()",
    "bernoulli": "torch.bernoulli(x.sigmoid())",
    "rand_gen_unreg": "torch.rand(3,device=DEVICE,generator=gen)",
    "rand_cpu": "torch.rand(3)",
    "rand_cpu_2d": "torch.rand(3).to(DEVICE)",
    "seed_new": "torch.cuda.manual_seed(999)",
    "seed_same": "torch.cuda.manual_seed(0)",
    "seed_all_new": "torch.manual_seed(999)",
    "get_rng": "torch.cuda.get_rng_state()",
    "inv": "torch.linalg.inv(x+4*e)",
    "inv_ex": "torch.linalg.inv_ex(x+4*e)",
    "solve": "torch.linalg.solve(x+4*e,y)",
    "cholesky": "torch.linalg.cholesky(e)",
    "det": "torch.linalg.det(x)",
    "svd": "torch.linalg.svd(x)",
    "eigh": "torch.linalg.eigh(e)",
    "qr": "torch.linalg.qr(x)",
    "norm": "torch.linalg.norm(x)",
    "sort": "x.sort()",
    "topk": "x.topk(2)",
    "argmax": "x.argmax()",
    "argmax_idx": "x[x.argmax()%4]",
    "median": "x.median()",
    "kthvalue": "x.kthvalue(1)",
    "quantile": "x.quantile(.5)",
    "cumsum": "x.cumsum(0)",
    "one_hot": "F.one_hot(i)",
    "one_hot_n": "F.one_hot(i,4)",
    "embedding": "F.embedding(i,x)",
    "ce": "F.cross_entropy(x,i)",
    "index_add": "x.index_add_(0,i,y)",
    "scatter_add": "x.scatter_add(0,i.view(1,4),y)",
    "cat": "torch.cat([x,y])",
    "split": "x.split([1,3])",
    "matmul": "x@y",
    "bn": "F.batch_norm(x,rm,rv,training=True)",
    "ln": "F.layer_norm(x,(4,))",
    "conv": "F.conv2d(x.view(1,1,4,4),y.view(1,1,4,4))",
    "sdpa": "F.scaled_dot_product_attention(x.view(1,1,4,4),y.view(1,1,4,4),y.view(1,1,4,4))",
    "foreach": "torch._foreach_add([x,y],1.)",
    "clip": "torch.nn.utils.clip_grad_norm_([w],1.)",
    "bwd": "torch.autograd.grad((w*x).sum(),[w])",
    "isfinite_all": "x.isfinite().all()",
    "nan_to_num": "x.nan_to_num()",
    "assert_async": "torch._assert_async(x.sum()==x.sum())",
    "searchsorted": "torch.searchsorted(x.flatten().sort()[0],y)",
    "bucketize": "torch.bucketize(x,y[0].sort()[0])",
    "isin": "torch.isin(i,i)",
    "combinations": "torch.combinations(i)",
    "tril_idx": "torch.tril_indices(3,3,device=DEVICE)",
    "stft": "torch.stft(v,8,return_complex=True)",
    "fft": "torch.fft.fft(v)",
    "empty_cache": "torch.cuda.empty_cache()",
    "shape": "x.view(x.shape[0],-1)",
    "is_nonzero": "torch.is_nonzero(x.sum())",
    "float": "float(x.sum())",
    "format": 'f"{x.sum():.2f}"',
    "tensor_split_t": "x.tensor_split(h1)",
    "max_item": "max(x[0,0],x[0,1])",
    "any": "any(x[0]>0)",
    "len": "len(x)",
    "iter": "[r for r in x]",
    "pow": "x**2.",
    "clamp_t": "x.clamp(y.min(),y.max())",
    "lerp": "x.lerp(y,.5)",
    "addcmul": "x.addcmul(y,y,value=2.)",
    "slice_t": "x[:i[1]]",
    "narrow_t": "x.narrow(0,0,2)",
    "flip": "x.flip(0)",
    "roll": "x.roll(1)",
    "nested_replay": "g0.replay()",
    "nested_cap": "capture(lambda: x+1)",
    "cdist": "torch.cdist(x,y)",
    "pad": "F.pad(x,(1,1))",
    "interp": "F.interpolate(x.view(1,1,4,4),scale_factor=2.)",
    "ctc": "F.ctc_loss(lp,tg,(5,),(2,))",
    "rrelu": "F.rrelu(x,training=True)",
    "gumbel": "F.gumbel_softmax(x)",
    "nll2": "F.nll_loss(x,i)",
    "kl": "F.kl_div(x,y.abs())",
    "to_dtype": "x.to(torch.float64)",
    "del_ext": "doomed.clear()",
    "meta": "torch.empty(2,device='meta')+1",
    "normal_t": "torch.normal(x,x.abs())",
    "vander": "torch.vander(v)",
}


def record(path: Path) -> bool:
    """Ask about the snippets that `path` (JSON) has no answer to; returns False if the process can ask no more."""
    found: dict[str, list[str]] = json.loads(path.read_text()) if path.exists() else {}
    warm_up()
    for name in SNIPPETS:
        if name in found:
            continue
        found[name] = ["CRASHED"]  # what stays if the process dies
        path.write_text(json.dumps(found))
        try:
            found[name] = judge(name)
        except Exception as error:
            found[name] = [f"BROKE {error_line(error)}"]
        path.write_text(json.dumps(found))
        if found[name][-1].startswith(("AFTER", "BROKE")):
            return False
    return True


if __name__ == "__main__":
    sys.exit(0 if record(Path(sys.argv[1])) else 3)
