/* SPDX-License-Identifier: MIT */
/* Errors: one sentence, which names call, argument, value and allowed range. Then the job ends, or in the mode
 * SHMEMX_ERRORS_RETURN a call of shmemx.h returns it. Every file of shmem/ and coll/ may call these functions.
 *
 * A broken job is one in which a PE has died, has left, or has ended the job, while this PE returns errors. Invariant:
 * once it is broken it stays so until shmemx_leave, and every wait of a call that returns errors then comes back. So a
 * function with waits inside needs one question at its end, iso_job_rc: 0 means that all its waits had what they waited
 * for. */
#ifndef ISO_ERROR_H
#define ISO_ERROR_H

#include "../../include/shmemx.h"
#include "base.h"

/* Why a job ends or is broken. The PE that notices tells all others, and they tell it on unchanged. */
struct end_cause {
    int pe;        /* that died, left, ended the job or is not reached; -1: not known */
    int status;    /* with which PEs end that do not return errors */
    int said;      /* a PE has printed `why` */
    char why[256]; /* a sentence that reads alike on every PE */
};

/* The calls of this PE, or those of all PEs of its node. */
enum flight_whose { FLIGHT_OWN, FLIGHT_NODE };

/* What the end of the job asks of parts above this file. A part sets its hooks in ISO->at_end when it starts; they stay
 * callable after it has stopped. NULL: nothing to do. */
struct end_hooks {
    void (*stop_kernels)(void);                        /* proxy.c */
    void (*lose_pe)(int pe);                           /* likewise: kernels learn that this PE is gone */
    void (*drop_pe)(int pe); /* pe.c: operations on it end, and the other PEs hear of it */
    void (*tell_peers)(const struct end_cause *cause); /* pe.c: they end or break at their next wait, or by SIGTERM */
    void (*record)(enum flight_whose whose, const char *why); /* iso_flight_record */
    void (*end_peers)(void); /* pe.c: the last resort without a launcher: SIGTERM for local peers after a grace */
};

/* Written once, by the thread that has raised `stage` from 0 to 1; it stores 2 behind the rest (release), which pairs
 * with the acquire load of iso_job_is_broken. */
struct broken {
    int stage;
    int told; /* atomic: this PE has printed the reason, which its later calls only return */
    bool masks; /* atomic: a team of this PE masks deaths, so that its network outlives them */
    struct end_cause cause;
    uint64_t at_ns;
};

/* "[pe 3] shmem_int_put: pe 9 is outside 0..7", then the whole job ends (in a forked child of a PE: the child alone).
 * `call` may begin with the p of pshmem_. */
_Noreturn ISO_COLD void iso_fatal(const char *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same sentence. Returns -EINVAL where this call returns errors (iso_error_returns); else it is iso_fatal. */
ISO_COLD int iso_refuse(const char *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Likewise for what failed on this PE alone while the other members wait for it: the job is broken then. */
ISO_COLD int iso_refuse_alone(const char *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Does `call` return its errors? In SHMEMX_ERRORS_RETURN: all but the calls of shmem.h. Parts of the library that no
 * call names ("the proxy"), and the start, return them too. */
bool iso_error_returns(const char *call);

/* Ends the job with this status: tells peers, launcher, then exits. `sentence`: the cause, printed before; NULL: the
 * program wishes it (shmem_global_exit). */
_Noreturn ISO_COLD void iso_abort_job(int status, const char *sentence);
/* The job cannot go on because of `pe` (-1: not known). SHMEMX_ERRORS_RETURN: it is broken from here on, kernels give
 * up, the other PEs are told, and this returns. Else the job ends with status 1. `sentence` was printed before and reads
 * alike on every PE. */
ISO_COLD void iso_job_break(int pe, const char *sentence);
/* Another PE ends the job, breaks or leaves it: ends with its status, or breaks the job here. */
ISO_COLD void iso_job_hear(const struct end_cause *cause);
/* "; ending the job" where this PE does not return errors: behind the sentence of a death. */
const char *iso_job_then(void);
bool iso_job_is_broken(void);
bool iso_job_has_reason(void); /* a reason is claimed: no other one is said */
int iso_job_broken_by(void); /* the PE of the reason; -1: not known, or the job is whole */
/* 0, or -EIO once the job is broken; then the sentence is this thread's last error, not printed. */
int iso_job_rc(const char *call);
/* A wait of `call` has found the job broken: comes back with -EIO where the call returns errors, else ends the job. */
ISO_COLD int iso_job_give_up(const char *call);
/* Returns -EIO, and makes why this call cannot go on the last error of this thread: printed, if this PE has not printed
 * the reason yet. The job is broken. */
ISO_COLD int iso_refuse_broken(const char *call);
/* Without a sentence, in either mode, and the others are not told: by shmemx_leave. Does nothing when the job is broken
 * already. */
void iso_job_mark(int pe, const char *sentence);
/* The same in two steps, for a thread with something to end in between: no other reason is said from the first one
 * on, and the job is broken from the second one on. false: there is a reason already. */
bool iso_job_claim(int pe, const char *sentence);
void iso_job_claimed(void);
/* A PE has died or left: kernels may look, and give up if the team does not mask it. This PE: others take it for dead,
 * and its kernels give up in any case. */
void iso_job_lose_pe(int pe);
/* From now on this PE's network goes on, or ends, when a death breaks the job. */
void iso_job_mask(bool masks);
bool iso_job_masks(void);
/* The job is broken by the end of another PE, which this PE masks: waits of its network for the others go on. */
bool iso_job_outlives(void);
/* Tells all peers why the job is broken. The reason is claimed. */
void iso_job_tell(void);
/* The next life begins whole. */
void iso_job_mend(void);
/* "shmem_x" for "pshmem_x" and for "shmem_x". */
const char *iso_call_name(const char *call);

_Noreturn ISO_COLD void iso_fatal_life(const char *call);                    /* before init, after finalize */
ISO_COLD int iso_refuse_entry(const char *call);                             /* likewise, or the job is broken */
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
