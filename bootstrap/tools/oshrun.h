/* SPDX-License-Identifier: MIT */
/* oshrun, the launcher: what its files share.
 * oshrun.c (options, the life of a job), oshrun_job.c (what the others call), oshrun_pes.c (processes), oshrun_pmix.c
 * (the PMIx server that the PEs connect to), oshrun_hosts.c (several hosts), oshrun_relay.c (tagged output, terminal
 * input), oshrun_watch.c (cleans up when oshrun itself is killed).
 * Threads: the main one; PMIx's, which calls into oshrun_pmix.c; those of the relay. Only `struct pe`'s atomics and
 * `struct abort_request` are written outside the main thread. */
#ifndef OSHRUN_H
#define OSHRUN_H

#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

enum { STATUS_FAILED = 1, STATUS_USAGE = 2, STATUS_NOT_EXECUTABLE = 126, STATUS_NOT_FOUND = 127, MAX_PES = 4096 };

/* Of a job over several hosts: the oshrun that the user called, and those that it has started on the hosts. */
enum part { PART_ALONE, PART_HEAD, PART_NODE };

struct options {
    enum part part;
    int npes;          /* processes that this oshrun starts: PEs; PART_HEAD: one for each host */
    int job_npes;      /* PEs of the job */
    int first_pe;      /* PART_NODE: the number of its first PE, else 0 */
    struct host *hosts; /* PART_HEAD */
    const char *agent;  /* --agent; NULL: ssh */
    char **exports;     /* names of -x */
    int n_exports;
    bool tag_output;
    const char *wdir; /* NULL: stay */
    char **argv;      /* program and its arguments, ends with NULL */
};

struct pe {
    pid_t pid;  /* also its process group; 0: not started */
    int control; /* PART_HEAD: becomes its stdin */
    bool ended; /* a zombie that stays until the job ends, so that neither pid nor group id can be reused */
    bool killed;
    int status; /* signal if killed, else exit status */
    bool core_dumped;
    bool asked; /* PMIx's thread, for what it sent before it ended */
    atomic_bool connected; /* called PMIx_Init, and */
    atomic_bool finalized; /* PMIx_Finalize; written by the PMIx thread */
};

/* PMIx_Abort of a PE; the first one wins. */
struct abort_request {
    atomic_bool taken;
    atomic_bool ready; /* the fields below are valid: release by the PMIx thread, acquire by the main thread */
    int pe;
    int status;
    char text[512];
};

enum { WATCH_NONE = -1 };
struct watch {
    int fd; /* process groups go in; WATCH_NONE: no watcher */
    pid_t pid;
};

struct relay;

struct job {
    struct options options;
    char program[PATH_MAX];   /* found in PATH */
    char name[64];            /* PMIx namespace */
    char folder[PATH_MAX];    /* temporary folder; "": there is none any more */
    struct pe *pes;           /* options.npes */
    atomic_bool some_absent;  /* a PE ended with status 0 and had not called PMIx_Init */
    unsigned rounds_wanted, rounds_asked; /* of PMIx's thread, see pmix_is_behind; wanted >= asked >= */
    atomic_uint rounds_done;
    char host[256];           /* this one's name */
    int control_fd;           /* PART_NODE: stdin, see oshrun_hosts.c; else -1 */
    int wake_fd;              /* eventfd: an abort came, a round ended, or a PE connected while some are absent */
    int stderr_fd;            /* stays open when oshrun's own stderr is silenced */
    sigset_t caller_mask;     /* what the PEs get back */
    struct rlimit file_limit; /* likewise */
    int *inherited;           /* descriptors above 2 that the caller gave us, ascending: the PEs get these only */
    int n_inherited;          /* -1: not known */
    struct abort_request abort;
    int abort_status; /* the exit status of those who abort, or answer to that; 0: no abort */
    struct watch watch;
    struct relay *relay;
};

/* One line to stderr, "oshrun: " in front. */
void oshrun_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
int oshrun_fail(const char *what); /* says why by errno; STATUS_FAILED */
int64_t oshrun_now_ms(void);
/* This process's variables but those that begin with `except` (NULL: all), with room for one more; NULL: no memory. */
char **environment_copy(const char *except);
void environment_free(char **environment); /* NULL-tolerant */

/* All below: 0, or a status for exit() after one sentence. */
/* Finds `name` in PATH, as seen from the folder wdir (NULL: here), for job->program. */
int job_find_program(struct job *job, const char *name, const char *wdir);

/* There is no pmix_close: PMIx_server_finalize of 4.2 waits for ever for a lock of its own when a PE was killed while
 * it connected. The end of the process closes everything. */
int pmix_open(struct job *job);
/* PMIx's thread may not have read yet what a PE sent before it ended. pmix_catch_up asks for that; pmix_is_behind says
 * whether it is still to come, and has to be called again after each wake_fd. */
void pmix_catch_up(struct job *job);
bool pmix_is_behind(struct job *job);
/* The environment of a PE, or NULL after one sentence. */
char **pmix_environment(struct job *job, int pe);

/* Before oshrun opens anything. */
void pes_note_files(struct job *job);
int pes_start(struct job *job);
/* Notes which PEs have ended since; returns how many still run. */
int pes_collect(struct job *job);
void pes_signal(struct job *job, int signal_number);
/* Kills what the PEs left behind and reaps them: no signal can be sent after that. */
void pes_finish(struct job *job);

/* --hosts LIST, and --node FIRST:SIZE of an oshrun that another one has started: they set options->part, too. */
int hosts_parse(struct options *options, const char *list);
int hosts_parse_node(struct options *options, const char *text);
/* PART_HEAD: what each host's agent is called with, and tells its oshrun. */
int hosts_open(struct job *job);
char **hosts_argv(const struct job *job, int i);
const char *hosts_name(const struct job *job, int i);
/* To all PEs of all hosts. */
void hosts_signal(struct job *job, int signal_number);
/* PART_NODE: variables of the job, from stdin; then the environment of a PE, NULL after one sentence. */
int hosts_read_control(struct job *job);
char **hosts_environment(const struct job *job, int pe);

/* Descriptors that become the PE's standard streams; -1: inherit. */
struct pe_streams {
    int in, out, err;
};
int relay_open(struct job *job);
int relay_streams(struct job *job, int pe, struct pe_streams *streams);
/* All PEs are started: begin to copy. */
int relay_start(struct job *job);
/* All PEs have ended: what they left in the pipes is copied, as long as there is a reader. */
void relay_end(struct job *job);
/* After relay_end: waits so long at most; true when all is copied. */
bool relay_is_done(struct job *job, int wait_ms);
/* -errno of output that could not be written, although there is a reader; 0: all was written. */
int relay_error(const struct job *job);

int watch_start(struct job *job);
void watch_add(const struct job *job, pid_t group);
/* The job was cleaned up as usual. */
void watch_dismiss(struct job *job);
void watch_remove_folder(const char *folder);

#endif
