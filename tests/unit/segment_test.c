/* SPDX-License-Identifier: MIT */
/* The limits of segments, to the byte: a range is symmetric when it begins and ends in objects of one segment. */
#include "../check.h"

#include "../../shmem/memory/segment.h"

#include <unistd.h>

static long variable[4]; /* of the data segment, where global variables are symmetric */

/* Ranges of up to 16 bytes around the end of a segment's objects. */
static void check_end(struct segment *s)
{
    char *end = s->base + s->limit;
    for (size_t len = 1; len <= 16; len++) {
        CHECK(iso_segment_of(end - len, len) == s);
        CHECK(iso_segment_of(end - len, len + 1) == NULL);
        CHECK(iso_segment_of(end - 1, len) == (len == 1 ? s : NULL));
        CHECK(iso_segment_of(end, len) == NULL);
    }
    CHECK(iso_segment_of(s->base, s->limit) == s);
    CHECK(iso_segment_of(s->base, s->limit + 1) == NULL);
    CHECK(iso_segment_of(s->base, SIZE_MAX) == NULL);
}

int main(void)
{
    char local;
    alarm(100);
    shmem_init();
    char *object = (char *)shmem_malloc(1000);
    CHECK_OR_EXIT(object != NULL);
    struct segment *heap = &ISO->segments[SEGMENT_INDEX_HEAP], *data = &ISO->segments[SEGMENT_INDEX_DATA];
    CHECK(iso_segment_of(object, 1000) == heap);
    CHECK(iso_segment_of(&local, 1) == NULL);
    CHECK(iso_segment_of(heap->base - 1, 1) == NULL);
    check_end(heap);
    if (data->limit != 0) {
        CHECK(iso_segment_of(variable, sizeof variable) == data);
        check_end(data);
    }
    shmem_free(object);
    shmem_finalize();
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
