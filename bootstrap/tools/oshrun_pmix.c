/* SPDX-License-Identifier: MIT */
/* The PMIx server side of oshrun: what the PEs learn about the job, fence, abort.
 * The up-calls run in a thread of the PMIx library and must not block; they only note what happened. All PEs are on
 * this host, so a fence already has the data of all PEs, and no other server is ever asked. */
#define _GNU_SOURCE
#include "oshrun.h"

#include <pmix.h>
#include <pmix_server.h>

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- up-calls ---- */

static void wake(struct job *job)
{
    uint64_t one = 1;
    (void)!write(job->wake_fd, &one, sizeof one);
}

static pmix_status_t note_connected(const pmix_proc_t *proc, void *object, pmix_info_t info[], size_t infos,
                                    pmix_op_cbfunc_t done, void *data)
{
    (void)info, (void)infos, (void)done, (void)data;
    struct job *job = (struct job *)object;
    if (job && proc->rank < (pmix_rank_t)job->options.npes) {
        atomic_store(&job->pes[proc->rank].finalized, false);
        atomic_store(&job->pes[proc->rank].connected, true);
        if (atomic_load(&job->some_absent))
            wake(job);
    }
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t note_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *data)
{
    (void)done, (void)data;
    struct job *job = (struct job *)object;
    if (job && proc->rank < (pmix_rank_t)job->options.npes)
        atomic_store(&job->pes[proc->rank].finalized, true);
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t note_abort(const pmix_proc_t *proc, void *object, int status, const char text[],
                                pmix_proc_t procs[], size_t nprocs, pmix_op_cbfunc_t done, void *data)
{
    (void)procs, (void)nprocs, (void)done, (void)data;
    struct job *job = (struct job *)object;
    if (!job || proc->rank >= (pmix_rank_t)job->options.npes)
        return PMIX_ERR_BAD_PARAM;
    struct abort_request *request = &job->abort;
    if (atomic_exchange(&request->taken, true))
        return PMIX_OPERATION_SUCCEEDED;
    request->pe = (int)proc->rank;
    request->status = status;
    snprintf(request->text, sizeof request->text, "%s", text ? text : "");
    atomic_store_explicit(&request->ready, true, memory_order_release); /* pairs with the acquire in take_abort */
    wake(job);
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t fence_pes(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t infos,
                               char *data, size_t bytes, pmix_modex_cbfunc_t done, void *done_data)
{
    (void)procs, (void)nprocs, (void)info, (void)infos;
    done(PMIX_SUCCESS, data, bytes, done_data, NULL, NULL); /* the library owns `data` and copies it */
    return PMIX_SUCCESS;
}

static pmix_status_t ask_other_host(const pmix_proc_t *proc, const pmix_info_t info[], size_t infos,
                                    pmix_modex_cbfunc_t done, void *data)
{
    (void)proc, (void)info, (void)infos, (void)done, (void)data;
    return PMIX_ERR_NOT_FOUND; /* no PE is on another host */
}

static pmix_server_module_t upcalls = {
    .client_finalized = note_finalized,
    .abort = note_abort,
    .fence_nb = fence_pes,
    .direct_modex = ask_other_host,
    .client_connected2 = note_connected,
};

/* ---- calls that finish in the library's thread ---- */

struct pending {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool done;
    pmix_status_t status;
};

static void finish(pmix_status_t status, void *data)
{
    struct pending *pending = (struct pending *)data;
    pthread_mutex_lock(&pending->mutex);
    pending->status = status;
    pending->done = true;
    pthread_cond_signal(&pending->changed);
    pthread_mutex_unlock(&pending->mutex);
}

static void expect(struct pending *pending)
{
    *pending = (struct pending){.done = false};
    pthread_mutex_init(&pending->mutex, NULL);
    pthread_cond_init(&pending->changed, NULL);
}

static pmix_status_t settle(struct pending *pending, pmix_status_t started)
{
    pthread_mutex_lock(&pending->mutex);
    while (started == PMIX_SUCCESS && !pending->done)
        pthread_cond_wait(&pending->changed, &pending->mutex);
    pthread_mutex_unlock(&pending->mutex);
    pthread_mutex_destroy(&pending->mutex);
    pthread_cond_destroy(&pending->changed);
    if (started == PMIX_OPERATION_SUCCEEDED)
        return PMIX_SUCCESS;
    return started == PMIX_SUCCESS ? pending->status : started;
}

/* ---- rounds of the library's thread ---- */

/* The thread looks at its sockets in each turn of its loop, and reads one message of each. A round is an empty request,
 * which takes one turn; a message, its handler and what a PE sends at its end take fewer than these. */
enum { ROUNDS = 32 };

void pmix_catch_up(struct job *job) { job->rounds_wanted = job->rounds_asked + ROUNDS; }

static void end_round(pmix_status_t status, void *data)
{
    (void)status;
    struct job *job = (struct job *)data;
    atomic_fetch_add_explicit(&job->rounds_done, 1, memory_order_release); /* pairs with the load in pmix_is_behind */
    wake(job);
}

bool pmix_is_behind(struct job *job)
{
    unsigned done = atomic_load_explicit(&job->rounds_done, memory_order_acquire); /* pairs with end_round */
    if (done == job->rounds_wanted)
        return false;
    if (done == job->rounds_asked) {
        pmix_proc_t nobody;
        PMIX_LOAD_PROCID(&nobody, "oshrun-round", 0);
        job->rounds_asked++;
        PMIx_server_deregister_client(&nobody, end_round, job); /* a job that there is not: calls end_round alone */
    }
    return true;
}

static int check_pmix(pmix_status_t status, const char *call)
{
    if (status == PMIX_SUCCESS)
        return 0;
    oshrun_say("%s failed: %s", call, PMIx_Error_string(status));
    return STATUS_FAILED;
}

/* ---- what the PEs can ask about the job ---- */

enum { JOB_FACTS = 11, PE_FACTS = 6 };
enum { MAP_NAME_MOST = 48 }; /* PMIx_generate_regex of 4.2 writes past its buffer for a name of 56 letters */

struct facts {
    pmix_info_t *at;
    size_t used;
};

static void add_fact(struct facts *facts, const char *key, const void *value, pmix_data_type_t type)
{
    PMIX_INFO_LOAD(&facts->at[facts->used], key, value, type);
    facts->used++;
}

static void add_job(struct facts *facts, const struct job *job, const char *host, const char *ranks)
{
    uint32_t npes = (uint32_t)job->options.npes, one = 1;
    pmix_rank_t leader = 0;
    char *nodes = NULL, *map = NULL;
    PMIx_generate_regex(strlen(host) <= MAP_NAME_MOST ? host : "localhost", &nodes);
    PMIx_generate_ppn(ranks, &map);
    add_fact(facts, PMIX_JOBID, job->name, PMIX_STRING);
    add_fact(facts, PMIX_UNIV_SIZE, &npes, PMIX_UINT32);
    add_fact(facts, PMIX_JOB_SIZE, &npes, PMIX_UINT32);
    add_fact(facts, PMIX_MAX_PROCS, &npes, PMIX_UINT32);
    add_fact(facts, PMIX_LOCAL_SIZE, &npes, PMIX_UINT32);
    add_fact(facts, PMIX_NODE_SIZE, &npes, PMIX_UINT32);
    add_fact(facts, PMIX_NUM_NODES, &one, PMIX_UINT32);
    add_fact(facts, PMIX_LOCAL_PEERS, ranks, PMIX_STRING);
    add_fact(facts, PMIX_LOCALLDR, &leader, PMIX_PROC_RANK);
    add_fact(facts, PMIX_NODE_MAP, nodes, PMIX_REGEX);
    add_fact(facts, PMIX_PROC_MAP, map, PMIX_REGEX);
    free(nodes);
    free(map);
}

static void add_pe(struct facts *facts, int pe, const char *host)
{
    pmix_data_array_t *array;
    PMIX_DATA_ARRAY_CREATE(array, PE_FACTS, PMIX_INFO);
    struct facts own = {.at = (pmix_info_t *)array->array};
    pmix_rank_t rank = (pmix_rank_t)pe;
    uint16_t local = (uint16_t)pe;
    uint32_t zero = 0;
    add_fact(&own, PMIX_RANK, &rank, PMIX_PROC_RANK);
    add_fact(&own, PMIX_LOCAL_RANK, &local, PMIX_UINT16);
    add_fact(&own, PMIX_NODE_RANK, &local, PMIX_UINT16);
    add_fact(&own, PMIX_HOSTNAME, host, PMIX_STRING);
    add_fact(&own, PMIX_NODEID, &zero, PMIX_UINT32);
    add_fact(&own, PMIX_APPNUM, &zero, PMIX_UINT32);
    pmix_info_t *info = &facts->at[facts->used++];
    PMIX_LOAD_KEY(info->key, PMIX_PROC_DATA);
    info->value.type = PMIX_DATA_ARRAY;
    info->value.data.darray = array; /* freed with the list */
}

static int register_job(struct job *job)
{
    char host[256] = "localhost";
    gethostname(host, sizeof host - 1);
    int npes = job->options.npes;
    char *ranks = (char *)malloc((size_t)npes * 6 + 1); /* "0,1,2" */
    if (!ranks)
        return check_pmix(PMIX_ERR_NOMEM, "the list of PEs");
    size_t used = 0;
    for (int pe = 0; pe < npes; pe++)
        used += (size_t)sprintf(ranks + used, pe ? ",%d" : "%d", pe);
    struct facts facts = {.used = 0};
    size_t count = JOB_FACTS + (size_t)npes;
    PMIX_INFO_CREATE(facts.at, count);
    add_job(&facts, job, host, ranks);
    for (int pe = 0; pe < npes; pe++)
        add_pe(&facts, pe, host);
    struct pending pending;
    expect(&pending);
    pmix_nspace_t name;
    PMIX_LOAD_NSPACE(name, job->name);
    pmix_status_t status =
        settle(&pending, PMIx_server_register_nspace(name, npes, facts.at, facts.used, finish, &pending));
    PMIX_INFO_FREE(facts.at, count);
    free(ranks);
    return check_pmix(status, "PMIx_server_register_nspace");
}

/* ---- start and end ---- */

static pmix_status_t init_server(const struct job *job)
{
    /* Job data travels in messages instead of files: a PE's PMIx_Init takes 3 ms instead of 20, and the folder stays
     * empty. The server binds no process and shares no topology, so it need not look at the machine (12 ms). */
    struct {
        const char *name, *value;
        bool ours; /* for the time of this call only; a value of the user stays */
    } variables[] = {{"PMIX_MCA_gds", "hash", false},
                     {"HWLOC_SYNTHETIC", "pu:1", false},
                     {"HWLOC_PLUGINS_PATH", "/nonexistent", false}};
    enum { COUNT = sizeof variables / sizeof variables[0] };
    pmix_info_t info[3];
    bool no = false;
    PMIX_INFO_LOAD(&info[0], PMIX_SERVER_TMPDIR, job->folder, PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_SYSTEM_TMPDIR, job->folder, PMIX_STRING);
    PMIX_INFO_LOAD(&info[2], PMIX_SERVER_TOOL_SUPPORT, &no, PMIX_BOOL);
    for (int i = 0; i < COUNT; i++) {
        variables[i].ours = !getenv(variables[i].name);
        if (variables[i].ours)
            setenv(variables[i].name, variables[i].value, 1);
    }
    pmix_status_t status = PMIx_server_init(&upcalls, info, 3);
    for (int i = 0; i < COUNT; i++)
        if (variables[i].ours)
            unsetenv(variables[i].name);
    PMIX_INFO_DESTRUCT(&info[0]);
    PMIX_INFO_DESTRUCT(&info[1]);
    return status;
}

int pmix_open(struct job *job)
{
    int status = check_pmix(init_server(job), "PMIx_server_init");
    if (status)
        return status;
    if (rmdir(job->folder) == 0)
        job->folder[0] = 0; /* as a rule PMIx puts nothing there */
    status = register_job(job);
    for (int pe = 0; !status && pe < job->options.npes; pe++) {
        pmix_proc_t proc;
        struct pending pending;
        PMIX_LOAD_PROCID(&proc, job->name, (pmix_rank_t)pe);
        expect(&pending);
        pmix_status_t started = PMIx_server_register_client(&proc, getuid(), getgid(), job, finish, &pending);
        status = check_pmix(settle(&pending, started), "PMIx_server_register_client");
    }
    return status;
}

char **pmix_environment(struct job *job, int pe)
{
    char **copy = environment_copy(NULL);
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, job->name, (pmix_rank_t)pe);
    pmix_status_t status = copy ? PMIx_server_setup_fork(&proc, &copy) : PMIX_ERR_NOMEM;
    if (!check_pmix(status, "PMIx_server_setup_fork"))
        return copy;
    environment_free(copy);
    return NULL;
}
