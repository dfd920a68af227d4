/* SPDX-License-Identifier: MIT */
/* libFuzzer on the offset allocator: the input is a list of calls; after each one all invariants hold, objects do not
 * overlap, and a request fails only when no gap between the objects can hold it. Ends by abort() on the first lie. */
#include "../../shmem/state/alloc.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 96, UNIT = ISO_ALLOC_UNIT };

struct fuzz {
    const uint8_t *data;
    size_t left;
    struct alloc *alloc;
    size_t cap, n;
    struct alloc_object objects[MOST]; /* by offset */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

static void require(int true_now)
{
    if (!true_now)
        abort();
}

static uint64_t take(struct fuzz *f, size_t bytes)
{
    uint64_t value = 0;
    for (; bytes > 0 && f->left > 0; bytes--, f->left--)
        value = value << 8 | *f->data++;
    return value;
}

/* A size of any magnitude from three bytes. */
static size_t take_size(struct fuzz *f)
{
    unsigned shift = (unsigned)take(f, 1) % 48;
    return (size_t)(take(f, 2) << shift >> 8);
}

static size_t end_of(const struct alloc_object *o) { return o->offset + (o->size + UNIT - 1) / UNIT * UNIT; }
static size_t gap_start(const struct fuzz *f, size_t i) { return i == 0 ? 0 : end_of(&f->objects[i - 1]); }
static size_t gap_end(const struct fuzz *f, size_t i) { return i == f->n ? f->cap : f->objects[i].offset; }

static int gap_holds(const struct fuzz *f, size_t i, size_t align, size_t size)
{
    size_t at = (gap_start(f, i) + align - 1) & ~(align - 1);
    return at <= gap_end(f, i) && size <= gap_end(f, i) - at && at >= gap_start(f, i);
}

static void fuzz_get(struct fuzz *f)
{
    size_t align = (size_t)1 << take(f, 1) % 44, size = take_size(f), offset, i = 0;
    int possible = 0, rc = iso_alloc_get(f->alloc, align, size, &offset);
    if (size == 0) {
        require(rc == -EINVAL);
        return;
    }
    for (size_t gap = 0; gap <= f->n; gap++)
        possible |= gap_holds(f, gap, align, size);
    require(rc == (possible ? 0 : -ENOSPC));
    if (rc != 0)
        return;
    while (i < f->n && f->objects[i].offset < offset)
        i++;
    memmove(&f->objects[i + 1], &f->objects[i], (f->n - i) * sizeof f->objects[0]);
    f->n++;
    f->objects[i] = (struct alloc_object){.offset = offset, .size = size};
    require(offset % align == 0 && offset >= gap_start(f, i) && end_of(&f->objects[i]) <= gap_end(f, i + 1));
}

static void fuzz_free(struct fuzz *f)
{
    size_t i = (size_t)take(f, 1) % f->n;
    require(iso_alloc_free(f->alloc, f->objects[i].offset) == 0);
    require(iso_alloc_free(f->alloc, f->objects[i].offset) == -ENOENT);
    f->n--;
    memmove(&f->objects[i], &f->objects[i + 1], (f->n - i) * sizeof f->objects[0]);
}

static void fuzz_resize(struct fuzz *f)
{
    size_t i = (size_t)take(f, 1) % f->n, size = take_size(f);
    struct alloc_object changed = {.offset = f->objects[i].offset, .size = size};
    int possible = size <= f->cap && end_of(&changed) <= gap_end(f, i + 1);
    int rc = iso_alloc_resize(f->alloc, changed.offset, size);
    require(rc == (size == 0 ? -EINVAL : possible ? 0 : -ENOSPC));
    if (rc == 0)
        f->objects[i].size = size;
}

static void fuzz_find(struct fuzz *f)
{
    size_t offset = take_size(f), i = 0;
    struct alloc_object found;
    while (i < f->n && end_of(&f->objects[i]) <= offset)
        i++;
    int expected = i < f->n && f->objects[i].offset <= offset;
    require(iso_alloc_find(f->alloc, offset, &found) == expected);
    require(!expected || (found.offset == f->objects[i].offset && found.size == f->objects[i].size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    struct fuzz f = {.data = data, .left = len_bytes};
    f.cap = take_size(&f);
    f.alloc = iso_alloc_create(f.cap, 0);
    f.cap = f.cap / UNIT * UNIT;
    require((f.alloc == NULL) == (f.cap == 0 || f.cap > ISO_ALLOC_MOST));
    while (f.alloc != NULL && f.left > 0) {
        unsigned what = (unsigned)take(&f, 1) % 8;
        if ((what < 4 || f.n == 0) && f.n < MOST)
            fuzz_get(&f);
        else if (what < 6)
            fuzz_free(&f);
        else if (what == 6)
            fuzz_resize(&f);
        else
            fuzz_find(&f);
        require(iso_alloc_is_valid(f.alloc) && iso_alloc_stats(f.alloc).objects == f.n);
    }
    iso_alloc_destroy(f.alloc);
    return 0;
}
