# SPDX-License-Identifier: MIT
"""The wheel: it carries a library, and its package finds it without ISOMER_LIB."""
import os
import subprocess
import sys
import zipfile

import pytest

import isomer_shmem
from isomer_shmem import _lib

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")

PROGRAM = """
import os, sys, torch, torch.distributed as dist
if not hasattr(dist.Backend, "_ensure_backend_registered"):  # else torch finds it by its name
    import isomer_shmem
dist.init_process_group("isomer", init_method="file://" + sys.argv[1] + "/store", rank=0, world_size=1)
values = torch.arange(5.0)
dist.all_reduce(values)
assert values.tolist() == [0, 1, 2, 3, 4]
assert sys.modules["isomer_shmem"].__file__.startswith(sys.argv[1])
maps = open("/proc/self/maps").read()
assert os.path.join(sys.argv[1], "isomer_shmem", "lib", "libisomer_cpu.so") in maps
dist.destroy_process_group()
print("works")
"""


def run_build(output, *libraries):
    return subprocess.run(["bash", os.path.join(FOLDER, "build_wheel"), "-o", str(output), *libraries], timeout=300,
                          capture_output=True, text=True, env={**os.environ, "PYTHON": sys.executable})


def test_wheel_carries_the_library(tmp_path):
    library = os.environ.get("ISOMER_LIB")
    if not library:
        pytest.skip("ISOMER_LIB names no library to carry")
    done = run_build(tmp_path / "dist", f"cpu={library}")
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (tmp_path / "dist").iterdir()
    assert wheel.name.startswith(f"isomer_shmem-{isomer_shmem.__version__}-py3-none-manylinux_2_")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as files:
        files.extractall(site)
    environment = {name: value for name, value in os.environ.items() if name != "ISOMER_LIB"}
    program = subprocess.run([sys.executable, "-c", PROGRAM, str(site)], capture_output=True, text=True, timeout=120,
                             cwd=tmp_path, env={**environment, "PYTHONPATH": str(site)})
    assert program.returncode == 0 and "works" in program.stdout, program.stdout + program.stderr


def test_wrong_flavour_and_file_are_refused(tmp_path):
    assert "with a flavour cpu, cuda or hip" in run_build(tmp_path, "tpu=/nowhere.so").stderr
    assert "/nowhere.so does not exist" in run_build(tmp_path, "cpu=/nowhere.so").stderr


def test_flavour_follows_torch_and_the_machine(monkeypatch, tmp_path):
    import torch
    there = {"/dev/kfd", "/dev/nvidiactl"}
    monkeypatch.setattr(os.path, "exists", lambda path: path in there)
    monkeypatch.delenv("ISOMER_LIB", raising=False)
    monkeypatch.setattr(_lib, "FOLDER", str(tmp_path))
    monkeypatch.setattr(_lib, "_library", None)
    assert _lib.chosen() == "libisomer.so.0"  # a package without libraries
    for flavour in ("hip", "cuda", "cpu"):
        (tmp_path / f"libisomer_{flavour}.so").write_text("no library")
    for hip, cuda, files, flavour in (("6.2", None, True, "hip"), (None, "13.0", True, "cuda"),
                                      ("6.2", None, False, "cpu"), (None, None, True, "cpu")):
        monkeypatch.setattr(torch.version, "hip", hip)
        monkeypatch.setattr(torch.version, "cuda", cuda)
        there = {"/dev/kfd", "/dev/nvidiactl"} if files else set()
        assert _lib.chosen() == str(tmp_path / f"libisomer_{flavour}.so")
        with pytest.raises(_lib.IsomerError, match=f"libisomer_{flavour}.so: (file too short|invalid ELF header)"):
            _lib.load()  # and not the CPU's in its place
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    (tmp_path / "libisomer_cuda.so").unlink()
    with pytest.warns(UserWarning, match="no library for torch's GPU .libisomer_cuda.so."):
        assert _lib.chosen() == str(tmp_path / "libisomer_cpu.so")
