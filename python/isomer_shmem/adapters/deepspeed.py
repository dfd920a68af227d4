# SPDX-License-Identifier: MIT
"""DeepSpeed. With deepspeed.init_distributed(dist_backend="isomer") after `import isomer_shmem`, all its calls go to
Isomer. install() takes the all-gathers of ZeRO-3, and on GPUs its reduce-scatters, under any other backend:

    deepspeed.init_distributed()
    installed = isomer_shmem.deepspeed.install()
    ...
    installed.remove()

Gradients are reduced by copy engines from where autograd has left them, with sums in float, without the buffer in which
DeepSpeed joins their parts; gathered parameters still go through its own.
"""
import inspect
import warnings

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from . import _lib, _parts
from ._core import TYPES, is_plain, reduction_of
from ._device import streams_of
from ._stream import Parts
from .pg import ended, group_of


class Installed:
    """What install() has changed. `active` is False where all ranks kept the backend's own all-gathers."""

    def __init__(self, backend, active):
        self.active, self.calls, self.nbytes, self._backend = active, 0, 0, backend
        self.scatters = self.scatter_nbytes = 0
        self._stage3, self._plans, self._begun = _stage3() if active else None, {}, {}
        if active and self._stage3 is None and dist.get_rank() == 0:
            warnings.warn("isomer_shmem.deepspeed.install: this version of DeepSpeed has another "
                          "reduce_scatter_coalesced than is known; it stays", stacklevel=3)
        if self._stage3 is not None:
            self._coalesced_scatter = self._stage3.reduce_scatter_coalesced
            self._stage3.reduce_scatter_coalesced = self.reduce_scatter_coalesced
        if active:
            self._single, self._coalesced = backend.all_gather_function, backend.all_gather_coalesced
            backend.all_gather_function, backend.all_gather_coalesced = self.all_gather, self.all_gather_coalesced

    def all_gather(self, output_tensor, input_tensor, group=None, async_op=False):
        """In the place of torch.distributed.all_gather_into_tensor."""
        if not _is_ours(group, [output_tensor, input_tensor]):
            return self._single(output_tensor=output_tensor, input_tensor=input_tensor, group=group, async_op=async_op)
        return self._run([output_tensor], [input_tensor], group, async_op)

    def all_gather_coalesced(self, output_tensors, input_tensors, group=None, async_op=False):
        """In the place of the method of DeepSpeed's TorchBackend: one Work for all."""
        if not _is_ours(group, [*output_tensors, *input_tensors]):
            return self._coalesced(output_tensors, input_tensors, group=group, async_op=async_op)
        return self._run(output_tensors, input_tensors, group, async_op)

    def _run(self, outputs, inputs, group, async_op):
        options = dist.distributed_c10d.AllgatherOptions()
        options.asyncOp = async_op
        work = ended(group_of(group).all_gather_single_coalesced(outputs, inputs, options), async_op)
        self.calls, self.nbytes = self.calls + 1, self.nbytes + sum(output.nbytes for output in outputs)
        return work

    def reduce_scatter_coalesced(self, tensors, group=None):
        """In the place of DeepSpeed's: the mean of each tensor, this rank's part of it."""
        queue = _queue_of(group, tensors)
        if queue is not None and queue not in self._begun:
            self._begun[queue] = queue.begin_parts(_lib.REDUCESCATTER)
        parts = self._plan(queue.core, tensors) if queue is not None and self._begun[queue] else None
        if parts is None:
            return self._coalesced_scatter(tensors, group)
        core, flat = queue.core, torch.empty(parts.nelems, dtype=tensors[0].dtype, device=tensors[0].device)
        sources = [_padded(tensor, core.n) for tensor in tensors]
        parts.lie(sources=[source.data_ptr() for source in sources])
        reduction = reduction_of(ReduceOp.AVG, flat.dtype)
        queue.run("reduce_scatter", lambda core: core.parts(
            _lib.REDUCESCATTER, parts, flat.data_ptr(), 0, reduction, True), [flat], None, False)
        core.settle()
        self.scatters, self.scatter_nbytes = self.scatters + 1, self.scatter_nbytes + flat.nbytes * core.n
        sizes = [-(-tensor.numel() // core.n) for tensor in tensors]
        return [part[:max(0, min(size, tensor.numel() - core.me * size))]
                for part, size, tensor in zip(flat.split(sizes), sizes, tensors)]

    def _plan(self, core, tensors):
        """The Parts, where copy engines carry them. By what is alike on all members."""
        dtype = tensors[0].dtype
        sizes = tuple(-(-tensor.numel() // core.n) for tensor in tensors)
        types = {tensor.dtype for tensor in tensors}
        if dtype not in (torch.float32, torch.bfloat16, torch.float16) or types - {dtype}:
            return None
        key = core, sizes, dtype
        if key not in self._plans:
            parts = Parts(sizes, TYPES[dtype])
            takes = _parts.takes(core, _lib.REDUCESCATTER, parts, sum(sizes) * dtype.itemsize)
            self._plans[key] = parts if takes else None
        return self._plans[key]

    def remove(self):
        """Gives DeepSpeed what it had before. Not collective, but on all ranks between the same steps."""
        if self._stage3 is not None:
            self._stage3.reduce_scatter_coalesced, self._stage3 = self._coalesced_scatter, None
        if self.active:
            self._backend.all_gather_function, self.active = self._single, False
            del self._backend.all_gather_coalesced  # the instance's; the class has its own

    def stats(self):
        """Numbers of calls and bytes of this rank since install()."""
        return {"all_gathers": self.calls, "all_gather_bytes": self.nbytes, "reduce_scatters": self.scatters,
                "reduce_scatter_bytes": self.scatter_nbytes}


def _stage3():
    """DeepSpeed's module of ZeRO-3; None where its reduce-scatter is another one than is known."""
    import deepspeed.runtime.zero.stage3 as stage3
    scatter = getattr(stage3, "reduce_scatter_coalesced", None)
    if not inspect.isfunction(scatter):
        return None
    inner = inspect.getclosurevars(scatter).nonlocals.get("func", scatter)  # of a decorator that hides it
    return stage3 if list(inspect.signature(inner).parameters) == ["tensors", "group"] else None


def _queue_of(group, tensors):
    """What enqueues calls for a group of several ranks on the tensors' device, where copy engines may carry them."""
    if group is dist.GroupMember.NON_GROUP_MEMBER or not tensors:
        return None
    mine = group_of(group)
    streams = streams_of(mine.lease.world)
    if mine.size() < 2 or streams is None or not all(map(streams.takes, tensors)):
        return None
    queue = mine.queue()
    return queue if queue.core.has_engines() else None


def _padded(tensor, members):
    """Its elements in equal numbers for each member, one behind the other."""
    values = tensor.detach().reshape(-1)
    more = -values.numel() % members
    if more:
        values = torch.cat((values, values.new_zeros(more)))
    return values if is_plain(values) else values.contiguous()


def _is_ours(group, tensors):
    """The same on all ranks: whether it is a group of this rank, and tensors that the library takes: on the CPU, or on
    the GPU of a job that has one."""
    if group is dist.GroupMember.NON_GROUP_MEMBER:
        return False
    if all(tensor.is_cpu for tensor in tensors):
        return True
    return group_of(None).lease.world.device != "cpu" and all(tensor.is_cuda for tensor in tensors)


def _failed(step, call):
    """Whether `call` has failed on any rank; then rank 0 warns. Collective over the default group."""
    mine, reasons = None, [None] * dist.get_world_size()
    try:
        call()
    except Exception as error:  # of any kind: the other ranks wait for this one's answer
        mine = f"{type(error).__name__}: {error}"
    dist.all_gather_object(reasons, mine)
    for rank, reason in enumerate(reasons):
        if reason is not None:
            if dist.get_rank() == 0:
                warnings.warn(f"isomer_shmem.deepspeed.install: {step} failed on rank {rank} ({reason}); all ranks "
                              "keep the all-gathers of the backend", stacklevel=3)
            return True
    return False


def install():
    """Has DeepSpeed's all-gathers, single and coalesced, done by Isomer, in whichever group they are, and on GPUs the
    reduce-scatters of ZeRO-3. Collective over the default group: all ranks call it, after deepspeed.init_distributed
    and before or between steps. Where Isomer cannot start on any rank, all keep what they had, and rank 0 warns once."""
    import deepspeed.comm.comm as comm
    backend = comm.cdb
    if backend is None or not backend.is_initialized() or not dist.is_initialized():
        raise RuntimeError("isomer_shmem.deepspeed.install: DeepSpeed has no process group; call "
                           "deepspeed.init_distributed first")
    for name in ("all_gather_function", "all_gather_coalesced"):
        if not callable(getattr(backend, name, None)):
            raise RuntimeError(f"isomer_shmem.deepspeed.install: the backend {type(backend).__name__} has no {name}; "
                               "this version of DeepSpeed is not known")
    failed = _failed("loading the library", _lib.load) or _failed("making the group", lambda: group_of(None))
    return Installed(backend, not failed)
