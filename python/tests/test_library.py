# SPDX-License-Identifier: MIT
"""Loading: what is refused, with which sentence, and that the import starts nothing."""
import os
import re
import subprocess
import sys

import pytest

from isomer_shmem import _lib

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def loaded():
    try:
        return _lib.load()
    except _lib.IsomerError as error:
        pytest.skip(str(error))


def test_missing_library_is_named(monkeypatch):
    monkeypatch.setenv("ISOMER_LIB", "/nowhere/libisomer.so")
    monkeypatch.setattr(_lib, "_library", None)
    with pytest.raises(_lib.IsomerError, match="/nowhere/libisomer.so.*set ISOMER_LIB"):
        _lib.load()


def test_other_version_is_refused(monkeypatch):
    library = loaded()
    monkeypatch.setattr(_lib, "SERIES", 902)
    with pytest.raises(_lib.IsomerError, match="needs 9.2.x"):
        _lib._check_version(library)


def test_other_struct_is_refused(monkeypatch):
    library = loaded()
    monkeypatch.setitem(_lib.STRUCTS, "shmemx_coll_t", _lib.UniqueId)
    with pytest.raises(_lib.IsomerError, match="shmemx_coll_t has .* and 128 in this package"):
        _lib._check_structs(library)


def test_older_library_of_this_version_is_refused(monkeypatch):
    """It lacks a call and that call's struct. The library and the call are named."""
    path = loaded()._name
    monkeypatch.setattr(_lib, "_library", None)
    monkeypatch.setitem(_lib.CALLS, "shmemx_of_tomorrow", (_lib.c_int, [_lib.c_void_p]))
    monkeypatch.setitem(_lib.STRUCTS, "shmemx_tomorrow_t", _lib.UniqueId)
    with pytest.raises(_lib.IsomerError, match=f"^{re.escape(path)} has no shmemx_of_tomorrow, which this"):
        _lib.load()


def test_other_file_is_refused():
    import ctypes
    with pytest.raises(_lib.IsomerError, match="no shmemx_version"):
        _lib._check_version(ctypes.CDLL(None))


def test_enums_are_those_of_the_header():
    header = os.path.join(FOLDER, "..", "include", "shmemx_coll.h")
    if not os.path.exists(header):
        pytest.skip("the C headers are not beside the package")
    names = []
    with open(header) as lines:
        for line in lines:
            word = line.strip().split(",")[0].split(" ")[0]
            if line.startswith("    SHMEMX_") and word.isupper() or word.startswith("SHMEMX_UINT8"):
                names.append(word)
    for first, count in (("SHMEMX_ALLREDUCE", 9), ("SHMEMX_UINT8", 14), ("SHMEMX_SUM", 9)):
        start = names.index(first)
        for value, name in enumerate(names[start:start + count]):
            assert getattr(_lib, name.removeprefix("SHMEMX_")) == value, name


def test_import_loads_and_starts_nothing():
    program = ("import os, torch\n"
               "threads = os.listdir('/proc/self/task')\n"
               "import isomer_shmem\n"
               "assert os.listdir('/proc/self/task') == threads\n"
               "maps = open('/proc/self/maps').read()\n"
               "assert os.path.realpath(isomer_shmem._lib.chosen()) in maps and 'isomer-heap' not in maps\n")
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120,
                   env={**os.environ, "PYTHONPATH": FOLDER, "ISOMER_LIB": _lib.load()._name})


def test_the_first_load_looks_again():
    """A library that is named after the import takes the place of the one that the import has loaded."""
    program = ("import os, isomer_shmem\n"
               "os.environ['ISOMER_LIB'] = '/nowhere/libisomer.so'\n"
               "try:\n"
               "    isomer_shmem.load()\n"
               "except isomer_shmem.IsomerError as error:\n"
               "    print(error)\n")
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": FOLDER})
    assert "/nowhere/libisomer.so" in said.stdout and said.stderr == ""


def test_hip_finds_its_variables_before_it_starts(monkeypatch):
    import torch
    from isomer_shmem import _environment
    for name in _environment.HIP:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    _environment.prepare_hip()
    assert not any(name in os.environ for name in _environment.HIP)  # a torch without HIP
    monkeypatch.setattr(torch.version, "hip", "7.2")
    monkeypatch.setenv("GPU_MAX_HW_QUEUES", "16")
    _environment.prepare_hip()
    assert os.environ["DEBUG_HIP_GRAPH_MIN_OVERLAP"] == "0" and os.environ["GPU_MAX_HW_QUEUES"] == "16"
    _environment.prepare_hip()  # all is set
    for name in ("is_initialized", None):
        monkeypatch.delenv("GPU_MAX_HW_QUEUES")
        with monkeypatch.context() as patch:
            if name is not None:
                patch.setattr(torch.cuda, name, lambda: True)
            else:
                patch.setattr(os, "readlink", lambda path: "/dev/kfd")
            with pytest.warns(UserWarning, match="before isomer_shmem was imported, without GPU_MAX_HW_QUEUES=8:"):
                _environment.prepare_hip()


def test_launchers_name_the_ranks(monkeypatch):
    from isomer_shmem import _environment
    ompi = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
            "OMPI_COMM_WORLD_LOCAL_SIZE": "4", "PMIX_NAMESPACE": "229113857", "PMIX_RANK": "3"}
    made = _environment.ranks_of(ompi)
    port = made.pop("MASTER_PORT")
    assert made == {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "127.0.0.1"}
    assert 10000 <= int(port) < 30000
    assert _environment.ranks_of({**ompi, "OMPI_COMM_WORLD_RANK": "0"})["MASTER_PORT"] == port
    assert _environment.ranks_of({**ompi, "PMIX_NAMESPACE": "229113858"})["MASTER_PORT"] != port
    assert "MASTER_ADDR" not in _environment.ranks_of({**ompi, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"})  # two hosts
    slurm = {"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8", "SLURM_LOCALID": "1",
             "SLURM_STEP_TASKS_PER_NODE": "4(x2)", "SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0",
             "SLURM_STEP_NODELIST": "gpu[007-008,012]"}
    for nodes, first in (("gpu[007-008,012]", "gpu007"), ("a1,b2", "a1"), ("n12", "n12"), ("x[1,3],y4", "x1")):
        made = _environment.ranks_of({**slurm, "SLURM_STEP_NODELIST": nodes})
        assert (made["RANK"], made["WORLD_SIZE"], made["LOCAL_RANK"], made["MASTER_ADDR"]) == ("5", "8", "1", first)
    assert _environment.ranks_of({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}) == {}  # a batch script, outside of srun
    assert _environment.ranks_of({}) == {}
    for name, value in {**ompi, "WORLD_SIZE": "1", "RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("MASTER_PORT", raising=False)
    _environment.take_ranks()  # torchrun below mpirun
    assert os.environ["RANK"] == "0" and "MASTER_PORT" not in os.environ
