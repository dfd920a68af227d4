#!/bin/bash
# SPDX-License-Identifier: MIT
# Global variables are symmetric in every way a program is linked: PIE at different addresses, not PIE, static, static
# PIE, with all of RELRO, by lld, by clang; a forked child keeps its own; where they are not symmetric a sentence says
# why.
. "$(dirname "$0")/cluster.sh"
oshrun=$(program oshrun)
command -v cc >/dev/null || skip "no C compiler"
include=$here/../../include
sanitizers=$(sed -n 's/^ISO_SANITIZE:STRING=//p' "$build/CMakeCache.txt")
case $sanitizers in
address) extra="-fsanitize=address,undefined" ;;
thread) extra="-fsanitize=thread" ;;
*) extra= ;;
esac
compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")

# link NAME options...: builds $work/NAME against the shared library
link() {
    local name=$1
    shift
    job 120 "$compiler" -O1 $extra -I"$include" "$here/linked.c" -o "$work/$name" "$@" -L"$build/lib" -lisomer -Wl,-rpath,"$build/lib"
    expect_status 0 "linking $name"
}

run() {
    job 60 "$oshrun" -n "$1" "$work/$2" ${3:-}
    expect_ranks "$1" "$2 ${3:-}"
}

link pie -fPIE -pie
run 3 pie
run 2 pie fork
link no_pie -no-pie -fno-pie
run 3 no_pie
run 2 no_pie fork
link relro -Wl,-z,relro,-z,now
run 2 relro
link lazy -Wl,-z,norelro,-z,lazy
run 2 lazy
if command -v ld.lld >/dev/null; then
    link lld -fuse-ld=lld
    run 2 lld
fi

if [ -z "$extra" ]; then
    # The library itself statically; PMIx has no static library on most systems, so it stays shared.
    job 120 "$compiler" -O1 -I"$include" "$here/linked.c" -o "$work/static_library" "$build/lib/libisomer.a" \
        $(pkg-config --libs pmix) -lpthread
    expect_status 0 "linking static_library"
    run 3 static_library
    run 2 static_library fork
fi

job 30 env SHMEM_DATA_SEGMENT=0 "$oshrun" -n 2 "$work/pie" refused
expect_error_status "global variables switched off"
expect_message "shmem_long_p: dest 0x[0-9a-f]+ .*not symmetric.*SHMEM_DATA_SEGMENT is off" "switched off"

# A thread that runs before the library starts could write in the middle of the copy.
cat >"$work/early.c" <<C
#include <pthread.h>
#include <unistd.h>
static void *idle(void *arg) { pause(); return arg; }
__attribute__((constructor(101))) static void early(void) { pthread_t t; pthread_create(&t, 0, idle, 0); }
C
if [ -z "$extra" ]; then
    job 60 "$compiler" -w -O1 -I"$include" "$here/linked.c" "$work/early.c" -o "$work/early" "$build/lib/libisomer.a" \
        $(pkg-config --libs pmix) -lpthread
    expect_status 0 "linking early"
    job 30 "$oshrun" -n 1 "$work/early" refused
    expect_error_status "an early thread"
    expect_message "not symmetric.*a thread was already running" "an early thread"
fi

# Two programs in one job: the heap is symmetric, globals are not.
link other -DOTHER -O2
printf '#!/bin/sh\n[ "$PMIX_RANK" = 0 ] && exec %s refused\nexec %s refused\n' "$work/pie" "$work/other" >"$work/mixed"
chmod +x "$work/mixed"
job 30 "$oshrun" -n 2 "$work/mixed"
expect_error_status "different programs"
expect_message "not symmetric.*different programs" "different programs"
finish
