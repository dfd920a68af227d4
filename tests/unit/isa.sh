#!/bin/bash
# SPDX-License-Identifier: MIT
# What no run on a machine with stronger ordering can show: whether the instructions that AMD's compiler emits for the
# library's kernels, and for one tiny kernel of each primitive (isa_kernels.c), reach a peer in the right order. Every
# kernel's assembly becomes a line of words (store_system8 wbl2_system wait_vm barrier ...), and rules are patterns over
# that line. Scopes are spelled differently by gfx90a and later ones; the words are not. What must hold on every path
# through a large kernel, isa_flow.awk looks for.
# usage: isa.sh [FOLDER]   checks; ends 0, 1, or 77 when no clang has these targets (ISO_HIP_COMPILER, clang-19).
#                          FOLDER: of the library's kernels, built with ISO_TESTS: their assembly is taken, for the
#                          architectures that it has; of others, only the registers of isa_kernels.c. Without FOLDER
#                          all is compiled here, which takes four minutes.
#        isa.sh --prove    breaks the assembly in one way for each rule and shows that just that rule finds it
#        isa.sh --words    prints the lines
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
archs="gfx90a gfx942 gfx950"
out=$(mktemp -d) || exit 2
trap 'rm -rf "$out"' EXIT
compiler=${ISO_HIP_COMPILER:-$(command -v clang-19 || command -v clang-20 || command -v clang-21 || command -v clang-22)}
[ -n "$compiler" ] || { echo "skipped: no clang-19 or later, and no ISO_HIP_COMPILER"; exit 77; }
# clang-19 does not know gfx950.
"$compiler" --target=amdgcn-amd-amdhsa -mcpu=gfx950 -x c -E /dev/null >/dev/null 2>&1 || archs=${archs% gfx950}
all_archs=$archs

# ---- assembly to words ----

# gfx90a has no bits for the scope of stores and read-modify-writes: all of them are of system scope.
words() {
    awk -v arch="$1" '
    function bits(  s0, s1) {
        s0 = $0 ~ / sc0/; s1 = $0 ~ / sc1/
        return s0 && s1 ? "system" : s1 ? "agent" : s0 ? "group" : "plain"
    }
    function width(op) {
        return op ~ /dwordx4/ ? 16 : op ~ /dwordx2|_x2/ ? 8 : op ~ /byte/ ? 1 : op ~ /short/ ? 2 : 4
    }
    function word(op) {
        if (op ~ /^(global|flat)_store/) {
            if (arch == "gfx90a")
                return "store_" ($0 ~ / glc slc/ ? "nt" : "system") width(op)
            return "store_" ($0 ~ / nt/ ? "nt" : bits()) width(op)
        }
        if (op ~ /^(global|flat)_load/) {
            if (arch == "gfx90a")
                return (op ~ /^flat/ ? "flat" : "load") "_" ($0 ~ / glc/ ? "system" : "plain") width(op)
            return (op ~ /^flat/ ? "flat" : "load") "_" bits() width(op)
        }
        if (op ~ /^(global|flat)_atomic/) # sc0 and glc ask for the old value
            return "rmw_" (arch == "gfx90a" || $0 ~ / sc1/ ? "system" : "narrow") width(op)
        if (op == "buffer_wbl2")
            return "wbl2_" (arch == "gfx90a" ? "system" : bits())
        if (op == "buffer_inv")
            return "inv_" bits()
        if (op == "buffer_invl2")
            return "invl2"
        if (op == "buffer_wbinvl1_vol")
            return last == "invl2" ? "inv_system" : "inv_agent"
        if (op == "s_waitcnt")
            return $0 ~ /vmcnt\(0\)/ ? "wait_vm" : $0 ~ /lgkmcnt\(0\)/ ? "wait_lgkm" : ""
        if (op ~ /^s_c?branch/)
            return "branch"
        return op == "s_barrier" ? "barrier" : op == "s_endpgm" ? "end" : op ~ /^s_load/ ? "table" : \
               op ~ /^ds_read/ ? "ds_read" : op ~ /^ds_write/ ? "ds_write" : op == "s_sleep" ? "sleep" : \
               op ~ /^(buffer|scratch)_(load|store)/ ? "scratch" : ""
    }
    /^[A-Za-z_][A-Za-z0-9_]*:/ { name = $1; sub(/:.*/, "", name); line = ""; last = "" }
    /^\.LBB/ { line = line " label" }
    /^\t[a-z]/ && name != "" {
        w = word($1)
        if (w != "" && w != "invl2") line = line " " w
        if (w != "" && w !~ /^wait/) last = w
    }
    /^\.Lfunc_end/ && name != "" { print name line; name = "" }'
}

# ---- rules ----

# rule KERNEL PATTERN SAYS BREAK [BREAK_GFX90A]: the kernel's whole line without labels, branches and loads of arguments
# is PATTERN. BREAK: a sed script that makes the kernel wrong in this respect, for --prove; none: no such spelling there.
no_wait='/buffer_wbl2/,/s_barrier|store_dword/{/s_waitcnt/d;}'
no_flush='/buffer_wbl2/d'
no_nt='s/ (nt|glc slc)$//'
no_barrier='/s_barrier/d'
no_inv='/buffer_inv|buffer_wbinv/d'
agent_inv='s/buffer_inv sc0 sc1/buffer_inv sc1/;/buffer_invl2/d'
agent='s/ sc0 sc1$/ sc1/'
no_glc='s/ glc$//'
wide='s/store_dwordx2 /store_dwordx4 /'
narrow_atomic='s/(_atomic_.*) sc1$/\1/'
rules() {
    local flushed=' wbl2_system( wait_vm)+' stored=' store_(plain|system)'
    rule isa_put_signal ".* store_nt16.*$flushed barrier store_system8 end" \
        "each thread writes back and waits, then the barrier, then a flag of system scope" "$no_wait"
    rule isa_put_signal ".* store_nt16.*$flushed barrier store_system8 end" "a flag follows a write-back" "$no_flush"
    rule isa_put_signal ".* store_nt16.*$flushed barrier store_system8 end" "a flag follows the barrier" "$no_barrier"
    rule isa_put_signal ".* store_nt16.*$flushed barrier store_system8 end" "payload passes the caches by" "$no_nt"
    rule isa_settle ".* store_nt16.* wait_vm barrier$flushed rmw_system8 end" \
        "each wave waits before the barrier, one thread writes back behind it" '1,/s_barrier/{/vmcnt\(0\)/d;}'
    rule isa_settle ".* store_nt16.* wait_vm barrier$flushed rmw_system8 end" "and does write back" "$no_flush"
    rule isa_put_signal_wave ".* store_nt16.*$flushed store_system8 end" "a wave writes back and waits" "$no_wait"
    rule isa_gather "${stored}4$flushed barrier store_system8 end" "many flags stand behind one gathering" "$no_barrier"
    rule isa_gather "${stored}4$flushed barrier store_system8 end" "each is of system scope" "$agent"
    rule isa_signal_alone "$flushed store_system8 end" "a write-back is waited for though no store is pending" "$no_wait"
    rule isa_flag " store_system8 end" "a flag is one store of system scope" "$agent"
    rule isa_flag " store_system8 end" "a flag is one store of 8 bytes" "$wide" "$wide"
    rule isa_flag32 " store_system4 end" "a flag of 4 bytes is one store of system scope" "$agent"
    rule isa_release "${stored}8$flushed store_system8 end" "a release store writes back" "$no_flush" "$no_flush"
    rule isa_release "${stored}8$flushed store_system8 end" "a release store waits" "$no_wait"
    local polled='( sleep load_system8 wait_vm)? inv_system load_plain8 wait_vm'
    rule isa_poll " load_system8 wait_vm$polled${stored}8 end" "polls are loads of system scope" "$agent" "$no_glc"
    rule isa_poll " load_system8 wait_vm$polled${stored}8 end" "stale data is dropped before it is read" "$no_inv"
    rule isa_poll " load_system8 wait_vm$polled${stored}8 end" "in all caches" "$agent_inv"
    rule isa_poll " load_system8 wait_vm$polled${stored}8 end" "and after the flag has come" '/vmcnt\(0\)/d'
    rule isa_poll32 " load_system4 wait_vm${polled//system8/system4}${stored}8 end" "so do polls of 4 bytes" "$agent" "$no_glc"
    rule isa_acquire " load_system8 wait_vm inv_system load_plain8 wait_vm${stored}8 end" \
        "an acquire load drops stale data" "$agent_inv"
    rule isa_quiet " store_system8$flushed inv_system load_system8 wait_vm${stored}8 end" \
        "a full fence has ended before later loads begin" "$no_wait"
    rule isa_quiet_alone "$flushed inv_system load_system8 wait_vm${stored}8 end" \
        "its write-back has ended before it invalidates, though no store is pending" '/buffer_wbl2/,/buffer_inv/{/s_waitcnt/d;}'
    local odd="( load_plain1 wait_vm store_system1| load_plain4 wait_vm store_system4){2} end"
    rule isa_put "( load_plain16){4}( store_nt16){4} load_plain16 wait_vm store_nt16$odd" \
        "puts have four pieces in flight, past the caches" "$no_nt"
    rule isa_put ".*$odd" "odd bytes and words are of system scope" "$agent" '/store_byte/d'
    local gotten="( load_system1 wait_vm${stored}1| load_system4 wait_vm${stored}4){2} end"
    rule isa_get "( load_system16){4} wait_vm(${stored}16){4} load_system16 wait_vm${stored}16$gotten" \
        "gets have four pieces in flight, no cache answers them" "$agent" "$no_glc"
    rule isa_get "( load_system16){4} wait_vm(${stored}16){4} load_system16 wait_vm${stored}16$gotten" \
        "gets wait for what they loaded" '/ASMSTART/,/ASMEND/{/s_waitcnt/d;}'
    rule isa_ll_store "( store_system8){2} end" "a line is two stores of system scope" "$agent"
    rule isa_ll_store "( store_system8){2} end" "of 8 bytes each" "$wide" "$wide"
    rule isa_ll_load "(( load_system8){2} wait_vm)+${stored}8 end" "a line is two loads of system scope" "$agent" "$no_glc"
    rule isa_narrow " load_system1 wait_vm store_system1 load_system2 wait_vm store_system2 end" \
        "1 and 2 bytes are of system scope" "$agent" "$no_glc"
    local fetched=' rmw_system8( rmw_system8 wait_vm){3}( rmw_system8){2}( rmw_system4){3} wait_vm'
    rule isa_fetch "$fetched${stored}8 end" \
        "atomics are of system scope, one instruction each" "$narrow_atomic" '/_atomic_/d'
    rule isa_fetch "$fetched${stored}8 end" "the old values of and, or, xor have come" '/ASMSTART/,/ASMEND/{/s_waitcnt/d;}'
    rule isa_fetch_bits32 "( rmw_system4 wait_vm){3}${stored}8 end" "so those of 4 bytes" "$narrow_atomic" '/_atomic_/d'
    rule isa_update " rmw_system8( rmw_system4){3}( rmw_system8){3} end" \
        "so are those whose old value nobody wants, and none is waited for" "$narrow_atomic" '/_atomic_/d'
    rule isa_lock " rmw_system8 wait_vm inv_system load_plain8 wait_vm${stored}8 end" \
        "an acquire after an atomic drops stale data" "$no_inv"
    rule isa_lock " rmw_system8 wait_vm inv_system load_plain8 wait_vm${stored}8 end" \
        "in all caches, once the atomic has come back" "$agent_inv"
    rule isa_barrier ".* ds_write wait_lgkm barrier ds_read .*" "a barrier waits for shared memory" '/ds_write/,/s_barrier/{/s_waitcnt/d;}'
    rule isa_vote ".* ds_write wait_lgkm barrier( ds_read)+.* wait_lgkm barrier .*ds_write wait_lgkm barrier ds_read wait_lgkm barrier .*" \
        "votes and broadcasts are read before they are overwritten" "$no_barrier"
    rule isa_table "${stored}8 end" "tables are read by the scalar cache" 's/s_load_/global_load_/'
}

# never PATTERN SAYS KERNEL BREAK [BREAK_GFX90A]: stands in no kernel's line; KERNEL is where --prove puts it.
nevers() {
    never ' wbl2_[a-z]+( wait_lgkm| label| table)* (store_|rmw_|barrier|end|branch)' \
        "a write-back is not waited for before what may tell of it" isa_gather "$no_wait"
    never ' wbl2_(agent|group|plain)' "a write-back of less than system scope" isa_gather 's/(buffer_wbl2).*/\1 sc1/' -
    never ' inv_(agent|group|plain)' "an invalidation of less than system scope" isa_poll "$agent_inv"
    never ' (load|flat|rmw)_[a-z]+[0-9]+( wait_lgkm| label| table)* inv_' "an invalidation may overtake the flag's load" isa_acquire \
        '/vmcnt\(0\)/d'
    never ' (load|flat|store)_agent' "an access of agent scope" isa_flag "$agent" -
    never ' rmw_narrow' "an atomic of less than system scope" isa_update "$narrow_atomic" -
    # Not so: kernels for all types, which choose between the user's memory and stages, and broadcast_twoshot_read,
    # which reads where a table says; the compiler cannot tell those from other memory.
    never '^(isod_stream_([a-z]+_(ll|push|staged|read)|reduce_[a-z0-9_]+_sum_[a-z0-9]+)_kernel|isa_put) .*flat_[a-z]+16' \
        "payload is loaded as of any memory, so waits for shared memory wait for it too" isa_put \
        's/global_load_dwordx4/flat_load_dwordx4/'
    never ' scratch' "an access of scratch memory" isa_poll 's/global_load_dwordx2.*/scratch_load_dwordx2 v[0:1], off, s0/'
}

# each KERNELS PATTERN SAYS KERNEL BREAK: stands in the line of every kernel whose name matches KERNELS, and in that of
# KERNEL, where --prove breaks it.
eaches() {
    # Not splits_staged: it packs parts of any length in its own stage first.
    local staged='isod_stream_(exchange|alltoallv|permute|broadcast|gather|scatter|batch)_staged'
    each "isod_stream_(exchange|alltoallv|permute)_push|$staged" '( load_plain16){4}( store_nt16){4}' \
        "pushes have four pieces in flight, past the caches" isa_put "$no_nt"
    each 'isod_stream_broadcast_read' '( load_system16){4} wait_vm' "no cache answers reads" isa_get 's/(sc0 sc1|glc)$//'
    each 'isod_stream_reduce_(twoshot_)?push_sum_[a-z0-9]+' '( load_plain16){4}' "stages are loaded four at once" isa_put \
        's/global_load_dwordx4/global_load_dwordx2/'
    each 'isod_stream_[a-z]+_(twoshot_)?ll(_[a-z0-9]+)*' '( load_system8){2}( wait_vm)?' "LL words are loads of system scope" \
        isa_ll_load 's/ (sc0 sc1|glc)$//'
    each 'isod_stream_[a-z]+_(twoshot_)?ll(_[a-z0-9]+)*' '( store_system8){2}' "LL words are stores of system scope" \
        isa_ll_store 's/store_dwordx2 /store_dwordx4 /'
    each 'isod_stream_[a-z]+_(twoshot_)?ll128(_sum_[a-z0-9]+)?' ' load_system16 wait_vm' "pieces of LL128 lines are loads of system scope" \
        isa_ll128_load 's/ (sc0 sc1|glc)$//'
    each 'isod_stream_[a-z]+_(twoshot_)?ll128(_sum_[a-z0-9]+)?' ' store_system16' "and stores of system scope, 16 bytes each" \
        isa_ll128_store 's/store_dwordx4 /store_dwordx2 /'
}

# flow KERNELS WORD SAYS KERNEL BREAK [BREAK_GFX90A]: what WORD of isa_flow.awk stands for is on no path through these
# kernels. reduce_push and alltoallv are not among the last two: they have paths that only the program's logic excludes.
flows() {
    local told='isod_stream_(reduce_twoshot_read_sum_[a-z0-9]+|permute_push|permute_staged|barrier|engine_begin)'
    flow 'isod_stream_(reduce_(twoshot_)?read_sum_[a-z0-9]+|broadcast_read)' load_at_barrier \
        "payload has not come before the barrier, and the flags behind it have no fence" isa_put_signal '/vmcnt/d'
    flow "$told|isod_stream_(exchange_push|exchange_staged|broadcast_staged)" unflushed \
        "a flag may overtake a store" isa_gather "$no_flush" -
    flow "$told|isod_stream_(exchange_push|exchange_staged|broadcast_staged)" unflushed \
        "a flag may overtake a write-back" isa_gather "$no_wait" -
    flow "$told" ungathered "a flag may overtake other waves' stores" isa_gather "$no_barrier" -
    flow 'isa_one_(put|iput|get|wait|sync)' overtaken "the signal of one thread may overtake what other waves have put" \
        isa_settle '1,/s_barrier/{/vmcnt\(0\)/d;}'
    flow 'isa_one_(put|iput|get|wait|sync)' overtaken "or what this wave had still to wait for when it met them" \
        isa_settle "$no_barrier"
    flow 'isod_stream_.*' call "a call hides what the rules are about" isa_gather 's/.*buffer_wbl2.*/\ts_swappc_b64 s[0:1], s[2:3]/'
}

# "KERNEL: what is wrong" for the kernels in a file of assembly. Scalar registers are spilled into vector registers,
# which large kernels may do. The kernels of on_stack keep a part of an accumulator there, which has all types.
on_stack='^isod_stream_reduce_hier2?_any_kernel'
stackless() {
    awk -v on_stack="$on_stack" '$1 == ".private_segment_fixed_size:" { scratch = $2 }
        $1 == ".sgpr_spill_count:" { sgprs = $2 }
        $1 == ".symbol:" { name = $2 }
        $1 == ".vgpr_spill_count:" {
            spilled = $2 + (name ~ /^isa_/ ? sgprs : 0)
            if (scratch + spilled > (name ~ on_stack ? 24 : 0))
                printf "%s: %d bytes of scratch memory, %d spilled registers\n", name, scratch, spilled
        }' "$1"
}

# ---- checks ----

shorten() { sed -E 's/ (label|branch|table)\b//g; / ds_/!s/ wait_lgkm//g'; }
line_of() { grep -E "^$1( |\$)" "$2" | head -n 1; }
wrong=0
complain() {
    echo "$arch $*"
    wrong=$((wrong + 1))
}

compile() { # SOURCE RESULT
    "$compiler" -x hip -std=c++17 --cuda-device-only --offload-arch="$arch" -nogpulib -nogpuinc -O3 \
        -mcode-object-version=4 -Wno-unused-command-line-argument -I"$root/include" \
        -S "$1" -o "$2"
}

check_rule() {
    local line
    line=$(line_of "$1" "$out/short")
    [[ $line =~ ^$1$2$ ]] || complain "$1: not so: $3"$'\n'"    ${line:-no such kernel}"
}
check_never() {
    while read -r line; do
        [ "$1" = ' scratch' ] && [[ $line =~ $on_stack ]] || complain "${line%% *}: $2"
    done < <(grep -E "$1" "$out/all")
}

matching() { grep -E "^($1)_kernel( |\$)" "$2" || echo "none"; }
check_each() {
    while read -r line; do
        [[ " ${line#* }" =~ $2 ]] || complain "${line%% *} of $1: not so: $3"
    done < <(matching "$1" "$out/short")
}
check_flow() {
    [ "$arch" != gfx90a ] || [ "${6-}" != - ] || return 0
    while read -r line; do
        [ "$line" != none ] || complain "$1: no such kernel"
        [[ " ${line#* } " != *" $2 "* ]] || complain "${line%% *}: $3"
    done < <(matching "$1" "$out/flow")
}
flow_of() { awk -v kernels="$1" -f "$root/tests/unit/isa_flow.awk"; }

# For all architectures at once, since large files take half a minute each.
assembly_of_all() { # [FOLDER]
    local file name built
    for file in "$root"/tests/unit/isa_kernels.c "$root"/device/*_kernels.c "$root"/coll/stream/kernels/*_kernels.c; do
        for arch in $archs; do
            name=$(basename "$file" .c)
            built=${1-}/$name-hip-amdgcn-amd-amdhsa-$arch.s
            if [ -n "${1-}" ] && [ "$name" != isa_kernels ]; then
                cp "$built" "$out/$arch.$name.s"
            else
                compile "$file" "$out/$arch.$name.s" &
            fi
        done
        wait
        for arch in $archs; do [ -s "$out/$arch.$name.s" ] || complain "$file has no assembly"; done
    done
}

check() {
    local file kernels=0
    assembly_of_all "$@"
    for arch in $archs; do
        : >"$out/all" >"$out/flow"
        for file in "$out/$arch".*.s; do
            words "$arch" <"$file" >>"$out/all"
            flow_of '^(isod_stream|isa_one)_' <"$file" >>"$out/flow"
            while read -r line; do complain "$line"; done < <(stackless "$file")
        done
        shorten <"$out/all" >"$out/short"
        rule() { check_rule "$@"; }
        never() { check_never "$@"; }
        each() { check_each "$@"; }
        flow() { check_flow "$@"; }
        rules
        nevers
        eaches
        flows
        kernels=$((kernels + $(grep -c ' end' "$out/all")))
    done
    [ $wrong -eq 0 ] && echo "$kernels kernels for $archs: all rules hold"
    return $((wrong != 0))
}

# ---- proof that every check can fail ----

# The break for this architecture; empty where it has no spelling.
break_of() { # FOR_ALL_OR_GFX942 FOR_GFX90A
    case $arch:${2-} in
    gfx90a:-) ;;
    gfx90a:?*) echo "$2" ;;
    *) echo "$1" ;;
    esac
}
# The words of one kernel after its assembly went through a sed script.
broken_text() { sed -n "/^$1:/,/^\\.Lfunc_end/p" "$out/s" | sed -E "$2"; } # KERNEL SCRIPT
broken() { broken_text "$1" "$2" | words "$arch"; }
prove_rule() {
    local script line
    [ "$arch" != gfx90a ] || [ -n "${5-}" ] || [ "$4" != "$agent" ] || return 0 # gfx90a spells no scope of stores
    script=$(break_of "$4" "${5-}")
    line=$(broken "$1" "$script" | shorten)
    [[ $line =~ ^$1\  ]] || complain "$1: the break left no kernel"
    [[ $(broken "$1" p\;d | shorten) =~ ^$1$2$ ]] || complain "$1: was not right before: $3"
    [[ ! $line =~ ^$1$2$ ]] || complain "$1: was not found: $3"
    proved=$((proved + 1))
}
prove_never() {
    local script
    script=$(break_of "$4" "${5-}")
    [ -n "$script" ] || return 0
    broken "$3" "$script" | grep -qE "$1" || complain "$3: was not found: $2"
    broken "$3" p\;d | grep -qE "$1" && complain "$3: was there before: $2"
    proved=$((proved + 1))
}
prove_each() {
    [[ $(broken "$4" p\;d | shorten) =~ $2 ]] || complain "$4: was not so before: $3"
    [[ ! $(broken "$4" "$5" | shorten) =~ $2 ]] || complain "$4: was not found: $3"
    proved=$((proved + 1))
}
prove_flow() {
    local script
    script=$(break_of "$5" "${6-}")
    [ -n "$script" ] || return 0
    [[ " $(broken_text "$4" "$script" | flow_of .) " == *" $2 "* ]] || complain "$4: was not found: $3"
    [[ " $(broken_text "$4" p\;d | flow_of .) " != *" $2 "* ]] || complain "$4: was there before: $3"
    proved=$((proved + 1))
}
prove_stackless() {
    sed -E "$1" "$out/s" >"$out/broken"
    [ -n "$(stackless "$out/broken")" ] || complain "was not found: $1"
    proved=$((proved + 1))
}

prove() {
    proved=0
    for arch in $archs; do
        cp "$out/$arch.isa_kernels.s" "$out/s" 2>/dev/null || compile "$root/tests/unit/isa_kernels.c" "$out/s" || return 1
        rule() { prove_rule "$@"; }
        never() { prove_never "$@"; }
        each() { prove_each "$@"; }
        flow() { prove_flow "$@"; }
        rules
        nevers
        eaches
        flows
        prove_stackless '0,/private_segment_fixed_size: *0/s/(\.private_segment_fixed_size: *)0/\116/'
        prove_stackless 's/(\.vgpr_spill_count: *)0/\13/'
        prove_stackless 's/(\.sgpr_spill_count: *)0/\13/'
    done
    [ $wrong -eq 0 ] && echo "$proved wrong kernels were found, each by the rule that it breaks"
    return $((wrong != 0))
}

check_folder() { # FOLDER, or nothing
    [ $# -eq 0 ] || archs=$(cd "$1" && ls agent_kernels-*.s | sed -n 's/.*-\(gfx[0-9a-f]*\)\.s$/\1/p' | tr '\n' ' ')
    [ -n "$archs" ] || { echo "isa.sh: $1 has no assembly of kernels"; exit 1; }
    for arch in $all_archs; do # registers differ: of isa_kernels.c, for each architecture that the folder lacks
        [[ " $archs " == *" $arch "* ]] && continue
        compile "$root/tests/unit/isa_kernels.c" "$out/registers.s" || complain "isa_kernels.c has no assembly"
        while read -r line; do complain "$line"; done < <(stackless "$out/registers.s")
        rm -f "$out/registers.s"
    done
    check "$@"
}

case ${1-} in
--prove) prove ;;
--words)
    for arch in $archs; do
        compile "$root/tests/unit/isa_kernels.c" "$out/s" && words "$arch" <"$out/s" | sed "s/^/$arch /"
    done
    ;;
*) check_folder "$@" ;;
esac
