/* SPDX-License-Identifier: MIT */
/* The device layer exports its memory as dma-bufs, where the device has such: chunks, fixed allocations and parts of
 * them, at any address; and says so where it has not. For each flavour. */
#include "../check.h"

#include "../../device/gpu.h"

#include <errno.h>

/* What the kernel calls it; its length is `least` bytes or more. */
static void check_descriptor(int fd, size_t least)
{
    char path[64], target[128] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    CHECK(readlink(path, target, sizeof target - 1) > 0);
    CHECK_NAMED(strstr(target, "dmabuf") != NULL, target);
    CHECK(lseek(fd, 0, SEEK_END) >= (off_t)least);
}

/* False: refused, with a sentence. */
static bool export_part(struct gpu *gpu, char *at, size_t len)
{
    uint64_t offset = UINT64_MAX;
    int fd = 0, rc = iso_gpu_export_dmabuf(gpu, at, len, &fd, &offset);
    if (rc != 0) {
        CHECK(rc < 0 && fd == -1 && iso_gpu_error(gpu)[0] != '\0');
        fprintf(stderr, "no dma-buf of %zu bytes: %s\n", len, iso_gpu_error(gpu));
        return false;
    }
    check_descriptor(fd, offset + len);
    close(fd);
    return true;
}

static bool export_parts(struct gpu *gpu, char *base, size_t len)
{
    if (!export_part(gpu, base, len))
        return false;
    CHECK(export_part(gpu, base + len / 2, len / 4));
    CHECK(export_part(gpu, base + 12345, 777));
    CHECK(export_part(gpu, base + len - 1, 1));
    return true;
}

static bool test_chunks(struct gpu *gpu)
{
    size_t len = 2 * iso_gpu_granularity(gpu);
    struct gpu_key key;
    char *base = NULL;
    CHECK_OR_EXIT(iso_gpu_reserve(gpu, 2 * len, &base) == 0);
    CHECK_OR_EXIT(iso_gpu_chunk_create(gpu, base, len, GPU_COMMUNICATION, &key) == 0);
    close(key.fd);
    bool exported = export_parts(gpu, base, len);
    iso_gpu_chunk_release(gpu, base, len);
    iso_gpu_unreserve(gpu, base, 2 * len);
    return exported;
}

static bool test_fixed(struct gpu *gpu)
{
    size_t len = (size_t)5 << 20;
    struct gpu_key key;
    char *base = NULL;
    CHECK_OR_EXIT(iso_gpu_shared_create(gpu, len, GPU_COMMUNICATION, &base, &key) == 0);
    if (key.fd >= 0)
        close(key.fd);
    bool exported = export_parts(gpu, base, len);
    iso_gpu_shared_destroy(gpu, base, len);
    return exported;
}

int main(void)
{
    struct gpu *gpu = NULL;
    char why[256] = "";
    if (iso_gpu_open(&gpu, 0, "", why, sizeof why) != 0)
        return CHECK_SKIP(why);
    const struct gpu_info *info = iso_gpu_describe(gpu);
    bool chunks = info->can_vmm && test_chunks(gpu), fixed = info->can_ipc && test_fixed(gpu);
    fprintf(stderr, "%s: dma-bufs of chunks %d, of fixed allocations %d; orders writes %d\n", info->name, chunks, fixed,
            info->orders_writes);
    bool is_cpu = strcmp(info->flavour, "cpu") == 0;
    CHECK(!is_cpu || (!chunks && !fixed));
    iso_gpu_flush_writes(gpu);
    iso_gpu_close(gpu);
    if (check_self.failures == 0 && !is_cpu && !chunks && !fixed)
        return CHECK_SKIP("this device or its driver makes no dma-bufs");
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
