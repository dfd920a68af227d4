/* SPDX-License-Identifier: MIT */
/* A registration that fails on one PE: it returns nonzero on all of them and says why on one at least, nothing of the
 * buffer stays symmetric or shared, its contents are kept, and the same buffer can be registered afterwards. Memory that
 * would be cut off from others or change its protection is such a case. */
#include "../../include/shmemx.h"
#include "../../shmem/state/mapping.h"
#include "../../shmem/memory/segment.h"
#include "../check.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { PAGE = 4096, LEN = 16 * PAGE };

static bool is_last(void) { return check_self.pe == check_self.npes - 1; }

static char *take_pages(size_t len)
{
    char *at = (char *)mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK_OR_EXIT(at != (char *)MAP_FAILED);
    return at;
}

/* ---- what the library says ---- */

struct heard {
    int file, before;
};

static struct heard begin_to_hear(void)
{
    struct heard heard = {memfd_create("heard", 0), -1};
    fflush(stderr);
    if (CHECK_PES_ARE_THREADS) /* one stderr for all */
        return heard;
    heard.before = dup(STDERR_FILENO);
    dup2(heard.file, STDERR_FILENO);
    return heard;
}

static void end_hearing(struct heard heard, char *said, size_t bytes)
{
    said[0] = '\0';
    if (heard.before >= 0) {
        dup2(heard.before, STDERR_FILENO);
        close(heard.before);
        ssize_t n = pread(heard.file, said, bytes - 1, 0);
        said[n > 0 ? n : 0] = '\0';
    }
    close(heard.file);
}

static void check_said(const char *said, const char *words)
{
    if (!CHECK_PES_ARE_THREADS && !CHECK_NAMED(strstr(said, words) != NULL, words))
        fprintf(stderr, "seen: %s\n", said);
}

/* ---- what is left ---- */

static bool is_shared(const char *base)
{
    char line[512];
    bool shared = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx", &from, &to) == 2 && from <= (uintptr_t)base && (uintptr_t)base < to)
            shared = strstr(line, "isomer-buffer") != NULL;
    }
    if (maps != NULL)
        fclose(maps);
    return shared;
}

static void check_gone(char *buffer, int n_segments)
{
    for (int pe = 0; pe < check_self.npes; pe++)
        CHECK_EQ(shmem_addr_accessible(buffer, pe), 0);
    CHECK_EQ(ISO->n_segments, n_segments);
    CHECK(!is_shared(buffer));
    CHECK_FILLED(buffer, LEN, check_self.pe, 1, 1);
}

static void check_works(char *buffer)
{
    int me = check_self.pe, npes = check_self.npes, next = (me + 1) % npes, previous = (me + npes - 1) % npes;
    CHECK_EQ(shmemx_buffer_register(buffer, LEN, NULL), 0);
    shmem_long_p((long *)(void *)buffer, 100 + me, next);
    shmem_barrier_all();
    CHECK_EQ(*(long *)(void *)buffer, 100 + previous);
    CHECK_EQ(shmemx_buffer_unregister(buffer), 0);
    CHECK(!is_shared(buffer));
}

/* ---- the cases ---- */

/* The last PE may open this many descriptors more. */
static void test_descriptors(int most, const char *words)
{
    char *buffer = take_pages(LEN), said[1024];
    int n_segments = ISO->n_segments;
    struct rlimit all, few;
    check_fill(buffer, LEN, check_self.pe, 1, 1);
    struct heard heard = begin_to_hear();
    int next = dup(heard.file);
    close(next);
    getrlimit(RLIMIT_NOFILE, &all);
    few = all;
    few.rlim_cur = (rlim_t)(next + most);
    if (is_last())
        setrlimit(RLIMIT_NOFILE, &few);
    int status = shmemx_buffer_register(buffer, LEN, NULL);
    setrlimit(RLIMIT_NOFILE, &all);
    end_hearing(heard, said, sizeof(said));
    CHECK(status != 0);
    if (is_last())
        check_said(said, words);
    check_gone(buffer, n_segments);
    check_works(buffer);
    munmap(buffer, LEN);
}

static void test_lengths(void)
{
    char *buffer = take_pages(LEN), said[1024];
    int n_segments = ISO->n_segments;
    check_fill(buffer, LEN, check_self.pe, 1, 1);
    struct heard heard = begin_to_hear();
    int status = shmemx_buffer_register(buffer, is_last() ? LEN : LEN / 2, NULL);
    end_hearing(heard, said, sizeof(said));
    CHECK(status != 0);
    check_said(said, "len_bytes differs between PEs");
    check_gone(buffer, n_segments);
    check_works(buffer);
    munmap(buffer, LEN);
}

/* Of the last PE: all get an error, and go on. */
static void test_wrong_arguments(void)
{
    char *buffer = take_pages(LEN), *other = take_pages(LEN), said[4096];
    char *object = (char *)shmem_malloc(1000);
    int n_segments = ISO->n_segments;
    CHECK_OR_EXIT(object != NULL);
    check_fill(buffer, LEN, check_self.pe, 1, 1);
    struct heard heard = begin_to_hear();
    CHECK(shmemx_buffer_register(is_last() ? NULL : buffer, LEN, NULL) != 0);
    CHECK(shmemx_buffer_register(buffer, is_last() ? 0 : LEN, NULL) != 0);
    CHECK(shmemx_buffer_register(is_last() ? object + 100 : buffer, 100, NULL) != 0);
    CHECK_EQ(ISO->n_segments, n_segments);
    CHECK_EQ(shmemx_buffer_register(buffer, LEN, NULL), 0);
    CHECK(shmemx_buffer_register(is_last() ? buffer + LEN / 2 : other, LEN, NULL) != 0);
    CHECK(shmemx_buffer_unregister(is_last() ? buffer + 1 : buffer) != 0);
    CHECK_EQ(shmemx_buffer_unregister(buffer), 0);
    end_hearing(heard, said, sizeof(said));
    if (is_last()) {
        check_said(said, "a non-null address and at least 1 byte are needed");
        check_said(said, "overlaps memory that is symmetric already");
        check_said(said, "not the start of a registered buffer");
    }
    check_gone(buffer, n_segments);
    check_works(buffer);
    shmem_free(object);
    munmap(buffer, LEN);
    munmap(other, LEN);
}

/* Three pieces each, so that the table ends inside the last one. */
static void test_full_table(void)
{
    enum { STEP = 4 * PAGE, FROM = 64, BYTES = 3 * PAGE };
    char *area = take_pages(ISO_SEGMENTS_MAX * STEP), said[1024];
    int n = 0, status = 0;
    struct heard heard = begin_to_hear();
    for (; n < ISO_SEGMENTS_MAX && status == 0; n++)
        status = shmemx_buffer_register(area + n * STEP + FROM, BYTES, NULL);
    end_hearing(heard, said, sizeof(said));
    CHECK(status != 0);
    check_said(said, "all 512 segments are in use");
    n--;
    CHECK_EQ(shmem_addr_accessible(area + n * STEP + FROM, 0), 0);
    CHECK(!is_shared(area + n * STEP + PAGE));
    for (int i = 0; i < n; i++)
        CHECK_EQ(shmemx_buffer_unregister(area + i * STEP + FROM), 0);
    CHECK_EQ(ISO->n_segments, SEGMENT_INDEX_FREE);
    munmap(area, ISO_SEGMENTS_MAX * STEP);
}

/* ---- memory that must stay what it is ---- */

/* Of the last PE, whole or only some pages of it; the others' is right. */
static void check_stays(char *bad, const char *words)
{
    char *buffer = take_pages(LEN), said[4096];
    int n_segments = ISO->n_segments;
    check_fill(buffer, LEN, check_self.pe, 1, 1);
    struct heard heard = begin_to_hear();
    CHECK_NAMED(shmemx_buffer_register(is_last() ? bad : buffer, LEN, NULL) != 0, words);
    CHECK_NAMED(shmemx_team_buffer_register(SHMEM_TEAM_WORLD, is_last() ? bad : buffer, LEN, NULL) != 0, words);
    end_hearing(heard, said, sizeof(said));
    if (is_last())
        check_said(said, words);
    check_gone(buffer, n_segments);
    munmap(buffer, LEN);
}

static void test_shared_with_a_file(void)
{
    int file = memfd_create("theirs", MFD_CLOEXEC);
    char byte = 0, *area = take_pages(2 * LEN);
    CHECK_OR_EXIT(file >= 0 && ftruncate(file, LEN / 2) == 0);
    char *shared =
        (char *)mmap(area + LEN / 2, LEN / 2, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
    CHECK_OR_EXIT(shared == area + LEN / 2);
    check_stays(area, "is a shared mapping (/memfd:theirs");
    check_stays(area + LEN / 2, "is a shared mapping (/memfd:theirs");
    shared[5] = 'b';
    CHECK(pread(file, &byte, 1, 5) == 1 && byte == 'b');
    munmap(area, 2 * LEN);
    close(file);
}

static void test_protection(void)
{
    char *area = take_pages(LEN);
    mprotect(area + LEN / 2, PAGE, PROT_READ);
    check_stays(area, "is r--; it must be readable and writable");
    mprotect(area + LEN / 2, PAGE, PROT_NONE);
    check_stays(area, "is ---; it must be");
    mprotect(area, LEN, PROT_READ | PROT_EXEC);
    check_stays(area, "is r-x; it must be");
    munmap(area + LEN / 2, PAGE);
    mprotect(area, LEN / 2, PROT_READ | PROT_WRITE);
    check_stays(area, "nothing is mapped at");
    munmap(area, LEN);
}

static bool is_written_as(const char *at, const char *protection)
{
    struct mapping m;
    return iso_mapping_find((uintptr_t)at, &m) == 0 && m.from <= (uintptr_t)at && strcmp(m.protection, protection) == 0;
}

/* What the program does with pages of a registered buffer holds after its end: another protection, another mapping. */
static void test_end(void)
{
    char *area = take_pages(LEN), *guard = area + LEN / 2, *theirs = area + 2 * PAGE;
    check_fill(guard, PAGE, check_self.pe, 1, 1);
    CHECK_EQ(shmemx_buffer_register(area, LEN, NULL), 0);
    mprotect(guard, PAGE, PROT_NONE);
    mprotect(area, PAGE, PROT_READ);
    CHECK(mmap(theirs, PAGE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == (void *)theirs);
    CHECK_EQ(shmemx_buffer_unregister(area), 0);
    CHECK(is_written_as(area, "r--p") && is_written_as(area + PAGE, "rw-p") && is_written_as(theirs, "r--s"));
    CHECK(is_written_as(guard, "---p") && is_written_as(area + LEN - PAGE, "rw-p"));
    mprotect(guard, PAGE, PROT_READ);
    CHECK_FILLED(guard, PAGE, check_self.pe, 1, 1);
    munmap(area, LEN);
}

static int test(void)
{
    CHECK_INIT();
    if (check_self.npes < 2) {
        shmem_finalize();
        return CHECK_SKIP("needs 2 PEs: a launcher, or PEs as threads");
    }
    test_lengths();
    test_wrong_arguments();
    test_full_table();
    test_shared_with_a_file();
    test_protection();
    test_end();
    if (!CHECK_PES_ARE_THREADS) { /* which share no pages and have one limit */
        test_descriptors(0, "Too many open files");
        test_descriptors(1, "the descriptor of the pages of pe 0 did not arrive");
    }
    return CHECK_DONE();
}
CHECK_MAIN(test)
