/* SPDX-License-Identifier: MIT */
/* Sentences group the waits that are alike: "pe 1-31 wait in shmem_barrier_all for pe 0". An edge goes from a waiting PE
 * to each PE without which its wait cannot end: the holder of a lock, the PE of a message, the members of a team that
 * are not in the same call. A PE that others need and that does not wait is the cause; else a cycle is; else a wait
 * that every PE could end, and that no PE is free to end. */
#include "graph.h"
#include "../../bootstrap/boot.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAITS_OF_PE (ISO_WAIT_RECORDS + 1)
#define CYCLE_SHOWN 8 /* PEs of a cycle that a sentence names */

static const struct graph_word {
    const char *name; /* in JSON */
    const char *one, *many; /* NULL: no line of its own */
} states[] = {
    [GRAPH_ELSEWHERE] = {"elsewhere", NULL, NULL},
    [GRAPH_CLOSED] = {"closed", "is not reachable by pointer: its waits are not known here",
                      "are not reachable by pointer: their waits are not known here"},
    [GRAPH_WAITS] = {"waits", NULL, NULL},
    [GRAPH_OUTSIDE] = {"outside", "does not wait in the library", "do not wait in the library"},
    [GRAPH_EXITED] = {"exited", "has returned from main, or called exit, without shmem_finalize",
                      "have returned from main, or called exit, without shmem_finalize"},
    [GRAPH_LEFT] = {"left", "has left the job by shmem_finalize", "have left the job by shmem_finalize"},
    [GRAPH_STOPPED] = {"stopped", "is stopped, by a signal or a debugger; SIGCONT lets it go on",
                       "are stopped, by a signal or a debugger; SIGCONT lets them go on"},
    [GRAPH_DIED] = {"died", "has died", "have died"},
};

static const char *const kinds[] = {
    [WAIT_WORD] = "word", [WAIT_LOCK] = "lock", [WAIT_STREAM] = "stream", [WAIT_KERNEL] = "kernel"};
static const char *const comparisons[] = {"", "== ", "!= ", "< ", "<= ", "> ", ">= "};

static const char *comparison_of(const struct wait_record *r)
{
    return r->cmp < sizeof comparisons / sizeof comparisons[0] ? comparisons[r->cmp] : "";
}

/* ---- what is known ---- */

struct graph *iso_graph_create(int n_pes, uint64_t now)
{
    struct graph *g = (struct graph *)calloc(1, sizeof *g);
    size_t n = (size_t)n_pes;
    if (g == NULL)
        return NULL;
    g->n_pes = n_pes;
    g->now = now;
    g->pes = (struct graph_pe *)calloc(n, sizeof *g->pes);
    g->waits = (struct graph_wait *)calloc(n * WAITS_OF_PE, sizeof *g->waits);
    g->set = (bool *)calloc(n, sizeof *g->set);
    g->others = (bool *)calloc(n, sizeof *g->others);
    g->culprit = (bool *)calloc(n, sizeof *g->culprit);
    g->cycle = (int *)calloc(n, sizeof *g->cycle);
    if (g->pes != NULL && g->waits != NULL && g->set != NULL && g->others != NULL && g->culprit != NULL &&
        g->cycle != NULL)
        return g;
    iso_graph_destroy(g);
    return NULL;
}

void iso_graph_destroy(struct graph *g)
{
    if (g == NULL)
        return;
    free(g->pes);
    free(g->waits);
    free(g->set);
    free(g->others);
    free(g->culprit);
    free(g->cycle);
    free(g);
}

static uint64_t load_word(const uint64_t *word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }

void iso_graph_take(struct graph *g, int pe, const struct control *control)
{
    struct graph_pe *p = &g->pes[pe];
    bool syncs = false;
    p->first = g->n_waits;
    for (int i = 0; i < WAITS_OF_PE; i++) {
        struct graph_wait *e = &g->waits[g->n_waits];
        const uint64_t *from = (const uint64_t *)(const void *)&control->waits[i];
        uint64_t words[sizeof e->record / 8];
        for (size_t k = 0; k < sizeof words / 8; k++) /* pairs with publish_wait; a torn record is acceptable */
            words[k] = load_word(from + k);
        memcpy(&e->record, words, sizeof e->record);
        ((char *)e->record.call)[sizeof e->record.call - 1] = '\0';
        if (e->record.since_ns == 0 || e->record.kind > WAIT_KERNEL || (i == ISO_WAIT_OF_KERNEL && !syncs))
            continue; /* what a kernel waited for once says nothing now */
        e->pe = pe;
        syncs |= e->record.kind == WAIT_STREAM;
        g->n_waits++;
    }
    p->n_waits = g->n_waits - p->first;
    p->steps = load_word(&control->steps);
    p->heap_bytes = load_word(&control->heap_bytes);
    p->state = p->process == 'T' || p->process == 't'   ? GRAPH_STOPPED
               : p->process == 'Z' || p->process == 'X' ? GRAPH_DIED
               : load_word(&control->exited) != 0       ? GRAPH_EXITED
               : p->n_waits > 0                         ? GRAPH_WAITS
                                                        : GRAPH_OUTSIDE;
}

void iso_graph_look_at_process(struct graph_pe *pe, int pid)
{
    char path[64], line[1024];
    unsigned long user = 0, kernel = 0;
    long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *stat = fopen(path, "re");
    size_t n = stat != NULL ? fread(line, 1, sizeof line - 1, stat) : 0;
    pe->pid = pid;
    pe->process = 'X';
    line[n] = '\0';
    const char *behind = strrchr(line, ')'); /* the program's name may have any character */
    char letter = '\0';
    if (behind != NULL && sscanf(behind, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %*d %*d "
                                         "%*u %*u %ld", &letter, &user, &kernel, &pages) == 4) {
        pe->process = letter;
        pe->cpu_s = (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
        pe->resident_bytes = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
    }
    if (stat != NULL)
        fclose(stat);
}

/* ---- edges ---- */

static bool are_alike(const struct wait_record *a, const struct wait_record *b)
{
    return a->kind == b->kind && a->first == b->first && a->stride == b->stride && a->size == b->size &&
           (a->size != 0 || a->peer == b->peer) && memcmp(a->call, b->call, sizeof a->call) == 0;
}

static bool is_in_call(const struct graph *g, int pe, const struct wait_record *r)
{
    const struct graph_pe *p = &g->pes[pe];
    for (int i = 0; i < p->n_waits; i++)
        if (are_alike(&g->waits[p->first + i].record, r))
            return true;
    return false;
}

/* An edge of a PE, found from here on. */
struct graph_edge {
    int wait;        /* of its waits */
    uint64_t member; /* of the team of that */
    bool is_missing; /* a member was missing in it */
};

/* The next PE that `pe` waits for; -1: there is none. */
static int next_needed(const struct graph *g, int pe, struct graph_edge *at)
{
    const struct graph_pe *p = &g->pes[pe];
    if (p->state != GRAPH_WAITS)
        return -1;
    for (; at->wait < p->n_waits; at->wait++, at->member = 0, at->is_missing = false) {
        const struct wait_record *r = &g->waits[p->first + at->wait].record;
        uint64_t size = r->stride != 0 ? ISO_MIN(r->size, (uint64_t)g->n_pes) : 0;
        while (at->member < size) {
            uint64_t other = r->first + at->member++ * r->stride; /* modulo 2^64: the stride may be negative */
            if (other >= (uint64_t)g->n_pes || (int)other == pe || g->pes[other].state == GRAPH_ELSEWHERE ||
                is_in_call(g, (int)other, r))
                continue;
            at->is_missing = true;
            return (int)other;
        }
        if (!at->is_missing && r->peer >= 0 && r->peer < g->n_pes && r->peer != pe) {
            at->is_missing = true;
            return (int)r->peer;
        }
    }
    return -1;
}

/* Depth first from `pe`. `seen`: 0 not yet, 1 on the path, 2 done. */
static void find_cycle(struct graph *g, int pe, char *seen, struct graph_edge *at)
{
    int *path = g->cycle, depth = 0;
    path[0] = pe;
    seen[pe] = 1;
    while (depth >= 0) {
        int next = next_needed(g, path[depth], &at[path[depth]]);
        if (next < 0) {
            seen[path[depth--]] = 2;
        } else if (seen[next] == 1) {
            int from = 0;
            while (path[from] != next)
                from++;
            g->n_cycle = depth + 1 - from;
            memmove(path, path + from, (size_t)g->n_cycle * sizeof *path);
            return;
        } else if (seen[next] == 0) {
            seen[next] = 1;
            path[++depth] = next;
        }
    }
}

static bool waits_for_any(const struct graph *g, int pe)
{
    const struct graph_pe *p = &g->pes[pe];
    for (int i = 0; p->state == GRAPH_WAITS && i < p->n_waits; i++) {
        const struct wait_record *r = &g->waits[p->first + i].record;
        if (r->size == 0 && r->peer < 0 && (r->kind == WAIT_WORD || r->kind == WAIT_LOCK || r->kind == WAIT_KERNEL))
            return true;
    }
    return false;
}

static void judge(struct graph *g)
{
    char *seen = (char *)calloc((size_t)g->n_pes, 1);
    struct graph_edge *at = (struct graph_edge *)calloc((size_t)g->n_pes, sizeof *at);
    int n = 0, free_pes = 0;
    g->is_judged = true;
    for (int pe = 0; pe < g->n_pes; pe++) {
        struct graph_edge edge = {0, 0, false};
        for (int other; (other = next_needed(g, pe, &edge)) >= 0;) {
            bool ends = g->pes[other].state > GRAPH_WAITS;
            n += ends && !g->culprit[other];
            g->culprit[other] |= ends;
        }
        free_pes += g->pes[pe].state != GRAPH_WAITS;
    }
    for (int pe = 0; pe < g->n_pes && n == 0 && g->n_cycle == 0 && seen != NULL && at != NULL; pe++)
        if (seen[pe] == 0)
            find_cycle(g, pe, seen, at);
    bool any = false;
    for (int pe = 0; pe < g->n_pes && n == 0 && g->n_cycle == 0; pe++)
        any |= waits_for_any(g, pe);
    for (int pe = 0; pe < g->n_pes && any; pe++) /* who could store it; if none can, the wait itself has no end */
        g->culprit[pe] = free_pes > 0 ? g->pes[pe].state > GRAPH_WAITS : waits_for_any(g, pe);
    free(seen);
    free(at);
}

/* ---- sentences ---- */

/* What a line says of several waits. */
struct graph_group {
    const struct wait_record *record; /* the first one's */
    int n_pes, n_waits;
    bool one_peer;
    uint64_t oldest_ns, newest_ns; /* when they began */
};

/* "pe 1-31, 33" */
static void write_pes(const struct graph *g, const bool *set, char *text, size_t bytes)
{
    int n = g->n_pes;
    size_t used = (size_t)snprintf(text, bytes, "pe ");
    const char *mark = "";
    for (int pe = 0; pe < n && used + 32 < bytes; pe++) {
        if (!set[pe])
            continue;
        int last = pe;
        while (last + 1 < n && set[last + 1])
            last++;
        used += (size_t)snprintf(text + used, bytes - used, last > pe ? "%s%d-%d" : "%s%d", mark, pe, last);
        mark = ", ";
        pe = last;
    }
    if (used + 32 >= bytes)
        snprintf(text + used, bytes - used, ", ...");
}

static struct graph_group take_group(struct graph *graph, int first)
{
    struct graph_group g = {&graph->waits[first].record, 0, 0, true, UINT64_MAX, 0};
    memset(graph->set, 0, (size_t)graph->n_pes);
    for (int i = first; i < graph->n_waits; i++) {
        struct graph_wait *e = &graph->waits[i];
        if (e->printed || !are_alike(&e->record, g.record))
            continue;
        e->printed = true;
        g.n_pes += !graph->set[e->pe];
        g.n_waits++;
        g.one_peer &= e->record.peer == g.record->peer;
        graph->set[e->pe] = true;
        g.oldest_ns = ISO_MIN(g.oldest_ns, e->record.since_ns);
        g.newest_ns = ISO_MAX(g.newest_ns, e->record.since_ns);
    }
    return g;
}

/* Members of the team that are not in the same call. Of other nodes that may not be known. */
static int take_missing(struct graph *g, const struct wait_record *r)
{
    int n = 0;
    memset(g->others, 0, (size_t)g->n_pes);
    for (uint64_t i = 0; i < r->size && i < (uint64_t)g->n_pes; i++) {
        uint64_t pe = r->first + i * r->stride; /* modulo 2^64: the stride may be negative */
        bool missing = pe < (uint64_t)g->n_pes && g->pes[pe].state != GRAPH_ELSEWHERE && !g->set[pe];
        if (missing)
            g->others[pe] = true;
        n += missing;
    }
    return n;
}

static void write_waited(struct graph *graph, const struct graph_group *g, char *text, size_t bytes)
{
    const struct wait_record *r = g->record;
    bool known = g->one_peer && r->peer >= 0 && r->peer < graph->n_pes;
    if (r->kind == WAIT_STREAM)
        snprintf(text, bytes, "the work in %s stream%s", g->n_pes > 1 ? "their" : "its",
                 g->n_waits > 1 || r->addr == 0 ? "s" : "");
    else if (r->kind == WAIT_LOCK && known)
        snprintf(text, bytes, "pe %d, which holds the lock", (int)r->peer);
    else if (r->kind == WAIT_LOCK)
        snprintf(text, bytes, "the PE that holds the lock");
    else if (known && (r->size == 0 || !graph->set[r->peer]))
        snprintf(text, bytes, "pe %d", (int)r->peer);
    else if (r->size == 0)
        snprintf(text, bytes, "any PE");
    else if (r->stride != 0 && take_missing(graph, r) > 0)
        write_pes(graph, graph->others, text, bytes);
    else
        snprintf(text, bytes, "other members of the team");
}

static double waited_seconds(uint64_t now, uint64_t since) { return since < now ? (double)(now - since) / 1e9 : 0.0; }

/* "expected >= 4, seen 3" */
static void write_values(const struct wait_record *r, char *text, size_t bytes)
{
    if (r->is_signed != 0)
        snprintf(text, bytes, "expected %s%" PRId64 ", seen %" PRId64, comparison_of(r), (int64_t)r->expected,
                 (int64_t)r->seen);
    else
        snprintf(text, bytes, "expected %s%" PRIu64 ", seen %" PRIu64, comparison_of(r), r->expected, r->seen);
}

static void write_group(struct graph *graph, int first, graph_line *line, void *out)
{
    struct graph_group g = take_group(graph, first);
    const struct wait_record *r = g.record;
    char who[512], waited[512], values[96], words[256] = "", time[64], text[1536];
    write_pes(graph, graph->set, who, sizeof who);
    write_waited(graph, &g, waited, sizeof waited);
    write_values(r, values, sizeof values);
    double most = waited_seconds(graph->now, g.oldest_ns), least = waited_seconds(graph->now, g.newest_ns);
    if (most - least < 0.05)
        snprintf(time, sizeof time, "for %.1f s", most);
    else
        snprintf(time, sizeof time, "for %.1f to %.1f s", least, most);
    if (r->kind == WAIT_STREAM && g.n_waits == 1 && r->addr != 0)
        snprintf(words, sizeof words, ": stream %#" PRIx64, r->addr);
    else if (r->kind == WAIT_KERNEL && g.n_waits == 1)
        snprintf(words, sizeof words, ": address %#" PRIx64, r->addr); /* the kernel's own report says more */
    else if (r->kind != WAIT_STREAM && g.n_waits == 1)
        snprintf(words, sizeof words, ": address %#" PRIx64 ", %s", r->addr, values);
    else if (r->kind == WAIT_WORD && r->size == 0)
        snprintf(words, sizeof words, " (pe %d: address %#" PRIx64 ", %s)", graph->waits[first].pe, r->addr, values);
    snprintf(text, sizeof text, "%s %s in %s for %s%s, %s", who,
             r->kind == WAIT_KERNEL ? "has a kernel that waits" : g.n_pes > 1 ? "wait" : "waits",
             (const char *)r->call, waited, words, time);
    line(out, text);
}

static void write_state(struct graph *g, enum graph_state state, graph_line *line, void *out)
{
    char who[512], text[768];
    int n = 0;
    for (int pe = 0; pe < g->n_pes; pe++) {
        g->set[pe] = g->pes[pe].state == state;
        n += g->set[pe];
    }
    if (n == 0 || states[state].one == NULL)
        return;
    write_pes(g, g->set, who, sizeof who);
    snprintf(text, sizeof text, "%s %s", who, n > 1 ? states[state].many : states[state].one);
    line(out, text);
}

static const char *graph_call_of(const struct graph *g, int pe)
{
    return (const char *)g->waits[g->pes[pe].first].record.call;
}

static void write_cycle(const struct graph *g, graph_line *line, void *out)
{
    char text[CYCLE_SHOWN * 96 + 64];
    size_t n = (size_t)snprintf(text, sizeof text, "cycle: ");
    for (int i = 0; i < g->n_cycle && i < CYCLE_SHOWN; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%spe %d waits in %s for pe %d", i > 0 ? ", " : "",
                              g->cycle[i], graph_call_of(g, g->cycle[i]), g->cycle[(i + 1) % g->n_cycle]);
    if (g->n_cycle > CYCLE_SHOWN)
        snprintf(text + n, sizeof text - n, ", ... (%d PEs)", g->n_cycle);
    line(out, text);
}

/* "its process runs and has used 5.0 s of CPU time" */
static void write_process(const struct graph_pe *p, char *text, size_t bytes)
{
    const char *does = p->process == 'R'   ? "runs"
                       : p->process == 'S' ? "sleeps"
                       : p->process == 'D' ? "waits for a disk or a device"
                                           : NULL;
    text[0] = '\0';
    if (does != NULL)
        snprintf(text, bytes, "; its process %s and has used %.1f s of CPU time", does, p->cpu_s);
}

static void write_culprit(const struct graph *g, int pe, graph_line *line, void *out)
{
    const struct graph_pe *p = &g->pes[pe];
    char place[128] = "", process[96], values[96], text[640];
    if (p->pid > 0)
        snprintf(place, sizeof place, p->host[0] != '\0' ? " (pid %d on %s)" : " (pid %d)", p->pid, p->host);
    write_process(p, process, sizeof process);
    if (p->state != GRAPH_WAITS) {
        snprintf(text, sizeof text, "culprit: pe %d%s %s%s", pe, place, states[p->state].one, process);
    } else {
        write_values(&g->waits[p->first].record, values, sizeof values);
        snprintf(text, sizeof text,
                 "culprit: pe %d%s waits in %s at address %#" PRIx64 " (%s), and no PE is left that could store it: "
                 "the signal was lost or never sent",
                 pe, place, graph_call_of(g, pe), g->waits[p->first].record.addr, values);
    }
    line(out, text);
}

void iso_graph_write(struct graph *g, graph_line *line, void *out)
{
    if (!g->is_judged)
        judge(g);
    for (int i = 0; i < g->n_waits; i++)
        g->waits[i].printed = false;
    for (int i = 0; i < g->n_waits; i++)
        if (!g->waits[i].printed)
            write_group(g, i, line, out);
    static const enum graph_state order[] = {GRAPH_EXITED, GRAPH_OUTSIDE, GRAPH_LEFT,
                                             GRAPH_STOPPED, GRAPH_DIED, GRAPH_CLOSED};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        write_state(g, order[i], line, out);
    if (g->n_cycle > 0)
        write_cycle(g, line, out);
    for (int pe = 0, n = 0; pe < g->n_pes && n < CYCLE_SHOWN; pe++)
        if (g->culprit[pe]) {
            write_culprit(g, pe, line, out);
            n++;
        }
}

/* ---- JSON ---- */

/* Without quotes, backslashes and control characters. */
static void write_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text != '\0'; text++)
        fputc(*text == '"' || *text == '\\' || (unsigned char)*text < ' ' || (unsigned char)*text > '~' ? '?' : *text,
              out);
    fputc('"', out);
}

static void write_json_wait(const struct graph *g, const struct graph_wait *w, FILE *out)
{
    const struct wait_record *r = &w->record;
    fputs("{\"call\": ", out);
    write_text(out, (const char *)r->call);
    fprintf(out, ", \"kind\": \"%s\", \"seconds\": %.3f, \"peer\": %d, \"address\": \"%#" PRIx64 "\"", kinds[r->kind],
            waited_seconds(g->now, r->since_ns), (int)r->peer, r->addr);
    if (r->kind == WAIT_WORD || r->kind == WAIT_LOCK)
        fprintf(out, r->is_signed != 0 ? ", \"compare\": \"%.*s\", \"expected\": %" PRId64 ", \"seen\": %" PRId64
                                       : ", \"compare\": \"%.*s\", \"expected\": %" PRIu64 ", \"seen\": %" PRIu64,
                (int)strcspn(comparison_of(r), " "), comparison_of(r), r->expected, r->seen);
    if (r->size != 0)
        fprintf(out, ", \"team\": {\"start\": %" PRId64 ", \"stride\": %" PRId64 ", \"size\": %" PRIu64 "}",
                (int64_t)r->first, (int64_t)r->stride, r->size);
    fputc('}', out);
}

static void write_json_pe(const struct graph *g, int pe, FILE *out)
{
    const struct graph_pe *p = &g->pes[pe];
    struct graph_edge at = {0, 0, false};
    const char *mark = "";
    fprintf(out, "{\"pe\": %d, \"state\": \"%s\", \"pid\": %d, \"host\": ", pe, states[p->state].name, p->pid);
    write_text(out, p->host);
    fputs(", \"node\": ", out);
    write_text(out, p->node);
    fprintf(out, ", \"process\": \"%.1s\", \"cpu_seconds\": %.2f, \"resident_bytes\": %" PRIu64
                 ", \"heap_bytes\": %" PRIu64 ", \"steps\": %" PRIu64 ", \"waits_for\": [",
            p->process != '\0' ? &p->process : "", p->cpu_s, p->resident_bytes, p->heap_bytes, p->steps);
    for (int other; (other = next_needed(g, pe, &at)) >= 0; mark = ", ")
        fprintf(out, "%s%d", mark, other);
    fputs("], \"waits\": [", out);
    for (int i = 0; i < p->n_waits; i++) {
        fputs(i > 0 ? ", " : "", out);
        write_json_wait(g, &g->waits[p->first + i], out);
    }
    fputs("]}", out);
}

static void write_json_sentence(void *out, const char *sentence)
{
    fputs(", \"why\": ", (FILE *)out);
    write_text((FILE *)out, sentence);
}

static void write_json_verdict(const struct graph *g, FILE *out)
{
    const char *mark = "";
    fputs("\"cycle\": [", out);
    for (int i = 0; i < g->n_cycle; i++)
        fprintf(out, i > 0 ? ", %d" : "%d", g->cycle[i]);
    fputs("],\n \"culprits\": [", out);
    for (int pe = 0; pe < g->n_pes; pe++) {
        if (!g->culprit[pe])
            continue;
        fprintf(out, "%s{\"pe\": %d", mark, pe);
        write_culprit(g, pe, write_json_sentence, out);
        fputc('}', out);
        mark = ", ";
    }
    fputc(']', out);
}

void iso_graph_write_json(struct graph *g, FILE *out)
{
    if (!g->is_judged)
        judge(g);
    fputs("\"processes\": [", out);
    for (int pe = 0; pe < g->n_pes; pe++) {
        fputs(pe > 0 ? ",\n  " : "\n  ", out);
        write_json_pe(g, pe, out);
    }
    fputs("],\n ", out);
    write_json_verdict(g, out);
}

/* ---- the object of NCCL's RAS: its names, and one of ours for the cause ---- */

static bool is_missing_rank(const struct graph_pe *p) { return p->state == GRAPH_STOPPED || p->state == GRAPH_DIED; }

static void write_ras_rank(const struct graph *g, int pe, FILE *out)
{
    const struct graph_pe *p = &g->pes[pe];
    bool left = p->state == GRAPH_LEFT || p->state == GRAPH_EXITED;
    fprintf(out, "{\"rank\": %d, \"host\": ", pe);
    write_text(out, p->host);
    fprintf(out, ", \"pid\": %d, \"cuda_dev\": -1, \"nvml_dev\": -1, \"status\": {", p->pid);
    if (is_missing_rank(p))
        fprintf(out, "\"unresponsive\": true, \"considered_dead\": %s}}", p->state == GRAPH_DIED ? "true" : "false");
    else
        fprintf(out, "\"init_state\": 0, \"async_error\": 0, \"finalize_called\": %s, \"destroy_flag\": false, "
                     "\"abort_flag\": false}, \"collective_counts\": {\"steps\": %" PRIu64 "}}",
                left ? "true" : "false", p->steps);
}

/* n: how many; out NULL: they are counted only. */
static int write_ras_ranks(const struct graph *g, const char *name, FILE *out)
{
    bool missing = strcmp(name, "missing_ranks") == 0;
    int n = 0;
    if (out != NULL)
        fprintf(out, "\"%s\": [", name);
    for (int pe = 0; pe < g->n_pes; pe++) {
        if (g->pes[pe].state == GRAPH_ELSEWHERE || is_missing_rank(&g->pes[pe]) != missing)
            continue;
        if (out != NULL) {
            fputs(n > 0 ? ",\n   " : "\n   ", out);
            write_ras_rank(g, pe, out);
        }
        n++;
    }
    if (out != NULL)
        fputc(']', out);
    return n;
}

void iso_graph_write_ras(struct graph *g, uint32_t job, FILE *out)
{
    char when[32];
    time_t now = time(NULL);
    struct tm local;
    if (!g->is_judged)
        judge(g);
    strftime(when, sizeof when, "%F %T", localtime_r(&now, &local));
    fprintf(out,
            "{\"nccl_version\": \"isomer " ISO_VERSION "\", \"cuda_runtime_version\": 0, \"cuda_driver_version\": 0, "
            "\"timestamp\": \"%s\", \"communicators_count\": 1,\n \"communicators\": [{\"hash\": \"0x%" PRIx32
            "\", \"secondary_hash\": \"0x0:0x0\", \"size\": %d, \"ranks_count\": %d, \"missing_ranks_count\": %d,\n  ",
            when, job, g->n_pes, write_ras_ranks(g, "ranks", NULL), write_ras_ranks(g, "missing_ranks", NULL));
    (void)write_ras_ranks(g, "ranks", out);
    fputs(",\n  ", out);
    (void)write_ras_ranks(g, "missing_ranks", out);
    fputs("}],\n \"ras\": {\"collection_time_sec\": 0.0, \"timeouts_count\": 0},\n \"isomer\": {", out);
    write_json_verdict(g, out);
    fputs("}}\n", out);
}
