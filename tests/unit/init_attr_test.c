/* SPDX-License-Identifier: MIT */
/* The init attribute: shorter and longer structs, every field just outside of its range, and that what it says wins
 * over the environment of a job that runs. */
#include "../check.h"

#include "../../bootstrap/log.h"
#include "../../shmem/state/alloc.h"
#include "../../shmem/state/init_attr.h"
#include "../../shmem/state/pe_state.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

enum { FIRST = offsetof(shmemx_init_attr_t, device) };

static shmemx_uniqueid_t id;

static shmemx_init_attr_t usual(void)
{
    shmemx_init_attr_t attr = SHMEMX_INIT_ATTR;
    attr.rank = 2;
    attr.size = 3;
    attr.id = &id;
    attr.requested = SHMEM_THREAD_MULTIPLE;
    return attr;
}

static void test_sizes(void)
{
    struct {
        shmemx_init_attr_t attr;
        unsigned char rest[32];
    } later;
    shmemx_init_attr_t attr, given = usual();
    CHECK_EQ(iso_init_attr_read(NULL, &attr), -EINVAL);
    CHECK_EQ(iso_init_attr_read(&given, &attr), 0);
    CHECK(memcmp(&given, &attr, sizeof attr) == 0);

    given.device = 7; /* behind the end of a program's first version */
    given.struct_bytes = FIRST;
    CHECK_EQ(iso_init_attr_read(&given, &attr), 0);
    CHECK_EQ(attr.device, -1);
    CHECK_EQ(attr.rank, 2);
    CHECK_EQ(attr.requested, SHMEM_THREAD_MULTIPLE);
    given.struct_bytes = FIRST - 1;
    CHECK_EQ(iso_init_attr_read(&given, &attr), -EINVAL);
    given.struct_bytes = 0;
    CHECK_EQ(iso_init_attr_read(&given, &attr), -EINVAL);

    memset(&later, 0, sizeof later);
    later.attr = usual();
    later.attr.struct_bytes = sizeof later;
    CHECK_EQ(iso_init_attr_read(&later.attr, &attr), 0);
    later.rest[sizeof later.rest - 1] = 1;
    CHECK_EQ(iso_init_attr_read(&later.attr, &attr), -EINVAL);
    later.attr.struct_bytes = SIZE_MAX; /* is not read to its end */
    CHECK_EQ(iso_init_attr_read(&later.attr, &attr), -EINVAL);
}

static void test_ranges(void)
{
    shmemx_init_attr_t attr;
#define REFUSED(field, bad)                                   \
    do {                                                      \
        shmemx_init_attr_t given = usual();                   \
        given.field = (bad);                                  \
        CHECK_EQ(iso_init_attr_read(&given, &attr), -EINVAL); \
    } while (0)
    REFUSED(size, 0);
    REFUSED(size, 2);
    REFUSED(rank, -1);
    REFUSED(rank, 3);
    REFUSED(id, NULL);
    REFUSED(device, -2);
    REFUSED(device_blocks, -1);
    REFUSED(device_blocks, 1025);
    REFUSED(heap_bytes, ISO_ALLOC_MOST + 1);
    REFUSED(device_heap_bytes, SIZE_MAX);
    REFUSED(errors, -1);
    REFUSED(errors, 2);
    REFUSED(timeout_seconds, (double)NAN);
#undef REFUSED
}

static void test_apply(void)
{
    struct env env;
    char error[128];
    shmemx_init_attr_t attr = usual();
    CHECK_EQ(iso_env_read(&env, error, sizeof error), 0);
    struct env before = env;
    iso_init_attr_apply(&attr, &env);
    CHECK(memcmp(&before, &env, sizeof env) == 0);
    attr.device = 0;
    attr.device_blocks = 1024;
    attr.heap_bytes = 1 << 20;
    attr.device_heap_bytes = 1 << 21;
    attr.timeout_seconds = -1;
    iso_init_attr_apply(&attr, &env);
    CHECK(strcmp(env.device, "0") == 0);
    CHECK_EQ(env.device_blocks, 1024);
    CHECK_EQ(env.symmetric_size, (size_t)1 << 20);
    CHECK_EQ(env.device_heap_size, (size_t)1 << 21);
    CHECK(env.timeout == 0);
    attr.timeout_seconds = 2.5;
    iso_init_attr_apply(&attr, &env);
    CHECK(env.timeout == 2.5);
}

/* A job of one PE whose attribute says other than the environment; the next one has the environment's again. */
static void test_job(void)
{
    setenv("SHMEM_SYMMETRIC_SIZE", "256m", 1);
    setenv("SHMEM_TIMEOUT", "100", 1);
    for (int round = 0; round < 3; round++) {
        shmemx_uniqueid_t own;
        CHECK_OR_EXIT(shmemx_get_uniqueid(&own) == 0);
        shmemx_init_attr_t attr = SHMEMX_INIT_ATTR;
        attr.size = 1;
        attr.id = &own;
        attr.heap_bytes = round == 1 ? 8 << 20 : 0;
        attr.timeout_seconds = round == 1 ? 7 : 0;
        attr.errors = round == 2 ? SHMEMX_ERRORS_RETURN : 0;
        CHECK_OR_EXIT(shmemx_init_attr(&attr) == 0);
        CHECK(ISO->env->timeout == (round == 1 ? 7 : 100));
        void *large = shmem_malloc(32 << 20);
        CHECK_EQ(large == NULL, round == 1);
        shmem_free(large);
        CHECK_EQ(ISO->errors, round == 2 ? SHMEMX_ERRORS_RETURN : SHMEMX_ERRORS_ABORT);
        shmem_finalize();
    }
}

int main(void)
{
    test_sizes();
    test_ranges();
    test_apply();
    test_job();
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
