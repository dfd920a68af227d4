/* SPDX-License-Identifier: MIT */
/* The table of collectives on streams, without a device: every call that is
 * possible gets an algorithm that can do it, by every built-in table and by
 * what is forced or tuned; thresholds are exact; tables that differ have
 * different sums; what is wrong in a variable or a file is said in a sentence
 * that names it; a written file reads back. */
#include "../../bootstrap/env.h"
#include "../check.h"

#include "../../coll/stream/coll_stream.h"
#include "said.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>

enum {
    EVERYTHING = ISOD_NEEDS_DIRECT | ISOD_NEEDS_DEST | ISOD_NEEDS_SOURCE | ISOD_NEEDS_APART | ISOD_NEEDS_WHOLE_LINES |
                 ISOD_NEEDS_STREAMS
};

/* ---- calls and tables as they would be ---- */

static uint32_t inbox_bytes(int pes) { return pes <= 8 ? 8192 : pes <= 32 ? 2048 : 512; }

/* A call whose blocks have `one` bytes. */
static const struct select_facts *fake(struct select_facts *f, int kind, size_t one, int pes, unsigned has)
{
    bool blocks = kind == SHMEMX_REDUCESCATTER || kind == SHMEMX_FCOLLECT || kind == SHMEMX_ALLTOALL;
    bool data = kind != SHMEMX_ALLTOALLV && kind != SHMEMX_BARRIER && kind != SHMEMX_SYNC;
    memset(f, 0, sizeof *f);
    f->kind = kind;
    f->n_pes = pes;
    f->inbox_bytes = inbox_bytes(pes);
    f->block = data ? one : 0;
    f->bytes = !data ? 0 : blocks ? one * (size_t)pes : one;
    f->op = SHMEMX_SUM;
    f->type = SHMEMX_FLOAT;
    f->has = f->near = has;
    f->known = true; /* hosts know where dest is, as far as it is reachable */
    f->most_blocks = 64;
    f->most_threads = ISOD_STREAM_THREADS;
    return f;
}

static struct gpu_info device_named(const char *name)
{
    struct gpu_info info;
    memset(&info, 0, sizeof info);
    info.flavour = strcmp(name, "cpu") == 0 ? "cpu" : "cuda";
    info.n_devices = 8;
    snprintf(info.name, sizeof info.name, "%s", name);
    return info;
}

/* With these values of the two variables; a null pointer in the name is the
 * table for any device. */
static struct select_table *open_table(const char *name, const char *forced, const char *file)
{
    struct gpu_info info = device_named(name != NULL ? name : "");
    ISO->env->coll = forced;
    ISO->env->coll_table = file;
    struct select_table *table = iso_stream_table_open(name != NULL ? &info : NULL);
    ISO->env->coll = ISO->env->coll_table = "";
    return table;
}

static const char *const machines[] = {NULL, "cpu", "NVIDIA H200", "NVIDIA H200 NVL", "NVIDIA H100 80GB HBM3",
                                       "AMD Instinct MI300X", "other"};
enum { MACHINES = sizeof machines / sizeof machines[0] };

/* ---- what was said ---- */

/* One line, and these words in it (NULL: none). */
static void check_sentence(const char *text, const char *one, const char *two)
{
    size_t len = strlen(text);
    CHECK_NAMED(len > 0 && strchr(text, '\n') == text + len - 1, text);
    CHECK_NAMED(one == NULL || strstr(text, one) != NULL, text);
    CHECK_NAMED(two == NULL || strstr(text, two) != NULL, text);
}

/* ---- every call gets what can do it ---- */

static const char *name_of(const struct select_facts *c, const struct select_choice *choice)
{
    static char text[512];
    snprintf(text, sizeof text, "has %u, op %d, engines %d: ", c->has, c->op, c->engines);
    size_t used = strlen(text);
    iso_select_choice_text(&iso_select_stream, c, choice, text + used, sizeof text - used);
    return text;
}

static bool is_right(const struct select_facts *c, const struct select_choice *choice)
{
    const struct select_algorithm *a = choice->algorithm;
    unsigned most = a->engines ? (unsigned)ISO_ENGINE_STREAMS : c->most_blocks;
    const unsigned pointers = ISOD_NEEDS_DIRECT | ISOD_NEEDS_NODES;
    if ((a->needs & pointers) != 0 && (a->needs & ~c->near & (ISOD_NEEDS_DEST | ISOD_NEEDS_SOURCE)) != 0)
        return false;
    if (a->kind != c->kind || (a->needs & ~c->has) != 0 || (c->engines && !a->engines))
        return false;
    if (a->sums != NULL && a->any == NULL &&
        ((c->op != SHMEMX_SUM && !(c->scaled && a->scales) && !(c->op == SHMEMX_AVG && a->averages)) ||
         a->sums[c->type] == NULL))
        return false;
    /* Elements of two words do not fit lines of 15, but as sums of words. */
    if (c->type == SHMEMX_COMPLEXD && c->op != SHMEMX_SUM && (a->needs & ISOD_NEEDS_WHOLE_LINES) != 0 && a->sums != NULL)
        return false;
    if (choice->shape.grid < 1 || choice->shape.grid > most || choice->shape.threads < 1 ||
        choice->shape.threads > c->most_threads)
        return false;
    return a->fits == NULL || a->fits(c, choice->shape.grid);
}

static void check_call(const struct select_table *table, const struct select_facts *c)
{
    const unsigned engines_need = ISOD_NEEDS_DIRECT | ISOD_NEEDS_DEST | ISOD_NEEDS_STREAMS;
    bool possible =
        !c->engines || ((c->has & engines_need) == engines_need && (c->near & ISOD_NEEDS_DEST) != 0);
    if (c->kind == SHMEMX_ALLTOALLV && (c->has & ISOD_NEEDS_DEST) == 0)
        possible = false;
    struct select_choice choice = iso_stream_choose(table, c);
    bool right = choice.algorithm != NULL ? possible && is_right(c, &choice) : !possible;
    CHECK_NAMED(right, right ? "" : name_of(c, &choice)); /* millions of them: names take longer than choices */
}

static void check_size(const struct select_table *table, int kind, size_t one, int pes)
{
    static const unsigned blocks[] = {1, 3, 64}, threads[] = {32, 512};
    static const unsigned near[] = {ISOD_NEEDS_DEST, ISOD_NEEDS_SOURCE, ISOD_NEEDS_DEST | ISOD_NEEDS_SOURCE};
    bool reduces = kind == SHMEMX_ALLREDUCE || kind == SHMEMX_REDUCESCATTER;
    bool engines = kind >= SHMEMX_FCOLLECT && kind <= SHMEMX_PERMUTE && kind != SHMEMX_ALLTOALLV;
    struct select_facts f;
    for (unsigned has = 0; has <= (EVERYTHING | ISOD_NEEDS_NODES); has++)
        for (unsigned i = 0; i < 6; i++) {
            (void)fake(&f, kind, one, pes, has);
            f.most_blocks = blocks[i % 3];
            f.most_threads = threads[i % 2];
            f.near = i < 3 ? has : has & ~near[i % 3];
            f.has |= i % 2 != 0 ? (unsigned)ISOD_NEEDS_BACKGROUND : 0;
            check_call(table, &f);
            f.op = reduces && i % 2 == 0 ? SHMEMX_PROD : SHMEMX_SUM;
            f.scaled = reduces && i % 4 == 0;
            f.op = f.scaled ? SHMEMX_AVG : f.op;
            f.type = i == 2 ? SHMEMX_COMPLEXD : i % 2 == 0 ? SHMEMX_DOUBLE : SHMEMX_INT16; /* has no kernels for sums */
            f.engines = engines;
            check_call(table, &f);
        }
}

static void check_table(const struct select_table *table)
{
    static const int pes[] = {1, 2, 4, 5, 8, 9, 33, 128};
    for (int kind = 0; kind < CALL_TABLE_KINDS; kind++)
        for (unsigned p = 0; p < sizeof pes / sizeof pes[0]; p++)
            for (int bit = 0; bit <= 36; bit += 4) {
                check_size(table, kind, ((size_t)1 << bit) - 1, pes[p]);
                check_size(table, kind, (size_t)1 << bit, pes[p]);
                check_size(table, kind, ((size_t)1 << bit) + 1, pes[p]);
            }
}

static void test_built_in(void)
{
    for (int i = 0; i < MACHINES; i++) {
        struct select_table *table = open_table(machines[i], "", "");
        CHECK(table != NULL);
        check_table(table);
        iso_select_close(table);
    }
}

/* Whatever is forced, what it cannot do is done otherwise. */
static void test_every_algorithm_forced(void)
{
    char forced[128];
    for (int i = 0; i < iso_select_stream.n_algorithms; i++) {
        const struct select_algorithm *a = &iso_select_stream.algorithms[i];
        snprintf(forced, sizeof forced, "stream.%s=%s%s", iso_select_stream.kinds[a->kind], a->name,
                 i % 2 ? ":1024x512" : "");
        struct select_table *table = open_table("cpu", forced, "");
        struct select_facts f;
        CHECK_NAMED(table != NULL, forced);
        unsigned has =
            EVERYTHING | (a->needs & (ISOD_NEEDS_NODES | ISOD_NEEDS_FAR | ISOD_NEEDS_STAGE)); /* not everybody's */
        struct select_choice choice = iso_stream_choose(table, fake(&f, a->kind, 64, 4, has));
        CHECK_NAMED(choice.algorithm == a && !choice.not_forced && strstr(choice.from, "SHMEM_COLL"), forced);
        for (int bit = 4; bit < 32; bit += 7)
            check_size(table, a->kind, (size_t)1 << bit, 4);
        iso_select_close(table);
    }
}

/* ---- what is forced ---- */

static struct select_choice choice_of(const char *forced, const struct select_facts *c)
{
    struct select_table *table = open_table("cpu", forced, "");
    CHECK_NAMED(table != NULL, forced);
    struct select_choice choice = iso_stream_choose(table, c);
    choice.from = choice.why = ""; /* gone with the table */
    iso_select_close(table);
    return choice;
}

static void check_forced(const char *forced, const struct select_facts *c, const char *name, unsigned grid,
                         unsigned threads)
{
    struct select_choice choice = choice_of(forced, c);
    CHECK_NAMED(choice.algorithm != NULL && strcmp(choice.algorithm->name, name) == 0, forced);
    CHECK_NAMED(choice.shape.grid == grid && choice.shape.threads == threads, forced);
}

static void test_forced(void)
{
    struct select_facts f;
    const struct select_facts *c = fake(&f, SHMEMX_ALLREDUCE, 4096, 4, EVERYTHING);
    check_forced("stream.allreduce=pipelined:3x96", c, "pipelined", 3, 96);
    check_forced("stream.allreduce=pipelined:3", c, "pipelined", 3, 256);
    check_forced(",,stream.allreduce=twoshot_read:64x512,", c, "twoshot_read", 64, 512);
    check_forced("stream.allreduce=twoshot_copy:1000x512", c, "twoshot_copy", 64, 512); /* as many as may wait */
    check_forced("stream.allreduce=ll", c, "ll", 1, 256);           /* as many as are worth it */
    check_forced("stream.fcollect=push:7x7,stream.allreduce=ll:2x8", c, "ll", 2, 8);
    f.most_threads = 64;
    check_forced("stream.allreduce=pipelined:3x96", c, "pipelined", 3, 64);
    check_forced("stream.barrier=flags:9x32", fake(&f, SHMEMX_BARRIER, 0, 4, 0), "flags", 1, 32);
    check_forced("stream.permute=engines:5", fake(&f, SHMEMX_PERMUTE, 1, 4, EVERYTHING), "engines", 5, 256);
    check_forced("stream.permute=engines:50", fake(&f, SHMEMX_PERMUTE, 1, 4, EVERYTHING), "engines", ISO_ENGINE_STREAMS,
                 256);
}

static void test_forced_in_order_and_impossible(void)
{
    struct select_facts f;
    struct select_choice choice = choice_of("stream.allreduce=twoshot_read,stream.allreduce=pipelined:2x64",
                                            fake(&f, SHMEMX_ALLREDUCE, 64, 4, ISOD_NEEDS_DIRECT | ISOD_NEEDS_APART));
    CHECK(strcmp(choice.algorithm->name, "pipelined") == 0 && choice.shape.grid == 2 && !choice.not_forced);
    choice = choice_of("stream.allreduce=twoshot_read", fake(&f, SHMEMX_ALLREDUCE, 64, 4, 0));
    CHECK(strcmp(choice.algorithm->name, "pipelined") == 0 && choice.not_forced);
    (void)fake(&f, SHMEMX_ALLREDUCE, 64, 4, EVERYTHING);
    f.op = SHMEMX_MAX;
    choice = choice_of("stream.allreduce=twoshot_copy", &f);
    CHECK(strcmp(choice.algorithm->name, "ll") == 0 && choice.not_forced);
    choice = choice_of("stream.allreduce=ll128", &f);
    CHECK(strcmp(choice.algorithm->name, "ll128") == 0 && !choice.not_forced);
    f.op = SHMEMX_AVG; /* of three members */
    f.type = SHMEMX_FLOAT;
    choice = choice_of("stream.allreduce=twoshot_copy", &f);
    CHECK(strcmp(choice.algorithm->name, "ll") == 0 && choice.not_forced);
    f.scaled = true; /* of four */
    choice = choice_of("stream.allreduce=twoshot_copy", &f);
    CHECK(strcmp(choice.algorithm->name, "twoshot_copy") == 0 && !choice.not_forced);
    f.scaled = false;
    f.op = SHMEMX_PROD;
    f.type = SHMEMX_COMPLEXD; /* which does not fit lines */
    choice = choice_of("stream.allreduce=ll128", &f);
    CHECK(strcmp(choice.algorithm->name, "ll") == 0 && choice.not_forced);
    f.op = SHMEMX_SUM; /* of doubles */
    choice = choice_of("stream.allreduce=ll128", &f);
    CHECK(strcmp(choice.algorithm->name, "ll128") == 0 && !choice.not_forced);
    f.type = SHMEMX_UINT8;
    choice = choice_of("stream.allreduce=twoshot_copy", &f);
    CHECK(strcmp(choice.algorithm->name, "ll") == 0 && choice.not_forced);
    choice =
        choice_of("stream.allreduce=read", fake(&f, SHMEMX_ALLREDUCE, 64, 4, EVERYTHING & ~(unsigned)ISOD_NEEDS_APART));
    CHECK(strcmp(choice.algorithm->name, "ll") == 0 && choice.not_forced); /* in place */
    choice = choice_of("stream.allreduce=ll:1x32", fake(&f, SHMEMX_ALLREDUCE, 64 * 1024, 4, EVERYTHING));
    CHECK(strcmp(choice.algorithm->name, "ll") == 0 && !choice.not_forced); /* all that 8 rounds of 8 KiB carry */
    choice = choice_of("stream.allreduce=ll:1x32", fake(&f, SHMEMX_ALLREDUCE, 64 * 1024 + 1, 4, EVERYTHING));
    CHECK(strcmp(choice.algorithm->name, "ll") != 0 && choice.not_forced);
    choice = choice_of("stream.fcollect=ll:1x32", fake(&f, SHMEMX_FCOLLECT, 64 * 1024, 4, EVERYTHING));
    CHECK(strcmp(choice.algorithm->name, "ll") == 0);
    choice = choice_of("stream.allreduce=twoshot_copy", fake(&f, SHMEMX_REDUCESCATTER, 64, 4, EVERYTHING));
    CHECK(!choice.not_forced); /* of another kind */
}

static void test_wrong_variables(void)
{
    static const struct {
        const char *value, *one, *two;
    } cases[] = {
        {"stream.allgather=push", "\"allgather\"", "allreduce, reducescatter, fcollect"},
        {"stream.=push", "\"\" is not a collective", "sync"},
        {"stream.allreduce", "\"\" is not an algorithm of allreduce", "twoshot_ll, ll128, twoshot_ll128, read"},
        {"stream.allreduce=ring", "\"ring\"", "twoshot_copy, twoshot_dest, hier, hier_staged, engines, pipelined"},
        {"stream.allreduce=ll,stream.barrier=x", "\"stream.barrier=x\"", "there are flags"},
        {"stream.allreduce=ll:", "\"\" is not a number of blocks", "1..1024"},
        {"stream.allreduce=ll:0", "\"0\" is not a number of blocks", "1..1024"},
        {"stream.allreduce=ll:1025", "\"1025\"", "1..1024"},
        {"stream.allreduce=ll:99999999999999999999", "not a number of blocks", NULL},
        {"stream.allreduce=ll:-1", "\"-1\"", NULL},
        {"stream.allreduce=ll:4x", "\"\" is not a number of threads", "1..512"},
        {"stream.allreduce=ll:4x513", "\"513\"", "1..512"},
        {"stream.allreduce=ll:4x32x1", "\"32x1\"", NULL},
        {"stream.allreduce=ll: 4", "\" 4\"", NULL},
        {"stream.allreduce:4=ll", "SHMEM_COLL", NULL},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct said said;
        listen(&said);
        struct select_table *table = open_table("cpu", cases[i].value, "");
        const char *text = heard(&said);
        CHECK_NAMED(table == NULL && strstr(text, "SHMEM_COLL") != NULL, cases[i].value);
        check_sentence(text, cases[i].one, cases[i].two);
        iso_select_close(table);
    }
    char many[SELECT_MOST_ROWS * 25 + 25] = "";
    for (int i = 0; i <= SELECT_MOST_ROWS; i++)
        strcat(many, "stream.sync=flags:1x32,");
    struct said said;
    listen(&said);
    CHECK(open_table("cpu", many, "") == NULL);
    check_sentence(heard(&said), "allowed: 256", NULL);
}

/* ---- files ---- */

static char folder[] = "/tmp/isomer-table-XXXXXX";

static const char *path_in_folder(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *path, const char *text)
{
    FILE *out = fopen(path, "w");
    CHECK(out != NULL);
    if (out != NULL) {
        CHECK(fputs(text, out) >= 0);
        CHECK_EQ(fclose(out), 0);
    }
}

static const char *algorithm_of(const struct select_table *table, const struct select_facts *c)
{
    return iso_stream_choose(table, c).algorithm->name;
}

static void test_thresholds(void)
{
    struct select_facts f;
    const char *path = path_in_folder("thresholds");
    write_file(path, "# made by hand\n\n  8 x NVIDIA H200   # of that machine\n"
                     "allreduce ll 1000 2 1 32\nallreduce\ttwoshot_read\t 4k  any 5  "
                     "64 \r\nallreduce pipelined any any 1 32");
    struct select_table *table = open_table("NVIDIA H200", "", path);
    CHECK(table != NULL);
    CHECK(strcmp(algorithm_of(table, fake(&f, SHMEMX_ALLREDUCE, 1000, 2, EVERYTHING)), "ll") == 0);
    CHECK(strcmp(algorithm_of(table, fake(&f, SHMEMX_ALLREDUCE, 1001, 2, EVERYTHING)), "twoshot_read") == 0);
    CHECK(strcmp(algorithm_of(table, fake(&f, SHMEMX_ALLREDUCE, 1000, 3, EVERYTHING)), "twoshot_read") == 0);
    CHECK(strcmp(algorithm_of(table, fake(&f, SHMEMX_ALLREDUCE, 4096, 3, EVERYTHING)), "twoshot_read") == 0);
    CHECK(strcmp(algorithm_of(table, fake(&f, SHMEMX_ALLREDUCE, 4097, 3, EVERYTHING)), "pipelined") == 0);
    CHECK(strcmp(algorithm_of(table, fake(&f, SHMEMX_ALLREDUCE, 4096, 3, 0)), "pipelined") == 0);
    CHECK(strcmp(algorithm_of(table, fake(&f, SHMEMX_FCOLLECT, 8, 3, EVERYTHING)), "ll") == 0); /* built in */
    struct select_choice choice = iso_stream_choose(table, fake(&f, SHMEMX_ALLREDUCE, 1000, 2, EVERYTHING));
    CHECK_NAMED(strstr(choice.from, path) != NULL, choice.from);
    iso_select_close(table);
}

static void test_built_in_thresholds(void)
{
    const size_t kib = 1024;
    struct select_facts f;
    struct select_table *table = open_table("NVIDIA H200", "", "");
    const unsigned torn = EVERYTHING & ~(unsigned)ISOD_NEEDS_WHOLE_LINES;
    CHECK(strcmp(algorithm_of(table, fake(&f, SHMEMX_ALLREDUCE, 48 * kib, 4, torn)), "ll") == 0);
    CHECK(strcmp(algorithm_of(table, fake(&f, SHMEMX_ALLREDUCE, 48 * kib + 1, 4, torn)), "twoshot_ll") == 0);
    CHECK(strcmp(algorithm_of(table, fake(&f, SHMEMX_ALLREDUCE, 8 * kib, 2, EVERYTHING)), "ll") == 0);
    CHECK(strcmp(algorithm_of(table, fake(&f, SHMEMX_ALLREDUCE, 128 * kib, 4, EVERYTHING)), "ll128") == 0);
    CHECK(strcmp(algorithm_of(table, fake(&f, SHMEMX_ALLREDUCE, 128 * kib + 1, 4, EVERYTHING)), "twoshot_ll128") == 0);
    iso_select_close(table);
}

/* Other operators go by LL128 as sums do. Above, where peers reach the memory, by reads of any operator. */
static void test_other_operators(void)
{
    const size_t kib = 1024, mib = 1024 * kib;
    const unsigned own = ISOD_NEEDS_DIRECT | ISOD_NEEDS_APART | ISOD_NEEDS_WHOLE_LINES;
    static const int kinds[] = {SHMEMX_ALLREDUCE, SHMEMX_REDUCESCATTER};
    struct select_facts f;
    struct select_table *table = open_table("NVIDIA H200", "", "");
    for (int i = 0; i < 2; i++) {
        (void)fake(&f, kinds[i], 300 * kib, 2, EVERYTHING);
        f.op = SHMEMX_MAX;
        CHECK(strcmp(algorithm_of(table, &f), "ll128") == 0);
        (void)fake(&f, kinds[i], 12 * mib, 2, EVERYTHING);
        CHECK(strcmp(algorithm_of(table, &f), "read") == 0);
        f.op = SHMEMX_MAX;
        CHECK(strcmp(algorithm_of(table, &f), "pipelined") == 0);
        (void)fake(&f, kinds[i], 100 * mib, 2, EVERYTHING);
        f.op = SHMEMX_MAX;
        CHECK(strcmp(algorithm_of(table, &f), "pipelined") == 0);
        (void)fake(&f, kinds[i], 100 * mib, 2, own); /* not reached by peers */
        f.op = SHMEMX_MAX;
        CHECK(strcmp(algorithm_of(table, &f), "ll128") == 0);
    }
    iso_select_close(table);
}

static void check_beside(const struct select_table *t, struct select_facts *f, const char *name, unsigned grid)
{
    f->has |= ISOD_NEEDS_BACKGROUND;
    f->most_blocks = 128;
    struct select_choice choice = iso_stream_choose(t, f);
    char text[512];
    iso_select_choice_text(&iso_select_stream, f, &choice, text, sizeof text);
    CHECK_NAMED(strcmp(choice.algorithm->name, name) == 0 && choice.shape.grid == grid, text);
    CHECK_NAMED(strstr(text, " PEs, on a stream, beside a computation: ") != NULL, text);
}

/* Beside a computation: engines or few blocks, where a row says so. */
static void test_background(void)
{
    const size_t mib = 1024 * 1024;
    struct select_facts f;
    struct select_table *t = open_table("NVIDIA H100 80GB HBM3", "", "");
    const struct select_facts *alone = fake(&f, SHMEMX_FCOLLECT, 8 * mib, 2, EVERYTHING);
    CHECK(strcmp(algorithm_of(t, alone), "push") == 0);
    check_beside(t, &f, "engines", 1);
    (void)fake(&f, SHMEMX_FCOLLECT, 8 * mib, 2, EVERYTHING);
    f.known = false;
    check_beside(t, &f, "push", 16);
    (void)fake(&f, SHMEMX_FCOLLECT, 4 * mib, 2, EVERYTHING);
    check_beside(t, &f, "push", 64);
    (void)fake(&f, SHMEMX_REDUCESCATTER, 8 * mib, 2, EVERYTHING);
    check_beside(t, &f, "read", 32);
    (void)fake(&f, SHMEMX_REDUCESCATTER, 8 * mib, 4, EVERYTHING); /* measured with 2 PEs */
    check_beside(t, &f, "read", 64);
    (void)fake(&f, SHMEMX_PERMUTE, 8 * mib, 2, EVERYTHING); /* no row is for it */
    check_beside(t, &f, "push", 64);
    iso_select_close(t);
    t = open_table("NVIDIA H100 80GB HBM3", "stream.fcollect=push:3x64", "");
    (void)fake(&f, SHMEMX_FCOLLECT, 8 * mib, 2, EVERYTHING);
    check_beside(t, &f, "push", 3);
    iso_select_close(t);
}

/* With a stage, engines carry large calls from and to memory that peers do not reach. */
static void check_staged(const struct select_table *t, struct select_facts *f, unsigned has, const char *name)
{
    f->has = f->near = has;
    CHECK_NAMED(strcmp(algorithm_of(t, f), name) == 0, algorithm_of(t, f));
}
static void test_staged(void)
{
    const size_t mib = 1024 * 1024;
    const unsigned own = ISOD_NEEDS_DIRECT | ISOD_NEEDS_APART | ISOD_NEEDS_WHOLE_LINES, stage = own | ISOD_NEEDS_STAGE;
    struct select_facts f;
    struct select_table *t = open_table("NVIDIA H100 80GB HBM3", "", "");
    (void)fake(&f, SHMEMX_FCOLLECT, 16 * mib + 1, 2, 0);
    check_staged(t, &f, own, "ll128");
    check_staged(t, &f, stage, "engines_staged");
    check_staged(t, &f, stage | ISOD_NEEDS_DEST, "push");
    (void)fake(&f, SHMEMX_FCOLLECT, 16 * mib, 2, 0);
    check_staged(t, &f, stage, "ll128");
    (void)fake(&f, SHMEMX_REDUCESCATTER, 16 * mib + 4, 2, 0);
    check_staged(t, &f, own, "ll128");
    check_staged(t, &f, stage, "engines");
    check_staged(t, &f, stage | ISOD_NEEDS_SOURCE, "read");
    f.op = SHMEMX_MAX; /* which the pass over what engines have brought does not do */
    check_staged(t, &f, stage, "ll128");
    (void)fake(&f, SHMEMX_ALLREDUCE, 64 * mib + 4, 3, 0);
    check_staged(t, &f, stage, "engines");
    f.op = SHMEMX_AVG; /* of 3 members */
    check_staged(t, &f, stage, "engines");
    check_staged(t, &f, own, "twoshot_ll128");
    for (int apart = 0; apart < 2; apart++) { /* splits that lie apart are for engines alone */
        (void)fake(&f, CALL_FCOLLECT_SPLITS, 64 * mib, 2, 0);
        f.apart = apart != 0;
        check_staged(t, &f, stage, apart ? "engines_staged" : "staged");
        (void)fake(&f, CALL_REDUCESCATTER_SPLITS, 64 * mib, 2, 0);
        f.apart = apart != 0;
        f.type = SHMEMX_BFLOAT16;
        check_staged(t, &f, stage, apart ? "engines" : "staged");
    }
    f.has = own;
    CHECK(iso_stream_choose(t, &f).algorithm == NULL);
    iso_select_close(t);
}

/* Between nodes, large calls from and to memory that peers do not reach go by a stage where there may be one. */
static void test_staged_between_nodes(void)
{
    const size_t most = 2 * 1024 * 1024;
    const unsigned alone = ISOD_NEEDS_FAR | ISOD_NEEDS_APART, shared = alone | ISOD_NEEDS_NODES,
                   stage = ISOD_NEEDS_STAGE;
    struct select_facts f;
    for (int i = 0; i < MACHINES; i++) {
        struct select_table *t = open_table(machines[i], "", "");
        for (int more = 0; more < 2; more++) {
            (void)fake(&f, SHMEMX_ALLREDUCE, most + (size_t)more, 4, 0);
            check_staged(t, &f, shared | stage, more ? "hier_staged" : "pipelined");
            check_staged(t, &f, shared, "pipelined");
            check_staged(t, &f, alone | stage, "pipelined");
            (void)fake(&f, SHMEMX_REDUCESCATTER, most / 4 + (size_t)more, 4, 0);
            check_staged(t, &f, shared | stage, more ? "hier_staged" : "pipelined");
            (void)fake(&f, SHMEMX_FCOLLECT, most / 4 + (size_t)more, 4, 0);
            check_staged(t, &f, shared | stage, more ? "hier_staged" : "staged");
            check_staged(t, &f, alone | stage, more ? "push_staged" : "staged");
            (void)fake(&f, SHMEMX_BROADCAST, most + (size_t)more, 4, 0);
            check_staged(t, &f, alone | stage, more ? "read_staged" : "staged");
            check_staged(t, &f, alone | stage | ISOD_NEEDS_SOURCE, "read");
        }
        iso_select_close(t);
    }
}

/* Tuned rows are of calls alone. */
static void test_background_and_tuned(void)
{
    const size_t mib = 1024 * 1024;
    struct select_facts f;
    const char *path = path_in_folder("beside");
    write_file(path, "2 x NVIDIA H100 80GB HBM3\nfcollect push any any 99 64\npermute push any any 98 64\n"
                     "reducescatter read any any 97 64 background\nreducescatter read any any 96 64\n");
    struct select_table *t = open_table("NVIDIA H100 80GB HBM3", "", path);
    (void)fake(&f, SHMEMX_FCOLLECT, 8 * mib, 2, EVERYTHING);
    f.most_blocks = 128;
    CHECK_EQ(iso_stream_choose(t, &f).shape.grid, 99);
    check_beside(t, &f, "engines", 1);
    (void)fake(&f, SHMEMX_PERMUTE, 8 * mib, 2, EVERYTHING);
    check_beside(t, &f, "push", 98);
    (void)fake(&f, SHMEMX_REDUCESCATTER, 8 * mib, 2, EVERYTHING);
    f.most_blocks = 128;
    CHECK_EQ(iso_stream_choose(t, &f).shape.grid, 96);
    check_beside(t, &f, "read", 97);
    iso_select_close(t);
}

static void test_wrong_files(void)
{
    static const struct {
        const char *text, *where, *word;
    } cases[] = {
        {"", ":0: ", "says nothing"},
        {"# only\n\n", ":2: ", "says nothing"},
        {"allreduce ll 1 1 1 1\n", ":1: ", "\"8 x NVIDIA H200\""},
        {"x x cpu\n", ":1: ", "not a header"},
        {"0 x cpu\n", ":1: ", "not a header"},
        {"99999999999999999999 x cpu\n", ":1: ", "not a header"},
        {"8 x NVIDIA H200\n", ":1: ", "this device is \"cpu\""},
        {"8 x cpu\nallreduce\n", ":2: ", "1 fields; a row has 6"},
        {"8 x cpu\n\nallreduce ll 1 1 1 1 1\n", ":3: ", "\"1\" is not a need"},
        {"8 x cpu\nallreduce ring 1 1 1 1\n", ":2: ", "\"ring\""},
        {"8 x cpu\nbcast ll 1 1 1 1\n", ":2: ", "\"bcast\""},
        {"8 x cpu\nallreduce ll -1 1 1 1\n", ":2: ", "\"-1\" is not a size"},
        {"8 x cpu\nallreduce ll 1 0 1 1\n", ":2: ", "not a number of PEs"},
        {"8 x cpu\nallreduce ll 1 1 1 1\nallreduce ll 1 1 0 1\n", ":3: ", "not a number of blocks"},
        {"8 x cpu\nallreduce ll 1 1 1 1000\n", ":2: ", "not a number of threads"},
    };
    const char *path = path_in_folder("wrong");
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct said said;
        write_file(path, cases[i].text);
        listen(&said);
        CHECK_NAMED(open_table("cpu", "", path) == NULL, cases[i].text);
        const char *text = heard(&said);
        check_sentence(text, cases[i].where, cases[i].word);
        check_sentence(text, "SHMEM_COLL_TABLE", path);
    }
}

static void test_files_too_large_or_missing(void)
{
    const char *path = path_in_folder("large");
    struct said said;
    FILE *out = fopen(path, "w");
    CHECK(out != NULL);
    fprintf(out, "8 x cpu\n%70000d\n", 1);
    fclose(out);
    listen(&said);
    CHECK(open_table("cpu", "", path) == NULL);
    check_sentence(heard(&said), path, "File too large");
    out = fopen(path, "w");
    fprintf(out, "8 x cpu\n");
    for (int i = 0; i <= SELECT_MOST_ROWS; i++)
        fprintf(out, "sync flags any any 1 32\n");
    fclose(out);
    listen(&said);
    CHECK(open_table("cpu", "", path) == NULL);
    check_sentence(heard(&said), ":258: ", "more than 256 rows");
    listen(&said);
    CHECK(open_table("cpu", "", path_in_folder("none")) == NULL);
    check_sentence(heard(&said), "SHMEM_COLL_TABLE", "No such file");
}

/* ---- the user's cache, and the writer ---- */

static void test_path(void)
{
    char path[256];
    struct gpu_info info = device_named("AMD Instinct MI300X / x");
    setenv("XDG_CACHE_HOME", "/c", 1);
    iso_select_path(ISO->env->coll_table, &info, path, sizeof path);
    CHECK_NAMED(strcmp(path, "/c/isomer/AMD-Instinct-MI300X---x.table") == 0, path);
    setenv("XDG_CACHE_HOME", "relative", 1);
    setenv("HOME", "/h", 1);
    iso_select_path(ISO->env->coll_table, &info, path, sizeof path);
    CHECK_NAMED(strcmp(path, "/h/.cache/isomer/AMD-Instinct-MI300X---x.table") == 0, path);
    unsetenv("HOME");
    iso_select_path(ISO->env->coll_table, &info, path, sizeof path);
    CHECK_NAMED(strcmp(path, "") == 0, path);
    ISO->env->coll_table = "mine";
    iso_select_path(ISO->env->coll_table, &info, path, sizeof path);
    CHECK_NAMED(strcmp(path, "mine") == 0, path);
    ISO->env->coll_table = "";
}

static void fill_rows(struct select_rows *rows)
{
    rows->n = 0;
    for (int i = 0; i < iso_select_stream.n_algorithms; i++) {
        struct select_row *row = &rows->row[rows->n++];
        row->algorithm = &iso_select_stream.algorithms[i];
        row->needs = row->algorithm->needs | (i % 4 == 0 ? ISOD_NEEDS_APART : 0);
        row->why = NULL;
        row->max_bytes = i % 3 == 0 ? SIZE_MAX : (size_t)1 << i;
        row->max_pes = i % 2 == 0 ? INT_MAX : i;
        row->shape.grid = (unsigned)(i * 17 + 1);
        row->shape.threads = (unsigned)(32 + i);
    }
}

static void test_written_file_reads_back(void)
{
    static struct select_rows rows, back;
    struct gpu_info info = device_named("NVIDIA H200");
    char sentence[512] = "";
    const char *path = path_in_folder("a/b/c/H200.table");
    fill_rows(&rows);
    for (int twice = 0; twice < 2; twice++) {
        CHECK_EQ(iso_select_write(path, &info, &rows), 0);
        free(back.text);
        CHECK_EQ_NAMED(iso_select_read(path, &info, &back, sentence), 0, sentence);
    }
    free(back.text);
    CHECK_EQ(back.n, rows.n);
    for (int i = 0; i < rows.n; i++) {
        const struct select_row *a = &rows.row[i], *b = &back.row[i];
        CHECK(a->algorithm == b->algorithm && a->needs == b->needs && a->max_bytes == b->max_bytes);
        CHECK(a->max_pes == b->max_pes && a->shape.grid == b->shape.grid && a->shape.threads == b->shape.threads);
    }
    struct said said;
    listen(&said);
    CHECK(iso_select_write("/dev/null/x", &info, &rows) != 0);
    check_sentence(heard(&said), "/dev/null/x", "Not a directory");
}

/* A wrong file of the user's own is an error; one in the cache is left out,
 * with a warning when it is there. */
static void test_cache(void)
{
    struct select_facts f;
    struct said said;
    struct gpu_info info = device_named("NVIDIA H200");
    char path[256];
    setenv("XDG_CACHE_HOME", folder, 1);
    iso_select_path(ISO->env->coll_table, &info, path, sizeof path);
    listen(&said);
    struct select_table *table = open_table("NVIDIA H200", "", "");
    CHECK_NAMED(heard(&said)[0] == '\0', said.text);
    CHECK(table != NULL);
    uint64_t without = iso_select_sum(table);
    iso_select_close(table);

    const struct select_algorithm *push = iso_select_find(&iso_select_stream, SHMEMX_ALLREDUCE, "twoshot_copy");
    struct select_rows rows = {1, {{push, push->needs, 4, 64, {2, 32}, NULL}}, NULL, NULL, 0};
    CHECK_EQ(iso_select_write(path, &info, &rows), 0);
    table = open_table("NVIDIA H200", "", "");
    CHECK(table != NULL && iso_select_sum(table) != without);
    CHECK(strcmp(algorithm_of(table, fake(&f, SHMEMX_ALLREDUCE, 64, 4, EVERYTHING)), "twoshot_copy") == 0);
    CHECK(strcmp(algorithm_of(table, fake(&f, SHMEMX_ALLREDUCE, 65, 4, EVERYTHING)), "ll") == 0);
    iso_select_close(table);

    write_file(path, "8 x NVIDIA H200\nallreduce twoshot_copy 64 4 2 32\nnonsense\n");
    listen(&said);
    table = open_table("NVIDIA H200", "", "");
    check_sentence(heard(&said), ":3: ", "not used");
    CHECK(table != NULL && iso_select_sum(table) == without);
    iso_select_close(table);
    CHECK_EQ(unlink(path), 0);
}

/* ---- sums and texts ---- */

static uint64_t sum_of(const char *name, const char *forced)
{
    struct select_table *table = open_table(name, forced, "");
    uint64_t sum = iso_select_sum(table);
    iso_select_close(table);
    return sum;
}

static void test_sums(void)
{
    static const char *const forced[] = {"",
                                         "stream.allreduce=ll",
                                         "stream.allreduce=twoshot_ll",
                                         "stream.allreduce=ll:1024x256",
                                         "stream.allreduce=ll:1023x256",
                                         "stream.allreduce=ll:1024x255",
                                         "stream.reducescatter=ll",
                                         "stream.allreduce=ll,stream.allreduce=read",
                                         "stream.allreduce=read,stream.allreduce=ll"};
    enum { SUMS = sizeof forced / sizeof forced[0] };
    for (int i = 0; i < SUMS; i++)
        for (int k = 0; k < SUMS; k++)
            CHECK_NAMED((sum_of("cpu", forced[i]) == sum_of("cpu", forced[k])) == (i == k), forced[i]);
    CHECK(sum_of("cpu", "") != sum_of("NVIDIA H200", "") && sum_of("other", "") != sum_of("cpu", ""));
    CHECK(sum_of("NVIDIA H200", "") == sum_of("NVIDIA H200 NVL", ""));
    CHECK(sum_of("NVIDIA H200", "") == sum_of("NVIDIA H100 80GB HBM3", "")); /* measured on both */
    CHECK(sum_of("NVIDIA H100 PCIe", "") == sum_of(NULL, "") && sum_of("other", "") == sum_of(NULL, ""));
}

static void test_text(void)
{
    struct select_table *table = open_table("NVIDIA H200", "stream.fcollect=staged:3x33", "");
    size_t len = iso_select_table_text(table, NULL, 0);
    char *text = (char *)malloc(len + 2);
    memset(text, 'x', len + 2);
    CHECK_EQ(iso_select_table_text(table, text, len + 1), len);
    CHECK(strlen(text) == len && text[len + 1] == 'x');
    CHECK(strstr(text, "for NVIDIA H200") != NULL && strstr(text, "forced") != NULL);
    CHECK_EQ(iso_select_table_text(table, text, 10), len);
    CHECK_EQ(strlen(text), 9);
    free(text);
    struct select_facts f;
    char line[512];
    const struct select_facts *c = fake(&f, SHMEMX_FCOLLECT, 100, 3, 0);
    struct select_choice choice = iso_stream_choose(table, c);
    len = iso_select_choice_text(&iso_select_stream, c, &choice, line, sizeof line);
    CHECK_EQ(len, strlen(line));
    CHECK_NAMED(strstr(line, "fcollect of 300 bytes on 3 PEs, on a stream: "
                             "staged, 3 blocks of 33 threads") == line,
                line);
    iso_select_close(table);
}

/* Once a row. */
static void test_explanations(void)
{
    struct stream_call call;
    struct said said;
    struct select_table *table = open_table("cpu", "stream.allreduce=twoshot_read", "");
    memset(&call, 0, sizeof call);
    struct select_choice choice =
        iso_stream_choose(table, fake(&call.facts, SHMEMX_ALLREDUCE, 64, 4, ISOD_NEEDS_DIRECT));
    listen(&said);
    iso_select_explain(table, &call.facts, &choice);
    iso_select_explain(table, &call.facts, &choice);
    check_sentence(heard(&said), "ll, 1 block of 32 threads", "because the forced one cannot do this");
    iso_select_close(table);
}

int main(void)
{
    check_self.seed = 1;
    ISO->env->coll = ISO->env->coll_table = "";
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    CHECK(mkdtemp(folder) != NULL);
    test_built_in();
    test_every_algorithm_forced();
    test_forced();
    test_forced_in_order_and_impossible();
    test_wrong_variables();
    test_thresholds();
    test_built_in_thresholds();
    test_other_operators();
    test_background();
    test_background_and_tuned();
    test_staged();
    test_staged_between_nodes();
    test_wrong_files();
    test_files_too_large_or_missing();
    test_path();
    test_written_file_reads_back();
    test_cache();
    test_sums();
    test_text();
    test_explanations();
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CHECK_EQ(system(command), 0);
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
