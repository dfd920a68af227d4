#!/bin/sh
# SPDX-License-Identifier: MIT
# Finds in an object what clang before 20 compiles wrong for AMD GPUs: a register that holds spilled scalars, spilled to
# memory itself, comes back with all lanes on, over what the lanes that are off keep there (LLVM gives such registers
# numbers of their own since 20). Restoring one just before a function returns is right.
# usage: hip_spills.sh FOLDER OBJECT     FOLDER: of the compiler, with LLVM's tools; ends 0, or 1 and a sentence
set -eu
folder=$1 object=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$folder/llvm-objcopy" -O binary --only-section=.hip_fatbin "$object" "$dir/all"
[ -s "$dir/all" ] || exit 0 # no kernels
bad=0
for target in $("$folder/clang-offload-bundler" --list --type=o --input="$dir/all"); do
    case $target in host*) continue ;; esac
    "$folder/clang-offload-bundler" --unbundle --type=o --input="$dir/all" --targets="$target" --output="$dir/one"
    "$folder/llvm-objdump" -d --no-show-raw-insn "$dir/one" >"$dir/text"
    awk -v object="$object" -v arch="${target##*-}" '
        /^[0-9a-f]+ <.*>:$/ { name = substr($2, 2, length($2) - 3); left = 0; next }
        NF == 0 { next }
        last && $1 ~ /^(scratch|buffer)_load_dword$/ { left = 12 }
        { last = $1 == "s_or_saveexec_b64" && $3 == "-1" }
        left > 0 && $1 == "s_setpc_b64" { left = 0 }
        left > 0 && --left == 0 && !seen[name]++ {
            printf "%s: %s (%s) would compute wrong results: clang before 20 brings spilled scalars back over " \
                   "other lanes; compile it with a later one, or with -mllvm -amdgpu-spill-sgpr-to-vgpr=0\n",
                   object, name, arch
            bad = 1
        }
        END { exit bad }' "$dir/text" >&2 || bad=1
done
exit $bad
