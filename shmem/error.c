/* SPDX-License-Identifier: MIT */
/* Errors that end the job, and its end. Every file may call these functions, so they call nothing above bootstrap/:
 * what the device and the peers have to do then are the hooks of struct end_hooks, which these parts register. */
#include "error.h"
#include "../bootstrap/log.h"
#include "pe_state.h"

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

static void tell_peers(int status)
{
    if (ISO->at_end.tell_peers != NULL)
        ISO->at_end.tell_peers(status);
}

void iso_exit_quietly(int status)
{
    ISO->aborting = true;
    stop_kernels();
    tell_peers(status); /* passed on: a third PE may see our end before it hears who began it */
    fflush(stdout);
    _exit(status);
}

void iso_abort_job(int status, const char *sentence)
{
    struct state *self = ISO;
    if (!self->aborting && self->life != LIFE_CHILD) {
        self->aborting = true;
        stop_kernels();
        fflush(stdout);
        if (self->boot.ops != NULL) /* first, so that the launcher knows who began it */
            iso_boot_abort(&self->boot, status, sentence);
        tell_peers(status);
        bool by_launcher = self->boot.ops != NULL && strcmp(self->boot.ops->name, "pmix") == 0;
        if (!by_launcher && self->at_end.end_peers != NULL)
            self->at_end.end_peers(); /* no launcher does it; where there is one, it wants us gone at once */
    }
    _exit(status);
}

void iso_fatal(const char *call, const char *format, ...)
{
    char text[512];
    int n = snprintf(text, sizeof text, "%s: ", iso_call_name(call));
    va_list args;
    va_start(args, format);
    vsnprintf(text + n, sizeof text - (size_t)n, format, args);
    va_end(args);
    log_error("%s", text);
    iso_abort_job(1, text);
}

void iso_fatal_life(const char *call)
{
    static const char *const when[] = {"before shmem_init", "", "during shmem_finalize", "after shmem_finalize",
                                       "in a forked child of a PE, which has no part in the job; only the child ends"};
    iso_fatal(call, "called %s", when[ISO->life]);
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
