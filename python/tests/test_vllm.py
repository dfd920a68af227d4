# SPDX-License-Identifier: MIT
"""The plug-in of vLLM, over a double of vLLM's communicators: which all-reduces are Isomer's, and which stay vLLM's."""
import os
import sys
import types

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
import torch.distributed as dist  # noqa: E402

MAX_BYTES = 4096


def make_double():
    """Modules with the names, arguments and attributes that vLLM's have. Its own all-reduce counts its calls."""
    class CpuCommunicator:
        own_calls, destroyed = 0, False

        def __init__(self, cpu_group, device=None, device_group=None, unique_name=""):
            self.cpu_group, self.device, self.unique_name = cpu_group, device or torch.device("cpu"), unique_name
            self.device_group, self.world_size = device_group, dist.get_world_size(cpu_group)

        def all_reduce(self, input_):
            self.own_calls += 1
            dist.all_reduce(input_, group=self.device_group)
            return input_

        def destroy(self):
            self.destroyed = True

    from isomer_shmem import vllm as plugin
    name = plugin.FOLDER.split(".")
    for depth in range(1, len(name) + 1):
        sys.modules[".".join(name[:depth])] = types.ModuleType(".".join(name[:depth]))
    module = types.ModuleType(plugin.FOLDER + ".cpu_communicator")
    module.CpuCommunicator = CpuCommunicator
    sys.modules[module.__name__] = module
    return plugin, CpuCommunicator


def reductions():
    me, n = dist.get_rank(), dist.get_world_size()
    os.environ.pop("ISOMER_VLLM", None)
    plugin, communicator = make_double()
    before = communicator.all_reduce
    plugin.register()
    assert communicator.all_reduce is before  # not asked for
    os.environ.update(ISOMER_VLLM="1", ISOMER_VLLM_MAX_BYTES="4 KiB")
    with pytest.raises(ValueError, match="'4 KiB'"):
        plugin.register()
    os.environ["ISOMER_VLLM_MAX_BYTES"] = str(MAX_BYTES)
    plugin.register()
    wrapped = communicator.all_reduce
    plugin.register()
    assert communicator.all_reduce is wrapped and wrapped is not before

    pairs = [dist.new_group([first, first + 1], backend="gloo") for first in range(0, n, 2)]
    for group, name in ((dist.group.WORLD, "world"), (pairs[me // 2], "tp:0")):
        mine, first = communicator(group, torch.device("cpu"), group, name), 0 if name == "world" else me // 2 * 2
        members = range(first, first + dist.get_world_size(group))
        ours = name != "world"
        for nelems in (1, 1000, MAX_BYTES // 4, MAX_BYTES // 4 + 1):
            tensor = torch.arange(nelems, dtype=torch.float32) + me
            calls = mine.own_calls
            total = mine.all_reduce(tensor)
            assert torch.equal(total, sum(torch.arange(nelems, dtype=torch.float32) + m for m in members))
            takes = ours and 4 * nelems <= MAX_BYTES
            assert mine.own_calls - calls == (0 if takes else 1)
            assert torch.equal(tensor, torch.arange(nelems, dtype=torch.float32) + me) or not takes  # out of place
        mine.destroy()
        assert mine.destroyed and mine._isomer_shmem is None


def no_vllm():
    from isomer_shmem import vllm as plugin
    os.environ["ISOMER_VLLM"] = "1"
    with pytest.warns(UserWarning, match="this vLLM has none of CudaCommunicator"):
        plugin.register()


@pytest.mark.parametrize("size, backend", ((2, "isomer"), (4, "gloo")))
def test_tensor_parallel(ranks, size, backend):
    ranks(size, reductions, backend=backend)


def test_another_vllm(ranks):
    ranks(1, no_vllm)
