/* SPDX-License-Identifier: MIT */
/* Whether wide lines may be used: does the hardware between these PEs keep stores of 128 bytes whole? No vendor
 * promises it, so members of a new (team, slot) that do not know it of each other yet try it out, some milliseconds
 * long; one word that was older than its flag, on any of them, and none of them uses wide lines. What is known of PEs
 * is kept, since their devices do not change. Invariant: results of a probe are equal on all its members. Called by
 * stream_slot.c. */
#include "coll_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GPU_BLOCKS = 16, GPU_THREADS = 256, GPU_ROUNDS = 300, CPU_BLOCKS = 2, CPU_THREADS = 32, CPU_ROUNDS = 3 };

struct stream_probe {
    int n_pes;
    unsigned char known[]; /* [n_pes] enum stream_lines, of this PE and that one */
};

static const char call[] = "shmemx_coll_on_stream";
extern void isod_stream_wide_probe_kernel(void);

struct stream_probe *iso_stream_probe_create(void)
{
    struct stream_probe *probe = (struct stream_probe *)malloc(sizeof *probe + (size_t)ISO->n_pes);
    if (probe == NULL) {
        log_error("%s: no memory", call);
        return NULL;
    }
    probe->n_pes = ISO->n_pes;
    memset(probe->known, STREAM_LINES_UNKNOWN, (size_t)ISO->n_pes);
    probe->known[ISO->my_pe] = STREAM_LINES_WHOLE;
    return probe;
}

void iso_stream_probe_destroy(struct stream_probe *probe) { free(probe); }

static bool is_cpu(const struct device *d) { return strcmp(d->info->flavour, "cpu") == 0; }

/* On AMD a store of a wave is several writes of 64 bytes, whose order on the way to a peer nothing holds; that a probe
 * of some milliseconds sees none of them alone is no reason to rely on it. */
static bool is_worth_trying(void)
{
    int64_t wanted = ISO->env.wide_lines;
    return wanted < 0 ? strcmp(ISO->device->info->flavour, "hip") != 0 : wanted != 0;
}

enum stream_lines iso_stream_probe_ask(const struct stream_probe *probe, const struct team *team, bool direct)
{
    enum stream_lines least = STREAM_LINES_WHOLE;
    if (!direct || team->n_pes > ISOD_STREAM_MEMBERS || !is_worth_trying())
        return STREAM_LINES_TORN;
    for (int i = 0; i < team->n_pes; i++)
        least = ISO_MIN(least, (enum stream_lines)probe->known[team->world_of[i]]);
    return least;
}

/* Words that were older than their flags. Nobody launches before all can, and then all have to. */
static uint64_t run_kernel(struct device *d, struct team *team, shmemd_t handle, unsigned blocks, uint64_t number)
{
    struct isod_stream_coll args;
    void *word = NULL;
    gpu_stream stream = NULL;
    uint64_t wrong = 1;
    memset(&args, 0, sizeof args);
    bool ready = iso_gpu_alloc(d->gpu, sizeof wrong, &word) == 0 && iso_gpu_stream_create(d->gpu, true, &stream) == 0;
    args.h = handle;
    args.call = ISOD_CALL_ON_STREAM_PROBE;
    args.bytes = is_cpu(d) ? CPU_ROUNDS : GPU_ROUNDS;
    args.share = ISOD_PROBE_FIRST + number * 512; /* rounds are fewer, clocks have 54 bits in centuries */
    args.v_received = (uint64_t *)word;
    struct gpu_launch l = {isod_stream_wide_probe_kernel,
                           ISO_MIN(blocks, is_cpu(d) ? (unsigned)CPU_BLOCKS : (unsigned)GPU_BLOCKS),
                           is_cpu(d) ? CPU_THREADS : GPU_THREADS,
                           0,
                           &args,
                           sizeof args,
                           false};
    if (iso_coll_all_min(team, ready, call) != 0) {
        if (iso_gpu_launch(d->gpu, &l, stream) != 0 || iso_gpu_stream_wait(d->gpu, stream) != 0)
            iso_fatal(call, "the probe of wide lines failed on this PE, and the others wait for it: %s",
                      iso_gpu_error(d->gpu));
        iso_agent_copy(&wrong, word, sizeof wrong);
    }
    if (stream != NULL)
        iso_gpu_stream_destroy(d->gpu, stream);
    iso_gpu_free(d->gpu, word);
    return wrong;
}

enum stream_lines iso_stream_probe_run(struct device *d, struct stream_probe *probe, struct team *team, shmemd_t handle,
                                       unsigned blocks, uint64_t number)
{
    uint64_t wrong = run_kernel(d, team, handle, blocks, number);
    bool whole = iso_coll_all_min(team, wrong == 0, call) != 0;
    for (int i = 0; i < team->n_pes; i++)
        if (i != team->my_pe && (whole || wrong != 0))
            probe->known[team->world_of[i]] = whole ? STREAM_LINES_WHOLE : STREAM_LINES_TORN;
    if (wrong != 0)
        log_info("collectives on streams: stores of 128 bytes do not arrive whole here, so the algorithms \"wide\" are "
                 "not used");
    else if (ISO->env.coll_explain && team->my_pe == 0)
        log_warn("collectives on streams of these %d PEs: stores of 128 bytes %s", team->n_pes,
                 whole ? "have arrived whole, so the algorithms \"wide\" are possible"
                       : "have not arrived whole at another PE, so the algorithms \"wide\" are not used");
    return whole ? STREAM_LINES_WHOLE : STREAM_LINES_TORN;
}

size_t iso_stream_probe_text(const struct stream_probe *probe, char *text, size_t bytes)
{
    static const char *const said[] = {"they do not arrive whole at all PEs", "not tried", "they arrive whole"};
    enum stream_lines least = STREAM_LINES_WHOLE;
    bool any = false;
    for (int pe = 0; probe != NULL && pe < probe->n_pes; pe++)
        if (pe != ISO->my_pe && probe->known[pe] != STREAM_LINES_UNKNOWN) {
            any = true;
            least = ISO_MIN(least, (enum stream_lines)probe->known[pe]);
        }
    int len = snprintf(text, bytes, "wide lines (stores of 128 bytes): %s\n", said[any ? least : STREAM_LINES_UNKNOWN]);
    return len > 0 ? (size_t)len : 0;
}
