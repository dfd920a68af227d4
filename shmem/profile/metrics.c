/* SPDX-License-Identifier: MIT */
/* SHMEM_METRICS: a thread rewrites the counters of its PE as a text file for Prometheus (its node exporter reads such
 * files). A reader sees a whole file, by rename. The number of lines is bounded: nothing in it is by peer. */
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "../../bootstrap/thread.h"
#include "../state/alloc.h"
#include "../transport/transport.h"
#include "page.h"
#include "profile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct metrics {
    struct state *state;
    pthread_t thread;
    pthread_mutex_t lock; /* of `ends` */
    pthread_cond_t wakes;
    bool ends;
    bool complained; /* the thread's: once */
    struct profile_sums *sum;
};

static const struct metric {
    const char *name, *type, *help;
    size_t offset; /* in struct profile_count; profile_team */
    double scale;
} by_call[] = {
    {"isomer_calls_total", "counter", "calls made", offsetof(struct profile_count, count), 1},
    {"isomer_bytes_total", "counter", "bytes that calls moved", offsetof(struct profile_count, bytes), 1},
    {"isomer_call_seconds_total", "counter", "time in calls, short ones by samples", offsetof(struct profile_count, ns),
     1e-9},
    {"isomer_wait_seconds_total", "counter", "of it in waits that outlasted their spinning",
     offsetof(struct profile_count, waited_ns), 1e-9},
    {"isomer_longest_wait_seconds", "gauge", "the longest such wait", offsetof(struct profile_count, longest_ns), 1e-9},
};

static const struct metric by_team[] = {
    {"isomer_team_calls_total", "counter", "collectives on the host, by team", offsetof(struct profile_team, count), 1},
    {"isomer_team_bytes_total", "counter", "their bytes", offsetof(struct profile_team, bytes), 1},
    {"isomer_team_seconds_total", "counter", "time in them", offsetof(struct profile_team, ns), 1e-9},
    {"isomer_team_wait_seconds_total", "counter", "of it in waits that outlasted their spinning",
     offsetof(struct profile_team, waited_ns), 1e-9},
};

/* Of those that have called. */
static void write_teams(FILE *out, const struct profile_sums *sum)
{
    for (size_t m = 0; m < sizeof by_team / sizeof by_team[0]; m++) {
        const struct metric *metric = &by_team[m];
        fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", metric->name, metric->help, metric->name, metric->type);
        for (int i = 0; i < PROFILE_TEAMS; i++) {
            const char *team = (const char *)&sum->teams[i];
            if (sum->teams[i].count > 0)
                fprintf(out, "%s{pe=\"%d\",team=\"%s\"} %.9g\n", metric->name, ISO->my_pe, iso_profile_team_name(i),
                        (double)*(const uint64_t *)(const void *)(team + metric->offset) * metric->scale);
        }
    }
}

static void write_metrics(FILE *out, const struct profile_sums *sum)
{
    const struct state *self = ISO;
    struct alloc_stats heap = iso_alloc_stats(self->alloc);
    for (size_t m = 0; m < sizeof by_call / sizeof by_call[0]; m++) {
        const struct metric *metric = &by_call[m];
        fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", metric->name, metric->help, metric->name, metric->type);
        for (int i = 0; i < PROFILE_CALLS; i++) {
            const char *count = (const char *)&sum->calls[i];
            fprintf(out, "%s{pe=\"%d\",call=\"%s\"} %.9g\n", metric->name, self->my_pe, iso_profile_names[i],
                    (double)*(const uint64_t *)(const void *)(count + metric->offset) * metric->scale);
        }
    }
    const struct transport_counts net = iso_transport_count();
    const struct single {
        const char *name, *type, *help;
        double value;
    } singles[] = {
        {"isomer_heap_bytes", "gauge", "symmetric heap in use", (double)heap.used},
        {"isomer_heap_most_bytes", "gauge", "its high-water mark", (double)heap.most},
        {"isomer_heap_objects", "gauge", "objects in it", (double)heap.objects},
        {"isomer_network_posts_total", "counter", "operations given to the network", (double)net.posts},
        {"isomer_network_refused_total", "counter", "of them not at once, for want of room", (double)net.refused},
        {"isomer_network_retries_total", "counter", "attempts to post them in vain", (double)net.retries},
        {"isomer_network_credit_waits_total", "counter", "operations that waited for a credit or for room",
         (double)net.credit_waits},
        {"isomer_network_waits_total", "counter", "waits for the network", (double)net.waits},
        {"isomer_network_wait_seconds_total", "counter", "time in them", (double)net.waited_ns / 1e9},
        {"isomer_network_longest_wait_seconds", "gauge", "the longest", (double)net.longest_ns / 1e9},
    };
    for (size_t i = 0; i < sizeof singles / sizeof singles[0]; i++)
        fprintf(out, "# HELP %s %s\n# TYPE %s %s\n%s{pe=\"%d\"} %.9g\n", singles[i].name, singles[i].help,
                singles[i].name, singles[i].type, singles[i].name, self->my_pe, singles[i].value);
    write_teams(out, sum);
}

static void write_metrics_file(struct metrics *m)
{
    char path[4096], fresh[4096 + 16];
    snprintf(path, sizeof path, "%s.%d.prom", ISO->env->metrics, ISO->my_pe);
    snprintf(fresh, sizeof fresh, "%s.%d", path, (int)getpid());
    FILE *out = fopen(fresh, "w");
    bool good = out != NULL;
    if (good) {
        iso_profile_sum(m->sum);
        write_metrics(out, m->sum);
        good = ferror(out) == 0;
        good = fclose(out) == 0 && good && rename(fresh, path) == 0;
    }
    if (!good && !m->complained)
        log_error("SHMEM_METRICS: cannot write %s: %m", path);
    if (!good)
        (void)unlink(fresh);
    m->complained = !good;
}

static void *run_metrics(void *argument)
{
    struct metrics *m = (struct metrics *)argument;
    iso_thread_adopt(m->state);
    double period = ISO_MAX(ISO->env->metrics_seconds, 0.1);
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    pthread_mutex_lock(&m->lock);
    while (!m->ends) {
        write_metrics_file(m);
        double next = (double)at.tv_sec + (double)at.tv_nsec / 1e9 + period;
        at.tv_sec = (time_t)next;
        at.tv_nsec = (long)((next - (double)at.tv_sec) * 1e9);
        while (!m->ends && pthread_cond_timedwait(&m->wakes, &m->lock, &at) != ETIMEDOUT)
            continue;
    }
    pthread_mutex_unlock(&m->lock);
    write_metrics_file(m);
    return NULL;
}

void iso_metrics_start(void)
{
    struct state *self = ISO;
    if (self->env->metrics[0] == '\0')
        return;
    struct metrics *m = (struct metrics *)calloc(1, sizeof *m);
    struct profile_sums *sum = (struct profile_sums *)malloc(iso_profile_sums_bytes());
    int rc = m != NULL && sum != NULL ? 0 : -ENOMEM;
    if (rc == 0) {
        pthread_condattr_t clock;
        pthread_condattr_init(&clock);
        pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
        pthread_cond_init(&m->wakes, &clock);
        pthread_condattr_destroy(&clock);
        pthread_mutex_init(&m->lock, NULL);
        m->state = self;
        m->sum = sum;
        rc = iso_thread_start(&m->thread, "isomer-metrics", run_metrics, m);
    }
    if (rc == 0) {
        self->profile->metrics = m;
        return;
    }
    errno = -rc;
    log_error("SHMEM_METRICS: cannot start its thread: %m");
    free(sum);
    free(m);
}

void iso_metrics_stop(void)
{
    struct metrics *m = ISO->profile != NULL ? ISO->profile->metrics : NULL;
    if (m == NULL)
        return;
    pthread_mutex_lock(&m->lock);
    m->ends = true;
    pthread_cond_signal(&m->wakes);
    pthread_mutex_unlock(&m->lock);
    pthread_join(m->thread, NULL);
    pthread_cond_destroy(&m->wakes);
    pthread_mutex_destroy(&m->lock);
    free(m->sum);
    free(m);
    ISO->profile->metrics = NULL;
}
