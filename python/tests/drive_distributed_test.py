# SPDX-License-Identifier: MIT
"""Torch's own suite of its backends, torch.testing._internal.distributed.distributed_test, with "isomer" as a plug-in.

usage: BACKEND=isomer WORLD_SIZE=3 ISOMER_LIB=.../libisomer.so python -m pytest tests/drive_distributed_test.py
BACKEND=gloo gives the results to compare with. BACKEND=isomer-as-gloo runs the tests that the suite allows to gloo only,
on groups of isomer; isomer-as-nccl those that it allows to NCCL only, on a GPU for each rank (-k _cuda: its
collectives). The suite needs the package expecttest. Ranks are forked, so that torch is imported once, but not with
GPUs.
"""
import os
import tempfile

if os.environ.setdefault("BACKEND", "isomer").startswith("isomer-as-"):  # not again in a rank that is spawned
    os.environ["ISOMER_AS"] = os.environ["BACKEND"] = os.environ["BACKEND"][len("isomer-as-"):]
PLAYED = os.environ.get("ISOMER_AS")
os.environ.setdefault("WORLD_SIZE", "3")
os.environ.setdefault("TEMP_DIR", tempfile.mkdtemp())
os.environ.setdefault("INIT_METHOD", "file://" + os.path.join(os.environ["TEMP_DIR"], "init"))

from torch.testing._internal.common_distributed import DistTestCases  # noqa: E402

for feature in ("plugin", "ddp", "subgroup"):  # read when distributed_test is imported
    DistTestCases.backend_feature.setdefault(feature, set()).add("isomer")

import isomer_shmem  # noqa: E402, F401
import torch  # noqa: E402
from torch.testing._internal.distributed import distributed_test  # noqa: E402

if PLAYED:
    init_process_group = torch.distributed.init_process_group

    def init_isomer(*arguments, **options):
        if PLAYED == "nccl":
            torch.cuda.set_device(options["rank"])
        return init_process_group(*arguments, **{**options, "backend": "isomer"})

    torch.distributed.init_process_group = init_isomer


class TestSuite(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("spawn" if PLAYED == "nccl" else "fork").Process)
