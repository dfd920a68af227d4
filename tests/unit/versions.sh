#!/bin/sh
# SPDX-License-Identifier: MIT
# One version everywhere: ISOMER_VERSION and its string in shmem.h, the library's file, `isomer-info`, the package of
# python/, the functions of kernels that linkers merge, and the first entry of CHANGELOG.md.
# `versions.sh ISOMER-INFO LIBRARY`
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
text=$(sed -n 's/^#define ISOMER_VERSION_STRING "\(.*\)"$/\1/p' "$root/include/shmem.h")
number=$(sed -n 's/^#define ISOMER_VERSION \([0-9]*\)$/\1/p' "$root/include/shmem.h")
wrong=0

same() { # WHAT VALUE EXPECTED
    [ "$2" = "$3" ] || { echo "$1 is \"$2\", shmem.h says \"$3\"" >&2 && wrong=1; }
}

same "ISOMER_VERSION" "$number" "$(echo "$text" | awk -F . '{ print 10000 * $1 + 100 * $2 + $3 }')"
same "PRIM_CUDA_RELEASE" "$number" \
    "$(sed -n 's/^#define PRIM_CUDA_RELEASE "isomer_\([0-9]*\)".*/\1/p' "$root/device/api/prim_cuda.h")"
same "the version of python/pyproject.toml" "$(sed -n 's/^version = "\(.*\)"$/\1/p' "$root/python/pyproject.toml")" "$text"
same "isomer_shmem.__version__" "$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$root/python/isomer_shmem/__init__.py")" "$text"
same "SERIES of isomer_shmem/_lib.py" "$(sed -n 's/^SERIES = \([0-9]*\).*/\1/p' "$root/python/isomer_shmem/_lib.py")" \
    "$(echo "$text" | awk -F . '{ print 100 * $1 + $2 }')"
same "the first entry of CHANGELOG.md" "$(sed -n 's/^## \([0-9.]*\).*/\1/p' "$root/CHANGELOG.md" | head -n 1)" "$text"
same "the end of the library's name" "$(basename "$(readlink -f "$2")")" "libisomer.so.$text"
same "isomer-info" "$("$1" 2>/dev/null | grep -o "Isomer [0-9][0-9.]*[0-9]" | head -n 1)" "Isomer $text"
exit $wrong
