/* SPDX-License-Identifier: MIT */
/* Looks at jobs from another process: it finds the files of nodes (node_file.h) among the descriptors that /proc shows,
 * maps them for reading, and makes the graph. The job takes no part and does not notice, so a PE that is stopped, or
 * runs in an endless loop, is described as well as any other. The kernel lets in the same user alone: it asks for what
 * a debugger needs. What the files say is checked before it is used as a size. Changes nothing. */
#include "job_look.h"
#include "../../bootstrap/boot.h"
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "../../include/shmemx.h"
#include "flight.h"
#include "graph.h"
#include "job_hosts.h"
#include "node_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILE_LINK "/memfd:isomer-node"
#define PES_MOST (1 << 22)
#define PARENTS_MOST 64

struct look_file {
    const struct node_file *file;
    size_t bytes;
    uint64_t inode;
};

struct look {
    struct look_file *files;
    int n;
    uint64_t pid_space; /* of this process */
};

/* ---- the files ---- */

static bool job_file_is_valid(const struct node_file *file, size_t bytes)
{
    const struct node_head *head = &file->head;
    if (bytes < sizeof *file || __atomic_load_n(&head->magic, __ATOMIC_ACQUIRE) != ISO_NODE_MAGIC + ISO_PROTOCOL ||
        head->n_pes < 1 || head->n_pes > PES_MOST || head->n_local < 1 || head->n_local > head->n_pes ||
        memchr(head->host, '\0', sizeof head->host) == NULL || memchr(head->node, '\0', sizeof head->node) == NULL)
        return false;
    uint64_t n = (uint64_t)head->n_local, rest = bytes - sizeof *file;
    if (n > rest / sizeof file->members[0])
        return false;
    if (head->n_nodes < 1 || head->n_nodes > head->n_pes || head->hosts_at % sizeof(uint64_t) != 0 ||
        head->hosts_at > bytes || (uint64_t)head->n_nodes > (bytes - head->hosts_at) / sizeof(struct node_host))
        return false;
    if (head->control_stride == 0)
        return true;
    return head->control_at % ISO_LINE == 0 && head->control_stride % ISO_LINE == 0 &&
           head->control_stride >= sizeof(struct control) && head->control_at <= bytes &&
           n <= (bytes - head->control_at) / head->control_stride;
}

/* Takes fd. */
static void add_job_file(struct look *look, int fd)
{
    struct stat about;
    int seals = fcntl(fd, F_GET_SEALS);
    bool fits = fstat(fd, &about) == 0 && seals >= 0 && (seals & F_SEAL_SHRINK) != 0 &&
                about.st_size >= (off_t)sizeof(struct node_file);
    for (int i = 0; i < look->n && fits; i++)
        fits = look->files[i].inode != (uint64_t)about.st_ino;
    size_t bytes = fits ? (size_t)about.st_size : 0;
    void *at = fits ? mmap(NULL, bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0) : MAP_FAILED;
    close(fd);
    if (at == MAP_FAILED)
        return;
    struct look_file *files = NULL;
    if (job_file_is_valid((const struct node_file *)at, bytes))
        files = (struct look_file *)realloc(look->files, ((size_t)look->n + 1) * sizeof *files);
    if (files == NULL) {
        munmap(at, bytes);
        return;
    }
    look->files = files;
    files[look->n++] = (struct look_file){(const struct node_file *)at, bytes, (uint64_t)about.st_ino};
}

static void scan_process(struct look *look, const char *pid)
{
    char path[300], link[64];
    struct stat about;
    snprintf(path, sizeof path, "/proc/%s/fd", pid);
    DIR *fds = opendir(path);
    if (fds == NULL)
        return; /* another user's */
    bool mine = fstat(dirfd(fds), &about) == 0 && about.st_uid == geteuid();
    for (struct dirent *e; mine && (e = readdir(fds)) != NULL;) {
        ssize_t len = readlinkat(dirfd(fds), e->d_name, link, sizeof link - 1);
        if (len < (ssize_t)strlen(FILE_LINK) || strncmp(link, FILE_LINK, strlen(FILE_LINK)) != 0)
            continue;
        int fd = openat(dirfd(fds), e->d_name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd >= 0)
            add_job_file(look, fd);
    }
    closedir(fds);
}

static struct look begin_look(void)
{
    struct look look = {NULL, 0, 0};
    struct stat space;
    look.pid_space = stat("/proc/self/ns/pid", &space) == 0 ? (uint64_t)space.st_ino : 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *e; proc != NULL && (e = readdir(proc)) != NULL;)
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
            scan_process(&look, e->d_name);
    if (proc != NULL)
        closedir(proc);
    return look;
}

static void end_look(struct look *look)
{
    for (int i = 0; i < look->n; i++)
        munmap((void *)(uintptr_t)look->files[i].file, look->files[i].bytes);
    free(look->files);
}

/* 0: not known here. */
static int pid_of(const struct look *look, const struct node_member *member)
{
    if (!__atomic_load_n(&member->joined, __ATOMIC_ACQUIRE) || member->pid_space != look->pid_space)
        return 0;
    return (int)member->pid;
}

/* ---- which job ---- */

static int parent_of(int pid)
{
    char path[64], line[512];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *stat = fopen(path, "re");
    size_t n = stat != NULL ? fread(line, 1, sizeof line - 1, stat) : 0;
    line[n] = '\0';
    const char *behind = strrchr(line, ')');
    if (behind != NULL && sscanf(behind, ") %*c %d", &parent) != 1)
        parent = 0;
    if (stat != NULL)
        fclose(stat);
    return parent;
}

/* A PE of this file is that process, or was started by it. */
static bool has_process(const struct look *look, const struct node_file *file, int wanted)
{
    for (int i = 0; i < file->head.n_local; i++) {
        int pid = pid_of(look, &file->members[i]);
        for (int n = 0; pid > 1 && n < PARENTS_MOST; n++, pid = parent_of(pid))
            if (pid == wanted)
                return true;
    }
    return false;
}

/* The first file of the job; NULL after a sentence. */
static const struct node_file *find_job(const struct look *look, const char *job)
{
    char *end;
    unsigned long number = strtoul(job, &end, strlen(job) == 8 ? 16 : 10);
    const struct node_file *found = NULL;
    bool is_number = *job != '\0' && *end == '\0';
    for (int i = 0; i < look->n && is_number; i++) {
        const struct node_file *file = look->files[i].file;
        if (strlen(job) == 8 ? file->head.job != number
                             : number > INT32_MAX || !has_process(look, file, (int)number))
            continue;
        if (found != NULL && found->head.job != file->head.job) {
            log_error("process %s has started several jobs, %08" PRIx32 " and %08" PRIx32
                      " among them; name one of them",
                      job, found->head.job, file->head.job);
            return NULL;
        }
        found = file;
    }
    if (found == NULL)
        log_error(
            "no job of this user on this host is \"%.32s\"; allowed: the 8 digits of a job that isomer-info --jobs "
            "lists, the process number of a PE or of its launcher",
            job);
    return found;
}

/* ---- one job ---- */

static const struct control *job_control(const struct node_file *file, int local)
{
    const struct node_head *head = &file->head;
    if (!__atomic_load_n(&file->members[local].joined, __ATOMIC_ACQUIRE) || head->control_stride == 0)
        return NULL;
    return (const struct control *)(const void *)((const char *)file + head->control_at +
                                                  (size_t)local * head->control_stride);
}

static void take_member(struct graph *graph, const struct look *look, const struct node_file *file, int local)
{
    const struct node_member *member = &file->members[local];
    const struct node_head *head = &file->head;
    int pe = (int)member->pe, pid = pid_of(look, member);
    if (pe < 0 || pe >= graph->n_pes || graph->pes[pe].state != GRAPH_ELSEWHERE)
        return;
    struct graph_pe *p = &graph->pes[pe];
    p->state = GRAPH_CLOSED;
    memcpy(p->host, head->host, sizeof p->host);
    memcpy(p->node, head->node, sizeof p->node);
    /* Acquire: pairs with iso_node_tell_left and iso_node_leave. */
    bool left = __atomic_load_n(&member->left, __ATOMIC_ACQUIRE) || __atomic_load_n(&member->gone, __ATOMIC_ACQUIRE);
    if (pid > 0 && !left)
        iso_graph_look_at_process(p, pid);
    if (job_control(file, local) != NULL)
        iso_graph_take(graph, pe, job_control(file, local));
    if (left)
        p->state = GRAPH_LEFT;
}

static void print_line(void *out, const char *line) { fprintf((FILE *)out, "  %s\n", line); }

static void write_job_table(const struct graph *graph, FILE *out)
{
    fputs("  pe: process, host, seconds of CPU, MiB resident, MiB of heap, steps of the world\n", out);
    for (int pe = 0; pe < graph->n_pes; pe++) {
        const struct graph_pe *p = &graph->pes[pe];
        if (p->state == GRAPH_ELSEWHERE)
            continue;
        fprintf(out, "  %d: %d %c, %s, %.1f, %.1f, %.1f, %" PRIu64 "\n", pe, p->pid,
                p->process != '\0' ? p->process : '?', p->host, p->cpu_s, (double)p->resident_bytes / 1048576,
                (double)p->heap_bytes / 1048576, p->steps);
    }
}

static bool is_seen(const struct look *look, uint32_t job, int pe)
{
    for (int i = 0; i < look->n; i++) {
        const struct node_file *file = look->files[i].file;
        for (int local = 0; local < file->head.n_local && file->head.job == job; local++)
            if (file->members[local].pe == pe)
                return true;
    }
    return false;
}

/* Asks the hosts of the PEs that this one does not see, for what the question names. PEs that they see; a host that has
 * not answered has a line in `notes`. */
static int ask_others(const struct look *look, const struct node_file *file, struct job_question question, FILE *notes)
{
    const struct node_head *head = &file->head;
    const struct node_host *nodes = (const struct node_host *)(const void *)((const char *)file + head->hosts_at);
    char(*hosts)[JOB_HOST_BYTES] = (char(*)[JOB_HOST_BYTES])calloc((size_t)head->n_nodes, sizeof *hosts);
    question.job = head->job;
    question.hosts = (const char(*)[JOB_HOST_BYTES])hosts;
    for (int i = 0; i < head->n_nodes && hosts != NULL; i++) {
        char *name = hosts[question.n_hosts];
        int pe = nodes[i].first_pe, k = 0;
        memcpy(name, nodes[i].name, JOB_HOST_BYTES);
        name[JOB_HOST_BYTES - 1] = '\0';
        while (k < question.n_hosts && strcmp(hosts[k], name) != 0)
            k++;
        /* A name that begins so would be an option of the agent's. */
        if (k == question.n_hosts && pe >= 0 && pe < head->n_pes && !is_seen(look, head->job, pe) && name[0] != '\0' &&
            name[0] != '-' && strcmp(name, head->host) != 0)
            question.n_hosts++;
    }
    int n_seen = question.n_hosts > 0 ? iso_job_hosts_ask(&question, notes) : 0;
    free(hosts);
    return n_seen;
}

static const char *agent_of(const struct env *env)
{
    return env->agent[0] != '\0' ? env->agent : "ssh -o BatchMode=yes -o ConnectTimeout=5";
}

static int write_job(FILE *out, const struct look *look, const struct node_file *first, int form)
{
    const struct node_head *head = &first->head;
    char error[256], *notes = NULL;
    size_t notes_bytes;
    struct env env;
    int n_nodes = 0, n_seen = 0, n_far = 0;
    uint64_t now = (uint64_t)time(NULL);
    if (iso_env_read(&env, error, sizeof error) != 0) {
        log_error("%s", error);
        return -EINVAL;
    }
    struct graph *graph = iso_graph_create(head->n_pes, iso_clock_now_ns());
    FILE *said = graph != NULL ? open_memstream(&notes, &notes_bytes) : NULL;
    if (said == NULL) {
        iso_graph_destroy(graph);
        return -ENOMEM;
    }
    for (int i = 0; i < look->n; i++) {
        const struct node_file *file = look->files[i].file;
        if (file->head.job != head->job || file->head.n_pes != head->n_pes)
            continue;
        n_nodes++;
        n_seen += file->head.n_local;
        for (int local = 0; local < file->head.n_local; local++)
            take_member(graph, look, file, local);
    }
    if (form != SHMEMX_PART && n_seen < head->n_pes && strcmp(env.agent, "none") != 0)
        n_far = ask_others(look, first, (struct job_question){.agent = agent_of(&env), .graph = graph}, said);
    fclose(said);
    if (form == SHMEMX_PART) {
        iso_job_hosts_tell(graph, head->job, out);
    } else if (form == SHMEMX_JSON) {
        fprintf(out,
                "{\"job\": \"%08" PRIx32 "\", \"n_pes\": %d, \"n_seen\": %d, \"begun\": %" PRIu64 ", \"now\": %" PRIu64
                ",\n ",
                head->job, head->n_pes, n_seen + n_far, head->begun_s, now);
        iso_graph_write_json(graph, out);
        fputs("}\n", out);
    } else if (form == SHMEMX_RAS) {
        iso_graph_write_ras(graph, head->job, out);
    } else {
        fprintf(out, "job %08" PRIx32 ": %d PE%s, begun %" PRIu64 " s ago; seen on this host: %d PE%s of %d node%s",
                head->job, head->n_pes, head->n_pes > 1 ? "s" : "", now - ISO_MIN(now, head->begun_s), n_seen,
                n_seen > 1 ? "s" : "", n_nodes, n_nodes > 1 ? "s" : "");
        if (n_far > 0)
            fprintf(out, ", on other hosts: %d PE%s", n_far, n_far > 1 ? "s" : "");
        fputc('\n', out);
        iso_graph_write(graph, print_line, out);
        if (graph->n_waits == 0)
            print_line(out, "no PE waits in the library for longer than 10 ms");
        if (n_seen + n_far < head->n_pes)
            fprintf(out,
                    "  not seen: %d of the PEs, on hosts that were not asked or have not answered; isomer-info --job "
                    "%08" PRIx32 " describes them there\n",
                    head->n_pes - n_seen - n_far, head->job);
        write_job_table(graph, out);
    }
    for (char *line = notes, *end; form != SHMEMX_PART && line != NULL && (end = strchr(line, '\n')) != NULL;
         line = end + 1)
        log_error("%.*s", (int)(end - line), line);
    free(notes);
    iso_graph_destroy(graph);
    return 0;
}

/* ---- recorded calls ---- */

static void write_flights(FILE *out, struct flights *flights)
{
    iso_flights_compare(flights, print_line, out);
    iso_flights_write(flights, out);
    iso_flights_destroy(flights);
}

/* form: SHMEMX_FLIGHT, or SHMEMX_FLIGHT_PART: of this host alone, for one that asks. */
static int look_at_flights(FILE *out, const struct look *look, const struct node_file *first, int form)
{
    struct env env;
    char error[256];
    int n_seen = 0;
    if (iso_env_read(&env, error, sizeof error) != 0) {
        log_error("%s", error);
        return -EINVAL;
    }
    struct flights *flights = iso_flights_create();
    if (flights == NULL)
        return -ENOMEM;
    for (int i = 0; i < look->n; i++) {
        const struct node_file *file = look->files[i].file;
        for (int local = 0; local < file->head.n_local && file->head.job == first->head.job; local++)
            if (file->members[local].pe >= 0 && file->members[local].pe < first->head.n_pes) {
                iso_flights_take(flights, file->members[local].pe, job_control(file, local));
                n_seen++;
            }
    }
    if (form == SHMEMX_FLIGHT && n_seen < first->head.n_pes && strcmp(env.agent, "none") != 0)
        (void)ask_others(look, first, (struct job_question){.agent = agent_of(&env), .flights = flights}, stderr);
    if (form == SHMEMX_FLIGHT) {
        write_flights(out, flights);
        return 0;
    }
    iso_flights_write(flights, out);
    fputs(FLIGHTS_END, out);
    iso_flights_destroy(flights);
    return 0;
}

static int read_flights(FILE *out, const char *folder)
{
    struct flights *flights = iso_flights_create();
    int n = iso_flights_read(flights, folder, 0);
    if (n == 0)
        log_error(
            "there is no file of SHMEM_FLIGHT in %s, which jobs write at an error and at a report of SHMEM_TIMEOUT",
            folder);
    write_flights(out, flights);
    return n > 0 ? 0 : -ESRCH;
}

/* ---- all jobs ---- */

static void write_name(FILE *out, int pid)
{
    char path[64], name[64] = "?";
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    FILE *comm = fopen(path, "re");
    if (comm != NULL && fgets(name, sizeof name, comm) != NULL)
        name[strcspn(name, "\n")] = '\0';
    if (comm != NULL)
        fclose(comm);
    for (char *c = name; *c != '\0'; c++)
        if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ' || (unsigned char)*c > '~')
            *c = '?';
    fputs(name, out);
}

static void write_jobs(FILE *out, const struct look *look, int form)
{
    uint64_t now = (uint64_t)time(NULL);
    int n = 0;
    if (form == SHMEMX_JSON)
        fputs("{\"jobs\": [", out);
    for (int i = 0; i < look->n; i++) {
        const struct node_file *file = look->files[i].file;
        int seen = 0, pid = pid_of(look, &file->members[0]);
        bool is_first = true;
        for (int k = 0; k < look->n; k++) {
            bool same = look->files[k].file->head.job == file->head.job;
            is_first &= !same || k >= i;
            seen += same ? look->files[k].file->head.n_local : 0;
        }
        if (!is_first)
            continue;
        n++;
        if (form == SHMEMX_JSON)
            fprintf(out, "%s\n {\"job\": \"%08" PRIx32 "\", \"n_pes\": %d, \"n_seen\": %d, \"begun\": %" PRIu64
                         ", \"pid\": %d, \"program\": \"",
                    n > 1 ? "," : "", file->head.job, file->head.n_pes, seen, file->head.begun_s, pid);
        else
            fprintf(out, "job %08" PRIx32 ": %d PE%s, %d of them on this host, begun %" PRIu64 " s ago, process %d ",
                    file->head.job, file->head.n_pes, file->head.n_pes > 1 ? "s" : "", seen,
                    now - ISO_MIN(now, file->head.begun_s), pid);
        write_name(out, pid);
        fputs(form == SHMEMX_JSON ? "\"}" : "\n", out);
    }
    if (form == SHMEMX_JSON)
        fputs("]}\n", out);
    else if (n == 0)
        fputs("no job of this user runs on this host\n", out);
}

int iso_job_look_write(FILE *out, const char *job, int form)
{
    if (form == SHMEMX_FLIGHT && strchr(job, '/') != NULL)
        return read_flights(out, job);
    struct look look = begin_look();
    const struct node_file *file = job != NULL ? find_job(&look, job) : NULL;
    int rc = 0;
    if (job == NULL)
        write_jobs(out, &look, form);
    else if (file != NULL && form >= SHMEMX_FLIGHT)
        rc = look_at_flights(out, &look, file, form);
    else
        rc = file != NULL ? write_job(out, &look, file, form) : -ESRCH;
    end_look(&look);
    return rc;
}
