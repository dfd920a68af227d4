/* SPDX-License-Identifier: MIT */
/* The offset allocator against a slow, obvious model: a sorted list of live objects. After every call all invariants
 * hold; a request fails exactly when no gap of the model can hold it; two allocators give the same offsets. */
#include "../check.h"
#include "../../shmem/state/alloc.h"

#include <errno.h>

enum { MODEL_MOST = 700, UNIT = ISO_ALLOC_UNIT };

struct model {
    struct alloc_object objects[MODEL_MOST]; /* by offset */
    size_t n;
    size_t cap, top;
};

static size_t round_up(size_t value, size_t to) { return (value + to - 1) / to * to; }

/* The end of object i - 1, which is where the gap before object i begins. */
static size_t gap_start(const struct model *m, size_t i)
{
    return i == 0 ? 0 : m->objects[i - 1].offset + round_up(m->objects[i - 1].size, UNIT);
}
static size_t gap_end(const struct model *m, size_t i) { return i == m->n ? m->cap : m->objects[i].offset; }

static bool model_fits(const struct model *m, size_t align, size_t size)
{
    for (size_t i = 0; i <= m->n; i++)
        if (round_up(gap_start(m, i), align) + round_up(size, UNIT) <= gap_end(m, i))
            return true;
    return false;
}

static void model_insert(struct model *m, size_t offset, size_t size)
{
    size_t i = m->n++;
    for (; i > 0 && m->objects[i - 1].offset > offset; i--)
        m->objects[i] = m->objects[i - 1];
    m->objects[i] = (struct alloc_object){.offset = offset, .size = size};
    CHECK(offset >= gap_start(m, i) && offset + round_up(size, UNIT) <= gap_end(m, i + 1));
    if (offset + round_up(size, UNIT) > m->top)
        m->top = offset + round_up(size, UNIT);
}

static void model_remove(struct model *m, size_t i)
{
    m->n--;
    memmove(&m->objects[i], &m->objects[i + 1], (m->n - i) * sizeof m->objects[0]);
}

static void check_against(struct alloc *alloc, const struct model *m)
{
    struct alloc_stats stats = iso_alloc_stats(alloc);
    size_t used = 0, largest = 0;
    for (size_t i = 0; i <= m->n; i++) {
        used += i < m->n ? round_up(m->objects[i].size, UNIT) : 0;
        if (gap_end(m, i) - gap_start(m, i) > largest)
            largest = gap_end(m, i) - gap_start(m, i);
    }
    CHECK(iso_alloc_is_valid(alloc));
    CHECK_EQ(stats.cap, m->cap);
    CHECK_EQ(stats.used, used);
    CHECK_EQ(stats.objects, m->n);
    CHECK_EQ(stats.largest_free, largest);
    CHECK_EQ(stats.top, m->top);
    CHECK_EQ(iso_alloc_top(alloc), m->top);
}

static void step_get(struct alloc *alloc, struct model *m, size_t align, size_t size)
{
    size_t offset = SIZE_MAX;
    bool possible = model_fits(m, align, size);
    int rc = iso_alloc_get(alloc, align, size, &offset);
    CHECK_EQ(rc, possible ? 0 : -ENOSPC);
    if (rc != 0)
        return;
    CHECK_EQ(offset % align, 0);
    CHECK_EQ(offset % UNIT, 0);
    model_insert(m, offset, size);
}

static void step_free(struct alloc *alloc, struct model *m, size_t i)
{
    size_t offset = m->objects[i].offset;
    CHECK_EQ(iso_alloc_free(alloc, offset), 0);
    CHECK_EQ(iso_alloc_free(alloc, offset), -ENOENT); /* a second time is noticed */
    model_remove(m, i);
}

static void step_resize(struct alloc *alloc, struct model *m, size_t i, size_t size)
{
    struct alloc_object *object = &m->objects[i];
    bool possible = object->offset + round_up(size, UNIT) <= gap_end(m, i + 1);
    CHECK_EQ(iso_alloc_resize(alloc, object->offset, size), possible ? 0 : -ENOSPC);
    if (!possible)
        return;
    object->size = size;
    if (object->offset + round_up(size, UNIT) > m->top)
        m->top = object->offset + round_up(size, UNIT);
}

static void step_find(struct alloc *alloc, const struct model *m, size_t offset)
{
    struct alloc_object found = {0};
    const struct alloc_object *expected = NULL;
    for (size_t i = 0; i < m->n; i++)
        if (offset >= m->objects[i].offset && offset < m->objects[i].offset + round_up(m->objects[i].size, UNIT))
            expected = &m->objects[i];
    CHECK_EQ(iso_alloc_find(alloc, offset, &found), expected != NULL);
    CHECK(expected == NULL || (found.offset == expected->offset && found.size == expected->size));
    expected = NULL;
    for (size_t i = 0; i < m->n; i++)
        if (m->objects[i].offset >= offset && (expected == NULL || m->objects[i].offset < expected->offset))
            expected = &m->objects[i];
    CHECK_EQ(iso_alloc_next(alloc, offset, &found), expected != NULL);
    CHECK(expected == NULL || (found.offset == expected->offset && found.size == expected->size));
}

/* Sizes over all magnitudes up to the cap, small ones most often. */
static size_t random_size(struct check_random *random, size_t cap)
{
    size_t bits = 1 + check_random_below(random, 64 - (size_t)__builtin_clzll(cap));
    return 1 + check_random_below(random, (size_t)1 << check_random_below(random, bits + 1));
}

static void random_step(struct alloc *alloc, struct model *m, struct check_random *random, size_t fullness)
{
    size_t what = check_random_below(random, 100);
    if (m->n == 0 || (what < fullness && m->n < MODEL_MOST)) {
        size_t align = (size_t)1 << (check_random_below(random, 4) != 0 ? 4 : check_random_below(random, 22));
        step_get(alloc, m, align, random_size(random, m->cap));
    } else if (what < 85) {
        step_free(alloc, m, check_random_below(random, m->n));
    } else if (what < 95) {
        step_resize(alloc, m, check_random_below(random, m->n), random_size(random, m->cap));
    } else {
        step_find(alloc, m, check_random_below(random, m->cap));
    }
}

static void test_random(size_t cap, uint64_t stream, int steps)
{
    static struct model m;
    struct check_random random = check_random_stream(stream);
    struct alloc *alloc = iso_alloc_create(cap, 0);
    m.n = m.top = 0;
    m.cap = cap;
    CHECK_OR_EXIT(alloc != NULL);
    for (int i = 0; i < steps && check_self.failures == 0; i++) {
        size_t fullness = (i / 500) % 2 == 0 ? 70 : 30; /* fills up, empties, fills up */
        random_step(alloc, &m, &random, fullness);
        check_against(alloc, &m);
    }
    while (m.n > 0)
        step_free(alloc, &m, check_random_below(&random, m.n));
    check_against(alloc, &m);
    CHECK_EQ(iso_alloc_stats(alloc).largest_free, cap);
    iso_alloc_destroy(alloc);
}

static void test_edges(void)
{
    size_t offset = 1;
    CHECK(iso_alloc_create(0, 0) == NULL);
    CHECK_EQ(errno, EINVAL);
    CHECK(iso_alloc_create(UNIT - 1, 0) == NULL);
    CHECK(iso_alloc_create(ISO_ALLOC_MOST + UNIT, 0) == NULL);
    CHECK_EQ(errno, EINVAL);
    iso_alloc_destroy(NULL);
    struct alloc *alloc = iso_alloc_create(ISO_ALLOC_MOST, 0);
    CHECK_OR_EXIT(alloc != NULL);
    CHECK_EQ(iso_alloc_get(alloc, 64, 0, &offset), -EINVAL);
    CHECK_EQ(iso_alloc_get(alloc, 0, 64, &offset), -EINVAL);
    CHECK_EQ(iso_alloc_get(alloc, 48, 64, &offset), -EINVAL);
    CHECK_EQ(iso_alloc_get(alloc, 64, SIZE_MAX, &offset), -ENOSPC);
    CHECK_EQ(iso_alloc_get(alloc, 64, ISO_ALLOC_MOST + 1, &offset), -ENOSPC);
    CHECK_EQ(iso_alloc_get(alloc, (size_t)1 << 63, ISO_ALLOC_MOST + 1, &offset), -ENOSPC);
    CHECK_EQ(offset, 1);
    CHECK_EQ(iso_alloc_get(alloc, 64, ISO_ALLOC_MOST, &offset), 0);
    CHECK_EQ(offset, 0);
    CHECK_EQ(iso_alloc_stats(alloc).largest_free, 0);
    CHECK_EQ(iso_alloc_get(alloc, 64, 1, &offset), -ENOSPC);
    CHECK_EQ(iso_alloc_free(alloc, UNIT), -ENOENT); /* inside the object */
    CHECK_EQ(iso_alloc_resize(alloc, 0, 0), -EINVAL);
    CHECK_EQ(iso_alloc_resize(alloc, 0, SIZE_MAX), -ENOSPC);
    CHECK_EQ(iso_alloc_resize(alloc, UNIT, 1), -ENOENT);
    CHECK_EQ(iso_alloc_resize(alloc, 0, 1), 0);
    CHECK_EQ(iso_alloc_get(alloc, (size_t)1 << 43, (size_t)1 << 43, &offset), 0);
    CHECK_EQ(offset, (size_t)1 << 43);
    CHECK(iso_alloc_is_valid(alloc));
    iso_alloc_destroy(alloc);
}

/* What is freed and asked for again lies where it lay, whatever its size: a loop of the two does not climb. */
static void test_reuse(void)
{
    for (size_t size = 1; size < (size_t)1 << 30; size = size * 5 / 3 + 7) {
        struct alloc *alloc = iso_alloc_create((size_t)1 << 34, 0);
        size_t first, fence, again;
        CHECK_OR_EXIT(alloc != NULL);
        CHECK_EQ(iso_alloc_get(alloc, 4096, size, &first), 0);
        CHECK_EQ(iso_alloc_get(alloc, 64, 64, &fence), 0);
        for (int i = 0; i < 3; i++) {
            CHECK_EQ(iso_alloc_free(alloc, first), 0);
            CHECK_EQ(iso_alloc_get(alloc, 4096, size, &again), 0);
            CHECK_EQ(again, first);
        }
        iso_alloc_destroy(alloc);
    }
}

/* Two allocators, the same calls: the same answers, though their bookkeeping lies elsewhere. */
static void test_deterministic(void)
{
    enum { STEPS = 5000, MOST = 256 };
    static size_t live[MOST];
    size_t n = 0;
    struct check_random random = check_random_stream(77);
    struct alloc *a = iso_alloc_create((size_t)1 << 26, 0), *b = iso_alloc_create((size_t)1 << 26, 0);
    CHECK_OR_EXIT(a != NULL && b != NULL);
    for (int i = 0; i < STEPS; i++) {
        if (n < MOST && check_random_below(&random, 5) < 3) {
            size_t size = random_size(&random, (size_t)1 << 24), at_a = 0, at_b = 0;
            int rc = iso_alloc_get(a, 64, size, &at_a);
            CHECK_EQ(iso_alloc_get(b, 64, size, &at_b), rc);
            CHECK_EQ(at_a, at_b);
            if (rc == 0)
                live[n++] = at_a;
        } else if (n > 0) {
            size_t victim = check_random_below(&random, n);
            CHECK_EQ(iso_alloc_free(a, live[victim]), 0);
            CHECK_EQ(iso_alloc_free(b, live[victim]), 0);
            live[victim] = live[--n];
        }
    }
    iso_alloc_destroy(a);
    iso_alloc_destroy(b);
}

/* No memory for the bookkeeping: the call fails, nothing has changed, and after a free it goes on. */
static void test_bookkeeping_full(void)
{
    enum { BLOCKS = 100 };
    size_t offsets[BLOCKS], n = 0, offset;
    struct alloc *alloc = iso_alloc_create((size_t)1 << 30, BLOCKS);
    CHECK_OR_EXIT(alloc != NULL);
    int rc;
    while ((rc = iso_alloc_get(alloc, 4096, 100, &offset)) == 0) {
        CHECK(n < BLOCKS);
        offsets[n++] = offset;
    }
    CHECK_EQ(rc, -ENOMEM);
    CHECK(n >= BLOCKS / 2 - 2);
    CHECK(iso_alloc_is_valid(alloc));
    CHECK_EQ(iso_alloc_stats(alloc).objects, n);
    CHECK_EQ(iso_alloc_free(alloc, offsets[0]), 0);
    CHECK_EQ(iso_alloc_free(alloc, offsets[1]), 0);
    CHECK(iso_alloc_is_valid(alloc));
    CHECK_EQ(iso_alloc_get(alloc, 4096, 100, &offset), 0);
    CHECK(iso_alloc_is_valid(alloc));
    iso_alloc_destroy(alloc);
}

/* Two allocators with different objects agree on a place, as members of a team do. */
static void test_common_place(void)
{
    struct alloc *a = iso_alloc_create(100 * UNIT, 0), *b = iso_alloc_create(100 * UNIT, 0);
    size_t offset, place = 0, seen_a, seen_b;
    CHECK_OR_EXIT(a != NULL && b != NULL);
    CHECK_EQ(iso_alloc_get(a, UNIT, 10 * UNIT, &offset), 0);
    CHECK_EQ(iso_alloc_take(b, 12 * UNIT, 5 * UNIT), 0);
    CHECK_EQ(iso_alloc_take(b, 16 * UNIT, 1), -ENOSPC);
    CHECK_EQ(iso_alloc_take(b, 16 * UNIT + 1, 1), -EINVAL);
    for (;;) {
        CHECK_EQ(iso_alloc_first(a, place, 3 * UNIT - 1, &seen_a), 0);
        CHECK_EQ(iso_alloc_first(b, place, 3 * UNIT - 1, &seen_b), 0);
        if (seen_a == seen_b)
            break;
        place = seen_a > seen_b ? seen_a : seen_b;
    }
    CHECK_EQ(seen_a, 17 * UNIT);
    CHECK_EQ(iso_alloc_take(a, seen_a, 3 * UNIT - 1), 0);
    CHECK_EQ(iso_alloc_take(b, seen_b, 3 * UNIT - 1), 0);
    CHECK(iso_alloc_is_valid(a) && iso_alloc_is_valid(b));
    CHECK_EQ(iso_alloc_stats(a).used, 13 * UNIT);
    CHECK_EQ(iso_alloc_first(a, 90 * UNIT, 11 * UNIT, &offset), -ENOSPC);
    CHECK_EQ(iso_alloc_take(a, 99 * UNIT, UNIT), 0);
    CHECK_EQ(iso_alloc_take(a, 100 * UNIT, UNIT), -ENOSPC);
    CHECK_EQ(iso_alloc_free(a, 17 * UNIT), 0);
    CHECK(iso_alloc_is_valid(a));
    iso_alloc_destroy(a);
    iso_alloc_destroy(b);
}

static bool has_marks(struct alloc *alloc, size_t offset, bool kept, bool lent, void *owner)
{
    struct alloc_object object;
    return iso_alloc_find(alloc, offset, &object) && object.kept == kept && object.lent == lent && object.owner == owner;
}

/* What is noted at an object goes with it, and a new one at its place has nothing of it. */
static void test_marks(void)
{
    struct alloc *alloc = iso_alloc_create(100 * UNIT, 0);
    size_t kept, lent, fresh;
    CHECK_OR_EXIT(alloc != NULL);
    CHECK_EQ(iso_alloc_get(alloc, UNIT, 3 * UNIT, &kept), 0);
    CHECK_EQ(iso_alloc_get(alloc, UNIT, 3 * UNIT, &lent), 0);
    CHECK_EQ(iso_alloc_keep(alloc, kept + UNIT), -ENOENT);
    CHECK_EQ(iso_alloc_keep(alloc, kept), 0);
    CHECK_EQ(iso_alloc_own(alloc, kept + UNIT, alloc), -ENOENT);
    CHECK_EQ(iso_alloc_own(alloc, lent, &lent), 0);
    CHECK_EQ(iso_alloc_resize(alloc, kept, 2 * UNIT), 0);
    iso_alloc_lend(alloc);
    CHECK(has_marks(alloc, kept, true, false, NULL) && has_marks(alloc, lent, false, true, &lent));
    CHECK_EQ(iso_alloc_get(alloc, UNIT, 5 * UNIT, &fresh), 0);
    CHECK(has_marks(alloc, fresh, false, false, NULL));
    CHECK_EQ(iso_alloc_free(alloc, lent), 0);
    CHECK_EQ(iso_alloc_free(alloc, kept), 0);
    CHECK(iso_alloc_is_valid(alloc));
    CHECK_EQ(iso_alloc_take(alloc, kept, 6 * UNIT), 0);
    CHECK(has_marks(alloc, kept, false, false, NULL));
    iso_alloc_lend(alloc);
    CHECK(has_marks(alloc, kept, false, true, NULL) && has_marks(alloc, fresh, false, true, NULL));
    iso_alloc_end_lending(alloc);
    CHECK(has_marks(alloc, kept, false, false, NULL) && has_marks(alloc, fresh, false, false, NULL));
    iso_alloc_destroy(alloc);
}

/* A hundred thousand live objects: the tree stays shallow enough and the bookkeeping grows. */
static void test_many_objects(void)
{
    enum { MANY = 100000 };
    struct alloc *alloc = iso_alloc_create((size_t)1 << 40, 0);
    struct alloc_object object;
    size_t offset;
    CHECK_OR_EXIT(alloc != NULL);
    for (size_t i = 0; i < MANY; i++) {
        CHECK_EQ(iso_alloc_get(alloc, 64, 1 + i % 300, &offset), 0);
        CHECK(iso_alloc_find(alloc, offset + (i % 300) / 2, &object) && object.offset == offset);
    }
    CHECK(iso_alloc_is_valid(alloc));
    CHECK_EQ(iso_alloc_stats(alloc).objects, MANY);
    iso_alloc_destroy(alloc);
}

int main(void)
{
    const char *seed = getenv("SHMEM_TEST_SEED");
    check_self.seed = seed != NULL ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)check_self.seed);
    test_edges();
    test_reuse();
    test_deterministic();
    test_bookkeeping_full();
    test_common_place();
    test_marks();
    test_many_objects();
    test_random((size_t)1 << 16, 1, 6000);
    test_random(((size_t)1 << 20) + 3 * UNIT, 2, 6000);
    test_random((size_t)1 << 26, 3, 6000);
    test_random((size_t)1 << 40, 4, 6000);
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
