/* SPDX-License-Identifier: MIT */
/* The all-reduce with residual and RMS norm: random numbers of rows, lengths, types and results, in every kind of
 * memory, at once and in graphs, beside a reference that follows shmemx_rms_norm_t element by element, and beside the
 * norm in double. All bits of residual, dest and scales are compared, and all around them is poison. So what equals the
 * reference has the same bits by every algorithm, of every number of rows, and wherever a row stands.
 * Then invariance by itself: sums of 1 byte to 64 MiB, and their parts by calls of their own, have the same bits.
 * SHMEM_TEST_CALLS: how many. */
#include "coll_case.h"

enum { CALLS = 60, MOST_BYTES = 1 << 20, LEAVES = 512, REPLAYS = 3 };

struct norms {
    struct coll_team teams[TEAMS];
    struct buffer dest, source, sums, residual, small; /* small: weight, and behind it scale or scales */
    shmemx_stream_t stream;
    uint64_t random; /* alike on all PEs */
    unsigned round;
};

enum result { AS_TYPE, STATIC_E4M3, TOKEN_E4M3, RESULTS };
static const char *const result_names[RESULTS] = {"as type", "e4m3 by one scale", "e4m3 by scales"};

/* Where the sums go. */
enum sums { SUMS_TO_DEST, SUMS_APART, SUMS_TO_SOURCE };

struct one {
    int type, result, team;
    enum sums sums;
    size_t rows, hidden;
    bool in_place;
    double eps;
    size_t small_at; /* of scale or scales */
};

static uint64_t next(struct norms *s, uint64_t below) { return coll_random(&s->random, below); }

/* ---- the reference ---- */

static void decode(int type, const unsigned char *from, size_t n, float *to)
{
    for (size_t i = 0; i < n; i += VALUES_CHUNK) {
        union values_chunk c;
        size_t some = n - i < VALUES_CHUNK ? n - i : VALUES_CHUNK;
        values_decode(&values_types[type], from + i * values_types[type].bytes, some, &c);
        memcpy(to + i, c.f, some * sizeof(float));
    }
}
static void encode(int type, const float *from, size_t n, unsigned char *to)
{
    for (size_t i = 0; i < n; i += VALUES_CHUNK) {
        union values_chunk c;
        size_t some = n - i < VALUES_CHUNK ? n - i : VALUES_CHUNK;
        memcpy(c.f, from + i, some * sizeof(float));
        values_encode(&values_types[type], &c, some, to + i * values_types[type].bytes);
    }
}

/* Of a unit of 16 bytes. */
static float squares(int type, const float *x)
{
    if (type == SHMEMX_FLOAT) {
        double d[4];
        for (int i = 0; i < 4; i++)
            d[i] = (double)x[i] * (double)x[i];
        return (float)((d[0] + d[1]) + (d[2] + d[3]));
    }
    float f[8];
    for (int i = 0; i < 8; i++)
        f[i] = x[i] * x[i];
    return ((f[0] + f[1]) + (f[2] + f[3])) + ((f[4] + f[5]) + (f[6] + f[7]));
}
static float halves(float *t, size_t n, size_t stride)
{
    for (size_t half = n / 2; half != 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            t[i * stride] += t[(i + half) * stride];
    return t[0];
}
static float sum_of_squares(int type, const float *x, size_t hidden)
{
    float leaves[LEAVES] = {0};
    size_t each = 16 / values_types[type].bytes;
    for (size_t u = 0; u < hidden / each; u++)
        leaves[u % LEAVES] += squares(type, x + u * each);
    for (int q = 0; q < 32; q++)
        leaves[q] = halves(leaves + q, LEAVES / 32, 32);
    return halves(leaves, 32, 1);
}

/* Is that the norm, whatever the order of additions? */
static void check_in_double(const struct one *c, const float *x, const float *weight, const float *y)
{
    double sum = 0;
    for (size_t i = 0; i < c->hidden; i++)
        sum += (double)x[i] * x[i];
    double factor = 1 / sqrt(sum / (double)c->hidden + c->eps);
    for (size_t i = 0; i < c->hidden; i++) {
        double exact = x[i] * factor * weight[i];
        CHECK_NAMED(fabs(exact - y[i]) <= 2e-6 * fabs(exact) + 1e-30, "the reference itself");
    }
}

/* What row `row` must be: the images hold what was there before. */
static void expect_row(struct norms *s, const struct one *c, size_t row)
{
    const struct coll_team *t = &s->teams[c->team];
    const struct values_type *type = &values_types[c->type];
    size_t h = c->hidden, at = row * h;
    unsigned char *kept = buffer_image(&s->residual) + at * type->bytes, *bytes = (unsigned char *)malloc(h * 4);
    float *x = (float *)malloc(h * sizeof(float) * 3), *w = x + h, *y = w + h;
    CHECK_OR_EXIT(bytes != NULL && x != NULL);
    struct coll_case sum;
    memset(&sum, 0, sizeof sum);
    sum.team = t;
    sum.type = c->type;
    sum.op = SHMEMX_SUM;
    sum.round = s->round;
    if (coll_spans_nodes(t))
        coll_reduce_by_nodes(&sum, at, h, bytes);
    else
        values_reduce(c->type, SHMEMX_SUM, t->world, t->n, s->round, at, h, bytes);
    if (c->sums != SUMS_TO_DEST)
        memcpy(buffer_image(c->sums == SUMS_APART ? &s->sums : &s->source) + at * type->bytes, bytes, h * type->bytes);
    decode(c->type, bytes, h, x);
    decode(c->type, kept, h, y);
    for (size_t i = 0; i < h; i++)
        x[i] = y[i] + x[i];
    encode(c->type, x, h, kept);
    decode(c->type, kept, h, x);
    decode(c->type, buffer_image(&s->small), h, w);
    float factor = 1.0f / sqrtf(sum_of_squares(c->type, x, h) / (float)h + (float)c->eps), scale = 0;
    for (size_t i = 0; i < h; i++) {
        y[i] = x[i] * factor * w[i];
        scale = fabsf(y[i]) > scale ? fabsf(y[i]) : scale;
    }
    check_in_double(c, x, w, y);
    if (c->result == AS_TYPE) {
        encode(c->type, y, h, buffer_image(&s->dest) + at * type->bytes);
    } else {
        float *scales = (float *)(void *)(buffer_image(&s->small) + c->small_at);
        scale = scale / 448.0f > 1.0f / (448.0f * 512.0f) ? scale / 448.0f : 1.0f / (448.0f * 512.0f);
        if (c->result == STATIC_E4M3)
            scale = scales[0];
        else
            scales[row] = scale;
        float by = 1.0f / scale;
        for (size_t i = 0; i < h; i++)
            y[i] *= by;
        encode(SHMEMX_FLOAT8_E4M3, y, h, buffer_image(&s->dest) + at);
    }
    free(x);
    free(bytes);
}

/* ---- a call ---- */

static void make(struct norms *s, struct one *c)
{
    static const size_t lengths[] = {8, 16, 96, 1000, 1024, 1032, 4096, 4104, 8192, 12288, 16384};
    static const int types[] = {SHMEMX_FLOAT, SHMEMX_HALF, SHMEMX_BFLOAT16};
    c->type = types[next(s, 3)];
    c->result = (int)next(s, RESULTS);
    c->team = next(s, 3) == 0 ? (int)next(s, TEAMS) : TEAM_WORLD;
    c->hidden = lengths[next(s, sizeof lengths / sizeof lengths[0])];
    size_t most = MOST_BYTES / 4 / c->hidden;
    c->rows = next(s, 12) == 0 ? 0 : 1 + (size_t)next(s, next(s, 2) == 0 ? 4 : 20);
    if (c->hidden <= 1032 && next(s, 3) == 0)
        c->rows = 129 + (size_t)next(s, 40); /* smaller blocks */
    c->rows = c->rows < most ? c->rows : most;
    c->in_place = c->result == AS_TYPE && next(s, 4) == 0;
    c->sums = (enum sums)next(s, 3);
    if (c->in_place || (c->sums == SUMS_TO_DEST && c->result != AS_TYPE))
        c->sums = c->in_place ? SUMS_TO_DEST : SUMS_APART;
    c->eps = next(s, 2) == 0 ? 1e-6 : 0.25;
    c->small_at = c->hidden * values_types[c->type].bytes;
}

/* Values about 1, of the round; all zeros in some rows' residuals would need such sums, too, so none are. */
static void fill(struct norms *s, const struct one *c)
{
    const struct values_type *type = &values_types[c->type];
    size_t n = c->rows * c->hidden;
    s->round++;
    values_make(type, SHMEMX_SUM, shmem_my_pe(), s->round, 0, n,
                buffer_image(c->in_place ? &s->dest : &s->source));
    values_make(type, SHMEMX_SUM, MOST_PES, s->round, 0, n, buffer_image(&s->residual));
    values_make(type, SHMEMX_SUM, MOST_PES + 1, s->round, 0, c->hidden, buffer_image(&s->small));
    if (c->result == STATIC_E4M3) {
        float scale = 0.02f + 0.001f * (float)(s->round % 7);
        memcpy(buffer_image(&s->small) + c->small_at, &scale, sizeof scale);
    }
    buffer_upload(&s->dest);
    buffer_upload(&s->source);
    buffer_upload(&s->sums);
    buffer_upload(&s->residual);
    buffer_upload(&s->small);
}

static void begin(struct norms *s, const struct one *c)
{
    const struct values_type *type = &values_types[c->type];
    size_t n = c->rows * c->hidden;
    int memory = (int)((next(s, MEMORIES) + (uint64_t)shmem_my_pe()) % MEMORIES); /* each PE has its own */
    buffer_begin(&s->dest, memory, n * (c->result == AS_TYPE ? type->bytes : 1));
    buffer_begin(&s->source, (int)next(s, MEMORIES), c->in_place ? 0 : n * type->bytes);
    buffer_begin(&s->sums, (int)next(s, MEMORIES), c->sums == SUMS_APART ? n * type->bytes : 0);
    buffer_begin(&s->residual, (int)next(s, MEMORIES), n * type->bytes);
    buffer_begin(&s->small, (int)next(s, MEMORIES), c->small_at + (c->rows + 1) * sizeof(float));
}

static int enqueue(struct norms *s, const struct one *c, size_t first, size_t rows)
{
    size_t at = first * c->hidden, bytes = values_types[c->type].bytes;
    const char *source = buffer_data(c->in_place ? &s->dest : &s->source);
    float *scales = (float *)(void *)(buffer_data(&s->small) + c->small_at);
    shmemx_rms_norm_t norm;
    norm.residual = buffer_data(&s->residual) + at * bytes;
    norm.weight = buffer_data(&s->small);
    norm.hidden = c->hidden;
    norm.eps = c->eps;
    norm.dest_type = c->result == AS_TYPE ? c->type : SHMEMX_FLOAT8_E4M3;
    norm.scale = c->result == STATIC_E4M3 ? scales : NULL;
    norm.scales = c->result == TOKEN_E4M3 ? scales + first : NULL;
    norm.sum = c->sums == SUMS_APART       ? buffer_data(&s->sums) + at * bytes
               : c->sums == SUMS_TO_SOURCE ? buffer_data(&s->source) + at * bytes
                                           : NULL;
    return shmemx_allreduce_rms_norm_on_stream(s->teams[c->team].team,
                                               buffer_data(&s->dest) + at * (c->result == AS_TYPE ? bytes : 1),
                                               source + at * bytes, rows, c->type, &norm, s->stream);
}

static void look(struct norms *s, const struct one *c, const char *how)
{
    char text[200];
    static const char *const sums[] = {"dest", "memory of their own", "source"};
    snprintf(text, sizeof text, "%zu rows of %zu %s, %s, %s, team %d%s, sums to %s, eps %g, round %u", c->rows,
             c->hidden, values_types[c->type].name, result_names[c->result], how, c->team,
             c->in_place ? ", in place" : "", sums[c->sums], c->eps, s->round);
    CHECK_EQ_NAMED(shmemx_stream_synchronize(s->stream), 0, text);
    for (size_t row = 0; row < c->rows; row++)
        expect_row(s, c, row);
    (void)buffer_check(&s->residual, text);
    (void)buffer_check(&s->dest, text);
    (void)buffer_check(&s->source, text);
    (void)buffer_check(&s->sums, text);
    (void)buffer_check(&s->small, text);
}

static void in_graph(struct norms *s, const struct one *c)
{
    shmemx_graph_t graph;
    CHECK_OR_EXIT(shmemx_graph_begin(s->stream) == 0);
    CHECK_EQ(enqueue(s, c, 0, c->rows), 0);
    CHECK_OR_EXIT(shmemx_graph_end(s->stream, &graph) == 0);
    for (int i = 0; i < REPLAYS; i++) {
        fill(s, c);
        CHECK_EQ(shmemx_graph_launch(graph, s->stream), 0);
        look(s, c, "in a graph");
    }
    CHECK_EQ(shmemx_graph_destroy(graph), 0);
}

static void one_case(struct norms *s, bool graphs)
{
    struct one c;
    make(s, &c);
    begin(s, &c);
    fill(s, &c);
    uint64_t how = next(s, 4), cut = next(s, c.rows + 1);
    CHECK_EQ(enqueue(s, &c, 0, how == 0 ? (size_t)cut : c.rows), 0);
    if (how == 0) /* the rest by another call: the bits are those of one */
        CHECK_EQ(enqueue(s, &c, (size_t)cut, c.rows - (size_t)cut), 0);
    look(s, &c, how == 0 ? "by two calls" : "at once");
    if (graphs && how == 1 && c.rows > 0)
        in_graph(s, &c);
}

/* The slots of all teams, since a capture cannot make them. */
static void make_slots(struct norms *s)
{
    for (int i = 0; i < TEAMS; i++)
        CHECK_EQ(shmemx_slot_prepare(s->teams[i].team, 0, 0), 0);
}

static int test_main(void)
{
    struct norms s;
    COLL_INIT();
    memset(&s, 0, sizeof s);
    s.random = check_self.seed * 2 + 1;
    coll_teams_make(s.teams);
    buffer_make(&s.dest, MOST_BYTES);
    buffer_make(&s.source, MOST_BYTES);
    buffer_make(&s.sums, MOST_BYTES);
    buffer_make(&s.residual, MOST_BYTES);
    buffer_make(&s.small, MOST_BYTES);
    CHECK_OR_EXIT(shmemx_stream_create(&s.stream) == 0);
    make_slots(&s);
    long calls = device_number("SHMEM_TEST_CALLS", CALLS);
    for (long i = 0; i < calls; i++)
        one_case(&s, !device_flag("SHMEM_TEST_NO_GRAPHS"));
    CHECK_EQ(shmemx_stream_destroy(s.stream), 0);
    shmem_barrier_all();
    buffer_drop(&s.small);
    buffer_drop(&s.residual);
    buffer_drop(&s.sums);
    buffer_drop(&s.source);
    buffer_drop(&s.dest);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
