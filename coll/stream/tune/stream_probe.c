/* SPDX-License-Identifier: MIT */
/* Whether LL128 may be used: does the hardware between these PEs keep stores of 128 bytes whole? No vendor promises
 * that. So members of a new (team, slot) that do not know it of each other yet try it out, some milliseconds long. One
 * word that was older than its flag, on any of them, and none of them uses LL128. Results are kept for each PE, since
 * devices of PEs do not change. The stream and the memory of a probe are made when the device starts: later, making a
 * stream or giving memory back may wait for kernels that run, and they for another PE that is already in the probe.
 * Invariant: results of a probe are equal on all its members. Called by stream_slot.c. */
#include "../../../bootstrap/env.h"
#include "../../../bootstrap/log.h"
#include "../../../shmem/team/agree.h"
#include "../../../shmem/team/slot.h"
#include "../coll_stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GPU_BLOCKS = 16, GPU_THREADS = 256, GPU_ROUNDS = 300, CPU_BLOCKS = 2, CPU_THREADS = 32, CPU_ROUNDS = 3 };

/* The means of one probe. */
struct tools {
    gpu_stream stream;
    uint64_t *wrong; /* device memory */
};

struct stream_probe {
    struct tools tools;    /* nothing, where no probe will run */
    bool taken;            /* atomic: by a probe of another team, in another thread */
    unsigned char known[]; /* [n_pes] enum stream_ll128, between this PE and each; atomic, relaxed: teams agree on it */
};

static const char call[] = "shmemx_coll_on_stream";
extern void isod_stream_ll128_probe_kernel(void);

static bool is_cpu(const struct device *d) { return strcmp(d->info->flavour, "cpu") == 0; }

/* On AMD a store of a wave is several writes of 64 bytes, which nothing keeps in order on the way to a peer. A
 * probe of some milliseconds that sees none of them alone is no reason to rely on it. */
static bool is_worth_trying(const struct device *d)
{
    int64_t wanted = ISO->env->ll128;
    return wanted < 0 ? strcmp(d->info->flavour, "hip") != 0 : wanted != 0;
}

static enum stream_ll128 known_of(const struct stream_probe *probe, int pe)
{
    return (enum stream_ll128)__atomic_load_n(&probe->known[pe], __ATOMIC_RELAXED);
}

/* ---- start and stop ---- */

static void drop_tools(struct device *d, struct tools *t)
{
    if (t->stream != NULL)
        iso_gpu_stream_destroy(d->gpu, t->stream);
    iso_gpu_free(d->gpu, t->wrong);
    memset(t, 0, sizeof *t);
}

/* 0, or -errno after a sentence. Of high priority, so as not to stand in a hardware queue behind a user's kernel. */
static int make_tools(struct device *d, struct tools *t)
{
    void *word = NULL;
    memset(t, 0, sizeof *t);
    int rc = iso_gpu_stream_create(d->gpu, true, &t->stream);
    if (rc == 0)
        rc = iso_gpu_alloc(d->gpu, sizeof *t->wrong, &word);
    t->wrong = (uint64_t *)word;
    if (rc == 0)
        return 0;
    log_error("no stream or no memory for the probe of LL128: %s", iso_gpu_error(d->gpu));
    drop_tools(d, t);
    return rc;
}

int iso_stream_probe_start(struct device *d)
{
    struct stream_probe *probe = (struct stream_probe *)calloc(1, sizeof *probe + (size_t)ISO->n_pes);
    if (probe == NULL) {
        log_error("no memory for the results of the LL128 probe");
        return -ENOMEM;
    }
    memset(probe->known, STREAM_LL128_UNKNOWN, (size_t)ISO->n_pes);
    probe->known[ISO->my_pe] = STREAM_LL128_WHOLE;
    d->probe = probe;
    return ISO->n_pes > 1 && is_worth_trying(d) ? make_tools(d, &probe->tools) : 0;
}

void iso_stream_probe_stop(struct device *d)
{
    struct stream_probe *probe = (struct stream_probe *)d->probe;
    if (probe == NULL)
        return;
    drop_tools(d, &probe->tools);
    free(probe);
    d->probe = NULL;
}

/* ---- a probe ---- */

enum stream_ll128 iso_stream_probe_ask(const struct device *d, const struct team *team, bool direct)
{
    const struct stream_probe *probe = (const struct stream_probe *)d->probe;
    enum stream_ll128 least = STREAM_LL128_WHOLE;
    if (!direct || team->n_pes > ISOD_STREAM_MEMBERS || !is_worth_trying(d))
        return STREAM_LL128_TORN;
    for (int i = 0; i < team->n_pes; i++)
        least = ISO_MIN(least, known_of(probe, team->world_of[i]));
    return least;
}

/* Takes the tools made ahead, or, where another thread probes at this moment, new ones: in one stream, two probes would
 * stand one behind the other, and on another member the other way round. false after a sentence. */
static bool take_tools(struct device *d, struct tools *t)
{
    struct stream_probe *probe = (struct stream_probe *)d->probe;
    if (__atomic_exchange_n(&probe->taken, true, __ATOMIC_ACQUIRE)) /* pairs with the release in give_tools */
        return make_tools(d, t) == 0;
    *t = probe->tools;
    iso_agent_fill(t->wrong, 0, sizeof *t->wrong);
    return true;
}
static void give_tools(struct device *d, struct tools *t)
{
    struct stream_probe *probe = (struct stream_probe *)d->probe;
    if (t->stream == probe->tools.stream)
        __atomic_store_n(&probe->taken, false, __ATOMIC_RELEASE);
    else
        drop_tools(d, t);
}

/* Returns the number of words that were older than their flags. All members launch, or none does. */
static uint64_t run_kernel(struct device *d, struct team *team, shmemd_t handle, unsigned blocks, uint64_t number)
{
    struct isod_stream_coll args;
    struct tools tools;
    uint64_t wrong = 1;
    memset(&args, 0, sizeof args);
    bool ready = take_tools(d, &tools);
    args.h = handle;
    args.call = ISOD_CALL_ON_STREAM_PROBE;
    args.bytes = is_cpu(d) ? CPU_ROUNDS : GPU_ROUNDS;
    args.share = ISOD_PROBE_FIRST + number * 512; /* rounds are fewer, clocks have 54 bits in centuries */
    args.v_received = tools.wrong;
    struct gpu_launch l = {.kernel = isod_stream_ll128_probe_kernel,
                           .grid.x = ISO_MIN(blocks, is_cpu(d) ? (unsigned)CPU_BLOCKS : (unsigned)GPU_BLOCKS),
                           .block.x = is_cpu(d) ? CPU_THREADS : GPU_THREADS,
                           .args = &args,
                           .args_bytes = sizeof args};
    if (iso_agree_min(team, ready, call) != 0) {
        if (iso_gpu_launch(d->gpu, &l, tools.stream) != 0 || iso_gpu_stream_wait(d->gpu, tools.stream) != 0)
            (void)iso_refuse_alone(call, "the probe of LL128 failed on this PE, and the others wait for it: %s",
                                   iso_gpu_error(d->gpu));
        iso_agent_copy(&wrong, tools.wrong, sizeof wrong);
    }
    if (ready)
        give_tools(d, &tools);
    return wrong;
}

enum stream_ll128 iso_stream_probe_run(struct device *d, struct team *team, shmemd_t handle, unsigned blocks,
                                       uint64_t number)
{
    struct stream_probe *probe = (struct stream_probe *)d->probe;
    uint64_t wrong = run_kernel(d, team, handle, blocks, number);
    bool whole = iso_agree_min(team, wrong == 0, call) != 0;
    if (iso_slot_is_broken(&team->slot)) /* kernels may have given up, so nothing is known */
        return STREAM_LL128_TORN;
    for (int i = 0; i < team->n_pes; i++)
        if (i != team->my_pe && (whole || wrong != 0))
            __atomic_store_n(&probe->known[team->world_of[i]], whole ? STREAM_LL128_WHOLE : STREAM_LL128_TORN,
                             __ATOMIC_RELAXED);
    if (wrong != 0)
        log_info("collectives on streams: stores of 128 bytes do not arrive whole here, so LL128 "
                 "algorithms are not used");
    else if (ISO->env->coll_explain && team->my_pe == 0)
        log_warn("collectives on streams of these %d PEs: stores of 128 bytes %s", team->n_pes,
                 whole ? "have arrived whole, so LL128 algorithms are possible"
                       : "have not arrived whole at another PE, so LL128 algorithms are not used");
    return whole ? STREAM_LL128_WHOLE : STREAM_LL128_TORN;
}

size_t iso_stream_probe_text(const struct device *d, char *text, size_t bytes)
{
    const struct stream_probe *probe = (const struct stream_probe *)d->probe;
    static const char *const said[] = {"they do not arrive whole at all PEs", "not tried", "they arrive whole"};
    enum stream_ll128 least = STREAM_LL128_WHOLE;
    bool any = false;
    for (int pe = 0; probe != NULL && pe < ISO->n_pes; pe++)
        if (pe != ISO->my_pe && known_of(probe, pe) != STREAM_LL128_UNKNOWN) {
            any = true;
            least = ISO_MIN(least, known_of(probe, pe));
        }
    int len = snprintf(text, bytes, "LL128 (stores of 128 bytes): %s\n", said[any ? least : STREAM_LL128_UNKNOWN]);
    return len > 0 ? (size_t)len : 0;
}
