/* SPDX-License-Identifier: MIT */
/* The rows that are compiled in, and SHMEM_COLL. Every file of coll/select/tables reads without an error, names each
 * algorithm right, and is found by its machine; every algorithm of the host has a row; every call of the host gets an
 * algorithm that can do it; what is wrong in SHMEM_COLL is said in a sentence with the spellings that are possible. */
#include "../check.h"

#include "../../coll/call/kinds.h"
#include "../../coll/host/coll.h"
#include "../../coll/select/select.h"
#include "said.h"

/* ---- the files ---- */

static const struct select_plane *plane_of(const char *name)
{
    return strcmp(name, "host") == 0 ? &iso_select_host : &iso_select_stream;
}

static void read_text(const struct select_text *text, struct select_rows *rows)
{
    char sentence[512] = "";
    *rows = (struct select_rows){.n = 0, .text = (char *)malloc(text->bytes)};
    memcpy(rows->text, text->text, text->bytes);
    bool right = iso_select_parse(plane_of(text->name), NULL, rows, sentence);
    CHECK_NAMED(right, sentence);
}

static void test_files(void)
{
    struct select_rows rows;
    CHECK(iso_select_n_texts >= 5);
    for (int i = 0; i < iso_select_n_texts; i++) {
        const struct select_text *text = &iso_select_texts[i];
        read_text(text, &rows);
        CHECK_NAMED(rows.n > 20, text->name);
        for (int r = 1; r < rows.n; r++) /* rows of a kind stand together */
            CHECK_NAMED(rows.row[r - 1].algorithm->kind <= rows.row[r].algorithm->kind, text->name);
        free(rows.text);
    }
}

static bool names(const struct select_table *t, const struct select_algorithm *a)
{
    for (int i = 0; i < t->n; i++)
        if (t->entries[i].row.algorithm == a)
            return true;
    return false;
}

static struct select_table *table_of(const struct select_plane *plane, const char *machine)
{
    struct select_table *t = iso_select_create(plane, machine);
    CHECK(t != NULL && iso_select_add_built_in(t));
    iso_select_finish(t);
    return t;
}

/* An algorithm of streams may be for one device only. */
static void test_every_algorithm_has_a_row(void)
{
    static const char *const machines[] = {"cpu", "NVIDIA H200", "AMD Instinct MI300X"};
    struct select_table *host = table_of(&iso_select_host, "");
    for (int i = 0; i < iso_select_host.n_algorithms; i++)
        CHECK_NAMED(names(host, &iso_select_host.algorithms[i]), iso_select_host.algorithms[i].name);
    iso_select_close(host);
    for (int i = 0; i < iso_select_stream.n_algorithms; i++) {
        bool found = false;
        for (int m = 0; m < 3; m++) {
            struct select_table *t = table_of(&iso_select_stream, machines[m]);
            CHECK_NAMED(strstr(t->from[SELECT_FOR_DEVICE], machines[m]) != NULL, machines[m]);
            CHECK(strstr(t->from[SELECT_FOR_ANY], "any device") != NULL);
            found |= names(t, &iso_select_stream.algorithms[i]);
            iso_select_close(t);
        }
        CHECK_NAMED(found, iso_select_stream.algorithms[i].name);
    }
}

/* Whether every call that row `b` could do is done by row `a`, if that comes before it. */
static bool hides(const struct select_row *a, const struct select_row *b)
{
    const struct select_algorithm *first = a->algorithm, *second = b->algorithm;
    bool types = first->sums == NULL || first->any != NULL || (second->any == NULL && first->scales >= second->scales);
    bool splits = first->kind == CALL_FCOLLECT_SPLITS || first->kind == CALL_REDUCESCATTER_SPLITS;
    if (splits && second->stages && !first->stages) /* which alone does those that lie apart */
        return false;
    return (a->needs & ~b->needs) == 0 && a->max_bytes >= b->max_bytes && a->max_pes >= b->max_pes && types &&
           (first->fits == NULL || first->fits == second->fits) && first->kind == second->kind &&
           first->engines == second->engines; /* engines are for calls that ask for them */
}

static void test_every_row_can_be_chosen(void)
{
    struct select_rows rows;
    for (int i = 0; i < iso_select_n_texts; i++) {
        const struct select_text *text = &iso_select_texts[i];
        read_text(text, &rows);
        for (int b = 0; b < rows.n; b++)
            for (int a = 0; a < b; a++) {
                char name[160];
                snprintf(name, sizeof name,
                         "%s.table: row %d (%s) comes behind row %d (%s), which does all of its calls", text->name,
                         b + 1, rows.row[b].algorithm->name, a + 1, rows.row[a].algorithm->name);
                CHECK_NAMED(!hides(&rows.row[a], &rows.row[b]), name);
            }
        free(rows.text);
    }
}

/* ---- calls of the host ---- */

static const struct select_algorithm *first(const struct select_table *t, const struct select_facts *f)
{
    for (const struct select_entry *e = t->kind[f->kind]; e < t->kind[f->kind + 1]; e++)
        if (iso_select_row_fits(&e->row, f, 1))
            return e->row.algorithm;
    return NULL;
}

static void check_choice(const struct select_table *t, int kind, size_t bytes, int pes, unsigned has, const char *name)
{
    struct select_facts f = {.kind = kind, .bytes = bytes, .n_pes = pes, .has = has};
    f.most_near = (has & ISOD_NEEDS_NODES) != 0 ? 2 : (has & ISOD_NEEDS_SPAN) != 0 ? 1 : 0;
    const struct select_algorithm *a = first(t, &f);
    CHECK_NAMED(a != NULL && strcmp(a->name, name) == 0, a != NULL ? a->name : name);
}

static void test_host_choices(void)
{
    enum {
        SPARE = ISOD_NEEDS_DIRECT | ISOD_NEEDS_SPARE | ISOD_NEEDS_APART,
        OVER = ISOD_NEEDS_DIRECT | ISOD_NEEDS_OVER | ISOD_NEEDS_APART,
        PAIR = ISOD_NEEDS_FAR | ISOD_NEEDS_SPARE | ISOD_NEEDS_APART | ISOD_NEEDS_SPAN | ISOD_NEEDS_NODE_ORDER |
               ISOD_NEEDS_ORDER,
        NODES = PAIR | ISOD_NEEDS_NODES
    };
    struct select_table *t = iso_host_table_open("");
    CHECK(t != NULL);
    check_choice(t, COLL_BARRIER, 0, 8, SPARE, "flags");
    check_choice(t, COLL_BARRIER, 0, 9, SPARE, "dissemination");
    check_choice(t, COLL_BARRIER, 0, 2, OVER, "central");
    check_choice(t, COLL_BARRIER, 0, 4, NODES, "hier");
    check_choice(t, COLL_BROADCAST, 2048, 16, SPARE, "push");
    check_choice(t, COLL_BROADCAST, 2048, 17, SPARE, "tree");
    check_choice(t, COLL_BROADCAST, 2049, 16, SPARE, "pull");
    check_choice(t, COLL_BROADCAST, 2049, 2, PAIR, "pipe");
    check_choice(t, COLL_BROADCAST, 16384, 4, NODES, "hier");
    check_choice(t, COLL_BROADCAST, 16385, 4, NODES, "pipe");
    check_choice(t, COLL_FCOLLECT, 56, 4, OVER, "node_scratch");
    check_choice(t, COLL_FCOLLECT, 57, 4, OVER, "push");
    check_choice(t, COLL_FCOLLECT, 56, 4, SPARE, "inbox");
    check_choice(t, COLL_FCOLLECT, 1024, 4, SPARE, "push");
    check_choice(t, COLL_FCOLLECT, 1025, 4, SPARE, "pull");
    check_choice(t, COLL_FCOLLECT, 1024, 4, NODES, "rails"); /* five heads of more than 1 KiB are too many */
    check_choice(t, COLL_FCOLLECT, 803, 4, NODES, "hier");
    check_choice(t, COLL_ALLTOALL, 56, 100, OVER, "inbox"); /* no place for 100 rows of 100 blocks */
    check_choice(t, COLL_ALLTOALL, 8, 4, NODES, "hier");
    check_choice(t, COLL_ALLTOALLS, 57, 4, NODES, "staged");
    check_choice(t, COLL_ALLTOALLS, 57, 4, SPARE, "push");
    check_choice(t, COLL_REDUCE, 8, 4, SPARE, "inbox");
    check_choice(t, COLL_REDUCE, 512, 8, OVER, "node_scratch");
    check_choice(t, COLL_REDUCE, 2048, 8, OVER, "staged");
    check_choice(t, COLL_REDUCE, 2049, 8, OVER, "twoshot_central");
    check_choice(t, COLL_REDUCE, 512, 8, SPARE, "staged");
    check_choice(t, COLL_REDUCE, 513, 8, SPARE, "twoshot");
    check_choice(t, COLL_REDUCE, 8192, 2, PAIR, "staged");
    check_choice(t, COLL_REDUCE, 8193, 2, PAIR, "twoshot");
    check_choice(t, COLL_REDUCE, 8193, 3, PAIR, "chain");
    check_choice(t, COLL_REDUCE, 8193, 3, PAIR & ~(unsigned)(ISOD_NEEDS_ORDER | ISOD_NEEDS_NODE_ORDER), "twoshot");
    check_choice(t, COLL_SCAN, 8193, 3, PAIR & ~(unsigned)ISOD_NEEDS_NODE_ORDER, "twoshot"); /* whatever the type */
    check_choice(t, COLL_SCAN, 8193, 3, PAIR & ~(unsigned)ISOD_NEEDS_APART, "twoshot");
    check_choice(t, COLL_SCAN, 8193, 3, PAIR, "chain");
    iso_select_close(t);
}

static void test_every_call_of_the_host_has_a_row(void)
{
    struct select_table *t = iso_host_table_open("host.reduce=inbox,host.fcollect=node_scratch,host.scan=chain");
    CHECK(t != NULL);
    for (int kind = 0; kind < iso_select_host.n_kinds; kind++)
        for (unsigned has = 0; has < 2 * ISOD_NEEDS_OVER; has += 1 + has % 7)
            for (int pes = 1; pes <= 1024; pes = pes * 3 + 1)
                for (size_t bytes = 0; bytes < (size_t)1 << 40; bytes = bytes * 7 + 1) {
                    struct select_facts f = {.kind = kind, .bytes = bytes, .n_pes = pes, .has = has};
                    f.most_near = (has & ISOD_NEEDS_NODES) != 0 ? 2 : 1;
                    const struct select_algorithm *a = first(t, &f);
                    if (!CHECK(a != NULL))
                        continue;
                    CHECK_NAMED((a->needs & ~has) == 0 && (a->fits == NULL || a->fits(&f, 1)), a->name);
                    CHECK_NAMED((kind == COLL_BARRIER) == (a->barrier != NULL) &&
                                    (a->run_host == NULL) != (a->barrier == NULL),
                                a->name);
                }
    iso_select_close(t);
}

/* ---- SHMEM_COLL ---- */

static void test_forced(void)
{
    struct select_table *t = iso_host_table_open("host.barrier=central,stream.barrier=flags:1x32,,host.reduce=twoshot");
    CHECK(t != NULL);
    check_choice(t, COLL_BARRIER, 0, 2, ISOD_NEEDS_DIRECT | ISOD_NEEDS_SPARE, "central");
    check_choice(t, COLL_BARRIER, 0, 2, ISOD_NEEDS_FAR | ISOD_NEEDS_SPARE, "flags"); /* the forced one cannot */
    check_choice(t, COLL_REDUCE, 8, 2, ISOD_NEEDS_DIRECT | ISOD_NEEDS_SPARE, "twoshot");
    check_choice(t, COLL_SCAN, 8, 2, ISOD_NEEDS_DIRECT | ISOD_NEEDS_SPARE, "inbox");
    struct select_facts f = {.kind = COLL_BARRIER, .n_pes = 2, .has = ISOD_NEEDS_FAR | ISOD_NEEDS_SPARE};
    struct select_choice choice = iso_select_choice_of(t, &f, t->kind[COLL_BARRIER] + 3);
    char text[512];
    iso_select_choice_text(&iso_select_host, &f, &choice, text, sizeof text);
    CHECK_NAMED(strcmp(text, "barrier of 0 bytes on 2 PEs, on the host: flags (row of the built-in table for the host, "
                             "because the forced one cannot do this: one hop)") == 0,
                text);
    size_t len = iso_select_table_text(t, NULL, 0);
    CHECK(len > 1000);
    iso_select_close(t);
}

static void test_wrong_variables(void)
{
    static const struct {
        const char *value, *one, *two;
    } cases[] = {
        {"barrier=central", "\"barrier\" does not say where", "write host.barrier or stream.barrier"},
        {"reduce=twoshot", "\"reduce\" does not say where", "write host.reduce or stream.reduce\n"},
        {"collect=inbox", "\"collect\" does not say where", "write host.collect\n"},
        {"allreduce=ll", "\"allreduce\" does not say where", "write stream.allreduce\n"},
        {"allgather=ll", "\"allgather\" is not a collective", "host. or stream."},
        {"gpu.barrier=flags", "\"gpu\" is not a place", "host and stream"},
        {"host.=flags", "\"\" is not a collective on the host", "alltoalls, reduce, scan"},
        {"host.allreduce=ll", "\"allreduce\" is not a collective on the host", "barrier, broadcast"},
        {"stream.scan=ll", "\"scan\" is not a collective on a stream", "allreduce, reducescatter"},
        {"host.barrier=ring", "\"ring\" is not an algorithm of barrier on the host",
         "central, hier, flags, dissemination"},
        {"host.barrier", "\"\" is not an algorithm of barrier on the host", "central"},
        {"host.barrier=central:3", "\":3\" is not possible", "no blocks"},
        {"host.barrier=flags,stream.allreduce=ll:0", "in \"stream.allreduce=ll:0\"", "1..1024"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct said said;
        listen(&said);
        CHECK_NAMED(iso_host_table_open(cases[i].value) == NULL, cases[i].value);
        const char *text = heard(&said);
        CHECK_NAMED(strstr(text, "SHMEM_COLL: in ") != NULL, text);
        CHECK_NAMED(strstr(text, cases[i].one) != NULL && strstr(text, cases[i].two) != NULL, text);
    }
}

int main(void)
{
    check_self.seed = 1;
    test_files();
    test_every_algorithm_has_a_row();
    test_every_row_can_be_chosen();
    test_host_choices();
    test_every_call_of_the_host_has_a_row();
    test_forced();
    test_wrong_variables();
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
