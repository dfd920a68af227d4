/* SPDX-License-Identifier: MIT */
/* User buffers as segments. The whole pages that the buffer covers on every PE are remapped in place onto a memfd and
 * mapped by the peers; what is left at its ends shares pages with other data of the program and stays where it is: puts
 * and gets there are copied by the kernel ("staged"), atomics are refused with a sentence.
 * invariant: the pieces [0, lo) staged, [lo, hi) mapped, [hi, len) staged are the same offsets on all PEs. */
#include "../../bootstrap/log.h"
#include "../../bootstrap/memory_file.h"
#include "../team/agree.h"
#include "../gpu/device.h"
#include "../state/mapping.h"
#include "../team/team_offer.h"
#include "../transport/order.h"
#include "../transport/transport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#define BUFFER_FILE "isomer-buffer"

struct pages {
    char *base; /* the whole pages inside one PE's buffer */
    size_t len;
    int fd;
};

static size_t page_bytes(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static struct pages whole_pages(uintptr_t base, size_t len)
{
    uintptr_t mask = page_bytes() - 1, from = (base + mask) & ~mask, to = (base + len) & ~mask;
    struct pages p = {(char *)from, to > from ? to - from : 0, -1};
    return p;
}

/* Other threads must not write the buffer during this: the header says so. */
static int share_pages(struct pages *p, const char *call)
{
    char why[256];
    if (p->len == 0)
        return 0;
    int fd = iso_memory_file_make(BUFFER_FILE, 0, p->len, why, sizeof why);
    if (fd < 0) {
        log_error("%s: sharing %zu bytes at %p failed: %s", iso_call_name(call), p->len, (void *)p->base, why);
        return fd;
    }
    p->fd = fd;
    bool good = true;
    for (size_t done = 0; good && done < p->len;) {
        ssize_t n = pwrite(p->fd, p->base + done, p->len - done, (off_t)done);
        good = n > 0;
        done += good ? (size_t)n : 0;
        if (n == 0)
            errno = ENOSPC;
    }
    if (good &&
        mmap(p->base, p->len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, p->fd, 0) != MAP_FAILED)
        return 0;
    int rc = -errno;
    log_error("%s: sharing %zu bytes at %p failed: %m", iso_call_name(call), p->len, (void *)p->base);
    close(p->fd);
    p->fd = -1;
    return rc;
}

/* Makes the pages private memory again, with the same contents, in one step for a thread that reads them meanwhile.
 * Goes by halves where the address space has no room for a copy of the whole. */
static int unshare_pages(char *base, size_t len)
{
    void *copy = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int rc = copy == MAP_FAILED ? -errno : 0;
    if (rc == 0) {
        memcpy(copy, base, len);
        if (mremap(copy, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, base) != MAP_FAILED)
            return 0;
        rc = -errno;
        munmap(copy, len);
    }
    if (rc != -ENOMEM || len <= page_bytes())
        return rc;
    size_t half = (len / 2 + page_bytes() - 1) & ~(page_bytes() - 1);
    rc = unshare_pages(base, half);
    return rc == 0 ? unshare_pages(base + half, len - half) : rc;
}

/* ---- pieces ---- */

/* One peer's view of a piece: `mapped` is where its whole pages appear here, NULL when they do not. */
static void describe_buffer_peer(struct segment *s, size_t offset, int pe, const struct pe_offer *offer, char *mapped)
{
    struct segment_peer *p = &s->peers[pe];
    const struct peer *peer = &ISO->peers[pe];
    struct pages theirs = whole_pages((uintptr_t)offer->base, (size_t)offer->len);
    p->base = (char *)(uintptr_t)offer->base + offset;
    if (peer->threaded)
        p->cpu_ptr = peer->by_pointer ? p->base : NULL;
    else if (!s->staged && mapped != NULL)
        p->cpu_ptr = mapped + (p->base - theirs.base);
}

struct split {
    size_t lo, hi; /* offsets of the piece that is whole pages on every PE; lo == hi: none */
};

/* The up to three pieces of a buffer; NULL: nothing there. */
struct pieces {
    struct segment *of[3];
    size_t from[3]; /* offsets in the buffer */
};

static int make_pieces(const struct buffer *b, struct split split, struct pieces *pieces)
{
    struct state *self = ISO;
    size_t from[] = {0, split.lo, split.hi}, to[] = {split.lo, split.hi, b->len};
    size_t wanted = (size_t)(from[0] < to[0]) + (from[1] < to[1]) + (from[2] < to[2]);
    memcpy(pieces->from, from, sizeof from);
    if ((size_t)self->n_segments + wanted > ISO_SEGMENTS_MAX) {
        log_error("%s: all %d segments are in use; unregister buffers that are no longer needed",
                  iso_call_name(b->call), ISO_SEGMENTS_MAX);
        return -ENOSPC;
    }
    for (int i = 0; i < 3; i++) {
        pieces->of[i] = NULL;
        if (from[i] >= to[i])
            continue;
        struct segment *s = &self->segments[self->n_segments];
        memset(s, 0, sizeof *s);
        s->peers = (struct segment_peer *)calloc((size_t)self->n_pes, sizeof *s->peers);
        if (s->peers == NULL) {
            log_error("%s: no memory is left for the addresses of %d PEs", iso_call_name(b->call), self->n_pes);
            return -ENOMEM;
        }
        s->base = b->addr + from[i];
        s->len = s->limit = to[i] - from[i];
        s->kind = SEGMENT_BUFFER;
        s->fd = -1;
        s->staged = i != 1;
        s->peers[self->my_pe].base = s->peers[self->my_pe].cpu_ptr = s->base;
        self->n_segments++;
        /* Others name places by the first piece alone. */
        s->number = from[i] == 0 ? b->number : iso_segment_free_number(ISOD_SEGMENT_BUFFERS);
        pieces->of[i] = s;
    }
    for (int i = 2; i >= 0; i--)
        if (pieces->of[i] != NULL && from[i] == 0)
            pieces->of[i]->first_bytes = b->len;
    return 0;
}

/* A pointer of ours into each peer's pages, kept in the table of the mapped piece. What was added stays when this fails
 * half way: the caller takes it out again. */
static int add_pieces(const struct buffer *b, struct pe_offer *offers, struct split split)
{
    struct state *self = ISO;
    struct pieces pieces = {{NULL, NULL, NULL}, {0, 0, 0}};
    int rc = make_pieces(b, split, &pieces);
    for (int l = 0; rc == 0 && l < self->n_local; l++) {
        int pe = self->local_pes[l];
        bool is_member = offers[l].len != 0;
        bool maps = is_member && pe != self->my_pe && split.lo < split.hi && !self->peers[pe].threaded;
        size_t theirs = whole_pages((uintptr_t)offers[l].base, (size_t)offers[l].len).len;
        void *mapped = NULL;
        if (maps && offers[l].fd < 0) {
            log_error("%s: the descriptor of the pages of pe %d did not arrive; raise ulimit -n",
                      iso_call_name(b->call), pe);
            return -EMFILE;
        }
        if (maps) {
            mapped = mmap(NULL, theirs, PROT_READ | PROT_WRITE, MAP_SHARED, offers[l].fd, 0);
            rc = mapped == MAP_FAILED ? -errno : 0;
            if (rc != 0)
                log_error("%s: mapping %zu bytes of pe %d failed: %m", iso_call_name(b->call), theirs, pe);
            close(offers[l].fd);
            offers[l].fd = -1;
            if (rc != 0)
                return rc;
        }
        for (int i = 0; i < 3 && is_member && pe != self->my_pe; i++)
            if (pieces.of[i] != NULL)
                describe_buffer_peer(pieces.of[i], pieces.from[i], pe, &offers[l], (char *)mapped);
    }
    return rc;
}

/* Staged bytes need the kernel's leave to copy between processes of one user: try it once, now. */
static int probe_staging(const struct pe_offer *offers, const char *call)
{
    struct state *self = ISO;
    for (int i = 0; i < self->n_local; i++) {
        const struct peer *peer = &self->peers[self->local_pes[i]];
        char byte;
        struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)offers[i].base, 1};
        if (peer->pe == self->my_pe || peer->threaded || offers[i].len == 0 ||
            process_vm_readv(peer->pid, &here, 1, &there, 1, 0) == 1)
            continue;
        log_error("%s: the ends of the buffer share pages with other data, and copying from pe %d (pid %d) is not "
                  "allowed: %m; align address and length to %zu bytes",
                  iso_call_name(call), peer->pe, peer->pid, page_bytes());
        return -EPERM;
    }
    return 0;
}

/* ---- the calls ---- */

/* What is whole pages on all members of this node. */
static struct split split_of(const struct pe_offer *offers, size_t len)
{
    struct split split = {0, len};
    for (int i = 0; i < ISO->n_local; i++) {
        struct pages p = whole_pages((uintptr_t)offers[i].base, len);
        size_t from = p.len > 0 ? (size_t)((uintptr_t)p.base - offers[i].base) : len;
        if (offers[i].len == 0)
            continue;
        split.lo = ISO_MAX(split.lo, from);
        split.hi = ISO_MIN(split.hi, from + p.len);
    }
    if (split.lo >= split.hi)
        split.lo = split.hi = 0;
    return split;
}

/* Collective over the team, also for a PE that could not share its pages: its `status` tells the others. */
static int connect_pieces(const struct buffer *b, int status, int fd, shmemx_buffer_info_t *info)
{
    struct pe_offer mine = {(uint64_t)(uintptr_t)b->addr, b->len, {0}, status, fd}, *offers = iso_device_new_offers();
    if (offers == NULL)
        return iso_refuse_alone(b->call, "no memory for the addresses of %d PEs", ISO->n_local);
    int rc = iso_team_exchange(b->team, &mine, offers, b->call);
    for (int i = 0; rc == 0 && i < ISO->n_local; i++)
        rc = offers[i].extra; /* that PE of the node has failed by it, and has said so */
    bool equal = true;
    for (int i = 0; i < ISO->n_local; i++)
        equal &= offers[i].len == b->len || offers[i].len == 0;
    if (rc == 0 && !equal) {
        log_error("%s: len_bytes differs between PEs (%zu here); it must be equal", iso_call_name(b->call), b->len);
        rc = -EINVAL;
    }
    struct split split = {0, 0};
    if (rc == 0) {
        split = split_of(offers, b->len);
        if (split.hi - split.lo < b->len)
            rc = probe_staging(offers, b->call);
    }
    if (rc == 0)
        rc = add_pieces(b, offers, split);
    iso_device_close_offers(offers);
    if (info == NULL)
        return rc;
    const char *method = split.hi > split.lo ? "pages" : "staged";
    memset(info, 0, sizeof *info);
    info->mapped_bytes = split.hi - split.lo;
    info->staged_bytes = b->len - info->mapped_bytes;
    memcpy(info->method, method, strlen(method));
    return rc;
}

static void forget_pieces(const char *addr, size_t len)
{
    const struct state *self = ISO;
    for (int i = self->n_segments - 1; i >= SEGMENT_INDEX_FREE; i--) {
        struct segment *s = &self->segments[i];
        if (s->base < addr || s->base >= addr + len)
            continue;
        if (s->on_device) {
            iso_device_buffer_forget(s);
            continue;
        }
        iso_transport_forget(s);
        for (int pe = 0; pe < self->n_pes && !s->staged; pe++) {
            char *at = s->peers[pe].cpu_ptr;
            if (pe == self->my_pe || at == NULL || self->peers[pe].threaded)
                continue;
            size_t lead = (uintptr_t)at & (page_bytes() - 1);
            munmap(at - lead, s->len + lead);
        }
        iso_segment_remove(s);
    }
}

/* Of one mapping: its pages from `at` on to `end` at most. Returns where they end. */
static int unshare_mapping(char *at, char *end, char **to)
{
    struct mapping m;
    int found = iso_mapping_find((uintptr_t)at, &m), kept = PROT_READ | PROT_WRITE;
    *to = end;
    if (found == -ENXIO)
        return 0;
    if (found != 0) /* no descriptor is left, for example: as they were registered */
        return unshare_pages(at, (size_t)(end - at));
    char *from = (char *)ISO_MAX(m.from, (uintptr_t)at);
    *to = (char *)ISO_MIN(m.to, (uintptr_t)end);
    if (from >= *to || strstr(m.path, BUFFER_FILE) == NULL)
        return 0;
    if (memcmp(m.protection, "rw-", 3) != 0) {
        kept = (m.protection[0] == 'r' ? PROT_READ : 0) | (m.protection[1] == 'w' ? PROT_WRITE : 0) |
               (m.protection[2] == 'x' ? PROT_EXEC : 0);
        (void)mprotect(from, (size_t)(*to - from), PROT_READ); /* for the copy */
    }
    int rc = unshare_pages(from, (size_t)(*to - from));
    if (kept != (PROT_READ | PROT_WRITE))
        (void)mprotect(from, (size_t)(*to - from), kept);
    return rc;
}

/* 0, or -errno after a sentence. A mapping that the program has made in the buffer's place stays, and so does a
 * protection that it has given to pages. */
static int release_pages(char *addr, size_t len)
{
    struct pages mine = whole_pages((uintptr_t)addr, len);
    int rc = 0;
#ifdef ISO_PES_AS_THREADS
    mine.len = 0;
#endif
    char *end = mine.base + mine.len;
    for (char *at = mine.base; at < end && rc == 0;)
        rc = unshare_mapping(at, end, &at);
    if (rc != 0)
        log_error("making %zu bytes at %p private again, of a registered buffer, failed: %s", mine.len,
                  (void *)mine.base, strerror(-rc));
    return rc;
}

/* What is wrong with a buffer of this PE, as a sentence. 0 or -EINVAL. */
static int examine(const char *addr, size_t len, char *sentence, size_t bytes)
{
    bool overlaps = false;
    char why[320];
    for (int i = 0; i < ISO->n_segments && len <= UINTPTR_MAX - (uintptr_t)addr; i++) {
        const struct segment *s = &ISO->segments[i];
        uintptr_t from = (uintptr_t)addr, base = (uintptr_t)s->base; /* addr may be NULL, or point to nothing */
        overlaps = overlaps || (from < base + s->len && base < from + len);
    }
    if (addr == NULL || len == 0)
        snprintf(sentence, bytes, "has addr %p with len_bytes %zu; a non-null address and at least 1 byte are needed",
                 (const void *)addr, len);
    else if (len > UINTPTR_MAX - (uintptr_t)addr)
        snprintf(sentence, bytes,
                 "has addr %p with len_bytes %zu, which ends beyond the address space; at most %zu bytes fit there",
                 (const void *)addr, len, (size_t)(UINTPTR_MAX - (uintptr_t)addr));
    else if (overlaps)
        snprintf(sentence, bytes, "has addr %p with %zu bytes, which overlaps memory that is symmetric already",
                 (const void *)addr, len);
    else if (iso_device_pointer_kind(addr) == GPU_POINTER_PINNED ||
             iso_device_pointer_kind(addr + len - 1) == GPU_POINTER_PINNED)
        snprintf(sentence, bytes,
                 "has addr %p with %zu bytes of host memory that is pinned for the device, which would go on with the "
                 "old pages; give memory that is not pinned",
                 (const void *)addr, len);
    else if (iso_device_pointer_kind(addr) == GPU_POINTER_HOST && iso_mapping_examine(addr, len, why, sizeof why) != 0)
        snprintf(sentence, bytes, "has addr %p with %zu bytes, which cannot be registered: %s", (const void *)addr, len,
                 why);
    else
        return 0;
    return -EINVAL;
}

/* Returns what the calls return. */
static int register_host(const struct buffer *b, shmemx_buffer_info_t *info)
{
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* for staged bytes; still only processes of our own user */
    struct pages mine = whole_pages((uintptr_t)b->addr, b->len);
#ifdef ISO_PES_AS_THREADS
    mine.len = 0; /* one address space: nothing to share */
#endif
    int status = share_pages(&mine, b->call);
    int rc = connect_pieces(b, status, mine.fd, info);
    int told = iso_agree_addresses(b->team, b->addr, b->len, b->call);
    rc = rc != 0 ? rc : told;
    if (ISO->device != NULL)
        iso_device_table_changed();
    bool all = iso_agree_min(b->team, rc == 0, b->call) != 0;
    if (!all) { /* a PE has failed, so no PE may have the buffer */
        forget_pieces(b->addr, b->len);
        if (mine.fd >= 0)
            (void)release_pages(b->addr, b->len);
        if (ISO->device != NULL)
            iso_device_table_changed();
    }
    if (mine.fd >= 0)
        close(mine.fd);
    return all ? 0 : 1;
}

static int register_buffer(struct buffer *b, shmemx_buffer_info_t *info)
{
    char sentence[480] = "";
    bool is_device = false;
    int wrong = examine(b->addr, b->len, sentence, sizeof sentence);
    if (iso_agree_outcome(b->team, wrong, sentence, b->call) != 0 ||
        iso_agree_segment_number(b->team, &b->number, b->call) != 0)
        return 1;
    if (ISO->device != NULL && iso_device_buffer_is(b, &is_device) != 0)
        return 1;
    if (is_device)
        return iso_device_buffer_register(b, info) == 0 ? 0 : 1;
    return register_host(b, info);
}

SHMEM_API(shmemx_buffer_register, pshmemx_buffer_register);
int pshmemx_buffer_register(void *addr, size_t len_bytes, shmemx_buffer_info_t *info)
{
    struct buffer b = {ISO->world, __func__, (char *)addr, len_bytes, 0};
    return iso_enter(__func__) == 0 ? register_buffer(&b, info) : 1;
}

/* NULL after a sentence. */
static struct team *team_of(shmem_team_t handle, const char *call)
{
    if (iso_enter(call) != 0)
        return NULL;
    struct team *team = iso_team_or_null(handle);
    if (team == NULL)
        log_error("%s: team %p is not a team of this PE, or was destroyed", iso_call_name(call), (void *)handle);
    return team;
}

SHMEM_API(shmemx_team_buffer_register, pshmemx_team_buffer_register);
int pshmemx_team_buffer_register(shmem_team_t team, void *addr, size_t len_bytes, shmemx_buffer_info_t *info)
{
    struct buffer b = {team_of(team, __func__), __func__, (char *)addr, len_bytes, 0};
    return b.team != NULL ? register_buffer(&b, info) : 1;
}

/* SHMEM_DEBUG: a buffer that was freed too early is unmapped, or some other mapping, by now. */
static int check_still_shared(const char *addr, size_t len)
{
    struct pages mine = whole_pages((uintptr_t)addr, len);
    struct mapping m;
    int rc = mine.len > 0 ? iso_mapping_find((uintptr_t)mine.base, &m) : -ENOTSUP;
    if ((rc != 0 && rc != -ENXIO) ||
        (rc == 0 && m.from <= (uintptr_t)mine.base && strstr(m.path, BUFFER_FILE) != NULL))
        return 0;
    return iso_refuse("shmemx_buffer_unregister", "the buffer %p (%zu bytes) was freed before it was unregistered",
                      (const void *)addr, len);
}

static int unregister_buffer(struct team *team, void *addr, const char *call)
{
    char sentence[96];
    const struct segment *first = NULL; /* the piece with the buffer's first byte */
    for (int i = SEGMENT_INDEX_FREE; i < ISO->n_segments && first == NULL; i++)
        if (ISO->segments[i].base == (char *)addr && ISO->segments[i].first_bytes != 0)
            first = &ISO->segments[i];
    uint64_t number = first != NULL ? (uint64_t)(unsigned)first->number : 0;
    snprintf(sentence, sizeof sentence, "has addr %p, which is not the start of a registered buffer", addr);
    if (iso_agree_outcome(team, first != NULL ? 0 : -EINVAL, sentence, call) != 0 || first == NULL)
        return 1;
    uint64_t least = iso_agree_min(team, number, call);
    int other = least == number ? 0 : -EINVAL;
    if (iso_agree_outcome(team, other, "has another registration there than other PEs", call) != 0)
        return 1;
    size_t len = first->first_bytes;
    bool on_device = first->on_device;
#ifndef ISO_PES_AS_THREADS
    if (ISO->debug && !on_device && check_still_shared((const char *)addr, len) != 0)
        return 1;
#else
    (void)check_still_shared;
#endif
    iso_quiet_all(call);
    if (iso_barrier_sync(team, call) != 0) /* no member puts into it any more */
        return 1;
    forget_pieces((const char *)addr, len);
    int rc = on_device ? 0 : release_pages((char *)addr, len);
    if (on_device || ISO->device != NULL)
        iso_device_table_changed();
    return iso_agree_min(team, rc == 0, call) != 0 ? 0 : 1;
}

SHMEM_API(shmemx_buffer_unregister, pshmemx_buffer_unregister);
int pshmemx_buffer_unregister(void *addr)
{
    return iso_enter(__func__) == 0 ? unregister_buffer(ISO->world, addr, __func__) : 1;
}

SHMEM_API(shmemx_team_buffer_unregister, pshmemx_team_buffer_unregister);
int pshmemx_team_buffer_unregister(shmem_team_t team_handle, void *addr)
{
    struct team *team = team_of(team_handle, __func__);
    return team != NULL ? unregister_buffer(team, addr, __func__) : 1;
}

/* Finalize with registered buffers left: memory keeps its contents and becomes private again. */
void iso_buffer_stop(void)
{
    struct state *self = ISO;
    while (self->segments != NULL && self->n_segments > SEGMENT_INDEX_FREE) {
        struct segment *s = &self->segments[SEGMENT_INDEX_FREE];
        char *base = s->base;
        size_t len = s->first_bytes;
        for (int i = SEGMENT_INDEX_FREE; len == 0 && i < self->n_segments; i++)
            if (self->segments[i].first_bytes != 0) {
                base = self->segments[i].base;
                len = self->segments[i].first_bytes;
            }
        if (len == 0)
            return;
        forget_pieces(base, len);
        release_pages(base, len);
    }
}
