# SPDX-License-Identifier: MIT
"""DeepSpeed. With deepspeed.init_distributed(dist_backend="isomer") after `import isomer_shmem`, all its calls go to
Isomer. install() takes the all-gathers of ZeRO-3 alone, under any other backend:

    deepspeed.init_distributed()
    installed = isomer_shmem.deepspeed.install()
    ...
    installed.remove()
"""
import warnings

import torch.distributed as dist

from . import _lib
from .pg import ended, group_of


class Installed:
    """What install() has changed. `active` is False where all ranks kept the backend's own all-gathers."""

    def __init__(self, backend, active):
        self.active, self.calls, self.nbytes, self._backend = active, 0, 0, backend
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

    def remove(self):
        """Gives DeepSpeed what it had before. Not collective, but on all ranks between the same steps."""
        if self.active:
            self._backend.all_gather_function, self.active = self._single, False
            del self._backend.all_gather_coalesced  # the instance's; the class has its own

    def stats(self):
        """Numbers of calls and bytes of this rank since install()."""
        return {"all_gathers": self.calls, "all_gather_bytes": self.nbytes}


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
    """Has DeepSpeed's all-gathers, single and coalesced, done by Isomer, in whichever group they are. Collective over
    the default group: all ranks call it, after deepspeed.init_distributed and before or between steps. Where Isomer
    cannot start on any rank, all keep what they had, and rank 0 warns once."""
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
