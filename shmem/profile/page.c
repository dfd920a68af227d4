/* SPDX-License-Identifier: MIT */
/* SHMEM_PROFILE at the end of a job: PE 0 gathers the counters of all PEs, prints one page, and writes them all as
 * JSON. The words travel as agreements do, 56 bytes a message: it needs no symmetric memory, which may be used up. */
#include "page.h"
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "../node/wait.h"
#include "../state/alloc.h"
#include "../team/agree.h"
#include "../team/slot.h"
#include "../transport/transport.h"
#include "profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PAIRS = 8, MOST_ROWS = 12 }; /* lines of the page */
enum { GROWTH_RISES = 4 };               /* a heap that rose so often, and was never freed, grows */
#define HOT 0.5                          /* a PE that has more than this share of all bytes, of 4 PEs or more, is hot */
#define LATE 0.2                         /* a PE that waits less than this share of what the others do came last */
#define STORM 0.3                        /* a network that did not take more than this share of the posts at once */
#define SLOW_WAIT_S 1e-3                 /* of the network, on average; with SLOW_SHARE of the job in them it is slow */
#define SLOW_SHARE 0.2

/* Calls with a peer of all kinds. */
struct page_peer {
    uint64_t calls, bytes;
};

/* Of one PE; words only. */
struct page_pe {
    uint64_t ns; /* since shmem_init */
    uint64_t heap_most, heap_cap, heap_used, heap_objects, heap_rises;
    struct transport_counts network;
    struct profile_count calls[PROFILE_CALLS];
    struct profile_row rows[PROFILE_ROWS];
    struct profile_team teams[PROFILE_TEAMS];
    struct page_peer peers[]; /* [n_pes] */
};

struct page {
    int n;
    size_t pe_bytes;
    char *pes;                             /* [n] of pe_bytes */
    struct profile_row rows[PROFILE_ROWS]; /* of all PEs */
};

static size_t pe_bytes(void) { return sizeof(struct page_pe) + (size_t)ISO->n_pes * sizeof(struct page_peer); }

static const struct page_pe *of(const struct page *page, int pe)
{
    return (const struct page_pe *)(const void *)(page->pes + (size_t)pe * page->pe_bytes);
}

/* ---- gathering ---- */

static bool take_own(struct page_pe *mine)
{
    const struct state *self = ISO;
    struct profile_sums *sum = (struct profile_sums *)malloc(iso_profile_sums_bytes());
    if (sum == NULL)
        return false;
    struct alloc_stats heap = iso_alloc_stats(self->alloc);
    iso_profile_sum(sum);
    mine->ns = iso_clock_now_ns() - self->profile->began_ns;
    mine->heap_most = heap.most;
    mine->heap_cap = heap.cap;
    mine->heap_used = heap.used;
    mine->heap_objects = heap.objects;
    mine->heap_rises = heap.rises;
    mine->network = iso_transport_count();
    memcpy(mine->calls, sum->calls, sizeof mine->calls);
    memcpy(mine->rows, sum->rows, sizeof mine->rows);
    memcpy(mine->teams, sum->teams, sizeof mine->teams);
    for (int pe = 0; pe < self->n_pes; pe++)
        for (int i = 0; i < PROFILE_TO_CALLS; i++) {
            mine->peers[pe].calls += sum->peers[pe].by_call[i].count;
            mine->peers[pe].bytes += sum->peers[pe].by_call[i].bytes;
        }
    free(sum);
    return true;
}

/* False: a PE has no memory, or the job is broken. */
static bool gather(struct page *page, const char *call)
{
    struct state *self = ISO;
    size_t n = (size_t)self->n_pes, bytes = page->pe_bytes;
    char *all = (char *)malloc(n * ISO_INBOX_BYTES), *mine = (char *)calloc(1, bytes);
    page->pes = self->my_pe == 0 ? (char *)calloc(n, bytes) : NULL;
    bool ready = all != NULL && mine != NULL && (self->my_pe != 0 || page->pes != NULL) &&
                 take_own((struct page_pe *)(void *)mine);
    bool good = iso_agree_min(self->world, ready, call) == 1;
    for (size_t at = 0; good && at < bytes; at += ISO_INBOX_BYTES) {
        size_t part = ISO_MIN(bytes - at, (size_t)ISO_INBOX_BYTES);
        good = iso_agree_gather(self->world, mine + at, part, all, call) == 0;
        for (size_t pe = 0; good && pe < n && self->my_pe == 0; pe++)
            memcpy(page->pes + pe * bytes + at, all + pe * part, part);
    }
    free(all);
    free(mine);
    return good;
}

/* ---- sums over PEs ---- */

static uint64_t time_of(const struct page_pe *pe)
{
    uint64_t ns = 0;
    for (int i = 0; i < PROFILE_CALLS; i++)
        ns += pe->calls[i].ns;
    return ns;
}

static uint64_t waited_of(const struct page_pe *pe)
{
    uint64_t ns = 0;
    for (int i = 0; i < PROFILE_CALLS; i++)
        ns += pe->calls[i].waited_ns;
    return ns;
}

static void add_rows(struct page *page)
{
    for (int pe = 0; pe < page->n; pe++)
        for (int i = 0; i < PROFILE_ROWS; i++)
            if (of(page, pe)->rows[i].name[0] != '\0')
                iso_profile_add_row(page->rows, &of(page, pe)->rows[i]);
}

static int by_time(const void *a, const void *b)
{
    uint64_t left = ((const struct profile_row *)a)->ns, right = ((const struct profile_row *)b)->ns;
    return left < right ? 1 : left > right ? -1 : 0;
}

/* ---- the page ---- */

static double seconds(uint64_t ns) { return (double)ns / 1e9; }

static void write_spread(FILE *out, const struct page *page, const char *what,
                         uint64_t (*value)(const struct page_pe *))
{
    int least = 0, most = 0;
    double sum = 0;
    for (int pe = 0; pe < page->n; pe++) {
        least = value(of(page, pe)) < value(of(page, least)) ? pe : least;
        most = value(of(page, pe)) > value(of(page, most)) ? pe : most;
        sum += seconds(value(of(page, pe)));
    }
    fprintf(out, "%-22s least %.3f s (pe %d), mean %.3f s, most %.3f s (pe %d)\n", what,
            seconds(value(of(page, least))), least, sum / page->n, seconds(value(of(page, most))), most);
}

/* Outside of communication. */
static double own_work(const struct page_pe *pe) { return seconds(pe->ns) - seconds(ISO_MIN(time_of(pe), pe->ns)); }

/* The PE for which the others waited: it alone did not wait itself. */
static void write_late(FILE *out, const struct page *page)
{
    int least = 0;
    double sum = 0, work = 0;
    for (int pe = 0; pe < page->n; pe++) {
        least = waited_of(of(page, pe)) < waited_of(of(page, least)) ? pe : least;
        sum += seconds(waited_of(of(page, pe)));
        work += own_work(of(page, pe));
    }
    double own = seconds(waited_of(of(page, least))), mine = own_work(of(page, least));
    double others = page->n > 1 ? (sum - own) / (page->n - 1) : 0,
           theirs = page->n > 1 ? (work - mine) / (page->n - 1) : 0;
    if (others <= 0.01 * seconds(of(page, 0)->ns) || own >= LATE * others)
        return;
    fprintf(out, "imbalance: pe %d came last: it waited %.3f s, each of the others %.3f s on average\n", least, own,
            others);
    fprintf(out, "work: pe %d spent %.3f s outside of communication, each of the others %.3f s: %.1f times as long\n",
            least, mine, theirs, theirs > 0 ? mine / theirs : 0);
}

static void write_calls(FILE *out, const struct page *page)
{
    fprintf(out, "\n%-12s %12s %16s %12s  longest wait\n", "call", "count", "bytes", "seconds");
    for (int i = 0; i < PROFILE_CALLS; i++) {
        struct profile_count sum = {0, 0, 0, 0, 0, -1};
        int waiter = 0;
        for (int pe = 0; pe < page->n; pe++) {
            const struct profile_count *c = &of(page, pe)->calls[i];
            sum.count += c->count;
            sum.bytes += c->bytes;
            sum.ns += c->ns;
            if (c->longest_ns <= sum.longest_ns)
                continue;
            sum.longest_ns = c->longest_ns;
            sum.longest_pe = c->longest_pe;
            waiter = pe;
        }
        if (sum.count == 0 && sum.ns == 0)
            continue;
        fprintf(out, "%-12s %12" PRIu64 " %16" PRIu64 " %12.6f", iso_profile_names[i], sum.count, sum.bytes,
                seconds(sum.ns));
        if (sum.longest_ns > 0)
            fprintf(out, "  %.6f s, pe %d for ", seconds(sum.longest_ns), waiter);
        if (sum.longest_ns > 0 && sum.longest_pe >= 0)
            fprintf(out, "pe %d", (int)sum.longest_pe);
        fprintf(out, "%s\n", sum.longest_ns > 0 && sum.longest_pe < 0 ? "a PE that is not known" : "");
    }
}

static void write_page_rows(FILE *out, struct page *page)
{
    qsort(page->rows, PROFILE_ROWS, sizeof page->rows[0], by_time);
    if (page->rows[0].name[0] != '\0')
        fprintf(out, "\n%-24s %16s %12s %16s %12s\n", "collective", "bytes below", "count", "bytes", "seconds");
    for (int i = 0; i < MOST_ROWS && page->rows[i].name[0] != '\0'; i++) {
        const struct profile_row *row = &page->rows[i];
        fprintf(out, "%-24s %16" PRIu64 " %12" PRIu64 " %16" PRIu64 " %12.6f\n", row->name,
                row->size < 64 ? (uint64_t)1 << row->size : UINT64_MAX, row->count, row->bytes, seconds(row->ns));
    }
}

/* The pairs with most bytes, and a PE that is in most of them. */
static void write_peers(FILE *out, const struct page *page)
{
    uint64_t total = 0, below = UINT64_MAX, hottest = 0;
    int n_pairs = 0, hot = 0;
    for (int to = 0; to < page->n; to++) {
        uint64_t bytes = 0;
        for (int pe = 0; pe < page->n; pe++)
            bytes += pe != to ? of(page, pe)->peers[to].bytes : 0;
        hot = bytes > hottest ? to : hot;
        hottest = ISO_MAX(hottest, bytes);
        total += bytes;
    }
    if (page->n >= 4 && (double)hottest > HOT * (double)total)
        fprintf(out, "hot: pe %d is the other side of %.0f %% of the bytes between PEs\n", hot,
                100 * (double)hottest / (double)total);
    while (n_pairs < MOST_PAIRS) {
        uint64_t most = 0;
        for (int i = 0; i < page->n * page->n; i++) {
            uint64_t bytes = of(page, i / page->n)->peers[i % page->n].bytes;
            most = bytes < below && bytes > most ? bytes : most;
        }
        for (int i = 0; most > 0 && i < page->n * page->n && n_pairs < MOST_PAIRS; i++) {
            const struct page_peer *peer = &of(page, i / page->n)->peers[i % page->n];
            if (peer->bytes == most && n_pairs++ == 0)
                fprintf(out, "\nmost bytes by one-sided calls:\n");
            if (peer->bytes == most)
                fprintf(out, "  pe %d with pe %d: %" PRIu64 " calls, %" PRIu64 " bytes\n", i / page->n, i % page->n,
                        peer->calls, peer->bytes);
        }
        below = most;
        if (most == 0)
            break;
    }
}

static void write_heap(FILE *out, const struct page *page)
{
    int most = 0;
    for (int pe = 1; pe < page->n; pe++)
        most = of(page, pe)->heap_most > of(page, most)->heap_most ? pe : most;
    fprintf(out, "\nsymmetric heap: at most %" PRIu64 " bytes in use at once (pe %d), of %" PRIu64 "\n",
            of(page, most)->heap_most, most, of(page, most)->heap_cap);
    const struct page_pe *pe = of(page, most);
    if (pe->heap_rises >= GROWTH_RISES && pe->heap_used >= pe->heap_most - pe->heap_most / 10)
        fprintf(out,
                "heap grows: pe %d allocated on and on and freed next to nothing: its use rose %" PRIu64
                " times, and %" PRIu64 " objects of %" PRIu64 " bytes were left at the end\n",
                most, pe->heap_rises, pe->heap_objects, pe->heap_used);
}

static void write_network(FILE *out, const struct page *page, const char *network)
{
    int busy = 0, slow = 0;
    struct transport_counts sum = {.longest_pe = -1};
    for (int pe = 0; pe < page->n; pe++) {
        const struct transport_counts *c = &of(page, pe)->network;
        sum.posts += c->posts;
        sum.refused += c->refused;
        sum.retries += c->retries;
        sum.credit_waits += c->credit_waits;
        sum.waits += c->waits;
        sum.waited_ns += c->waited_ns;
        busy = c->refused > of(page, busy)->network.refused ? pe : busy;
        slow = c->waited_ns > of(page, slow)->network.waited_ns ? pe : slow;
    }
    if (network[0] != '\0')
        fprintf(out,
                "network: %" PRIu64 " posts, %" PRIu64 " of them refused at first, %" PRIu64 " retries, %" PRIu64
                " waits for a credit or for room, %" PRIu64 " waits of %.6f s in all\nnetwork of PE 0: %s\n",
                sum.posts, sum.refused, sum.retries, sum.credit_waits, sum.waits, seconds(sum.waited_ns), network);
    const struct transport_counts *b = &of(page, busy)->network, *s = &of(page, slow)->network;
    if ((double)b->refused > STORM * (double)b->posts)
        fprintf(out,
                "retry storm: the network of pe %d refused %" PRIu64 " of its %" PRIu64
                " posts for want of room, and they were posted again, %" PRIu64 " times in all\n",
                busy, b->refused, b->posts, b->retries);
    if (s->waits > 0 && seconds(s->waited_ns) > SLOW_SHARE * seconds(of(page, slow)->ns) &&
        seconds(s->waited_ns) > SLOW_WAIT_S * (double)s->waits)
        fprintf(
            out,
            "slow network: pe %d waited %.3f s for it, %.6f s each time on average; longest: %.6f s, for pe %" PRId64
            " on %s\n",
            slow, seconds(s->waited_ns), seconds(s->waited_ns) / (double)s->waits, seconds(s->longest_ns),
            s->longest_pe, s->longest_pe >= 0 ? ISO->peers[s->longest_pe].host : "?");
}

static void write_page(FILE *out, struct page *page, const char *network)
{
    fprintf(out, "---- SHMEM_PROFILE: %d PE%s, %d node%s, %.3f s from shmem_init to shmem_finalize ----\n", page->n,
            page->n > 1 ? "s" : "", ISO->n_nodes, ISO->n_nodes > 1 ? "s" : "", seconds(of(page, 0)->ns));
    write_spread(out, page, "time in communication:", time_of);
    write_spread(out, page, "of it in long waits:", waited_of);
    write_late(out, page);
    write_calls(out, page);
    write_page_rows(out, page);
    write_peers(out, page);
    write_heap(out, page);
    write_network(out, page, network);
    fprintf(out,
            "Short calls are timed one in %d. Of kernels, launches and what the proxy does for them are counted.\n",
            PROFILE_STEP);
}

/* At once, so that no other PE's lines come between. */
static void print_page(struct page *page, const char *network)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (out != NULL)
        write_page(out, page, network);
    if (out == NULL || fclose(out) != 0)
        log_error("SHMEM_PROFILE: there is no memory for the page");
    else
        fwrite(text, 1, bytes, stderr);
    free(text);
}

/* ---- JSON ---- */

static void write_page_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20)
            fputc(' ', out);
        else
            fprintf(out, "%s%c", *text == '"' || *text == '\\' ? "\\" : "", *text);
    fputc('"', out);
}

static void write_page_json_pe(FILE *out, const struct page *page, int pe)
{
    const struct page_pe *p = of(page, pe);
    fprintf(out,
            "  {\"pe\": %d, \"seconds\": %.9f, \"heap_most_bytes\": %" PRIu64 ", \"heap_cap_bytes\": %" PRIu64
            ",\n   \"calls\": {",
            pe, seconds(p->ns), p->heap_most, p->heap_cap);
    for (int i = 0; i < PROFILE_CALLS; i++) {
        const struct profile_count *c = &p->calls[i];
        fprintf(out,
                "%s\n    \"%s\": {\"count\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"ns\": %" PRIu64
                ", \"waited_ns\": %" PRIu64 ", \"longest_wait_ns\": %" PRIu64 ", \"longest_wait_for\": %" PRId64 "}",
                i > 0 ? "," : "", iso_profile_names[i], c->count, c->bytes, c->ns, c->waited_ns, c->longest_ns,
                c->longest_pe);
    }
    fprintf(out,
            "},\n   \"heap_objects\": %" PRIu64 ", \"heap_used_bytes\": %" PRIu64 ", \"network\": {\"posts\": %" PRIu64
            ", \"refused\": %" PRIu64 ", \"retries\": %" PRIu64 ", \"credit_waits\": %" PRIu64 ", \"waits\": %" PRIu64
            ", \"waited_ns\": %" PRIu64 ", \"longest_wait_ns\": %" PRIu64 ", \"longest_wait_for\": %" PRId64
            "},\n   \"teams\": [",
            p->heap_objects, p->heap_used, p->network.posts, p->network.refused, p->network.retries,
            p->network.credit_waits, p->network.waits, p->network.waited_ns, p->network.longest_ns,
            p->network.longest_pe);
    for (int i = 0, n = 0; i < PROFILE_TEAMS; i++) {
        const struct profile_team *t = &p->teams[i];
        if (t->count > 0)
            fprintf(out,
                    "%s{\"team\": \"%s\", \"count\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"ns\": %" PRIu64
                    ", \"waited_ns\": %" PRIu64 "}",
                    n++ > 0 ? ", " : "", iso_profile_team_name(i), t->count, t->bytes, t->ns, t->waited_ns);
    }
    fprintf(out, "],\n   \"peers\": [");
    for (int to = 0; to < page->n; to++)
        fprintf(out, "%s{\"calls\": %" PRIu64 ", \"bytes\": %" PRIu64 "}", to > 0 ? ", " : "", p->peers[to].calls,
                p->peers[to].bytes);
    fprintf(out, "]}%s\n", pe + 1 < page->n ? "," : "");
}

static void write_page_json(FILE *out, const struct page *page, const char *network)
{
    fprintf(out, "{\"isomer_profile\": 1, \"n_pes\": %d, \"n_nodes\": %d,\n \"network_of_pe_0\": ", page->n,
            ISO->n_nodes);
    write_page_text(out, network);
    fprintf(out, ",\n \"collectives\": [");
    for (int i = 0, n = 0; i < PROFILE_ROWS; i++) {
        const struct profile_row *row = &page->rows[i];
        if (row->name[0] == '\0')
            continue;
        fprintf(out, "%s\n  {\"name\": ", n++ > 0 ? "," : "");
        write_page_text(out, row->name);
        fprintf(out,
                ", \"log2_bytes_below\": %" PRIu64 ", \"count\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"ns\": %" PRIu64
                "}",
                row->size, row->count, row->bytes, row->ns);
    }
    fprintf(out, "],\n \"pes\": [\n");
    for (int pe = 0; pe < page->n; pe++)
        write_page_json_pe(out, page, pe);
    fprintf(out, " ]}\n");
}

static void write_page_file(const struct page *page, const char *network)
{
    const char *path = strcmp(ISO->env->profile, "1") == 0 ? "isomer-profile.json" : ISO->env->profile;
    FILE *out = fopen(path, "w");
    bool good = out != NULL;
    if (good) {
        write_page_json(out, page, network);
        good = ferror(out) == 0;
        good = fclose(out) == 0 && good;
    }
    if (!good)
        log_error("SHMEM_PROFILE: cannot write %s: %m", path);
}

void iso_page_print(const char *call)
{
    struct state *self = ISO;
    struct page page = {.n = self->n_pes, .pe_bytes = pe_bytes()};
    if (!iso_profile_is_asked(self->env))
        return;
    if (gather(&page, call) && self->my_pe == 0) {
        char network[2048] = "";
        iso_transport_text(network, sizeof network);
        add_rows(&page);
        print_page(&page, network);
        write_page_file(&page, network);
    }
    free(page.pes);
}
