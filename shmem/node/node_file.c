/* SPDX-License-Identifier: MIT */
/* Life and death on one node. Each PE holds a robust lock in the file: the kernel marks it when the thread that holds
 * it ends, however it ends, so a look into memory tells who died, without a socket to each PE. That thread may end
 * before its process: then the process itself is asked. One PE of those that wait looks at all others, every 10 ms.
 * Invariant: exit_begun is set before a PE that ends the job exits, so its end is not taken for a death. */
#include "node_file.h"
#include "peer.h"
#include "../../bootstrap/boot.h"
#include "../../bootstrap/log.h"
#include "../../bootstrap/memory_file.h"
#include "wait.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WATCH_NS 10000000u
#define ASK_NS 1000000000u

/* PEs that are threads of one process have theirs at the front of their heaps. */
static size_t control_stride(void)
{
#ifdef ISO_PES_AS_THREADS
    return 0;
#else
    return iso_segment_heap_start();
#endif
}

static size_t control_offset(int local)
{
    size_t head = sizeof(struct node_file) + (size_t)ISO->n_local * sizeof(struct node_member);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return ((head + page - 1) & ~(page - 1)) + (size_t)local * control_stride();
}

static size_t file_bytes(void)
{
    return control_offset(ISO->n_local) + (size_t)ISO->n_nodes * sizeof(struct node_host) +
           (size_t)ISO->n_pes * sizeof(uint32_t);
}

static int fail_node_file(const char *what)
{
    int error = errno;
    log_error("shmem_init: the memory of %zu bytes that the PEs of this node share cannot be %s: %m",
              file_bytes(), what);
    return -error;
}

static int map_file(void)
{
    struct state *self = ISO;
    void *at = mmap(NULL, file_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, self->node_fd, 0);
    if (at == MAP_FAILED)
        return fail_node_file("mapped");
    self->node = (struct node_file *)at;
    return 0;
}

int iso_node_make(uint32_t job)
{
    struct state *self = ISO;
    char why[256];
    self->node_fd = iso_memory_file_make("isomer-node", MFD_ALLOW_SEALING, file_bytes(), why, sizeof why);
    if (self->node_fd < 0) {
        log_error("shmem_init: the memory that the PEs of this node share cannot be made: %s", why);
        return self->node_fd;
    }
    fcntl(self->node_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    int rc = map_file();
    if (rc != 0)
        return rc;
    struct node_head *head = &self->node->head;
    const struct peer *me = &self->peers[self->my_pe];
    head->job = job;
    head->n_pes = self->n_pes;
    head->n_local = self->n_local;
    head->begun_s = (uint64_t)time(NULL);
    head->control_at = control_offset(0);
    head->control_stride = control_stride();
    head->hosts_at = control_offset(self->n_local);
    head->n_nodes = self->n_nodes;
    struct node_host *hosts = (struct node_host *)(void *)((char *)self->node + head->hosts_at);
    for (int i = 0; i < self->n_nodes; i++) {
        memcpy(hosts[i].name, self->peers[self->node_first[i]].host, sizeof hosts[i].name);
        hosts[i].first_pe = self->node_first[i];
    }
    memcpy(head->host, me->host, sizeof head->host);
    memcpy(head->node, me->node, sizeof head->node);
    __atomic_store_n(&head->magic, ISO_NODE_MAGIC + ISO_PROTOCOL, __ATOMIC_RELEASE);
    return 0;
}

int iso_node_take(int fd)
{
    ISO->node_fd = fd;
    return map_file();
}

int iso_node_join(void)
{
    struct state *self = ISO;
    struct node_member *me = &self->node->members[self->my_local];
    pthread_mutexattr_t robust;
    struct stat space;
    cpu_set_t mine;
    me->pe = self->my_pe;
    me->pid = (int32_t)getpid();
    me->pid_space = stat("/proc/self/ns/pid", &space) == 0 ? (uint64_t)space.st_ino : 0;
    for (int i = 0; i < SEGMENT_INDEX_DEVICE; i++) {
        const struct segment *s = &self->segments[i];
        struct stat file;
        me->memory[i] = (struct node_memory){-1, 0, 0};
        if (s->limit != 0 && s->fd >= 0 && fstat(s->fd, &file) == 0)
            me->memory[i] = (struct node_memory){s->fd, (uint64_t)file.st_dev, (uint64_t)file.st_ino};
    }
    me->heap_base = (uint64_t)(uintptr_t)self->segments[SEGMENT_INDEX_HEAP].base;
    me->data_base = (uint64_t)(uintptr_t)self->segments[SEGMENT_INDEX_DATA].base;
    size_t n_bytes = sched_getaffinity(0, sizeof mine, &mine) == 0 ? ISO_MIN(sizeof self->node->cores, sizeof mine) : 0;
    for (size_t i = 0; i < n_bytes; i++)
        __atomic_fetch_or(&self->node->cores[i], ((const unsigned char *)&mine)[i], __ATOMIC_RELAXED);

    if (control_stride() != 0 &&
        mmap(self->control, control_stride(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
             self->node_fd, (off_t)control_offset(self->my_local)) != (void *)self->control)
        return fail_node_file("mapped");

    /* The lock is held from join to leave. Threads of one process do not die alone, and do not lock it. */
    pthread_mutexattr_init(&robust);
    pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setpshared(&robust, PTHREAD_PROCESS_SHARED);
    int rc = pthread_mutex_init(&me->alive, &robust);
    pthread_mutexattr_destroy(&robust);
#ifndef ISO_PES_AS_THREADS
    if (rc == 0)
        rc = pthread_mutex_lock(&me->alive);
#endif
    self->node_joined = rc == 0;
    __atomic_store_n(&me->joined, 1, __ATOMIC_RELEASE);
    errno = rc;
    return rc == 0 ? 0 : fail_node_file("locked");
}

/* ---- the memory of the others ---- */

/* The path is opened without access first, so that no other file than the right one is ever touched. */
int iso_node_open(int local, int segment_index)
{
    const struct node_member *member = &ISO->node->members[local], *me = &ISO->node->members[ISO->my_local];
    const struct node_memory *memory = &member->memory[segment_index];
    char path[64];
    struct stat file;
    if (member->pid_space != me->pid_space) /* the number is another process here */
        return -ESRCH;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)member->pid, (int)memory->fd);
    int found = open(path, O_PATH | O_CLOEXEC);
    if (found < 0)
        return -errno;
    int fd = -EBADF;
    if (fstat(found, &file) == 0 && (uint64_t)file.st_dev == memory->device && (uint64_t)file.st_ino == memory->inode) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", found);
        fd = open(path, O_RDWR | O_CLOEXEC);
        fd = fd < 0 ? -errno : fd;
    }
    close(found);
    return fd;
}

void iso_node_try(int local)
{
#ifndef ISO_PES_AS_THREADS
    int fd = iso_node_open(local, SEGMENT_INDEX_HEAP);
    if (fd < 0)
        __atomic_store_n(&ISO->node->closed, 1, __ATOMIC_RELAXED); /* READY and GO carry it to all */
    else
        close(fd);
#else
    (void)local;
#endif
}

void iso_node_learn(void)
{
    struct state *self = ISO;
    const struct node_member *me = &self->node->members[self->my_local];
    int n_cores = 0;
    for (int i = 0; i < self->n_local; i++) {
        const struct node_member *member = &self->node->members[i];
        struct peer *peer = &self->peers[self->local_pes[i]];
        bool named = member->pid_space == me->pid_space;
        peer->pid = named ? (int)member->pid : 0;
        peer->threaded = i != self->my_local && named && peer->pid == (int)getpid();
        if (i == self->my_local)
            continue;
        if (peer->by_pointer)
            peer->control = control_stride() == 0 ? (char *)(uintptr_t)member->heap_base
                                                  : (char *)self->node + control_offset(i);
    }
    for (size_t i = 0; i < sizeof self->node->cores; i++)
        n_cores += __builtin_popcount(self->node->cores[i]);
    self->oversubscribed = n_cores > 0 && self->n_local > n_cores;
}

/* ---- the death watch ---- */

/* A process that is named in this namespace; a zombie has ended. Without a pidfd (no descriptor left, Linux before 5.3)
 * a zombie is not told from a process that lives, so its end is noticed when its parent has waited for it. */
static bool process_lives(int pid)
{
    int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    struct pollfd end = {fd, POLLIN, 0};
    if (fd < 0)
        return pid > 0 && errno != ESRCH && (kill(pid, 0) == 0 || errno == EPERM);
    bool lives = poll(&end, 1, 0) <= 0; /* below 0: a signal of the program's came */
    close(fd);
    return lives;
}

bool iso_node_is_alive(int local)
{
    struct node_member *member = &ISO->node->members[local];
    if (__atomic_load_n(&member->gone, __ATOMIC_ACQUIRE))
        return false;
#ifdef ISO_PES_AS_THREADS
    (void)process_lives;
    return true;
#else
    int rc = pthread_mutex_trylock(&member->alive);
    if (rc == EBUSY)
        return true;
    if (rc == EOWNERDEAD)
        pthread_mutex_consistent(&member->alive);
    if (rc == 0 || rc == EOWNERDEAD)
        pthread_mutex_unlock(&member->alive);
    return process_lives(ISO->peers[ISO->local_pes[local]].pid);
#endif
}

static void report_node_death(const struct peer *peer, const struct wait *wait)
{
    char sentence[128];
    if (iso_job_has_reason())
        return;
    snprintf(sentence, sizeof sentence, "pe %d (pid %d on %s) died", peer->pe, peer->pid, peer->host);
    if (wait == NULL)
        log_error("%s%s", sentence, iso_job_then());
    else
        log_error("%s: %s while this PE was waiting%s", iso_call_name(wait->call), sentence, iso_job_then());
    iso_job_break(peer->pe, sentence);
}

/* true: another PE ends the job, so its end is no death. */
static bool hear_exit(void)
{
    if (__atomic_load_n(&ISO->node->exit_begun, __ATOMIC_ACQUIRE) != 2) /* pairs with iso_node_tell_exit */
        return false;
    iso_job_hear(&ISO->node->cause);
    return true;
}

/* `ask`: the processes of held locks are examined too. The kernel may lose the lock of a process that it ends for want
 * of memory. */
static void look_for_death(const struct wait *wait, bool ask)
{
    struct state *self = ISO;
    if (hear_exit())
        return;
    for (int i = 0; i < self->n_local; i++) {
        const struct node_member *member = &self->node->members[i];
        const struct peer *peer = &self->peers[self->local_pes[i]];
        if (i == self->my_local || __atomic_load_n(&member->gone, __ATOMIC_ACQUIRE))
            continue;
        if (iso_node_is_alive(i) && (!ask || peer->threaded || peer->pid == 0 || process_lives(peer->pid)))
            continue;
        if (hear_exit()) /* it ended because another PE ends the job */
            return;
        if (!__atomic_load_n(&member->gone, __ATOMIC_ACQUIRE)) /* it left between the two looks */
            report_node_death(peer, wait);
    }
}

void iso_node_watch_now(const struct wait *wait) { look_for_death(wait, true); }

/* Behind the hosts. */
static uint32_t *lost_pes(void)
{
    const struct node_head *head = &ISO->node->head;
    return (uint32_t *)(void *)((char *)ISO->node + head->hosts_at + (size_t)head->n_nodes * sizeof(struct node_host));
}

/* The job is broken. */
static void watch_on(void)
{
    const struct state *self = ISO;
    for (int i = 0; i < self->n_local; i++)
        if (i != self->my_local && !iso_peer_is_gone(self->local_pes[i]) && !iso_node_is_alive(i))
            iso_job_lose_pe(self->local_pes[i]);
    /* Acquire: pairs with iso_node_tell_lost. PEs that this one has told itself are counted, too. */
    int n_lost = (int)__atomic_load_n(&self->node->n_lost, __ATOMIC_ACQUIRE);
    for (int pe = 0; n_lost > __atomic_load_n(&self->n_gone, __ATOMIC_RELAXED) && pe < self->n_pes; pe++)
        if (__atomic_load_n(&lost_pes()[pe], __ATOMIC_RELAXED) != 0)
            iso_job_lose_pe(pe);
}

void iso_node_watch(const struct wait *wait)
{
    struct state *self = ISO;
    struct node_file *node = self->node;
    if (node == NULL || iso_is_aborting(self))
        return;
    if (iso_job_is_broken()) {
        watch_on();
        return;
    }
    if (hear_exit())
        return;
    uint32_t n_left = __atomic_load_n(&node->n_left, __ATOMIC_ACQUIRE); /* pairs with iso_node_tell_left */
    /* Relaxed, pairs with nothing: several threads of this PE look, and each may take the change. */
    bool has_changed = n_left != __atomic_load_n(&self->node_left, __ATOMIC_RELAXED);
    for (int i = 0; has_changed && i < self->n_local; i++) {
        const struct node_member *member = &node->members[i];
        if (i != self->my_local && __atomic_load_n(&member->left, __ATOMIC_ACQUIRE)) /* pairs with iso_node_tell_left */
            iso_peer_leaves(self->local_pes[i], member->left_at);
    }
    if (has_changed)
        __atomic_store_n(&self->node_left, n_left, __ATOMIC_RELAXED);

    uint64_t now = iso_clock_now_ns(), before = __atomic_load_n(&node->watched_ns, __ATOMIC_RELAXED);
    if (now - before > WATCH_NS && __atomic_compare_exchange_n(&node->watched_ns, &before, now, false, __ATOMIC_RELAXED,
                                                               __ATOMIC_RELAXED)) /* it says nothing but the time */
        look_for_death(wait, now / ASK_NS != before / ASK_NS);
}

/* ---- what this PE tells ---- */

/* A PE that comes second exits only when the first cause can be read: else its end would be taken for a death. The first
 * one may be killed meanwhile. */
void iso_node_tell_exit(const struct end_cause *cause)
{
    struct node_file *node = ISO->node;
    uint32_t none = 0;
    if (node == NULL)
        return;
    if (__atomic_compare_exchange_n(&node->exit_begun, &none, 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        node->cause = *cause;
        __atomic_store_n(&node->exit_begun, 2, __ATOMIC_RELEASE); /* pairs with hear_exit */
        return;
    }
    for (int tries = 0; tries < 100 && __atomic_load_n(&node->exit_begun, __ATOMIC_RELAXED) != 2; tries++)
        usleep(100);
}

void iso_node_tell_left(uint32_t left_at)
{
    struct state *self = ISO;
    if (!self->node_joined)
        return;
    struct node_member *me = &self->node->members[self->my_local];
    if (me->left)
        return;
    me->left_at = left_at;
    __atomic_store_n(&me->left, 1, __ATOMIC_RELEASE);
    __atomic_fetch_add(&self->node->n_left, 1, __ATOMIC_RELEASE); /* pairs with iso_node_watch */
}

void iso_node_tell_lost(int pe)
{
    if (ISO->node != NULL && __atomic_exchange_n(&lost_pes()[pe], 1, __ATOMIC_RELAXED) == 0)
        __atomic_fetch_add(&ISO->node->n_lost, 1, __ATOMIC_RELEASE); /* pairs with watch_on */
}

/* The lock belongs to the thread that made it. When another thread ends this PE, the file must stay mapped. */
void iso_node_leave(void)
{
    struct state *self = ISO;
    int held = 0;
    if (self->node_joined) {
        iso_node_tell_left(self->left_at);
        struct node_member *me = &self->node->members[self->my_local];
        __atomic_store_n(&me->gone, 1, __ATOMIC_RELEASE); /* pairs with iso_node_watch_now */
#ifndef ISO_PES_AS_THREADS
        held = pthread_mutex_unlock(&me->alive);
#endif
    }
    if (self->node != NULL && held == 0)
        munmap(self->node, self->node->head.hosts_at + (size_t)self->node->head.n_nodes * sizeof(struct node_host) +
                               (size_t)self->node->head.n_pes * sizeof(uint32_t));
    if (self->node_fd >= 0)
        close(self->node_fd);
    self->node = NULL;
    self->node_fd = -1;
    self->node_left = 0;
    self->node_joined = false;
}
