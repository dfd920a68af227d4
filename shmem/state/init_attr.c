/* SPDX-License-Identifier: MIT */
/* See init_attr.h. Each later version of the struct is longer and begins as the earlier ones do. */
#include "init_attr.h"

#include "../../bootstrap/log.h"
#include "alloc.h"
#include "base.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { LEAST = offsetof(shmemx_init_attr_t, device) }; /* what every program has */

/* The bytes behind the struct of this version, of a program that knows a later one. */
static bool rest_is_zero(const shmemx_init_attr_t *given)
{
    const unsigned char *bytes = (const unsigned char *)given;
    for (size_t i = sizeof *given; i < given->struct_bytes; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

int iso_init_attr_read(const shmemx_init_attr_t *given, shmemx_init_attr_t *attr)
{
    *attr = (shmemx_init_attr_t)SHMEMX_INIT_ATTR;
    if (given == NULL) {
        log_error("shmemx_init_attr: attr is a null pointer");
        return -EINVAL;
    }
    if (given->struct_bytes < LEAST || given->struct_bytes > 4096 || !rest_is_zero(given)) {
        log_error("shmemx_init_attr: attr->struct_bytes is %zu; this library knows %zu..%zu bytes, and more only where "
                  "the rest is zero (begin with SHMEMX_INIT_ATTR)",
                  given->struct_bytes, (size_t)LEAST, sizeof *given);
        return -EINVAL;
    }
    memcpy(attr, given, ISO_MIN(given->struct_bytes, sizeof *attr));

    const char *name = NULL;
    long value = 0, least = 0, most = 0;
    if (attr->size < 1)
        name = "size", value = attr->size, least = 1, most = INT32_MAX;
    else if (attr->rank < 0 || attr->rank >= attr->size)
        name = "rank", value = attr->rank, least = 0, most = attr->size - 1;
    else if (attr->device < -1)
        name = "device", value = attr->device, least = -1, most = INT32_MAX;
    else if (attr->device_blocks < 0 || attr->device_blocks > 1024)
        name = "device_blocks", value = attr->device_blocks, least = 0, most = 1024;
    else if (attr->heap_bytes > ISO_ALLOC_MOST)
        name = "heap_bytes", value = (long)ISO_MIN(attr->heap_bytes, (size_t)LONG_MAX), most = (long)ISO_ALLOC_MOST;
    else if (attr->device_heap_bytes > ISO_ALLOC_MOST)
        name = "device_heap_bytes", value = (long)ISO_MIN(attr->device_heap_bytes, (size_t)LONG_MAX),
        most = (long)ISO_ALLOC_MOST;
    else if (attr->errors != SHMEMX_ERRORS_ABORT && attr->errors != SHMEMX_ERRORS_RETURN)
        name = "errors", value = attr->errors, least = SHMEMX_ERRORS_ABORT, most = SHMEMX_ERRORS_RETURN;
    if (name != NULL)
        log_error("shmemx_init_attr: attr->%s is %ld, outside %ld..%ld", name, value, least, most);
    else if (attr->id == NULL)
        log_error("shmemx_init_attr: attr->id is a null pointer");
    else if (attr->timeout_seconds != attr->timeout_seconds)
        log_error("shmemx_init_attr: attr->timeout_seconds is not a number");
    else
        return 0;
    return -EINVAL;
}

void iso_init_attr_apply(const shmemx_init_attr_t *attr, struct env *env)
{
    static ISO_PER_PE char device[16];
    if (attr->device >= 0) {
        snprintf(device, sizeof device, "%d", attr->device);
        env->device = device;
    }
    if (attr->device_blocks > 0)
        env->device_blocks = attr->device_blocks;
    if (attr->heap_bytes > 0)
        env->symmetric_size = attr->heap_bytes;
    if (attr->device_heap_bytes > 0)
        env->device_heap_size = attr->device_heap_bytes;
    if (attr->timeout_seconds != 0)
        env->timeout = attr->timeout_seconds > 0 ? attr->timeout_seconds : 0;
}
