/* SPDX-License-Identifier: MIT */
/* Remaps the writable segment of the program (not of shared objects: OpenSHMEM 1.6 section 4) onto a memfd.
 * Invariant: nothing in here writes a global variable between the copy and the mapping, since in a static program the
 * library's own variables are part of the range. A forked child gets a private copy of what it saw at fork, or ends. */
#include "data_segment.h"

#include "../../bootstrap/log.h"
#include "../../bootstrap/memory_file.h"
#include "mapping.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct data_segment data = {.fd = -1, .refusal = "the library's constructor has not run"};
static char why_not[256]; /* the refusal, where it is composed; written before the copy */

const struct data_segment *iso_data_segment(void) { return &data; }

/* The answer of dl_iterate_phdr about the program. */
struct program {
    uintptr_t lo, hi;   /* pages of the writable segment, without RELRO */
    uintptr_t file_hi;  /* pages from here on are anonymous (.bss) */
    uintptr_t relro_hi; /* end of RELRO, rounded up */
    bool links_us;
    unsigned char build_id[20];
};

static uintptr_t page_mask(void) { return (uintptr_t)sysconf(_SC_PAGESIZE) - 1; }

static void read_build_id(const struct dl_phdr_info *info, const ElfW(Phdr) * ph, unsigned char build_id[20])
{
    const char *p = (const char *)(info->dlpi_addr + ph->p_vaddr), *end = p + ph->p_memsz;
    while (end - p >= (ptrdiff_t)sizeof(ElfW(Nhdr))) { /* the padding of the last note may lie behind the end */
        const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)(const void *)p;
        const char *desc = p + sizeof *note + ((note->n_namesz + 3u) & ~3u);
        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4)
            memcpy(build_id, desc, note->n_descsz < 20 ? note->n_descsz : 20);
        p = desc + ((note->n_descsz + 3u) & ~3u);
    }
}

/* A program that only dlopens us (an interpreter) has nothing in its data segment that a kernel would use. */
static bool needs_us(const struct dl_phdr_info *info, const ElfW(Phdr) * ph)
{
    const char *strings = NULL;
    const ElfW(Dyn) *first = (const ElfW(Dyn) *)(info->dlpi_addr + ph->p_vaddr);
    for (const ElfW(Dyn) *d = first; d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_STRTAB)
            strings = (const char *)d->d_un.d_ptr;
    for (const ElfW(Dyn) *d = first; strings != NULL && d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_NEEDED && strncmp(strings + d->d_un.d_val, "libisomer", 9) == 0)
            return true;
    return false;
}

static void read_load(const struct dl_phdr_info *info, const ElfW(Phdr) * ph, struct program *program)
{
    uintptr_t mask = page_mask(), start = info->dlpi_addr + ph->p_vaddr, here = (uintptr_t)&data;
    if (here >= start && here < start + ph->p_memsz)
        program->links_us = true; /* statically */
    if ((ph->p_flags & PF_W) == 0)
        return;
    uintptr_t lo = start & ~mask, hi = (start + ph->p_memsz + mask) & ~mask;
    if (lo < program->relro_hi && program->relro_hi <= hi)
        lo = program->relro_hi;
    if (lo >= hi)
        return;
    program->lo = lo; /* the last writable segment that is not all RELRO holds .data and .bss */
    program->hi = hi;
    program->file_hi = (start + ph->p_filesz + mask) & ~mask;
}

static int read_program(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    struct program *program = (struct program *)arg;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        if (ph->p_type == PT_GNU_RELRO)
            program->relro_hi = (info->dlpi_addr + ph->p_vaddr + ph->p_memsz + page_mask()) & ~page_mask();
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        if (ph->p_type == PT_LOAD)
            read_load(info, ph, program);
        else if (ph->p_type == PT_NOTE)
            read_build_id(info, ph, program->build_id);
        else if (ph->p_type == PT_DYNAMIC && needs_us(info, ph))
            program->links_us = true;
    }
    return 1; /* the first object is the program; the others do not matter */
}

static int count_threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    if (dir == NULL)
        return -1;
    int n = 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

/* Raw system calls: a sanitizer's pwrite would stumble over its own red zones between global variables. */
static bool copy_range(int fd, uintptr_t from, uintptr_t to, uintptr_t lo)
{
    while (from < to) {
        long n = syscall(SYS_pwrite64, fd, (const void *)from, to - from, (off_t)(from - lo));
        if (n <= 0)
            return false;
        from += (uintptr_t)n;
    }
    return true;
}

/* Pages of .bss that were never touched stay holes: bit 63 (present) and 62 (swapped) of their pagemap entry. */
static bool copy_touched(int fd, const struct program *p)
{
    uintptr_t page = page_mask() + 1, at = p->file_hi < p->lo ? p->lo : p->file_hi;
    int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    bool ok = true;
    while (ok && at < p->hi) {
        uint64_t entries[256];
        size_t pages = (p->hi - at) / page < 256 ? (p->hi - at) / page : 256;
        ssize_t n = pread(pagemap, entries, pages * 8, (off_t)(at / page * 8));
        if (n != (ssize_t)(pages * 8))
            memset(entries, 0xff, sizeof entries); /* not readable: copy everything */
        for (size_t i = 0; ok && i < pages; i++, at += page)
            if ((entries[i] >> 62) != 0)
                ok = copy_range(fd, at, at + page, p->lo);
    }
    if (pagemap >= 0)
        close(pagemap);
    return ok;
}

static const char *remap(const struct program *p, int *fd)
{
    size_t len = p->hi - p->lo;
    *fd = iso_memory_file_make("isomer-data", 0, len, why_not, sizeof why_not);
    if (*fd < 0)
        return why_not;
    uintptr_t file_hi = p->file_hi < p->hi ? p->file_hi : p->hi;
    if (p->lo < file_hi && !copy_range(*fd, p->lo, file_hi, p->lo))
        return "the copy into shared memory failed";
    if (!copy_touched(*fd, p))
        return "the copy into shared memory failed";
    long at = syscall(SYS_mmap, p->lo, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, *fd, (off_t)0);
    return at == (long)p->lo ? NULL : "mapping shared memory over the program's data failed";
}

/* ---- fork: the child keeps what it saw, on pages of its own ---- */

static int fork_pipe[2] = {-1, -1};
static int fork_error; /* why there is no pipe, though one is needed: the child must not live */

static void before_fork(void)
{
    fork_pipe[0] = fork_pipe[1] = -1;
    fork_error = 0;
    if (data.fd >= 0 && !data.inherited && pipe2(fork_pipe, O_CLOEXEC) != 0)
        fork_error = errno;
}

/* The parent goes on only when the child has copied, else the child would see the parent's later stores. */
static void after_fork_parent(void)
{
    if (fork_pipe[0] < 0)
        return;
    char byte;
    close(fork_pipe[1]);
    while (read(fork_pipe[0], &byte, 1) < 0 && errno == EINTR)
        ;
    close(fork_pipe[0]);
}

/* A write makes a page private. Sanitizers would object: a page may begin with their own red zone. */
__attribute__((noinline, no_sanitize_address, no_sanitize_thread)) static void make_private(char *from, char *to)
{
    for (volatile char *byte = from; byte < to; byte += 4096)
        *byte = *byte;
}

static bool privatize(char *base, size_t len, int fd)
{
    off_t at = 0, end = (off_t)len;
    while (at < end) {
        off_t filled = lseek(fd, at, SEEK_DATA), hole;
        if (filled < 0)
            filled = end;
        if (filled > at && mmap(base + at, (size_t)(filled - at), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
            return false;
        if (filled >= end)
            break;
        hole = lseek(fd, filled, SEEK_HOLE);
        if (hole < 0 || hole > end)
            hole = end;
        if (mmap(base + filled, (size_t)(hole - filled), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, filled) ==
            MAP_FAILED)
            return false;
        make_private(base + filled, base + hole);
        at = hole;
    }
    return true;
}

/* A child that shares any variables with its parent could corrupt them. */
_Noreturn static void end_child(int error)
{
    errno = error;
    log_error("fork: the child cannot have global variables of its own: %m; ending the child");
    _exit(125);
}

static void rename_in_child(void)
{
    if (fork_error != 0)
        end_child(fork_error);
    if (fork_pipe[0] < 0)
        return;
    int pipe_in = fork_pipe[0], pipe_out = fork_pipe[1];
    struct data_segment copy = data;
    if (!privatize(copy.base, copy.len, copy.fd))
        end_child(errno);
    data.inherited = true;
    data.refusal = "the process is a forked child that has not called shmem_init";
    close(pipe_in);
    close(pipe_out);
}

#ifdef ISO_PES_AS_THREADS
static const char *share(void)
{
    (void)count_threads;
    (void)read_program;
    (void)remap;
    (void)why_not;
    return "the PEs are threads of one process, which has one set of global variables";
}
#else
/* Returns why not, or NULL after the variables were moved into shared memory. The look at the environment comes long
 * before that of shmem_init, which refuses words that bootstrap/env.h does not know. */
static const char *share(void)
{
    static const char *const off[] = {"0", "no", "off", "false"};
    const char *wish = getenv("SHMEM_DATA_SEGMENT");
    struct program program;
    memset(&program, 0, sizeof program);
    dl_iterate_phdr(read_program, &program);
    memcpy(data.build_id, program.build_id, sizeof data.build_id);
    int fd = -1;
    for (size_t i = 0; wish != NULL && i < sizeof off / sizeof off[0]; i++)
        if (strcasecmp(wish, off[i]) == 0)
            return "SHMEM_DATA_SEGMENT is off";
    if (!program.links_us)
        return "the program does not link libisomer itself";
    if (program.lo >= program.hi)
        return "the program has no writable segment";
    if (iso_mapping_examine((void *)program.lo, program.hi - program.lo, why_not, sizeof why_not) != 0)
        return why_not;
    int n_threads = count_threads();
    if (n_threads < 0)
        snprintf(why_not, sizeof why_not, "/proc/self/task cannot be read (%s), which tells whether a thread runs",
                 strerror(errno));
    if (n_threads != 1)
        return n_threads < 0 ? why_not : "a thread was already running when the library was loaded";
    const char *refusal = remap(&program, &fd); /* from here on the variables live in the memfd */
    if (refusal != NULL && fd >= 0)
        close(fd);
    if (refusal != NULL)
        return refusal;
    data.base = (char *)program.lo;
    data.len = program.hi - program.lo;
    data.fd = fd;
    return NULL;
}
#endif

/* Before main, when the program has no second thread that could write in the middle of the copy. */
__attribute__((constructor)) static void start_data_segment(void)
{
    iso_log_reserve();
    data.refusal = share();
    if (data.refusal == NULL)
        pthread_atfork(before_fork, after_fork_parent, rename_in_child);
}

void iso_data_segment_refresh(void)
{
    if (!data.inherited)
        return;
    data.inherited = false;
    close(data.fd);
    data.fd = -1;
    data.refusal = share();
}
