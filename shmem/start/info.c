/* SPDX-License-Identifier: MIT */
/* The library's description of itself (version, build, job, nodes, segments, paths, variables, algorithms), and the
 * doctor, which looks for what would not work here. Reads the state, changes nothing, exchanges nothing: every PE
 * describes what it sees; before init what does not exist yet is left out. A line of the doctor is one finding, and
 * begins with "ok: ", "warning: " (works, but) or "problem: " (will not work): isomer-info looks for the last.
 * Called by users, isomer-info and, for SHMEM_VERSION and SHMEM_INFO, by init. */
#include "../../bootstrap/boot.h"
#include "../../bootstrap/env.h"
#include "../../bootstrap/memory_file.h"
#include "../../bootstrap/net/interface.h"
#include "../state/alloc.h"
#include "../collectives.h"
#include "../state/data_segment.h"
#include "../gpu/device.h"
#include "../../bootstrap/log.h"
#include "../node/job_look.h"
#include "info.h"
#include "start_times.h"
#include "../transport/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

/* ---- texts and small facts ---- */

struct amount {
    char text[24];
};

/* The setting of transparent huge pages for shared memory ("never"), and whether our heaps get them. */
struct huge_pages {
    char setting[16];
    bool in_force;
};

struct composed {
    char *text;
    size_t len;
};

/* Ends `out`, which has written `whole`, and gives it to the caller as snprintf would. */
static size_t hand_out(FILE *out, struct composed *whole, char *text, size_t bytes)
{
    if (fclose(out) != 0)
        whole->len = 0;
    if (text != NULL && bytes > 0) {
        size_t n = ISO_MIN(whole->len, bytes - 1);
        memcpy(text, whole->text, n);
        text[n] = '\0';
    }
    free(whole->text);
    return whole->len;
}

/*
 * Runs `write` and gives its output to the caller as snprintf would; 0 without memory. One PE of a process at a time:
 * the doctor loads libraries, which may add to the environment, and both texts read it.
 */
static size_t compose(void (*write)(FILE *out), char *text, size_t bytes)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct composed whole = {NULL, 0};
    FILE *out = open_memstream(&whole.text, &whole.len);
    if (out == NULL)
        return 0;
    pthread_mutex_lock(&lock);
    write(out);
    pthread_mutex_unlock(&lock);
    return hand_out(out, &whole, text, bytes);
}

/* "1.5 GiB" */
static struct amount amount(uint64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    struct amount b;
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024 && unit < 6; unit++)
        value /= 1024;
    snprintf(b.text, sizeof b.text, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return b;
}

static struct huge_pages huge_pages(const struct env *env)
{
    struct huge_pages huge = {"unknown", false};
    char line[128] = "";
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "re");
    if (f == NULL)
        return huge;
    const char *open = fgets(line, sizeof line, f) != NULL ? strchr(line, '[') : NULL; /* "always [never] force" */
    if (open != NULL)
        snprintf(huge.setting, sizeof huge.setting, "%.*s", (int)strcspn(open + 1, "]"), open + 1);
    fclose(f);
    huge.in_force = strcmp(huge.setting, "always") == 0 || strcmp(huge.setting, "force") == 0 ||
                    strcmp(huge.setting, "within_size") == 0 ||
                    (strcmp(huge.setting, "advise") == 0 && env->huge_pages);
    return huge;
}

static int cores(void)
{
    cpu_set_t set; /* that this process may use */
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

/* ---- version and build ---- */

static void write_version(FILE *out)
{
    fprintf(out, "Isomer %s (protocol %d), OpenSHMEM %d.%d\n", ISO_VERSION, ISO_PROTOCOL, SHMEM_MAJOR_VERSION,
            SHMEM_MINOR_VERSION);
}

static void write_build(FILE *out)
{
#ifdef __clang__
    const char *compiler = ""; /* its version names it */
#else
    const char *compiler = "gcc ";
#endif
    fprintf(out, "build: GPU=%s, compiler %s%s, argument checks %s", ISO_GPU, compiler, __VERSION__,
            ISO_CHECKS ? "on" : "off");
#ifdef ISO_PES_AS_THREADS
    fprintf(out, ", PEs are threads");
#endif
#ifdef __SANITIZE_ADDRESS__
    fprintf(out, ", address sanitizer");
#endif
#ifdef __SANITIZE_THREAD__
    fprintf(out, ", thread sanitizer");
#endif
    fprintf(out, "\n");
}

/* ---- job and nodes ---- */

static void write_info_job(FILE *out)
{
    static const char *const levels[] = {"SINGLE", "FUNNELED", "SERIALIZED", "MULTIPLE"};
    const struct state *self = ISO;
    fprintf(out, "job: PE %d of %d, launcher %s, bootstrap %s, thread level SHMEM_THREAD_%s\n", self->my_pe,
            self->n_pes, self->boot->launcher, self->boot->ops != NULL ? self->boot->ops->name : "none",
            levels[self->thread_level & 3]);
    fprintf(out, "cores: %d for the %d PEs of this node, ", cores(), self->n_local);
    if (self->spin_most == 0)
        fprintf(out, "a wait yields its core at once\n");
    else
        fprintf(out, "a wait polls %u times before it yields its core\n", self->spin_most);
}

/* "0-3,8" for the PEs whose node is that of `first`. */
static void write_pes_of_node(FILE *out, int first)
{
    const struct peer *peers = ISO->peers;
    const char *between = "";
    for (int pe = first, end; pe < ISO->n_pes; pe = end) {
        end = pe + 1;
        if (strcmp(peers[pe].node, peers[first].node) != 0)
            continue;
        while (end < ISO->n_pes && strcmp(peers[end].node, peers[first].node) == 0)
            end++;
        fprintf(out, end - pe > 1 ? "%s%d-%d" : "%s%d", between, pe, end - 1);
        between = ",";
    }
}

static bool is_first_of_node(int pe)
{
    for (int i = 0; i < pe; i++)
        if (strcmp(ISO->peers[i].node, ISO->peers[pe].node) == 0)
            return false;
    return true;
}

static void write_nodes(FILE *out)
{
    fprintf(out, "nodes:\n");
    for (int pe = 0; pe < ISO->n_pes; pe++) {
        if (!is_first_of_node(pe))
            continue;
        fprintf(out, "  %s (host %s): PEs ", ISO->peers[pe].node, ISO->peers[pe].host);
        write_pes_of_node(out, pe);
        fprintf(out, "\n");
    }
}

/* ---- segments ---- */

static void write_info_segments(FILE *out)
{
    struct alloc_stats stats = iso_alloc_stats(ISO->alloc);
    struct huge_pages huge = huge_pages(ISO->env);
    fprintf(out, "segments of PE %d:\n", ISO->my_pe);
    for (int i = 0; i < ISO->n_segments; i++) {
        const struct segment *s = &ISO->segments[i];
        if (s->len != 0)
            fprintf(out, "  %2d %-6s %p  %s, %s in use%s\n", i, iso_segment_kind_name(s->kind), (void *)s->base,
                    amount(s->len).text, amount(s->limit).text, s->staged ? ", staged (no pointers)" : "");
    }
    fprintf(out, "  heap: %s may be allocated, %zu objects use %s; %s of control area\n", amount(stats.cap).text,
            stats.objects, amount(stats.used).text, amount(ISO->control_bytes).text);
    fprintf(out, "  heap: huge pages %s (shmem_enabled is %s, SHMEM_HUGE_PAGES %s)\n",
            huge.in_force ? "in force" : "not in force", huge.setting, ISO->env->huge_pages ? "on" : "off");
    if (ISO->data_refusal != NULL)
        fprintf(out, "  data: global variables are not symmetric: %s\n", ISO->data_refusal);
}

/* ---- paths ---- */

/* Between PEs of one node: init ends the job unless every one of them can map every other, so this PE may speak for
 * all pairs. Nodes without this PE are reached by their transport; their own PEs describe what is inside of them. */
static void write_paths_of_node(FILE *out, int first)
{
    const struct peer *peer = &ISO->peers[first];
    const char *why = "", *name = peer->transport->name;
    bool mapped = peer->control != NULL;
    (void)peer->transport->reaches(peer, &why);
    if (!peer->local) {
        fprintf(out, "  from this node to PEs ");
        write_pes_of_node(out, first);
        fprintf(out, ": transport %s (%s)\n", name, why);
        return;
    }
    fprintf(out, "  among PEs ");
    write_pes_of_node(out, first);
    const char *globals = ISO->data_refusal != NULL ? "not symmetric" : mapped ? "by pointer" : "by the same";
    fprintf(out, ": heap %s%s, global variables %s (%s); edges of registered buffers by transport %s\n",
            mapped ? "by pointer" : "by transport ", mapped ? "" : name, globals, why, name);
}

static void write_info_paths(FILE *out)
{
    fprintf(out, "paths between PEs:\n");
    for (int pe = 0; pe < ISO->n_pes; pe++)
        if (is_first_of_node(pe))
            write_paths_of_node(out, pe);

    /* The edges of registered buffers are all that has no pointer within a node. */
    for (int i = SEGMENT_INDEX_FREE; i < ISO->n_segments; i++) {
        const struct segment *s = &ISO->segments[i];
        if (s->len != 0)
            fprintf(out, "  segment %d: %s\n", i,
                    s->staged      ? "by cross-memory attach, its pages are shared with other data"
                    : s->on_device ? "device memory, by the device"
                                   : "by pointer");
    }
}

/* ---- variables and algorithms ---- */

static void write_table(FILE *out, size_t (*write_text)(char *text, size_t bytes))
{
    size_t bytes = write_text(NULL, 0) + 1;
    char *table = (char *)calloc(1, bytes);
    if (table == NULL)
        return;
    write_text(table, bytes);
    fputs(table, out);
    free(table);
}

static void write_variables(FILE *out)
{
    fprintf(out, "environment variables (value, kind, default):\n");
    for (const struct env_row *row = iso_env_rows; row->name != NULL; row++) {
        const char *value = iso_env_text(row);
        if (strcmp(row->name, "SHMEM_UID") == 0 && value[0] != '\0')
            value = "(set; not shown, it holds a secret)";
        fprintf(out, "  %s = %s (%s, %s%s)\n      %s\n", row->name, value, row->kind,
                row->fallback[0] != '\0' ? row->fallback : "empty", row->for_tests ? ", for tests" : "", row->help);
    }
}

/* SHMEM_INFO: "helpful text about all the environment variables" (section 8). */
static void write_settings(FILE *out)
{
    write_version(out);
    write_variables(out);
}

static void write_info(FILE *out)
{
    write_version(out);
    write_build(out);
    if (ISO->life == LIFE_RUNNING) {
        write_info_job(out);
        write_nodes(out);
        write_info_segments(out);
        write_info_paths(out);
        if (ISO->n_nodes > 1) { /* each transport's own line: device, method, counters */
            fprintf(out, "network of PE %d:\n", ISO->my_pe);
            write_table(out, iso_transport_text);
            fputs("\n", out);
        }
        iso_device_write_info(out);
    } else {
        fprintf(out, "job: not started, so there are no PEs, segments and paths to show\n");
        iso_device_write_info(out);
    }
    write_variables(out);
    if (ISO->life != LIFE_RUNNING)
        return;
    fprintf(out, "collective algorithms:\n");
    write_table(out, iso_coll_table_text);
    fprintf(out, "collective algorithms on streams:\n");
    write_table(out, iso_coll_streams_text);
}

static void print_library_text(void (*write)(FILE *out))
{
    write(stdout);
    fflush(stdout);
}

void iso_info_print_at_start(void)
{
    if (ISO->my_pe != 0)
        return;
    if (ISO->env->info)
        print_library_text(write_settings);
    else if (ISO->env->version)
        print_library_text(write_version);
}

/* ---- doctor: findings ---- */

enum severity { FINE, WARNING, PROBLEM };

struct doctor {
    FILE *out; /* the findings; the summary is written before them */
    int count[3];
    struct env env;
    int local_pes; /* of this node, as far as known */
    uint64_t heap; /* cap of one PE */
};

__attribute__((format(printf, 3, 4))) static void find(struct doctor *d, enum severity severity, const char *format,
                                                       ...)
{
    static const char *const words[] = {"ok", "warning", "problem"};
    va_list args;
    d->count[severity]++;
    fprintf(d->out, "%s: ", words[severity]);
    va_start(args, format);
    vfprintf(d->out, format, args);
    va_end(args);
    fprintf(d->out, "\n");
}

/* The first number in a file of /proc or /sys; `otherwise` where there is none. */
static long long read_file_number(const char *path, long long otherwise)
{
    char line[64] = "", *end = line;
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return otherwise;
    const char *read = fgets(line, sizeof line, f);
    long long value = read != NULL ? strtoll(line, &end, 10) : 0;
    fclose(f);
    return end == line ? otherwise : value;
}

static uint64_t machine_bytes(void) { return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE); }

static void report_launcher(struct doctor *d)
{
    if (ISO->life == LIFE_RUNNING) {
        find(d, FINE, "this job was started by %s, %d PEs", ISO->boot->launcher, ISO->n_pes);
        return;
    }
    long n = 0;
    const char *variable = iso_boot_launched(&n);
    if (getenv("PMIX_NAMESPACE") != NULL || getenv("SHMEM_UID") != NULL)
        find(d, FINE, "a PMIx launcher or a unique id is there");
    else if (variable != NULL)
        find(d, PROBLEM,
             "%s is %ld, but the launcher offers no PMIx (PMIX_NAMESPACE is not set): use srun --mpi=pmix, "
             "mpirun of Open MPI 4 or 5, oshrun, or SHMEM_UID with SHMEM_RANK and SHMEM_SIZE",
             variable, n);
    else
        find(d, FINE, "no launcher: a program started like this has one PE");
}

/* A wrong SHMEM_NETWORK is another finding. */
static void check_listening(struct doctor *d)
{
    struct host_addresses mine, nobody;
    struct tcp_address address;
    char all[256] = "", name[TCP_NAME_BYTES];
    const char *why, *wish = d->env.network != NULL ? d->env.network : "";
    memset(&nobody, 0, sizeof nobody);
    if (iso_boot_addresses(ISO->boot, wish, &mine, &why) != 0)
        return;
    mine.port = 0; /* the system chooses one */
    mine.n_ip6 = mine.n_ip4 > 0 ? 0 : mine.n_ip6;
    for (int i = 0; (i == 0 || *wish == '\0') && iso_interface_pick(&mine, &nobody, true, i, &address); i++) {
        size_t n = strlen(all);
        iso_tcp_name(&address, name);
        snprintf(all + n, sizeof all - n, "%s%.*s", i > 0 ? ", " : "", (int)(strrchr(name, ':') - name), name);
    }
    if (*wish != '\0')
        find(d, FINE, "for other nodes a PE listens at %s alone (SHMEM_NETWORK)", all);
    else
        find(d, FINE, "for other nodes a PE listens on all interfaces, and is called at %s; SHMEM_NETWORK names one",
             all);
}

/* The steps of every PE's start: a memfd, sealed, mapped shared, of which pages can be given back. */
static void check_memfd(struct doctor *d)
{
    const size_t bytes = (size_t)d->heap + 2 * iso_pe_part_bytes((size_t)d->heap, (size_t)d->env.local_size);
    char why[256] = "";
    void *at = MAP_FAILED;
    int fd = iso_memory_file_make("isomer-doctor", MFD_ALLOW_SEALING, bytes, why, sizeof why);
    if (fd >= 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
        snprintf(why, sizeof why, "sealing a memfd failed: %s; look at the seccomp rules of the container",
                 strerror(errno));
    if (why[0] == '\0')
        at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (why[0] == '\0' && at == MAP_FAILED)
        snprintf(why, sizeof why, "mapping %s of a memfd failed: %s; look at ulimit -v", amount(bytes).text,
                 strerror(errno));
    bool good = why[0] == '\0';
    if (good)
        find(d, FINE, "memory can be shared between processes (memfd_create, mmap of %s)", amount(bytes).text);
    else
        find(d, PROBLEM, "memory cannot be shared between processes: %s", why);
    if (good && madvise(at, 1 << 20, MADV_REMOVE) != 0)
        find(d, WARNING, "pages of a memfd cannot be given back (madvise: %s): memory of freed objects stays in use",
             strerror(errno));
    if (at != MAP_FAILED)
        munmap(at, bytes);
    if (fd >= 0)
        close(fd);
}

static void check_sockets(struct doctor *d)
{
    struct sockaddr_un name;
    memset(&name, 0, sizeof name);
    name.sun_family = AF_UNIX;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&name, sizeof(sa_family_t)) == 0 && listen(fd, 1) == 0)
        find(d, FINE, "PEs of one host can find each other (abstract unix sockets)");
    else
        find(d, PROBLEM, "an abstract unix socket cannot be made: %s; PEs of one host need them to find each other",
             strerror(errno));
    if (fd >= 0)
        close(fd);
}

/* Each PE maps the heaps of all PEs of its node. */
static void check_address_space(struct doctor *d)
{
    struct rlimit limit;
    uint64_t need = d->heap * (uint64_t)d->local_pes;
    if (getrlimit(RLIMIT_AS, &limit) != 0)
        return;
    if (limit.rlim_cur == RLIM_INFINITY)
        find(d, FINE, "the address space is not limited");
    else if (limit.rlim_cur < need)
        find(d, PROBLEM,
             "the address space is limited to %s (ulimit -v), but %d PEs on this node with heaps of %s need "
             "%s: raise the limit, or lower SHMEM_SYMMETRIC_SIZE",
             amount(limit.rlim_cur).text, d->local_pes, amount(d->heap).text, amount(need).text);
    else
        find(d, FINE, "the address space is limited to %s, enough for %d PEs with heaps of %s",
             amount(limit.rlim_cur).text, d->local_pes, amount(d->heap).text);
}

/* One socket for each PE of the node stays open; a few more descriptors come and go at the start. A PE raises its own
 * limit as far as it may. */
static void check_file_limit(struct doctor *d)
{
    enum { OWN_FILES = 32 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    if (limit.rlim_max < (rlim_t)d->local_pes + OWN_FILES)
        find(d, PROBLEM,
             "%llu open files are allowed, the lowest of %d PEs on this node needs about %d: raise ulimit -n",
             (unsigned long long)limit.rlim_max, d->local_pes, d->local_pes + OWN_FILES);
    else
        find(d, FINE, "%llu open files are allowed, enough for about %llu PEs on one node",
             (unsigned long long)limit.rlim_max, (unsigned long long)limit.rlim_max - OWN_FILES);
}

static void check_locked_memory(struct doctor *d)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0)
        return;
    bool endless = limit.rlim_cur == RLIM_INFINITY;
    find(d, FINE, "locked memory is %s%s; on one node nothing is locked, on several what is reached by RDMA%s",
         endless ? "not limited" : "limited to ", endless ? "" : amount(limit.rlim_cur).text,
         endless ? "" : " (ulimit -l unlimited, or memlock in limits.conf, raises it)");
}

/* The smallest memory limit of the control groups this process is in, as far as they are visible here. */
static uint64_t cgroup_limit(void)
{
    char line[512], path[640];
    uint64_t least = UINT64_MAX;
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        bool second = strncmp(line, "0::", 3) == 0; /* version 2 */
        char *group = second ? line + 3 : strstr(line, ":memory:");
        if (group == NULL)
            continue;
        group += second ? 0 : strlen(":memory:");
        for (;;) { /* the group and all above it */
            snprintf(path, sizeof path,
                     second ? "/sys/fs/cgroup%s/memory.max" : "/sys/fs/cgroup/memory%s/memory.limit_in_bytes", group);
            long long limit = read_file_number(path, -1);
            if (limit >= 0 && (uint64_t)limit < least)
                least = (uint64_t)limit;
            char *slash = strrchr(group, '/');
            if (slash == NULL)
                break;
            *slash = '\0';
        }
    }
    if (f != NULL)
        fclose(f);
    return least;
}

static void check_memory(struct doctor *d)
{
    uint64_t limit = cgroup_limit(), all = d->heap * (uint64_t)d->local_pes;
    if (read_file_number("/proc/sys/vm/overcommit_memory", 0) == 2)
        find(d, WARNING,
             "vm.overcommit_memory is 2: touching heap memory beyond the commit limit ends the job with "
             "SIGBUS instead of a null pointer from shmem_malloc; set SHMEM_SYMMETRIC_SIZE to what is there");
    if (limit >= machine_bytes())
        find(d, FINE, "memory is limited by the machine only (%s)", amount(machine_bytes()).text);
    else if (all > limit)
        find(d, WARNING,
             "the control group allows %s, the heaps of %d PEs may grow to %s: past the limit the kernel "
             "kills the job instead of a null pointer from shmem_malloc; set SHMEM_SYMMETRIC_SIZE",
             amount(limit).text, d->local_pes, amount(all).text);
    else
        find(d, FINE, "the control group allows %s, more than the heaps of %d PEs", amount(limit).text, d->local_pes);
}

static void check_huge_pages(struct doctor *d)
{
    struct huge_pages huge = huge_pages(&d->env);
    if (huge.in_force)
        find(d, FINE, "transparent huge pages are in force for heaps (shmem_enabled is %s)", huge.setting);
    else if (!d->env.huge_pages)
        find(d, FINE, "transparent huge pages are switched off by SHMEM_HUGE_PAGES");
    else
        find(d, WARNING,
             "transparent huge pages are not in force for heaps (shmem_enabled is %s): for large objects, "
             "let root write advise to /sys/kernel/mm/transparent_hugepage/shmem_enabled",
             huge.setting);
}

/* Only the partial pages at the ends of registered buffers go this way. */
static void check_attach(struct doctor *d)
{
    const char *advice = "shmemx_buffer_register then needs page-aligned buffers";
    char from = 1, to = 0;
    struct iovec there = {&from, 1}, here = {&to, 1};
    long long scope = read_file_number("/proc/sys/kernel/yama/ptrace_scope", 0);
    unsigned long long capabilities = 0;
    char line[256];
    FILE *f = fopen("/proc/self/status", "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, "CapEff:", 7) == 0)
            capabilities = strtoull(line + 7, NULL, 16);
    if (f != NULL)
        fclose(f);
    bool may_ptrace_all = (capabilities >> 19 & 1) != 0; /* CAP_SYS_PTRACE */
    if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != 1)
        find(d, WARNING, "cross-memory attach is not possible (process_vm_readv: %s); %s", strerror(errno), advice);
    else if (scope > 0 && !(may_ptrace_all && scope < 3))
        find(d, WARNING,
             "kernel.yama.ptrace_scope is %lld, so PEs cannot copy from and to each other's private memory; "
             "%s, or root sets it to 0",
             scope, advice);
    else
        find(d, FINE, "the edges of registered buffers can be copied (cross-memory attach)");
}

/* Memory of the library goes by descriptors, so PEs in containers of their own reach it. */
static void check_containers(struct doctor *d)
{
    static const char apart[] =
        "the library's memory is shared all the same; long blocks of collectives in private memory go by stages, which "
        "takes longer, and registered buffers have to begin and end at pages; give the containers one PID namespace "
        "(docker --pid, shareProcessNamespace)";
    struct stat space;
    int other = -1;
    for (int i = 0; ISO->life == LIFE_RUNNING && i < ISO->n_local; i++)
        if (ISO->local_pes[i] != ISO->my_pe && ISO->peers[ISO->local_pes[i]].pid == 0)
            other = ISO->local_pes[i];
    if (other >= 0)
        find(d, WARNING, "pe %d of this node is in another PID namespace: %s", other, apart);
    else if (ISO->life == LIFE_RUNNING)
        find(d, FINE, "the PEs of this node see each other's processes (one PID namespace)");
    else if (stat("/proc/self/ns/pid", &space) == 0 && space.st_ino != 0xeffffffcu) /* the machine's own has this one */
        find(d, FINE,
             "this is a container with a PID namespace of its own: PEs in others see no processes of this one: %s", apart);
    else
        find(d, FINE, "processes have the PID namespace of the machine");
}

static void check_cores(struct doctor *d)
{
    int n = cores();
    if (d->local_pes > n)
        find(d, WARNING, "%d PEs share %d cores: waiting PEs yield at once, every hand-over costs a task switch",
             d->local_pes, n);
    else
        find(d, FINE, "%d cores for %d PEs on this node", n, d->local_pes);
}

static void check_data_segment(struct doctor *d)
{
    const char *refusal = ISO->life == LIFE_RUNNING ? ISO->data_refusal : iso_data_segment()->refusal;
    if (refusal == NULL)
        find(d, FINE, "global variables of this program are symmetric (%s)", amount(iso_data_segment()->len).text);
    else
        find(d, WARNING, "global variables of this program are not symmetric: %s; objects of shmem_malloc are",
             refusal);
}

static void find_sentence(void *doctor, int severity, const char *sentence)
{
    find((struct doctor *)doctor, (enum severity)severity, "%s", sentence);
}

static void write_doctor(FILE *out)
{
    char *findings = NULL;
    size_t len = 0;
    static const char *const local_sizes[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE"};
    struct utsname name;
    struct doctor d;
    memset(&d, 0, sizeof d);
    d.out = open_memstream(&findings, &len);
    if (d.out == NULL)
        return;
    if (uname(&name) == 0)
        find(&d, FINE, "kernel %s %s on %s", name.sysname, name.release, name.machine);
    iso_variables_examine(&d.env, find_sentence, &d);

    /* The number of PEs of this node comes from the job, else from what a launcher says, else it is one. */
    d.local_pes = ISO->life == LIFE_RUNNING ? ISO->n_local : 0;
    for (size_t i = 0; d.local_pes == 0 && i < sizeof local_sizes / sizeof local_sizes[0]; i++)
        if (getenv(local_sizes[i]) != NULL && atoi(getenv(local_sizes[i])) > 0)
            d.local_pes = atoi(getenv(local_sizes[i]));
    d.local_pes = ISO_MAX(d.local_pes, 1);
    d.heap = d.env.symmetric_size != 0 ? d.env.symmetric_size : machine_bytes();

    report_launcher(&d);
    check_listening(&d);
    check_memfd(&d);
    check_sockets(&d);
    check_data_segment(&d);
    check_address_space(&d);
    check_memory(&d);
    check_file_limit(&d);
    check_locked_memory(&d);
    check_huge_pages(&d);
    check_attach(&d);
    check_containers(&d);
    check_cores(&d);
    if (ISO->life == LIFE_RUNNING)
        iso_start_times_judge(find_sentence, &d);
    iso_device_examine(find_sentence, &d);
    iso_network_examine(find_sentence, &d);
    fclose(d.out);
    fprintf(out, "problems: %d, warnings: %d, fine: %d\n%s", d.count[PROBLEM], d.count[WARNING], d.count[FINE],
            findings);
    free(findings);
}

/* ---- public ---- */

SHMEM_API(shmemx_info_text, pshmemx_info_text);
size_t pshmemx_info_text(char *text, size_t bytes) { return compose(write_info, text, bytes); }

SHMEM_API(shmemx_doctor_text, pshmemx_doctor_text);
size_t pshmemx_doctor_text(char *text, size_t bytes) { return compose(write_doctor, text, bytes); }

SHMEM_API(shmem_info_get_version, pshmem_info_get_version);
void pshmem_info_get_version(int *major, int *minor)
{
    iso_check_out(__func__, "major", major);
    iso_check_out(__func__, "minor", minor);
    *major = SHMEM_MAJOR_VERSION;
    *minor = SHMEM_MINOR_VERSION;
}

SHMEM_API(shmem_info_get_name, pshmem_info_get_name);
void pshmem_info_get_name(char *name)
{
    iso_check_out(__func__, "name", name);
    memcpy(name, SHMEM_VENDOR_STRING, sizeof SHMEM_VENDOR_STRING);
}

SHMEM_API(shmemx_job_text, pshmemx_job_text);
size_t pshmemx_job_text(const char *job, int form, char *text, size_t bytes)
{
    struct composed whole = {NULL, 0};
    if (form < SHMEMX_TEXT || form > SHMEMX_FLIGHT_PART || (form >= SHMEMX_RAS && job == NULL)) {
        log_error(
            "shmemx_job_text: form is %d; allowed: SHMEMX_TEXT (0), SHMEMX_JSON (1), and of one job SHMEMX_RAS (2), "
            "SHMEMX_PART (3), SHMEMX_FLIGHT (4), SHMEMX_FLIGHT_PART (5)",
            form);
        return 0;
    }
    FILE *out = open_memstream(&whole.text, &whole.len);
    if (out == NULL)
        return 0;
    int rc = iso_job_look_write(out, job, form);
    size_t len = hand_out(out, &whole, rc == 0 ? text : NULL, bytes);
    return rc == 0 ? len : 0;
}
