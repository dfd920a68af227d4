/* SPDX-License-Identifier: MIT */
/* The flight recorder's readers: what each PE has called last, compared team by team, and as files. They read the
 * control areas of this node (report.c, errors), those of another job (job_look.c), or files of PEs of several nodes. */
#include "flight.h"
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "node_file.h"
#include "peer.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_MISSING = 4, LINE_BYTES = 512, PES_MOST = 1 << 22 }; /* PEs with a line each */

/* A copy of an entry. Times are since 1970. */
struct flown {
    uint64_t team; /* its slot << 32 | its first PE: teams that share no PE may have the same slot */
    uint64_t number, bytes;
    uint64_t begin_ns, end_ns; /* end 0: still in it */
    int pe, root;
    bool waited;
    char name[ISO_FLIGHT_NAME_BYTES];
};

struct flights {
    struct flown *of;
    size_t n, room;
};

/* ---- by the PE itself ---- */

uint32_t iso_flight_new_name(const char *call, uint32_t at)
{
    struct flight_name *names = ISO->control->names;
    for (uint32_t i = 0; i < ISO_FLIGHT_NAMES - 1; i++) {
        struct flight_name *name = &names[(at + i) % (ISO_FLIGHT_NAMES - 1)];
        const char *none = NULL;
        /* The text is for people: another process may read it while it is written. */
        if (__atomic_compare_exchange_n(&name->call, &none, call, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            uint64_t words[ISO_FLIGHT_NAME_BYTES / 8] = {0};
            strncpy((char *)words, iso_call_name(call), ISO_FLIGHT_NAME_BYTES - 1);
            for (size_t w = 0; w < ISO_FLIGHT_NAME_BYTES / 8; w++)
                __atomic_store_n(&name->text[w], words[w], __ATOMIC_RELAXED);
            none = call;
        }
        if (none == call)
            return (uint32_t)(name - names);
    }
    return ISO_FLIGHT_NAMES - 1; /* without a text */
}

void iso_flight_look_at_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    uint64_t now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    if (now > __atomic_load_n(&ISO->flight_ns, __ATOMIC_RELAXED)) /* a wait reads a finer one */
        __atomic_store_n(&ISO->flight_ns, now, __ATOMIC_RELAXED);
}

/* ---- copies ---- */

struct flights *iso_flights_create(void) { return (struct flights *)calloc(1, sizeof(struct flights)); }

void iso_flights_destroy(struct flights *flights)
{
    if (flights != NULL)
        free(flights->of);
    free(flights);
}

static void add_flown(struct flights *flights, const struct flown *f)
{
    if (flights->n == flights->room) {
        size_t room = flights->room == 0 ? ISO_FLIGHTS : 2 * flights->room;
        struct flown *of = (struct flown *)realloc(flights->of, room * sizeof *of);
        if (of == NULL)
            return;
        flights->of = of;
        flights->room = room;
    }
    flights->of[flights->n++] = *f;
}

static uint64_t now_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* It is another process's: nothing stays that a terminal or JSON would mind. */
static void clean_name(char *name)
{
    for (char *c = name; *c != '\0'; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') || (*c >= 'A' && *c <= 'Z') || *c == '_' ||
              *c == ' '))
            *c = '?';
    if (name[0] == '\0')
        memcpy(name, "a call", sizeof "a call");
}

/* `since_1970`: what must be added to the times of the entry. False: it is free, or being written. */
static bool read_entry(const struct control *control, const struct flight_entry *e, uint64_t since_1970, struct flown *f)
{
    /* Acquire: pairs with the stores of iso_flight_begin, of which the number is the first and the last. */
    f->number = __atomic_load_n(&e->number, __ATOMIC_ACQUIRE);
    uint32_t name = __atomic_load_n(&e->name, __ATOMIC_ACQUIRE);
    uint32_t first = __atomic_load_n(&e->first, __ATOMIC_ACQUIRE);
    f->bytes = __atomic_load_n(&e->bytes, __ATOMIC_ACQUIRE);
    f->begin_ns = __atomic_load_n(&e->begin_ns, __ATOMIC_ACQUIRE) + since_1970;
    f->end_ns = __atomic_load_n(&e->end_ns, __ATOMIC_ACQUIRE) + since_1970;
    f->root = (int)__atomic_load_n(&e->root, __ATOMIC_ACQUIRE);
    uint32_t state = __atomic_load_n(&e->slot_state, __ATOMIC_ACQUIRE);
    if (f->number == 0 || __atomic_load_n(&e->number, __ATOMIC_RELAXED) != f->number)
        return false;
    f->team = (uint64_t)(state >> 2) << 32 | first;
    f->waited = (state & FLIGHT_WAITED) != 0;
    if ((state & FLIGHT_DONE) == 0)
        f->end_ns = 0;
    uint64_t words[ISO_FLIGHT_NAME_BYTES / 8];
    for (size_t w = 0; w < ISO_FLIGHT_NAME_BYTES / 8; w++)
        words[w] = __atomic_load_n(&control->names[name % ISO_FLIGHT_NAMES].text[w], __ATOMIC_RELAXED);
    memcpy(f->name, words, sizeof f->name);
    f->name[sizeof f->name - 1] = '\0';
    clean_name(f->name);
    return true;
}

void iso_flights_take(struct flights *flights, int pe, const struct control *control)
{
    uint64_t since_1970 = now_of(CLOCK_REALTIME) - now_of(CLOCK_MONOTONIC);
    struct flown f = {.pe = pe};
    for (int i = 0; flights != NULL && control != NULL && i < ISO_FLIGHTS; i++)
        if (read_entry(control, &control->flights[i], since_1970, &f))
            add_flown(flights, &f);
}

/* ---- comparison ---- */

static int order_numbers(uint64_t a, uint64_t b) { return (a > b) - (a < b); }

static int order_by_team(const void *a, const void *b)
{
    const struct flown *x = (const struct flown *)a, *y = (const struct flown *)b;
    int by = order_numbers(x->team, y->team);
    by = by != 0 ? by : order_numbers(x->number, y->number);
    return by != 0 ? by : order_numbers((uint64_t)x->pe, (uint64_t)y->pe);
}

struct telling {
    flights_line *line;
    void *out;
    const struct flown *begin, *end; /* of one team, by number and PE */
    int n_pes;                       /* above all of theirs */
};

static void say(const struct telling *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(const struct telling *t, const char *format, ...)
{
    char text[LINE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    t->line(t->out, text);
}

static bool differ(const struct flown *a, const struct flown *b)
{
    return strcmp(a->name, b->name) != 0 || a->bytes != b->bytes || a->root != b->root;
}

/* The root is said where it, or that of `beside`, is not 0: calls without one have 0 there. */
static const char *text_of(const struct flown *f, const struct flown *beside, char text[128])
{
    int n = snprintf(text, 128, "%s", f->name);
    if (f->bytes != 0)
        n += snprintf(text + n, 128 - (size_t)n, " of %llu bytes", (unsigned long long)f->bytes);
    if (f->bytes != 0 && (f->root != 0 || beside->root != 0))
        snprintf(text + n, 128 - (size_t)n, ", root %d", f->root);
    return text;
}

static const char *team_name(const struct flown *f, char text[64])
{
    unsigned slot = (unsigned)(f->team >> 32);
    if (slot > 1)
        snprintf(text, 64, "the team of slot %u that begins with pe %u", slot, (unsigned)f->team);
    else
        snprintf(text, 64, "%s", slot == 0 ? "the world" : "the team of the node");
    return text;
}

/* PEs of which the call of that number is the same as `like`. */
static int count_alike(const struct telling *t, const struct flown *like)
{
    int n = 0;
    for (const struct flown *f = t->begin; f < t->end && f->number <= like->number; f++)
        n += f->number == like->number && !differ(f, like);
    return n;
}

static void tell_two(const struct telling *t, const struct flown *one, const struct flown *other)
{
    char few[128], many[128], team[64], more[32] = "";
    int n = count_alike(t, one), n_other = count_alike(t, other);
    const struct flown *most = n >= n_other ? one : other, *least = n >= n_other ? other : one;
    if (ISO_MAX(n, n_other) > 1)
        snprintf(more, sizeof more, " and %d more", ISO_MAX(n, n_other) - 1);
    say(t, "the first call that differs is call %llu of %s: pe %d is in %s, pe %d%s in %s",
        (unsigned long long)one->number, team_name(one, team), least->pe, text_of(least, most, few), most->pe, more,
        text_of(most, least, many));
}

/* The first call that is not the same on all PEs that have it, from `from` on; false: there is none. */
static bool tell_difference(const struct telling *t, uint64_t from)
{
    const struct flown *one = t->begin;
    for (const struct flown *f = t->begin; f < t->end; f++) {
        one = f->number != one->number ? f : one;
        if (f->number < from || !differ(one, f))
            continue;
        tell_two(t, one, f);
        return true;
    }
    return false;
}

static void tell_missing(const struct telling *t, const struct flown *const *last_of)
{
    char theirs[128], own[128], team[64], when[64];
    const struct flown *last = t->end - 1;
    uint64_t now = now_of(CLOCK_REALTIME);
    int n = 0;
    for (int pe = 0; pe < t->n_pes; pe++) {
        const struct flown *f = last_of[pe];
        if (f == NULL || f->number == last->number || n++ >= MOST_MISSING)
            continue;
        when[0] = '\0';
        if (f->waited)
            snprintf(when, sizeof when, ", which ended %.1f s ago", (double)(now - f->end_ns) / 1e9);
        say(t, "pe %d has not come to call %llu of %s, %s: its last one was call %llu, %s%s", pe,
            (unsigned long long)last->number, team_name(last, team), text_of(last, last, theirs),
            (unsigned long long)f->number, text_of(f, f, own), f->end_ns == 0 ? ", in which it is still" : when);
    }
    if (n > MOST_MISSING)
        say(t, "nor have %d more PEs", n - MOST_MISSING);
}

static void compare_team(const struct telling *t, const struct flown **last_of)
{
    uint64_t from = 1; /* all that have called at all still have it */
    bool in_progress = false;
    for (int pe = 0; pe < t->n_pes; pe++)
        last_of[pe] = NULL;
    for (const struct flown *f = t->begin; f < t->end; f++) {
        if (last_of[f->pe] == NULL)
            from = ISO_MAX(from, f->number);
        last_of[f->pe] = f;
        in_progress |= f->end_ns == 0;
    }
    if (in_progress && !tell_difference(t, from))
        tell_missing(t, last_of);
}

void iso_flights_compare(struct flights *flights, flights_line *line, void *out)
{
    struct telling t = {line, out, NULL, NULL, 0};
    if (flights == NULL || flights->n == 0)
        return;
    qsort(flights->of, flights->n, sizeof *flights->of, order_by_team);
    for (size_t i = 0; i < flights->n; i++)
        t.n_pes = ISO_MAX(t.n_pes, flights->of[i].pe + 1);
    const struct flown **last_of = (const struct flown **)calloc((size_t)t.n_pes, sizeof *last_of),
                       *end = flights->of + flights->n;
    for (t.begin = flights->of; last_of != NULL && t.begin < end; t.begin = t.end) {
        for (t.end = t.begin + 1; t.end < end && t.end->team == t.begin->team;)
            t.end++;
        compare_team(&t, last_of);
    }
    free(last_of);
}

/* ---- files: a line of JSON a call ---- */

#define CALL_FORMAT                                                                                             \
    "{\"pe\": %d, \"team_slot\": %u, \"team_first\": %u, \"number\": %" PRIu64                                  \
    ", \"call\": \"%s\", \"bytes\": %" PRIu64 ", \"root\": %d, \"begin_ns\": %" PRIu64 ", \"end_ns\": %" PRIu64 \
    ", \"waited\": %d}\n"
#define CALL_SCAN                                                                                                     \
    "{\"pe\": %d, \"team_slot\": %u, \"team_first\": %u, \"number\": %" SCNu64                                        \
    ", \"call\": \"%39[^\"]\", \"bytes\": %" SCNu64 ", \"root\": %d, \"begin_ns\": %" SCNu64 ", \"end_ns\": %" SCNu64 \
    ", \"waited\": %d}"
#define HEAD_SCAN "{\"job\": \"%8x\", \"unix_s\": %" SCNu64

void iso_flights_write(const struct flights *flights, FILE *out)
{
    for (size_t i = 0; flights != NULL && i < flights->n; i++) {
        const struct flown *f = &flights->of[i];
        fprintf(out, CALL_FORMAT, f->pe, (unsigned)(f->team >> 32), (unsigned)f->team, f->number, f->name, f->bytes,
                f->root, f->begin_ns, f->end_ns, f->waited);
    }
}

static uint32_t job_of_this(void) { return ISO->node != NULL ? ISO->node->head.job : 0; }

static void write_flight_file(int pe, const struct control *control, const char *why)
{
    char path[4096], fresh[4096 + 16];
    struct flights *flights = iso_flights_create();
    snprintf(path, sizeof path, "%s/flight.%d.jsonl", ISO->env->flight, pe);
    snprintf(fresh, sizeof fresh, "%s.%d", path, (int)getpid());
    (void)mkdir(ISO->env->flight, 0777);
    FILE *out = flights != NULL ? fopen(fresh, "we") : NULL;
    bool good = out != NULL;
    if (good) {
        iso_flights_take(flights, pe, control);
        fprintf(out, "{\"job\": \"%08" PRIx32 "\", \"unix_s\": %" PRIu64 ", \"pe\": %d, \"host\": \"%s\", \"why\": \"",
                job_of_this(), (uint64_t)time(NULL), pe, ISO->peers[pe].host);
        for (; *why != '\0'; why++)
            fputc(*why == '"' || *why == '\\' || (unsigned char)*why < ' ' ? '?' : *why, out);
        fputs("\"}\n", out);
        iso_flights_write(flights, out);
        good = ferror(out) == 0;
        good = fclose(out) == 0 && good && rename(fresh, path) == 0;
    }
    if (!good) {
        log_error("SHMEM_FLIGHT: %s cannot be written: %m", path);
        (void)unlink(fresh);
    }
    iso_flights_destroy(flights);
}

static const struct control *flight_control(int pe)
{
    return (const struct control *)(const void *)iso_peer_control(pe);
}

void iso_flight_record(enum flight_whose whose, const char *why)
{
    const struct state *self = ISO;
    if (self->env == NULL || self->env->flight[0] == '\0' || self->peers == NULL || self->control == NULL)
        return;
    if (whose == FLIGHT_OWN)
        write_flight_file(self->my_pe, self->control, why);
    for (int i = 0; whose == FLIGHT_NODE && i < self->n_local; i++)
        if (flight_control(self->local_pes[i]) != NULL)
            write_flight_file(self->local_pes[i], flight_control(self->local_pes[i]), why);
}

/* Another line is left out. */
static void take_line(struct flights *flights, const char *line)
{
    struct flown f = {.pe = -1};
    unsigned slot, first;
    int waited, n = sscanf(line, CALL_SCAN, &f.pe, &slot, &first, &f.number, f.name, &f.bytes, &f.root, &f.begin_ns,
                           &f.end_ns, &waited);
    if (n != 10 || f.pe < 0 || f.pe >= PES_MOST)
        return;
    f.team = (uint64_t)slot << 32 | first;
    f.waited = waited != 0;
    clean_name(f.name);
    add_flown(flights, &f);
}

int iso_flights_take_text(struct flights *flights, char *text)
{
    bool whole = false;
    for (char *end; (end = strchr(text, '\n')) != NULL && !whole; text = end + 1) {
        whole = strncmp(text, FLIGHTS_END, (size_t)(end - text) + 1) == 0;
        *end = '\0';
        take_line(flights, text);
    }
    return whole ? 0 : -1;
}

/* 0: it is of another job, or no such file. */
static uint64_t read_file(struct flights *flights, const char *path, uint32_t job, uint32_t *its_job)
{
    char line[LINE_BYTES];
    uint64_t written_s = 0;
    FILE *in = fopen(path, "re");
    *its_job = 0;
    if (in != NULL && (fgets(line, sizeof line, in) == NULL || sscanf(line, HEAD_SCAN, its_job, &written_s) != 2))
        written_s = 0;
    while (in != NULL && flights != NULL && written_s != 0 && *its_job == job && fgets(line, sizeof line, in) != NULL)
        take_line(flights, line);
    if (in != NULL)
        fclose(in);
    return *its_job == job || job == 0 ? written_s : 0;
}

int iso_flights_read(struct flights *flights, const char *folder, uint32_t job)
{
    char path[4096];
    int n = 0;
    for (int pass = job != 0; pass < 2; pass++) { /* the first one finds the job that wrote last */
        DIR *dir = opendir(folder);
        uint64_t newest_s = 0;
        uint32_t newest = 0, its_job;
        for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
            size_t len = strlen(e->d_name);
            if (strncmp(e->d_name, "flight.", 7) != 0 || len < 6 || strcmp(e->d_name + len - 6, ".jsonl") != 0)
                continue;
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
            uint64_t written_s = read_file(pass == 0 ? NULL : flights, path, job, &its_job);
            n += pass == 1 && written_s != 0;
            if (written_s > newest_s) {
                newest_s = written_s;
                newest = its_job;
            }
        }
        if (dir != NULL)
            closedir(dir);
        job = pass == 0 ? newest : job;
    }
    return n;
}

/* ---- at a report ---- */

static void print_flown(void *out, const char *line)
{
    (void)out;
    log_error("  %s", line);
}

void iso_flight_report(void)
{
    const struct state *self = ISO;
    struct flights *flights = iso_flights_create();
    if (self->env->flight[0] != '\0') {
        iso_flight_record(FLIGHT_NODE, "a wait lasted longer than its timeout");
        (void)iso_flights_read(flights, self->env->flight, job_of_this());
    } else {
        for (int i = 0; i < self->n_local; i++)
            iso_flights_take(flights, self->local_pes[i], flight_control(self->local_pes[i]));
    }
    iso_flights_compare(flights, print_flown, NULL);
    iso_flights_destroy(flights);
}
