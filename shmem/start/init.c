/* SPDX-License-Identifier: MIT */
/* Start and end of the library on one PE: the order in which the parts come up and go down,
 * balanced init and finalize, finalize followed by another init, exit without finalize. */
#include "../../bootstrap/boot.h"
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "../team/agree.h"
#include "../collectives.h"
#include "../state/data_segment.h"
#include "../gpu/device.h"
#include "info.h"
#include "start_times.h"
#include "../state/init_attr.h"
#include "../memory/memory.h"
#include "../profile/page.h"
#include "../profile/profile.h"
#include "../profile/trace.h"
#include "../node/channel.h"
#include "../node/wait.h"
#include "../transport/order.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

SHMEM_API(shmem_finalize, pshmem_finalize);
static void finalize(const char *call);

/* What no other file asks about this PE's start and end. */
static ISO_PER_PE struct {
    pthread_mutex_t lock; /* shmem_init and shmem_finalize, by any thread */
    int starts;           /* shmem_init minus shmem_finalize */
    bool exited;          /* the program ends, and shmem_finalize was done for it */
    bool leaving;         /* by shmem_global_exit, with */
    int status;
} own = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- start ---- */

/* Pairs with the acquire load of shmem_query_initialized: a thread may ask while another one starts the library. */
static void set_life(enum life life) { __atomic_store_n(&ISO->life, life, __ATOMIC_RELEASE); }

/* The end that all PEs reach together: nothing is under way behind it. */
static void complete_all(const char *call)
{
    if (own.starts == 1)
        (void)iso_device_finish_streams(call);
    iso_device_trace_look(ISO->device);
    iso_quiet_all(call);
    iso_agree_match(ISO->world, (struct agree_args){call, 0, 0, 0});
    iso_barrier_sync(ISO->world, call);
}

/* The process ends: without shmem_finalize, a clean exit is an implicit one (deprecated, section 12), any other ends
 * the job, since the others would wait for this PE for ever. Where another thread may be inside of a call, what it uses
 * is left to the end of the process. */
static void at_exit(int status, void *arg)
{
    struct state *self = ISO;
    if ((intptr_t)arg != (intptr_t)getpid() || iso_is_aborting(self) || own.leaving)
        return; /* a forked child, or the job is ending anyway */
    if (pthread_mutex_trylock(&own.lock) != 0) {
        log_error("the program exits while another thread is in shmem_init or shmem_finalize; ending the job");
        iso_abort_job(status != 0 ? status : 1, "exit beside shmem_init or shmem_finalize");
    }
    if (self->life == LIFE_RUNNING && status == 0) {
        own.starts = 1;
        own.exited = true;
        __atomic_store_n(&self->control->exited, 1, __ATOMIC_RELAXED); /* for reports of the other PEs */
        if (self->thread_level == SHMEM_THREAD_MULTIPLE) {
            complete_all("shmem_finalize");
            iso_page_print("shmem_finalize");
            iso_trace_finish("shmem_finalize");
            iso_metrics_stop();
            iso_quiet(&self->ctx_words); /* flags of the barrier: no transport stops here */
            iso_device_stop();
        } else {
            finalize("shmem_finalize");
        }
    } else if (self->life == LIFE_RUNNING) {
        log_error("the program exited with status %d before shmem_finalize; ending the job", status);
        iso_abort_job(status, "exit before shmem_finalize");
    }
    iso_boot_close(self->boot);
    pthread_mutex_unlock(&own.lock);
}

/* A child has no part in the job: it must neither keep the parent's sockets open (its death would go unseen) nor call
 * into the library, nor end the job when it does. Where the job has ended, the child may begin one of its own; PMIx
 * stays open behind an end, and takes the child for its parent. */
static void after_fork_child(void)
{
    struct state *self = ISO;
    for (int pe = 0; self->peers != NULL && pe < self->n_pes; pe++) {
        if (self->peers[pe].sock >= 0)
            close(self->peers[pe].sock);
        self->peers[pe].sock = -1; /* the number is soon another file's */
    }
    iso_channel_after_fork();
    iso_boot_close(self->boot); /* closes the child's copies, and sends nothing */
    bool idle = pthread_mutex_trylock(&own.lock) == 0; /* else another thread of the parent was in a start or an end */
    if (idle)
        pthread_mutex_unlock(&own.lock);
    if (idle && self->life == LIFE_AFTER && self->parent_pid == 0)
        self->life = LIFE_BEFORE;
    else if (self->life != LIFE_BEFORE || !idle)
        self->life = LIFE_CHILD;
    own.leaving = false;
    self->ctx_default.n_pes = 0;
}

static void register_handlers(void)
{
#ifndef ISO_PES_AS_THREADS
    static ISO_PER_PE pid_t registered; /* once a process, whatever becomes of the state */
    if (registered == 0)
        pthread_atfork(NULL, NULL, after_fork_child);
    if (registered != getpid())
        on_exit(at_exit, (void *)(intptr_t)getpid());
    registered = getpid();
#else
    (void)at_exit;
    (void)after_fork_child;
#endif
}

static int bring_up(const struct boot_attr *attr)
{
    struct state *self = ISO;
    iso_start_times_begin();
    int rc = iso_boot_open(self->boot, attr, self->env);
    if (rc != 0)
        return rc;
    iso_start_times_end(START_BOOTSTRAP);
    self->host = self->boot->host;
    self->my_pe = self->boot->rank;
    self->n_pes = self->boot->size;
    self->parent_pid = strcmp(self->boot->ops->name, "pmix") == 0 ? (int)getppid() : 0;
    iso_log_set_pe(self->my_pe);
    struct row *rows = NULL;
    rc = iso_pe_start(&rows);
    iso_start_times_end(START_EXCHANGE);
    if (rc == 0)
        iso_start_times_take(rows);
    if (rc == 0)
        rc = iso_pe_choose_transports(rows);
    iso_start_times_end(START_NETWORK);
    if (rc == 0)
        rc = iso_pe_start_segments(rows);
    if (rc == 0)
        rc = iso_pe_join(rows);
    iso_start_times_end(START_MAPPING);
    if (rc == 0)
        rc = iso_pe_join_nodes(rows);
    iso_start_times_end(START_NETWORK);
    free(rows);
    if (rc == 0)
        rc = iso_memory_start();
    if (rc == 0)
        rc = iso_coll_start();
    if (rc == 0)
        rc = iso_team_start();
    if (rc == 0)
        rc = iso_ctx_start();
    iso_start_times_end(START_TEAMS);
    if (rc == 0)
        iso_start_times_tell();
    return rc;
}

/* From the last line of bring_up to its first; no other PE reaches this one any more. */
static void take_library_down(void)
{
    struct state *self = ISO;
    iso_metrics_stop();
    iso_pe_part();
    iso_ctx_stop();
    iso_team_stop();
    iso_coll_stop();
    iso_memory_stop();
    iso_buffer_stop();
    iso_segment_stop();
    iso_pe_stop();
    iso_profile_stop(); /* no thread of the library waits any more */
    self->n_pes = 0;
}

static void refuse_child(const char *call)
{
    if (ISO->life == LIFE_CHILD)
        iso_fatal_life(call);
}

/* 0, or -errno after a sentence. attr: NULL where the environment says all. Under own.lock. */
static int start_locked(const shmemx_init_attr_t *attr, int requested, int *provided)
{
    static ISO_PER_PE struct env env;
    static ISO_PER_PE struct boot boot; /* stays open across finalize */
    struct state *self = ISO;
    char error[256];
    if (self->life == LIFE_RUNNING) { /* 1.6: repeated calls are counted */
        own.starts++;
        *provided = self->thread_level;
        return 0;
    }
    self->env = &env;
    self->boot = &boot;
    if (iso_env_read(&env, error, sizeof error) != 0) {
        log_error("shmem_init: %s", error);
        return -EINVAL;
    }
    if (attr != NULL)
        iso_init_attr_apply(attr, &env);
    iso_log_reserve();
    self->debug = env.debug;
    enum log_level level = self->debug ? LOG_DEBUG : LOG_WARN;
    iso_log_parse_level(env.log, &level); /* empty: stays; iso_env_read has refused what it does not know */
    iso_log_set_level(level);
    iso_data_segment_refresh();
    register_handlers();
    self->left_at = 0; /* of an earlier life */
    iso_job_mend();
    struct boot_attr given = {NULL, 0, 0};
    if (attr != NULL)
        given = (struct boot_attr){attr->id->bytes, attr->rank, attr->size};
    int rc = iso_profile_start(); /* before threads of the library ask for it */
    if (rc == 0)
        rc = bring_up(attr != NULL ? &given : NULL);
    if (rc != 0) {
        take_library_down();
        return rc;
    }
    self->spin_most = env.spin >= 0 ? (unsigned)env.spin : self->oversubscribed ? 0 : 1000;
    iso_wait_spin(self, self->spin_most);
    iso_set_careful(self, false);
    self->thread_level = requested;
    *provided = requested;
    own.starts = 1;
    set_life(LIFE_RUNNING);
    iso_metrics_start();
    iso_profile_measure_clock();
    iso_trace_begin("shmem_init");
    iso_info_print_at_start();
    iso_variables_warn();
    return 0;
}

/* By attempts, so that thread sanitizer sees no order of this lock and the one that a PE holds for all of its life
 * (node_file.c), for which nobody waits. */
static void lock_life(void)
{
    const struct timespec nap = {0, 1000000};
    while (pthread_mutex_trylock(&own.lock) != 0)
        nanosleep(&nap, NULL);
}

/* Libraries of one process start Isomer without knowing of each other, from any thread. */
static int start_library(const shmemx_init_attr_t *attr, int requested, int *provided)
{
    lock_life();
    int rc = start_locked(attr, requested, provided);
    pthread_mutex_unlock(&own.lock);
    return rc;
}

static bool is_level(const char *call, int requested)
{
    if (requested >= SHMEM_THREAD_SINGLE && requested <= SHMEM_THREAD_MULTIPLE)
        return true;
    log_error("%s: requested %d is outside SHMEM_THREAD_SINGLE (%d)..SHMEM_THREAD_MULTIPLE (%d)", iso_call_name(call),
              requested, SHMEM_THREAD_SINGLE, SHMEM_THREAD_MULTIPLE);
    return false;
}

SHMEM_API(shmem_init, pshmem_init);
void pshmem_init(void)
{
    int provided;
    refuse_child(__func__);
    if (start_library(NULL, SHMEM_THREAD_SINGLE, &provided) != 0)
        iso_abort_job(1, "shmem_init failed");
}

SHMEM_API(start_pes, pstart_pes);
void pstart_pes(int npes)
{
    (void)npes; /* section 12: the argument is ignored, and so are later calls */
    if (ISO->life != LIFE_RUNNING)
        pshmem_init();
}

SHMEM_API(shmem_init_thread, pshmem_init_thread);
int pshmem_init_thread(int requested, int *provided)
{
    int level;
    refuse_child(__func__);
    if (!is_level(__func__, requested) || start_library(NULL, requested, &level) != 0)
        return 1;
    if (provided != NULL)
        *provided = level;
    return 0;
}

SHMEM_API(shmemx_init_attr, pshmemx_init_attr);
int pshmemx_init_attr(shmemx_init_attr_t *attr)
{
    refuse_child(__func__);
    shmemx_init_attr_t known;
    if (iso_init_attr_read(attr, &known) != 0 || !is_level(__func__, known.requested))
        return 1;
    if (known.errors != SHMEMX_ERRORS_ABORT)
        ISO->errors = known.errors;
    return start_library(&known, known.requested, &attr->provided) == 0 ? 0 : 1;
}

SHMEM_API(shmemx_get_uniqueid, pshmemx_get_uniqueid);
int pshmemx_get_uniqueid(shmemx_uniqueid_t *id)
{
    iso_log_reserve();
    if (id == NULL)
        log_error("shmemx_get_uniqueid: id is a null pointer");
    return id != NULL && iso_boot_uid_create(id->bytes) == 0 ? 0 : 1;
}

/* ---- end ---- */

/* Under own.lock. */
static void finalize(const char *call)
{
    struct state *self = ISO;
    if (self->life != LIFE_RUNNING)
        iso_fatal_life(call);
    if (own.starts == 1 && iso_boot_check(self->boot) != 0)
        iso_abort_job(1, "MPI_Init has made a PE an MPI job of its own");
    complete_all(call);
    if (--own.starts > 0)
        return;
    iso_page_print(call);
    iso_trace_finish(call);
    iso_device_stop(); /* collective: while barriers still work */
    self->left_at = (uint32_t)self->world->slot.seq;
    set_life(LIFE_ENDING);
#ifdef ISO_PES_AS_THREADS
    iso_boot_barrier(self->boot); /* one mapping for all: others may still read this heap in the barrier above */
#endif
    take_library_down();
    set_life(LIFE_AFTER);
}

void pshmem_finalize(void)
{
    /* In a handler of the program's, or a destructor: behind the library's own, or of a PE that ends the job alone. */
    if (own.exited || own.leaving)
        return;
    lock_life();
    finalize(__func__);
    pthread_mutex_unlock(&own.lock);
}

/* The opposite of bring_up, without a barrier. The others are told first, so that they do not wait for this PE. */
SHMEM_API(shmemx_leave, pshmemx_leave);
int pshmemx_leave(void)
{
    struct state *self = ISO;
    if (self->life != LIFE_RUNNING) {
        log_error("shmemx_leave: the library is not running in this process");
        return -EINVAL;
    }
    char why[128];
    snprintf(why, sizeof why, "pe %d (pid %d on %s) has left the job by shmemx_leave", self->my_pe, (int)getpid(),
             self->peers[self->my_pe].host);
    iso_job_mark(self->my_pe, why);
    iso_job_mask(false); /* waits of the network end */
    if (iso_job_is_broken()) /* else another thread has claimed it, and tells */
        iso_job_tell();
    int rc = iso_device_leave(__func__);
    if (rc != 0)
        return rc;
    set_life(LIFE_AFTER);
    own.starts = 0;
    take_library_down();
    iso_boot_leave(self->boot);
    return 0;
}

SHMEM_API(shmem_global_exit, pshmem_global_exit);
void pshmem_global_exit(int status)
{
    iso_check_life(__func__);
#ifdef ISO_PES_AS_THREADS
    iso_abort_job(status, NULL);
#else
    own.leaving = true;
    own.status = status;
    exit(status); /* flushes and runs the program's exit handlers, as the specification wants; then end_leaving() */
#endif
}

/* The last thing of all in exit(): only now may the launcher begin to kill. */
__attribute__((destructor)) static void end_leaving(void)
{
    struct state *self = ISO;
    if (!own.leaving || iso_is_aborting(self))
        return;
    fflush(NULL);
    iso_abort_job(own.status, NULL);
}

/* ---- queries ---- */

SHMEM_API(shmem_query_initialized, pshmem_query_initialized);
void pshmem_query_initialized(int *initialized)
{
    iso_check_out(__func__, "initialized", initialized);
    *initialized = __atomic_load_n(&ISO->life, __ATOMIC_ACQUIRE) == LIFE_RUNNING;
}

SHMEM_API(shmem_query_thread, pshmem_query_thread);
void pshmem_query_thread(int *provided)
{
    iso_check_life(__func__);
    iso_check_out(__func__, "provided", provided);
    *provided = ISO->thread_level;
}

SHMEM_API(shmem_my_pe, pshmem_my_pe);
int pshmem_my_pe(void)
{
    iso_check_life(__func__);
    return ISO->my_pe;
}

SHMEM_API(shmem_n_pes, pshmem_n_pes);
int pshmem_n_pes(void)
{
    iso_check_life(__func__);
    return ISO->n_pes;
}

SHMEM_API(_my_pe, p_my_pe);
int p_my_pe(void) { return pshmem_my_pe(); }

SHMEM_API(_num_pes, p_num_pes);
int p_num_pes(void) { return pshmem_n_pes(); }

SHMEM_API(shmem_pcontrol, pshmem_pcontrol);
void pshmem_pcontrol(int level, ...) { (void)level; } /* section 10: a tool may override it */

SHMEM_API(shmem_pe_accessible, pshmem_pe_accessible);
int pshmem_pe_accessible(int pe)
{
    iso_check_life(__func__);
    return pe >= 0 && pe < ISO->n_pes; /* init refuses PEs that no transport reaches */
}

SHMEM_API(shmem_addr_accessible, pshmem_addr_accessible);
int pshmem_addr_accessible(const void *addr, int pe)
{
    iso_check_life(__func__);
    return pe >= 0 && pe < ISO->n_pes && iso_segment_of(addr, 1) != NULL;
}

/* NULL where loads and stores are not possible: not symmetric, device memory, staged bytes, another node. */
static void *reach(const void *dest, int world_pe)
{
    const struct segment *s = iso_segment_of(dest, 1);
    char *cpu = s != NULL ? iso_segment_reach(s, world_pe) : NULL;
    return cpu != NULL ? cpu + ((const char *)dest - s->base) : NULL;
}

SHMEM_API(shmem_ptr, pshmem_ptr);
void *pshmem_ptr(const void *dest, int pe)
{
    iso_check_life(__func__);
    if (pe < 0 || pe >= ISO->n_pes)
        iso_fatal_pe(__func__, pe, ISO->n_pes);
    return reach(dest, pe);
}

SHMEM_API(shmem_team_ptr, pshmem_team_ptr);
void *pshmem_team_ptr(shmem_team_t handle, const void *dest, int pe)
{
    iso_check_life(__func__);
    const struct team *team = iso_team_or_null(handle);
    if (team == NULL)
        return NULL;
    if (pe < 0 || pe >= team->n_pes)
        iso_fatal_pe(__func__, pe, team->n_pes);
    return reach(dest, team->world_of[pe]);
}
