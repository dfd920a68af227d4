/* SPDX-License-Identifier: MIT */
/* The device heap from inside: where the table says that peers' heaps are, few and geometrically growing chunks, the
 * agent between memory of any two kinds and on words of any size, buffers of the device's own allocator, and what is
 * refused. Runs on whatever device the build has. */
#include "../../shmem/gpu/device.h"
#include "../../shmem/transport/transport.h"
#include "../check.h"

#include <unistd.h>

#define MIB ((size_t)1 << 20)

static struct device *device(void) { return ISO->device; }
static struct segment *segment(void) { return &ISO->segments[SEGMENT_INDEX_DEVICE]; }
static int next_pe(void) { return (check_self.pe + 1) % check_self.npes; }
static int previous_pe(void) { return (check_self.pe + check_self.npes - 1) % check_self.npes; }

static void check_table(void)
{
    const struct segment *s = segment();
    const struct device *d = device();
    CHECK(s->on_device && s->kind == SEGMENT_DEVICE && s->base != NULL && s->len == d->heap_bytes);
    CHECK(s->limit == d->control_bytes && s->peers[check_self.pe].gpu_ptr == s->base);
    for (int i = 0; i < ISO->n_local; i++) {
        const struct segment_peer *peer = &s->peers[ISO->local_pes[i]];
        bool hidden = ISO->local_pes[i] != check_self.pe && !ISO->peers[ISO->local_pes[i]].by_pointer;
        CHECK(peer->cpu_ptr == NULL && (peer->gpu_ptr == NULL) == hidden && peer->base != NULL);
        if (d->window != NULL)
            CHECK(peer->gpu_ptr == d->window + (size_t)i * d->window_stride);
        if (ISO->peers[ISO->local_pes[i]].threaded && !hidden)
            CHECK(peer->gpu_ptr == peer->base);
    }
}

/* A dozen allocations of 16 MiB make a handful of chunks. */
static void check_chunks(void)
{
    enum { OBJECTS = 12 };
    char *objects[OBJECTS];
    const struct device *d = device();
    for (int i = 0; i < OBJECTS; i++) {
        objects[i] = (char *)shmemx_malloc(16 * MIB, SHMEMX_DEVICE);
        CHECK_OR_EXIT(objects[i] != NULL);
        CHECK(segment()->limit <= d->backed_bytes && d->backed_bytes <= d->heap_bytes);
    }
    size_t end = 0;
    for (int i = 0; i < d->n_chunks; i++) {
        CHECK(d->chunks[i].at == end && d->chunks[i].len % d->granularity == 0);
        end += d->chunks[i].len;
    }
    if (d->sharing == GPU_SHARE_VMM)
        CHECK(d->n_chunks <= 5 && end == d->backed_bytes);
    for (int i = 0; i < OBJECTS; i++)
        shmemx_free(objects[i]);
    CHECK_EQ(iso_alloc_stats(d->alloc).objects, 0);
}

/* ---- the agent ---- */

enum { KINDS = 4 }; /* private, pinned, the device's own, symmetric device memory */

struct memories {
    void *at[KINDS];
};

static void memories_make(struct memories *m, size_t len)
{
    void *for_kernels;
    m->at[0] = malloc(len);
    CHECK_OR_EXIT(m->at[0] != NULL && iso_gpu_host_alloc(device()->gpu, len, &m->at[1], &for_kernels) == 0);
    CHECK_OR_EXIT(iso_gpu_alloc(device()->gpu, len, &m->at[2]) == 0);
    m->at[3] = shmemx_malloc(len, SHMEMX_DEVICE);
    CHECK_OR_EXIT(m->at[3] != NULL);
}

static void memories_drop(struct memories *m)
{
    free(m->at[0]);
    iso_gpu_host_free(device()->gpu, m->at[1]);
    iso_gpu_free(device()->gpu, m->at[2]);
    shmemx_free(m->at[3]);
}

static void check_copies(void)
{
    static const size_t lengths[] = {1, 7, 4096, MIB - 1, MIB, MIB + 1, 2 * MIB, 3 * MIB + 77};
    const size_t most = 3 * MIB + 77;
    struct memories from, to;
    char *out = (char *)malloc(most), *back = (char *)malloc(most);
    CHECK_OR_EXIT(out != NULL && back != NULL);
    memories_make(&from, most);
    memories_make(&to, most);
    unsigned number = 0;
    for (unsigned i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        for (int f = 0; f < KINDS; f++)
            for (int t = 0; t < KINDS; t++) {
                if (lengths[i] > 4096 && !check_has_case(number++))
                    continue;
                check_fill(out, lengths[i], f, t, i);
                iso_agent_copy(from.at[f], out, lengths[i]);
                iso_agent_copy(to.at[t], from.at[f], lengths[i]);
                memset(back, 0, lengths[i]);
                iso_agent_copy(back, to.at[t], lengths[i]);
                CHECK_FILLED(back, lengths[i], f, t, i);
            }
    free(out);
    free(back);
    memories_drop(&to);
    memories_drop(&from);
}

static void check_loads(void)
{
    static const unsigned sizes[] = {1, 2, 4, 8};
    unsigned char bytes[16];
    char *words = (char *)shmemx_malloc(16, SHMEMX_DEVICE);
    CHECK_OR_EXIT(words != NULL);
    check_fill(bytes, 16, 1, 2, 3);
    iso_agent_copy(words, bytes, 16);
    for (int s = 0; s < 4; s++)
        for (size_t at = 0; at < 16; at += sizes[s]) {
            uint64_t expected = 0;
            memcpy(&expected, bytes + at, sizes[s]);
            CHECK(iso_agent_load(words + at, sizes[s]) == expected);
        }
    shmemx_free(words);
}

/* ---- registered buffers ---- */

/* The program's memory: of the vendor's plain call, or a range that it has mapped itself (VMM). */
static char *own_memory(size_t len, bool mapped)
{
    struct gpu *gpu = device()->gpu;
    struct gpu_key key;
    void *memory;
    char *at;
    if (!mapped) {
        CHECK_OR_EXIT(iso_gpu_alloc(gpu, len, &memory) == 0);
        return (char *)memory;
    }
    CHECK_OR_EXIT(iso_gpu_reserve(gpu, len, &at) == 0);
    CHECK_OR_EXIT(iso_gpu_chunk_create(gpu, at, len, GPU_BULK, &key) == 0);
    close(key.fd);
    return at;
}

static void drop_memory(char *memory, size_t len, bool mapped)
{
    if (mapped) {
        iso_gpu_chunk_release(device()->gpu, memory, len);
        iso_gpu_unreserve(device()->gpu, memory, len);
    } else {
        iso_gpu_free(device()->gpu, memory);
    }
}

/* Whether a buffer in a mapped range can be registered. */
static bool mapped_are_shared(void)
{
    size_t page = device()->granularity;
    if (device()->sharing != GPU_SHARE_VMM)
        return false;
    char *memory = own_memory(page, true);
    struct gpu_allocation a;
    bool shared = iso_gpu_export_foreign(device()->gpu, memory + 100, &a) == 0;
    if (shared) {
        CHECK(a.method == GPU_SHARE_VMM && a.start == memory && a.len == page);
        close(a.key.fd);
    }
    drop_memory(memory, page, true);
    return shared;
}

static void check_buffer(size_t offset, size_t len, bool mapped)
{
    char *whole, *out = (char *)malloc(len), *back = (char *)malloc(len);
    shmemx_buffer_info_t info;
    size_t shift = offset * (size_t)(1 + check_self.pe % 2); /* addresses and offsets differ between PEs */
    size_t page = device()->granularity, room = mapped ? (shift + len + page - 1) / page * page : shift + len;
    CHECK_OR_EXIT(out != NULL && back != NULL);
    whole = own_memory(room, mapped);
    char *buffer = whole + shift;
    check_fill(out, len, 9, check_self.pe, 1);
    iso_agent_copy(buffer, out, len);
    CHECK_EQ(shmemx_buffer_register(buffer, len, &info), 0);
    CHECK(info.is_device == 1 && info.mapped_bytes == len && info.staged_bytes == 0);
    CHECK(strcmp(info.method, mapped ? "vmm" : "ipc") == 0);
    CHECK(shmem_ptr(buffer, check_self.pe) == NULL);
    shmem_barrier_all();
    shmem_getmem(back, buffer, len, next_pe()); /* contents are kept */
    CHECK_FILLED(back, len, 9, next_pe(), 1);
    shmem_barrier_all();
    check_fill(out, len, check_self.pe, next_pe(), 2);
    shmem_putmem(buffer, out, len, next_pe());
    shmem_barrier_all();
    iso_agent_copy(back, buffer, len);
    CHECK_FILLED(back, len, previous_pe(), check_self.pe, 2);
    CHECK_EQ(shmemx_buffer_unregister(buffer), 0);
    CHECK(shmem_addr_accessible(buffer, next_pe()) == 0);
    iso_agent_copy(back, buffer, len);
    CHECK_FILLED(back, len, previous_pe(), check_self.pe, 2);
    drop_memory(whole, room, mapped);
    free(out);
    free(back);
}

static bool reserved_for_symmetric(const char *addr)
{
    for (int i = 0; i < ISO->n_segments; i++)
        if (addr >= ISO->segments[i].base && addr < ISO->segments[i].base + ISO->segments[i].len)
            return true;
    return false;
}

/* One PE has too little of it: everybody is refused, nothing stays behind. Symmetric memory right behind the allocation
 * would be another mistake, an overlap: then the next allocation is taken. */
static void check_refused_buffer(void)
{
    enum { TRIES = 8, LEN = 1000, ROOM = 100 };
    void *memory[TRIES];
    int n = 0, segments = ISO->n_segments;
    char *end;
    do {
        CHECK_OR_EXIT(n < TRIES && iso_gpu_alloc(device()->gpu, MIB, &memory[n]) == 0);
        end = (char *)memory[n++] + MIB;
    } while (reserved_for_symmetric(end));
    char *addr = end - (check_self.pe == check_self.npes - 1 ? ROOM : MIB);
    CHECK(shmemx_buffer_register(addr, LEN, NULL) != 0);
    CHECK_EQ(ISO->n_segments, segments);
    shmem_barrier_all();
    while (n > 0)
        iso_gpu_free(device()->gpu, memory[--n]);
}

/* Host buffers beside it are what they were. */
static void check_host_buffer(void)
{
    enum { LEN = 3 * 4096 };
    shmemx_buffer_info_t info;
    char *buffer = (char *)aligned_alloc(4096, LEN);
    CHECK_OR_EXIT(buffer != NULL);
    CHECK_EQ(shmemx_buffer_register(buffer, LEN, &info), 0);
    CHECK(info.is_device == 0 && info.method[0] != 0);
    shmem_barrier_all();
    CHECK_EQ(shmemx_buffer_unregister(buffer), 0);
    free(buffer);
}

static int test_main(void)
{
    CHECK_INIT();
    CHECK(device() == NULL && iso_device_running("test") == NULL);
    if (shmemx_device_init() != 0) {
        shmem_finalize();
        return CHECK_SKIP("there is no device for every PE");
    }
    CHECK(device() != NULL && iso_device_running("test") == device());
    check_table();
    check_chunks();
    check_copies();
    check_loads();
    for (int mapped = 0; mapped <= (mapped_are_shared() ? 1 : 0); mapped++) {
        check_buffer(0, 100000, mapped != 0);
        check_buffer(4096 + 40, 5 * MIB + 3, mapped != 0);
    }
    check_refused_buffer();
    check_host_buffer();
    return CHECK_DONE();
}

CHECK_MAIN(test_main)
