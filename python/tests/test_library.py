# SPDX-License-Identifier: MIT
"""Loading: what is refused, with which sentence, and that the import starts nothing."""
import os
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


def test_import_starts_nothing():
    program = ("import os, threading, isomer_shmem\n"
               "assert threading.active_count() == 1\n"
               "assert 'libisomer' not in open('/proc/self/maps').read()\n")
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": FOLDER}, timeout=120)
