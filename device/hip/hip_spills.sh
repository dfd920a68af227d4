#!/bin/sh
# SPDX-License-Identifier: MIT
# Finds in an object what clang compiles wrong for AMD GPUs when a kernel needs more registers than there are. Two
# faults:
# 1. (before clang 20) A register that holds spilled scalars, spilled to memory itself, comes back with all lanes on,
#    over what the lanes that are off keep there. Restoring one just before a function returns is right.
# 2. (seen in clang 19) Where the last lane has left a loop, a register is loaded or computed again before the lanes are
#    on again: no lane gets its value.
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
    "$folder/llvm-objdump" -d --no-show-raw-insn --symbolize-operands "$dir/one" >"$dir/text"
    # Twice over the text: where loops end is known from the branches, which may come later.
    awk -v object="$object" -v arch="${target##*-}" '
        function refuse(why)
        {
            if (!seen[name]++)
                printf "%s: %s (%s) would compute wrong results: %s\n", object, name, arch, why
            bad = 1
        }
        NR > 1 && FNR == 1 { second = 1 }
        NF == 0 { next }
        /^[0-9a-f]+ <L[0-9]+>:$/ {
            if (second && ((name, substr($2, 2, length($2) - 3)) in ends)) no_lane = 1
            next
        }
        /^[0-9a-f]+ <.*>:$/ { name = substr($2, 2, length($2) - 3); left = no_lane = leaves = on = 0; next }
        !second && leaves && $1 == "s_cbranch_execz" { ends[name, $2] = 1 }
        second && leaves && $1 == "s_cbranch_execnz" { no_lane = 2 }
        { leaves = $1 == "s_andn2_b64" && $2 == "exec," && $3 == "exec," }
        !second { next }
        no_lane && ($1 ~ /^v_/ && $1 !~ /lane/ || $1 ~ /^(scratch|buffer)_load_dword/) {
            refuse("this clang brings registers back while no lane is on; make the kernel smaller, or compile it with " \
                   "a later clang, or with -mllvm -amdgpu-spill-sgpr-to-vgpr=0")
        }
        no_lane < 2 && ($2 == "exec," || $1 ~ /saveexec|^s_(c?branch|setpc|swappc|endpgm)/) { no_lane = 0 }
        no_lane == 2 { no_lane = 1 }
        on && $1 ~ /^(scratch|buffer)_load_dword$/ { left = 12 }
        { on = $1 == "s_or_saveexec_b64" && $3 == "-1" }
        left > 0 && $1 == "s_setpc_b64" { left = 0 }
        left > 0 && --left == 0 {
            refuse("clang before 20 brings spilled scalars back over other lanes; compile it with a later one, " \
                   "or with -mllvm -amdgpu-spill-sgpr-to-vgpr=0")
        }
        END { exit bad }' "$dir/text" "$dir/text" >&2 || bad=1
done
exit $bad
