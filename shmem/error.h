/* SPDX-License-Identifier: MIT */
/* Errors that end the job: one sentence on stderr, which names call, argument, value and allowed range; then the end.
 * Every file of shmem/ and coll/ may call these functions. */
#ifndef ISO_ERROR_H
#define ISO_ERROR_H

#include "../include/shmem.h"
#include "base.h"

/* What the end of the job asks of parts above this file. A part sets its hooks in ISO->at_end when it starts; they stay
 * callable after it has stopped. NULL: nothing to do. */
struct end_hooks {
    void (*stop_kernels)(void);     /* proxy.c */
    void (*tell_peers)(int status); /* pe.c: they end with this status at their next wait, or by SIGTERM soon */
    void (*end_peers)(void);        /* pe.c: the last resort without a launcher: SIGTERM for local peers after a grace */
};

/* "[pe 3] shmem_int_put: pe 9 is outside 0..7", then the whole job ends (in a forked child of a PE: the child alone).
 * `call` may begin with the p of pshmem_. */
_Noreturn ISO_COLD void iso_fatal(const char *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Ends the job with this status: tells peers, launcher, then exits. `sentence`: the cause, printed before; NULL: the
 * program wishes it (shmem_global_exit). */
_Noreturn ISO_COLD void iso_abort_job(int status, const char *sentence);
/* Another PE ends the job and has said why: leave with its status, without a word. */
_Noreturn ISO_COLD void iso_exit_quietly(int status);
/* "shmem_x" for "pshmem_x" and for "shmem_x". */
const char *iso_call_name(const char *call);

_Noreturn ISO_COLD void iso_fatal_life(const char *call);                    /* before init, after finalize */
_Noreturn ISO_COLD void iso_fatal_pe(const char *call, int pe, int n_pes);   /* PE out of range */
_Noreturn ISO_COLD void iso_fatal_ctx(const char *call, shmem_ctx_t ctx);    /* invalid context */
_Noreturn ISO_COLD void iso_fatal_team(const char *call, shmem_team_t team); /* invalid team */
/* Not symmetric, null, past the segment: says which; `arg` names the argument ("dest"). */
_Noreturn ISO_COLD void iso_fatal_address(const char *call, const char *arg, const void *addr, size_t len);
_Noreturn ISO_COLD void iso_fatal_aligned(const char *call, const char *arg, const void *addr, size_t bytes);

/* Local memory that a call writes its answer to. */
ISO_INLINE void iso_check_out(const char *call, const char *arg, const void *out)
{
    if (ISO_CHECKS && ISO_UNLIKELY(out == NULL))
        iso_fatal(call, "%s is a null pointer", arg);
}

/* Naturally aligned objects of 1, 2, 4, 8 bytes for atomics. */
ISO_INLINE void iso_check_aligned(const char *call, const char *arg, const void *addr, size_t bytes)
{
    if (ISO_CHECKS && ISO_UNLIKELY(((uintptr_t)addr & (bytes - 1)) != 0))
        iso_fatal_aligned(call, arg, addr, bytes);
}

#endif
