/* SPDX-License-Identifier: MIT */
/* A phase is unusual from 0.5 s on and 20 ms more for each PE of the node: 32 PEs on 2 cores start in an eighth of a
 * second. The likely cause is the PE that came late, where one did: it is known by the time at which each PE entered
 * shmem_init, which all tell each other. Clocks of hosts are compared; a skew of less than half a phase says nothing. */
#include "start_times.h"
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "../node/peer.h"
#include "../node/wait.h"

#include <stdio.h>
#include <time.h>

enum { SAID_FINE, SAID_WARNING }; /* as enum severity of info.c */

static ISO_PER_PE struct start_times {
    uint64_t begun_us; /* CLOCK_REALTIME: other hosts know it, too */
    uint64_t begun_ns, last_ns;
    double seconds[START_PHASES];
    int late; /* the PE that entered shmem_init last; -1: not known */
    double late_s; /* after this PE */
} times;

static const struct phase_words {
    const char *name, *cause; /* cause: where no PE was late */
} phases[START_PHASES] = {
    {"bootstrap",
     "the launcher answers slowly: its PMIx server, or the host that SHMEM_UID names, is busy or behind a slow "
     "name service"},
    {"exchange",
     "all PEs were there: the launcher's exchange between them is slow, or more PEs than cores start at once"},
    {"mapping",
     "memory is made and mapped slowly: the machine is short of memory or of huge pages; isomer-info --doctor "
     "looks at both"},
    {"network",
     "networks are searched, or connected, slowly: a name service does not answer, or an interface leads nowhere; "
     "SHMEM_NETWORK names one interface, SHMEM_TRANSPORT one network"},
    {"teams", "more PEs than cores take turns: every step of a barrier waits for a task switch"},
};

void iso_start_times_begin(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    times = (struct start_times){.begun_us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000, .late = -1};
    times.begun_ns = times.last_ns = iso_clock_now_ns();
}

void iso_start_times_end(enum start_phase phase)
{
    uint64_t now = iso_clock_now_ns();
    times.seconds[phase] += (double)(now - times.last_ns) / 1e9;
    times.last_ns = now;
}

uint64_t iso_start_times_begun(void) { return times.begun_us; }

void iso_start_times_take(const struct row *rows)
{
    int last = 0;
    for (int pe = 1; pe < ISO->n_pes; pe++)
        last = rows[pe].begun_us > rows[last].begun_us ? pe : last;
    times.late = last;
    times.late_s = rows[last].begun_us > times.begun_us ? (double)(rows[last].begun_us - times.begun_us) / 1e6 : 0;
}

void iso_start_times_judge(void (*find)(void *to, int severity, const char *sentence), void *to)
{
    const struct state *self = ISO;
    char sentence[512];
    double most = 0, usual = 0.5 + 0.02 * self->n_local;
    for (int i = 0; i < START_PHASES; i++) {
        double took = times.seconds[i];
        most = ISO_MAX(most, took);
        if (took <= usual)
            continue;
        int n = snprintf(sentence, sizeof sentence,
                         "the start's %s took %.3f s, usual is %.1f s or less: ", phases[i].name, took, usual);
        if (i <= START_EXCHANGE && times.late >= 0 && times.late_s > took / 2)
            snprintf(
                sentence + n, sizeof sentence - (size_t)n,
                "pe %d on %s came to shmem_init %.3f s after this PE; its program is loaded slowly, or works before "
                "shmem_init",
                times.late, self->peers[times.late].host, times.late_s);
        else
            snprintf(sentence + n, sizeof sentence - (size_t)n, "%s", phases[i].cause);
        find(to, SAID_WARNING, sentence);
    }
    if (most > usual)
        return;
    snprintf(sentence, sizeof sentence, "the start took %.3f s, no phase of it longer than %.3f s",
             (double)(times.last_ns - times.begun_ns) / 1e9, most);
    find(to, SAID_FINE, sentence);
}

static void log_finding(void *level, int severity, const char *sentence)
{
    if (severity != SAID_FINE)
        iso_log(*(const enum log_level *)level, "%s", sentence);
}

void iso_start_times_tell(void)
{
    const double *s = times.seconds;
    enum log_level level = ISO->my_pe == 0 ? LOG_INFO : LOG_DEBUG;
    iso_log(level, "started in %.3f s: bootstrap %.3f, exchange %.3f, mapping %.3f, network %.3f, teams %.3f",
            (double)(times.last_ns - times.begun_ns) / 1e9, s[START_BOOTSTRAP], s[START_EXCHANGE], s[START_MAPPING],
            s[START_NETWORK], s[START_TEAMS]);
    iso_start_times_judge(log_finding, &level);
}
