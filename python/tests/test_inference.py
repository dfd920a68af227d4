# SPDX-License-Identifier: MIT
"""AllReduce for inference beside sums of whole numbers, and the norm beside torch's; the examples run."""
import contextlib
import io
import os
import runpy
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
import torch._dynamo  # noqa: E402, F401 (here once, and not in each forked rank)
import torch.distributed as dist  # noqa: E402

import isomer_shmem  # noqa: E402

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "torch")


def values(rank, shape, dtype):
    return (torch.arange(torch.Size(shape).numel()) % 13 + rank).reshape(shape).to(dtype)


def sums():
    me, n = dist.get_rank(), dist.get_world_size()
    reduce = isomer_shmem.inference.AllReduce(None, "cpu", max_bytes=1 << 20)
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int64):
        for shape in ((1,), (3, 5), (7, 1000), (64, 2048)):
            mine, expected = values(me, shape, dtype), sum(values(m, shape, torch.int64) for m in range(n)).to(dtype)
            if not reduce.should_use(mine):
                assert mine.nbytes > 1 << 20 and reduce.all_reduce(mine) is None
                continue
            with reduce.capture():
                result = reduce.all_reduce(mine)
            assert torch.equal(result, expected) and torch.equal(mine, values(me, shape, dtype))
            out = torch.full(shape, -1, dtype=dtype)
            assert reduce.all_reduce(mine, out=out) is out and torch.equal(out, expected)
            assert torch.equal(reduce.all_reduce(mine.t().contiguous().t() if mine.dim() == 2 else mine), expected)
            assert torch.equal(reduce.all_reduce(mine, out=mine), expected)
    shifted = torch.zeros(1001)
    shifted[:1000] = values(me, (1000,), torch.float32)
    reduce.all_reduce(shifted[:1000], out=shifted[1:])
    assert torch.equal(shifted[1:], sum(values(m, (1000,), torch.float32) for m in range(n)))
    assert not reduce.should_use(torch.empty(0)) and not reduce.should_use(torch.empty(3, device="meta"))
    assert reduce.all_reduce(torch.empty((1 << 18) + 1)) is None
    with pytest.raises(ValueError, match="out is torch.int32"):
        reduce.all_reduce(torch.zeros(4), out=torch.zeros(4, dtype=torch.int32))
    norms(reduce, me, n)
    reduce.close()
    with pytest.raises(isomer_shmem.IsomerError, match="closed"):
        reduce.all_reduce(torch.zeros(4))


def short_norms(reduce, me, n):
    """As the kernel of GPUs, composed of torch's operations."""
    hidden, weight = values(me, (5, 96), torch.bfloat16), torch.linspace(0.5, 1.5, 96).to(torch.bfloat16)
    residual, out = values(2, (5, 96), torch.bfloat16), torch.empty(5, 96, dtype=torch.float8_e4m3fn)
    expected = residual + sum(values(m, (5, 96), torch.bfloat16) for m in range(n))
    exact, scales = torch.nn.functional.rms_norm(expected.double(), (96,), weight.double(), 1e-6), torch.empty(5)
    assert reduce.all_reduce_rms_norm(hidden, residual.clone(), weight, out=out, scales=scales) is out
    torch.testing.assert_close(scales.double(), exact.abs().amax(-1) / 448, rtol=1e-5, atol=0)
    torch.testing.assert_close(out.double() * scales[:, None], exact, rtol=0.07, atol=float(scales.max()))
    reduce.all_reduce_rms_norm(hidden, residual, weight, out=out, scale=torch.tensor([0.25]))
    torch.testing.assert_close(out.double() * 0.25, exact, rtol=0.07, atol=0.01)


def norms(reduce, me, n):
    short_norms(reduce, me, n)
    for dtype, within in ((torch.float32, 1e-6), (torch.bfloat16, 1e-2)):
        hidden, weight = values(me, (5, 96), dtype), torch.linspace(0.5, 1.5, 96).to(dtype)
        residual = values(2, (5, 96), dtype)
        expected = residual + sum(values(m, (5, 96), dtype) for m in range(n))
        out = torch.empty(5, 96, dtype=dtype)
        assert reduce.all_reduce_rms_norm(hidden, residual, weight, out=out) is out
        assert torch.equal(residual, expected)
        reference = torch.nn.functional.rms_norm(expected.float(), (96,), weight.float(), 1e-6).to(dtype)
        torch.testing.assert_close(out, reference, rtol=within, atol=within)


@pytest.mark.parametrize("size, backend", ((1, "isomer"), (2, "isomer"), (3, "gloo")))
def test_sums_and_norms(ranks, size, backend):
    ranks(size, sums, backend=backend)


def said_by(example):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        runpy.run_path(os.path.join(EXAMPLES, example), run_name="__main__")
    return said.getvalue()


@pytest.mark.parametrize("name, line", (
    ("fsdp_transformer.py", "loss"), ("tensor_parallel.py", "the same logits"),
    ("zero_optimizer.py", "the same parameters")))
def test_example(ranks, name, line):
    assert any(line in said for said in ranks(2, said_by, name, backend=None))


@pytest.mark.parametrize("name, line", (
    ("allgather_matmul.py", "are those of an all-gather"),
    pytest.param("matmul_reducescatter.py", "are those of a matmul and", marks=pytest.mark.long)))
def test_example_by_torchrun(ranks, name, line):  # `ranks` skips where the library is missing
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=os.path.join(EXAMPLES, "..", "..", "python"))
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                           os.path.join(EXAMPLES, name)], env=environment, capture_output=True,
                          text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    assert line in done.stdout and "ratio" in done.stdout
