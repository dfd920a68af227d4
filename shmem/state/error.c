/* SPDX-License-Identifier: MIT */
/* Errors, and the end of the job. Every file may call these functions, so they call nothing above bootstrap/: what the
 * device and the peers have to do then are the hooks of struct end_hooks, which these parts register. The text of the
 * last error is kept by log.c, where every sentence passes. */
#include "error.h"
#include "../../bootstrap/boot.h"
#include "../../bootstrap/clock.h"
#include "../../bootstrap/log.h"
#include "pe_state.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *iso_call_name(const char *call) { return strncmp(call, "pshmem", 6) == 0 ? call + 1 : call; }

/* Kernels return instead of keeping the device busy. */
static void stop_kernels(void)
{
    if (ISO->at_end.stop_kernels != NULL)
        ISO->at_end.stop_kernels();
}

static void record(enum flight_whose whose, const char *why)
{
    if (ISO->at_end.record != NULL && ISO->life == LIFE_RUNNING)
        ISO->at_end.record(whose, why);
}

static void tell_peers(const struct end_cause *cause)
{
    if (ISO->at_end.tell_peers != NULL)
        ISO->at_end.tell_peers(cause);
}

static struct end_cause make_cause(int pe, int status, const char *why)
{
    struct end_cause cause = {.pe = pe, .status = status, .said = true};
    snprintf(cause.why, sizeof cause.why, "%s", why);
    return cause;
}

/* ---- the mode in which errors come back ---- */

/* What shmem.h declares has its meaning from OpenSHMEM. All else is shmemx_, shmemd_, or a part of the library. */
bool iso_error_returns(const char *call)
{
    const struct state *self = ISO;
    if (self->errors != SHMEMX_ERRORS_RETURN || self->life == LIFE_CHILD)
        return false;
    return self->life == LIFE_BEFORE || self->life == LIFE_AFTER || strncmp(iso_call_name(call), "shmem_", 6) != 0;
}

bool iso_job_is_broken(void) { return __atomic_load_n(&ISO->broken.stage, __ATOMIC_ACQUIRE) == 2; }

bool iso_job_has_reason(void) { return __atomic_load_n(&ISO->broken.stage, __ATOMIC_RELAXED) != 0; }

int iso_job_broken_by(void) { return iso_job_is_broken() ? ISO->broken.cause.pe : -1; }

void iso_job_mend(void) { ISO->broken = (struct broken){.cause = {.pe = -1}}; }

/* `told`: this PE has printed it. */
static bool claim(const struct end_cause *cause, bool told)
{
    struct broken *broken = &ISO->broken;
    int whole = 0;
    if (!__atomic_compare_exchange_n(&broken->stage, &whole, 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return false;
    broken->cause = *cause;
    broken->told = told;
    broken->at_ns = iso_clock_now_ns();
    return true;
}

bool iso_job_claim(int pe, const char *sentence)
{
    const struct end_cause cause = make_cause(pe, 1, sentence);
    return claim(&cause, true);
}

void iso_job_tell(void) { tell_peers(&ISO->broken.cause); }

void iso_job_mask(bool masks) { __atomic_store_n(&ISO->broken.masks, masks, __ATOMIC_RELAXED); }

bool iso_job_masks(void) { return __atomic_load_n(&ISO->broken.masks, __ATOMIC_RELAXED); }

bool iso_job_outlives(void)
{
    return iso_job_is_broken() && ISO->broken.cause.pe >= 0 && ISO->broken.cause.pe != ISO->my_pe && iso_job_masks();
}

void iso_job_lose_pe(int pe)
{
    if (pe == ISO->my_pe) {
        iso_job_mask(false);
        stop_kernels();
        return;
    }
    if (ISO->at_end.drop_pe != NULL)
        ISO->at_end.drop_pe(pe);
    if (ISO->at_end.lose_pe != NULL)
        ISO->at_end.lose_pe(pe);
}

void iso_job_claimed(void)
{
    int pe = ISO->broken.cause.pe;
    __atomic_store_n(&ISO->broken.stage, 2, __ATOMIC_RELEASE);
    if (pe >= 0 && pe != ISO->my_pe)
        iso_job_lose_pe(pe);
    else
        stop_kernels();
}

void iso_job_mark(int pe, const char *sentence)
{
    struct end_cause cause = make_cause(pe, 1, sentence);
    cause.said = false;
    if (claim(&cause, false))
        iso_job_claimed();
}

static bool returns_errors(void) { return ISO->errors == SHMEMX_ERRORS_RETURN && ISO->life != LIFE_CHILD; }

const char *iso_job_then(void) { return returns_errors() ? "" : "; ending the job"; }

#define BROKEN "%s: the job was broken %.1f s ago: %s; call shmemx_leave"
static double seconds_ago(void) { return (double)(iso_clock_now_ns() - ISO->broken.at_ns) / 1e9; }

int iso_job_rc(const char *call)
{
    if (ISO_LIKELY(!iso_job_is_broken()))
        return 0;
    iso_log_elsewhere(BROKEN, iso_call_name(call), seconds_ago(), ISO->broken.cause.why);
    return -EIO;
}

int iso_refuse_broken(const char *call)
{
    /* Relaxed: one of the threads prints it, whichever. */
    if (__atomic_exchange_n(&ISO->broken.told, 1, __ATOMIC_RELAXED) != 0)
        return iso_job_rc(call);
    log_error(BROKEN, iso_call_name(call), seconds_ago(), ISO->broken.cause.why);
    return -EIO;
}

int iso_job_give_up(const char *call)
{
    if (iso_error_returns(call))
        return iso_refuse_broken(call);
    log_error(BROKEN, iso_call_name(call), seconds_ago(), ISO->broken.cause.why);
    iso_abort_job(1, ISO->broken.cause.why);
}

SHMEM_API(shmemx_set_error_mode, pshmemx_set_error_mode);
int pshmemx_set_error_mode(int mode)
{
    if (mode != SHMEMX_ERRORS_ABORT && mode != SHMEMX_ERRORS_RETURN) {
        log_error("shmemx_set_error_mode: mode is %d; allowed: SHMEMX_ERRORS_ABORT (%d), SHMEMX_ERRORS_RETURN (%d)",
                  mode, SHMEMX_ERRORS_ABORT, SHMEMX_ERRORS_RETURN);
        return -EINVAL;
    }
    ISO->errors = mode;
    return 0;
}

SHMEM_API(shmemx_error_text, pshmemx_error_text);
size_t pshmemx_error_text(char *text, size_t bytes) { return iso_log_last(text, bytes); }

SHMEM_API(shmemx_set_error_handler, pshmemx_set_error_handler);
int pshmemx_set_error_handler(shmemx_error_handler_t handler, void *arg)
{
    ISO->on_error = handler;
    ISO->on_error_arg = arg;
    return 0;
}

static void run_handler(const char *sentence)
{
    shmemx_error_handler_t handler = ISO->on_error;
    ISO->on_error = NULL; /* once: it may call what fails again */
    if (handler != NULL)
        handler(sentence, ISO->on_error_arg);
}

/* ---- the end of the job ---- */

static void break_here(const struct end_cause *cause, bool told)
{
    if (!claim(cause, told))
        return;
    record(FLIGHT_NODE, cause->why);
    iso_job_claimed();
    iso_job_tell();
}

void iso_job_hear(const struct end_cause *cause)
{
    if (!cause->said && !iso_is_aborting(ISO) && !iso_job_has_reason())
        log_error("%s%s", cause->why, iso_job_then());
    if (returns_errors()) {
        break_here(cause, !cause->said);
        return;
    }
    if (!iso_is_aborting(ISO)) {
        record(FLIGHT_OWN, cause->why); /* another PE has begun the end */
        run_handler(cause->why);
    }
    __atomic_store_n(&ISO->aborting, true, __ATOMIC_RELAXED);
    stop_kernels();
    tell_peers(cause); /* a third PE may see our end before it hears who began it */
    fflush(stdout);
    _exit(cause->status);
}

/* `sentence` as in iso_abort_job; `cause` is what the others are told. */
_Noreturn static void end_job(const struct end_cause *cause, const char *sentence)
{
    struct state *self = ISO;
    int status = cause->status;
    if (!iso_is_aborting(self) && self->life != LIFE_CHILD) {
        __atomic_store_n(&self->aborting, true, __ATOMIC_RELAXED);
        if (sentence != NULL) /* else shmem_global_exit, which is no error */
            record(FLIGHT_NODE, sentence);
        if (sentence != NULL)
            run_handler(sentence);
        stop_kernels();
        fflush(stdout);
        if (self->boot != NULL && self->boot->ops != NULL) /* first, so that the launcher knows who began it */
            iso_boot_abort(self->boot, status, sentence);
        tell_peers(cause);
        bool by_launcher = self->boot != NULL && self->boot->ops != NULL && strcmp(self->boot->ops->name, "pmix") == 0;
        if (!by_launcher && self->at_end.end_peers != NULL)
            self->at_end.end_peers(); /* no launcher does it; where there is one, it wants us gone at once */
    }
    _exit(status);
}

void iso_abort_job(int status, const char *sentence)
{
    char why[sizeof((struct end_cause *)0)->why];
    snprintf(why, sizeof why, "pe %d has ended the job with status %d%s%s", ISO->my_pe, status,
             sentence != NULL ? ": " : " (shmem_global_exit)", sentence != NULL ? sentence : "");
    const struct end_cause cause = make_cause(ISO->my_pe, status, why);
    end_job(&cause, sentence);
}

void iso_job_break(int pe, const char *sentence)
{
    const struct end_cause cause = make_cause(pe, 1, sentence);
    if (!returns_errors())
        end_job(&cause, sentence);
    break_here(&cause, true);
}

/* Prints "shmem_x: " and the rest, and writes it to text. */
static void say_error(char *text, size_t bytes, const char *call, const char *format, va_list args)
{
    int n = snprintf(text, bytes, "%s: ", iso_call_name(call));
    vsnprintf(text + n, bytes - (size_t)n, format, args);
    log_error("%s", text);
}

void iso_fatal(const char *call, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    say_error(text, sizeof text, call, format, args);
    va_end(args);
    iso_abort_job(1, text);
}

int iso_refuse(const char *call, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    say_error(text, sizeof text, call, format, args);
    va_end(args);
    if (!iso_error_returns(call))
        iso_abort_job(1, text);
    return -EINVAL;
}

int iso_refuse_alone(const char *call, const char *format, ...)
{
    char text[512], why[256];
    va_list args;
    va_start(args, format);
    say_error(text, sizeof text, call, format, args);
    va_end(args);
    if (!iso_error_returns(call))
        iso_abort_job(1, text);
    snprintf(why, sizeof why, "pe %d: %.240s", ISO->my_pe, text);
    iso_job_break(ISO->my_pe, why);
    return -EIO;
}

static const char *const times[] = {"before shmem_init", "", "during shmem_finalize",
                                    "after shmem_finalize or shmemx_leave",
                                    "in a forked child of a PE, which has no part in the job; only the child ends"};

SHMEM_API(shmemx_break, pshmemx_break);
int pshmemx_break(const char *why)
{
    if (ISO->life != LIFE_RUNNING)
        log_error("shmemx_break: called %s", times[ISO->life]);
    else if (ISO->errors != SHMEMX_ERRORS_RETURN)
        log_error(
            "shmemx_break: the error mode of this PE is SHMEMX_ERRORS_ABORT; call shmemx_set_error_mode before, or "
            "shmem_global_exit instead");
    else if (why == NULL)
        log_error("shmemx_break: why is a null pointer");
    else
        return iso_job_mark(ISO->my_pe, why), 0;
    return -EINVAL;
}

void iso_fatal_life(const char *call) { iso_fatal(call, "called %s", times[ISO->life]); }

int iso_refuse_entry(const char *call)
{
    if (ISO->life != LIFE_RUNNING)
        return iso_refuse(call, "called %s", times[ISO->life]);
    return iso_job_give_up(call);
}

void iso_fatal_pe(const char *call, int pe, int n_pes)
{
    iso_check_life(call);
    iso_fatal(call, "pe %d is outside 0..%d", pe, n_pes - 1);
}

void iso_fatal_aligned(const char *call, const char *arg, const void *addr, size_t bytes)
{
    iso_fatal(call, "%s %p is not aligned to %zu bytes, as an atomic access needs", arg, addr, bytes);
}
