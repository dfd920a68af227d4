/* SPDX-License-Identifier: MIT */
/* oshrun: starts the PEs of one job, as `oshrun -n 4 ./program arguments` on this host, or over several hosts.
 * The job ends when all PEs have ended; or when one fails: killed by a signal, a non-zero exit status, PMIx_Abort, or
 * ended without PMIx_Finalize. Then one sentence says which, the others get SIGTERM and soon SIGKILL, and oshrun's exit
 * status is that PE's. The main thread is one loop over a signalfd and an eventfd; nothing in it blocks. */
#define _GNU_SOURCE
#include "oshrun.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef OSHRUN_VERSION
#error "compile with -DOSHRUN_VERSION=\"x.y.z\""
#endif

/* When a PE dies, the others may notice and fail before its own death is reported: oshrun waits so long for a better
 * cause. It waits longer after an abort or a status other than 0: a killed process closes its sockets a while before it
 * can be waited for.
 * A PE that has ended with status 0 without PMIx_Finalize is an error if the others go on for LEFT_MS; so is a PE
 * that ended without PMIx_Init, when others wait for it. Whether it has called them is looked at when PMIx's thread has
 * read all that it sent, however long that takes. */
enum { SETTLE_MS = 30, ANSWER_MS = 200, LEFT_MS = 800 };
/* How long the reader of tagged output may take after an interrupt; and how often signals are looked for meanwhile. */
enum { DRAIN_MS = 1000, DRAIN_LOOK_MS = 50 };
enum { GRACE_MS = 400, INTERRUPT_GRACE_MS = 1500 }; /* between SIGTERM (or the user's signal) and SIGKILL */

/* ---- options ---- */

static const char help[] =
    "usage: oshrun [-n N | --hosts A:N,B:M] [-x VAR[=VALUE]] [--wdir DIR] [--tag-output] program [arguments]\n"
    "Starts N processing elements (PEs) of an OpenSHMEM (or PMIx) program on this host, or PEs on several hosts.\n"
    "  -n, -np N        number of PEs; default 1\n"
    "  --hosts A:N,B:M  N PEs on host A, then M on host B; by ssh, which must ask for no password\n"
    "  --agent COMMAND  instead of ssh: it gets a host and a command line as its last two words\n"
    "  -x VAR[=VALUE]   set VAR in the PEs; all variables of this environment are passed on anyway, to other\n"
    "                   hosts only those of -x and SHMEM_ variables\n"
    "  --wdir DIR       run the PEs in DIR\n"
    "  --tag-output     put \"[PE] \" in front of every line that a PE prints\n"
    "  --version        print the version\n"
    "  --help           print this\n"
    "stdin goes to PE 0, with --hosts to none.\n"
    "The exit status is that of the first PE that failed, 128 + n if signal n killed it.\n"
    "When a PE fails the others are ended. Ctrl-C, SIGTERM and SIGHUP go to all PEs and end the job.\n";

static int parse_npes(const char *text, int *npes)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < 1 || value > MAX_PES) {
        oshrun_say("-n %s: the number of PEs must be 1..%d", text, MAX_PES);
        return STATUS_USAGE;
    }
    *npes = (int)value;
    return 0;
}

static int export_variable(struct options *options, const char *text)
{
    const char *equals = strchr(text, '=');
    char name[256];
    size_t len = equals ? (size_t)(equals - text) : strlen(text);
    if (!len || len >= sizeof name) {
        oshrun_say("-x takes VAR or VAR=VALUE, not '%s'; try oshrun --help", text);
        return STATUS_USAGE;
    }
    if (!equals && !getenv(text))
        oshrun_say("warning: -x %s: there is no such variable in the environment", text);
    memcpy(name, text, len);
    name[len] = 0;
    if (equals)
        setenv(name, equals + 1, 1);
    char **more = (char **)realloc(options->exports, ((size_t)options->n_exports + 1) * sizeof *more);
    if (more) {
        options->exports = more;
        more[options->n_exports] = strdup(name);
    }
    if (more && more[options->n_exports++])
        return 0;
    oshrun_say("no memory for -x %s", name);
    return STATUS_FAILED;
}

static _Noreturn void print_and_exit(const char *text)
{
    fputs(text, stdout);
    exit(fflush(stdout) ? STATUS_FAILED : 0);
}

static int parse_options(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {
        {"np", required_argument, NULL, 'n'},
        {"wdir", required_argument, NULL, 'w'},
        {"wd", required_argument, NULL, 'w'},
        {"tag-output", no_argument, NULL, 't'},
        {"hosts", required_argument, NULL, 'H'},
        {"agent", required_argument, NULL, 'a'},
        {"node", required_argument, NULL, 'N'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    int npes = 0;
    *options = (struct options){.part = PART_ALONE};
    argv[0] = program_invocation_short_name;
    for (int option; (option = getopt_long_only(argc, argv, "+n:x:h", names, NULL)) != -1;) {
        int status = 0;
        switch (option) {
        case 'n':
            status = parse_npes(optarg, &npes);
            break;
        case 'x':
            status = export_variable(options, optarg);
            break;
        case 'w':
            options->wdir = optarg;
            break;
        case 't':
            options->tag_output = true;
            break;
        case 'H':
            status = hosts_parse(options, optarg);
            break;
        case 'a':
            options->agent = optarg;
            break;
        case 'N':
            status = hosts_parse_node(options, optarg);
            break;
        case 'h':
            print_and_exit(help);
        case 'V':
            print_and_exit("oshrun " OSHRUN_VERSION "\n");
        default: /* getopt has said why */
            status = STATUS_USAGE;
        }
        if (status)
            return status;
    }
    options->argv = argv + optind;
    if (options->part == PART_HEAD && npes) {
        oshrun_say("-n %d: --hosts says how many PEs each host has", npes);
        return STATUS_USAGE;
    }
    if (options->part != PART_HEAD)
        options->npes = npes ? npes : 1;
    if (options->part == PART_ALONE)
        options->job_npes = options->npes;
    if (options->argv[0])
        return 0;
    oshrun_say("no program given; try oshrun --help");
    return STATUS_USAGE;
}

/* ---- environment ---- */

/* Drops variables that describe another job: the one that oshrun itself may have been started by. */
static void drop_foreign(void)
{
    static const char *const prefixes[] = {"PMI_", "OMPI_COMM_WORLD_"};
    char **kept = environ;
    for (char **at = environ; at && *at; at++) {
        bool foreign = !strncmp(*at, "PMIX_", 5) && strncmp(*at, "PMIX_MCA_", 9);
        for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
            foreign = foreign || !strncmp(*at, prefixes[i], strlen(prefixes[i]));
        if (!foreign)
            *kept++ = *at;
    }
    if (kept)
        *kept = NULL;
}

/* PMIx needs a socket for each PE, and stops without a word where it gets none; tagged output two pipes for each. */
static int raise_file_limit(struct job *job)
{
    enum { OWN_FILES = 24 };
    int inherited = job->n_inherited > 0 ? job->n_inherited : 0;
    rlim_t need = (rlim_t)job->options.npes * (job->options.tag_output ? 3 : 1) + OWN_FILES + (rlim_t)inherited;
    if (getrlimit(RLIMIT_NOFILE, &job->file_limit))
        return 0;
    struct rlimit most = {.rlim_cur = job->file_limit.rlim_max, .rlim_max = job->file_limit.rlim_max};
    setrlimit(RLIMIT_NOFILE, &most);
    if (most.rlim_max >= need)
        return 0;
    oshrun_say("%d PEs need about %llu open files, allowed are %llu: raise ulimit -n", job->options.npes,
               (unsigned long long)need, (unsigned long long)most.rlim_max);
    return STATUS_FAILED;
}

/* ---- why a job ends ---- */

/* In the order of how much they explain; the first of the best kind counts. CAUSE_ABORTED: by a PE that has printed why,
 * often that another one has ended. An abort that the program asked for, shmem_global_exit, is CAUSE_FAILED. */
enum cause_kind { CAUSE_NONE, CAUSE_ABSENT, CAUSE_LEFT, CAUSE_ABORTED, CAUSE_FAILED, CAUSE_KILLED };

struct cause {
    enum cause_kind kind;
    int status; /* oshrun's own */
    char text[768];
};

enum phase { RUNNING, SETTLING, ENDING, KILLING };

struct course {
    enum phase phase;
    struct cause cause;
    int interrupt;       /* signal that the user sent us */
    int64_t deadline_ms; /* of the phase; 0: none */
    bool *looked;        /* at the end of this PE */
};

static void blame(struct course *course, const struct cause *cause)
{
    if (course->phase > SETTLING || cause->kind <= course->cause.kind)
        return;
    bool first = course->cause.kind <= CAUSE_LEFT;
    course->cause = *cause;
    course->phase = SETTLING;
    if (first)
        course->deadline_ms = oshrun_now_ms() + (cause->kind <= CAUSE_LEFT     ? LEFT_MS
                                                 : cause->kind <= CAUSE_FAILED ? ANSWER_MS
                                                                               : SETTLE_MS);
}

/* What ended is the agent of a host. The oshrun there has said why, unless it was not reached. 128 and above: a signal
 * has killed a PE, which explains more than the errors of the others. */
static void name_host(const struct job *job, struct cause *cause, int i)
{
    enum { UNREACHED = 255 };
    const struct pe *pe = &job->pes[i];
    if (pe->killed || pe->status == UNREACHED)
        snprintf(cause->text, sizeof cause->text,
                 "host %.200s: %.200s (pid %d) %s %d; it did not reach the host, or lost it", hosts_name(job, i),
                 job->program, (int)pe->pid, pe->killed ? "was killed by signal" : "exited with status", pe->status);
    else
        cause->text[0] = 0;
    if (cause->kind == CAUSE_FAILED && pe->status > 128 && pe->status != UNREACHED)
        cause->kind = CAUSE_KILLED;
}

static void look_at_end(struct job *job, struct course *course, int i)
{
    struct pe *pe = &job->pes[i];
    struct cause cause = {.kind = CAUSE_NONE};
    char where[80] = "";
    if (job->options.part == PART_NODE)
        snprintf(where, sizeof where, " on %.60s", job->host);
    size_t used = (size_t)snprintf(cause.text, sizeof cause.text, "PE %d (%.200s, pid %d%s) ",
                                   job->options.first_pe + i, job->options.argv[0], (int)pe->pid, where);
    char *text = cause.text + used;
    size_t room = sizeof cause.text - used;
    if (pe->killed) {
        cause.kind = CAUSE_KILLED;
        cause.status = 128 + pe->status;
        snprintf(text, room, "was killed by signal %d (%s)%s", pe->status, strsignal(pe->status),
                 pe->core_dumped ? ", core dumped" : "");
    } else if (pe->status && pe->status != job->abort_status) { /* else it answers the abort, or has asked for it */
        cause.kind = CAUSE_FAILED;
        cause.status = pe->status;
        snprintf(text, room, "exited with status %d", pe->status);
    } else if (!pe->status && atomic_load(&pe->connected) && !atomic_load(&pe->finalized)) {
        cause.kind = CAUSE_LEFT;
        cause.status = STATUS_FAILED;
        snprintf(text, room, "exited with status 0 but without leaving the job (no shmem_finalize, or _exit)");
    }
    if (!cause.kind && !pe->status && !atomic_load(&pe->connected))
        atomic_store(&job->some_absent, true);
    if (job->options.part == PART_HEAD)
        name_host(job, &cause, i);
    blame(course, &cause);
}

/* A PE that is between PMIx_Init and PMIx_Finalize; -1: none. */
static int find_joined(const struct job *job)
{
    for (int i = 0; i < job->options.npes; i++)
        if (!job->pes[i].ended && atomic_load(&job->pes[i].connected) && !atomic_load(&job->pes[i].finalized))
            return i;
    return -1;
}

static void look_at_ends(struct job *job, struct course *course)
{
    bool behind = pmix_is_behind(job);
    for (int i = 0; i < job->options.npes; i++) {
        struct pe *pe = &job->pes[i];
        if (!pe->ended || course->looked[i])
            continue;
        bool good = !pe->killed && !pe->status && atomic_load(&pe->connected);
        if (good && !pe->asked) {
            pe->asked = true;
            pmix_catch_up(job);
            behind = pmix_is_behind(job);
        }
        if (good && behind && !atomic_load(&pe->finalized))
            continue;
        course->looked[i] = true;
        look_at_end(job, course, i);
    }
    if (behind) /* who has finalized is not known yet */
        return;
    /* The job cannot start any more when a PE has ended before it joined and another waits for it. */
    int joined = atomic_load(&job->some_absent) ? find_joined(job) : -1;
    for (int i = 0; joined >= 0 && i < job->options.npes; i++) {
        const struct pe *pe = &job->pes[i];
        if (!pe->ended || pe->killed || pe->status || atomic_load(&pe->connected))
            continue;
        struct cause cause = {.kind = CAUSE_ABSENT, .status = STATUS_FAILED};
        snprintf(
            cause.text, sizeof cause.text,
            "PE %d (%.200s, pid %d) exited with status 0 without joining the job (no shmem_init), but PE %d joined", i,
            job->options.argv[0], (int)pe->pid, joined);
        blame(course, &cause);
    }
}

static void take_abort(struct job *job, struct course *course)
{
    struct abort_request *request = &job->abort;
    if (!atomic_load_explicit(&request->ready, memory_order_acquire)) /* pairs with the release in note_abort */
        return;
    atomic_store_explicit(&request->ready, false, memory_order_relaxed);
    struct cause cause = {.kind = request->text[0] || !request->status ? CAUSE_FAILED : CAUSE_ABORTED};
    job->abort_status = request->status & 0xff;
    if (request->status) {
        cause.status = request->status & 0xff ? request->status & 0xff : STATUS_FAILED;
        snprintf(cause.text, sizeof cause.text, "PE %d (%.200s, pid %d) aborted the job with status %d%s%s",
                 request->pe, job->options.argv[0], (int)job->pes[request->pe].pid, request->status,
                 request->text[0] ? ": " : "", request->text);
    }
    blame(course, &cause);
}

/* ---- the course of a job ---- */

static void announce(const struct course *course, bool others_run)
{
    if (course->cause.text[0])
        oshrun_say("%s%s", course->cause.text, others_run ? "; ending the job" : "");
}

static void end_others(struct job *job, struct course *course, int signal_number, int grace_ms)
{
    /* from now on PMIx writes a line about every connection that breaks, and all that matters has been printed */
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null >= 0)
        dup2(null, STDERR_FILENO);
    pes_signal(job, signal_number);
    pes_signal(job, SIGCONT); /* a stopped PE would not notice */
    course->phase = ENDING;
    course->deadline_ms = oshrun_now_ms() + grace_ms;
}

static void kill_others(struct job *job, struct course *course)
{
    pes_signal(job, SIGKILL);
    course->phase = KILLING;
    course->deadline_ms = 0;
}

static void pass_deadline(struct job *job, struct course *course)
{
    if (!course->deadline_ms || oshrun_now_ms() < course->deadline_ms)
        return;
    if (course->phase == SETTLING && course->cause.kind == CAUSE_ABSENT && find_joined(job) < 0) {
        course->cause = (struct cause){.kind = CAUSE_NONE}; /* no PE waits for it any more */
        course->phase = RUNNING;
        course->deadline_ms = 0;
    } else if (course->phase == SETTLING) {
        announce(course, true);
        end_others(job, course, SIGTERM, GRACE_MS);
    } else if (course->phase == ENDING) {
        kill_others(job, course);
    }
}

static void interrupt(struct job *job, struct course *course, int signal_number)
{
    bool again = course->interrupt || course->phase >= ENDING;
    if (!course->interrupt)
        course->interrupt = signal_number;
    if (again)
        kill_others(job, course);
    else
        end_others(job, course, signal_number, INTERRUPT_GRACE_MS);
}

static void read_events(struct job *job, struct course *course, int signal_fd)
{
    struct pollfd polls[3] = {{.fd = signal_fd, .events = POLLIN}, {.fd = job->wake_fd, .events = POLLIN},
                              {.fd = job->control_fd, .events = POLLIN}};
    int64_t wait_ms = course->deadline_ms ? course->deadline_ms - oshrun_now_ms() : -1;
    if (course->deadline_ms && wait_ms < 0)
        wait_ms = 0;
    if (poll(polls, 3, (int)wait_ms) <= 0)
        return;
    struct signalfd_siginfo info;
    while (polls[0].revents && read(signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        int number = (int)info.ssi_signo;
        if (number == SIGUSR1 || number == SIGUSR2) {
            pes_signal(job, number);
        } else if (number == SIGTSTP) { /* Ctrl-Z stops all; the PEs go on when oshrun is continued */
            pes_signal(job, SIGSTOP);
            raise(SIGSTOP);
            pes_signal(job, SIGCONT);
        } else if (number != SIGCHLD) {
            interrupt(job, course, number);
        }
    }
    unsigned char number;
    if (polls[2].revents && read(job->control_fd, &number, 1) != 1) {
        job->control_fd = -1;
        if (course->phase < ENDING)
            oshrun_say("the oshrun that started this job is gone, or the connection to it; ending the PEs on %s",
                       job->host);
        interrupt(job, course, SIGTERM);
    } else if (polls[2].revents && (number == SIGUSR1 || number == SIGUSR2 || number == SIGSTOP || number == SIGCONT)) {
        pes_signal(job, number);
    } else if (polls[2].revents) {
        interrupt(job, course, number);
    }
    uint64_t count;
    if (polls[1].revents)
        (void)!read(job->wake_fd, &count, sizeof count);
}

static void run_course(struct job *job, struct course *course, int signal_fd)
{
    while (pes_collect(job) > 0) {
        take_abort(job, course); /* in front of ends that may be answers to it, and behind the look for them */
        look_at_ends(job, course);
        if (course->cause.kind == CAUSE_ABORTED)
            course->cause.kind = CAUSE_FAILED; /* ends that come after it explain less */
        pass_deadline(job, course);
        read_events(job, course, signal_fd);
    }
    take_abort(job, course);
    look_at_ends(job, course);
    if (course->phase == SETTLING && course->cause.kind <= CAUSE_LEFT)
        course->cause = (struct cause){.kind = CAUSE_NONE}; /* all left in the same way: as good as a finalize */
    if (course->phase == SETTLING)
        announce(course, false);
}

/* Does not wait: the reader of oshrun's stderr may be the one that is stuck. */
static void say_lost(const struct job *job, const char *why)
{
    struct pollfd room = {.fd = job->stderr_fd, .events = POLLOUT};
    if (poll(&room, 1, 0) <= 0)
        return;
    dup2(job->stderr_fd, STDERR_FILENO); /* PMIx has nothing more to say */
    oshrun_say("output of the PEs was lost: %s", why);
}

/* All that the PEs have printed is written, as long as it has a reader; an interrupt sets a limit. Returns oshrun's
 * status for output that was lost, else `status`. */
static int drain(struct job *job, struct course *course, int signal_fd, int status)
{
    int64_t until = course->interrupt ? oshrun_now_ms() + DRAIN_MS : 0;
    relay_end(job);
    while (!relay_is_done(job, DRAIN_LOOK_MS)) {
        course->deadline_ms = oshrun_now_ms(); /* look for signals, do not wait */
        read_events(job, course, signal_fd);
        if (!until && course->interrupt)
            until = oshrun_now_ms() + DRAIN_MS;
        if (until && oshrun_now_ms() >= until) {
            say_lost(job, "its reader did not take it");
            return status ? status : STATUS_FAILED;
        }
    }
    if (!relay_error(job))
        return status;
    say_lost(job, strerror(-relay_error(job)));
    return status ? status : STATUS_FAILED;
}

/* ---- set up and clean up ---- */

/* A signal that the caller ignores (nohup) stays ignored. */
static int block_signals(struct job *job)
{
    static const int handled[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP};
    sigset_t blocked, ignored_pipe;
    signal(SIGCHLD, SIG_DFL); /* if it were ignored, no status could be collected */
    sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof handled / sizeof handled[0]; i++) {
        struct sigaction action;
        if (sigaction(handled[i], NULL, &action) != 0 || action.sa_handler != SIG_IGN)
            sigaddset(&blocked, handled[i]);
    }
    sigprocmask(SIG_BLOCK, &blocked, &job->caller_mask);
    sigemptyset(&ignored_pipe);
    sigaddset(&ignored_pipe, SIGPIPE); /* a write to a closed stdout returns EPIPE */
    sigprocmask(SIG_BLOCK, &ignored_pipe, NULL);
    int fd = signalfd(-1, &blocked, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        oshrun_fail("cannot make a signalfd");
    return fd;
}

static int prepare_job(struct job *job)
{
    job->pes = (struct pe *)calloc((size_t)job->options.npes, sizeof *job->pes);
    job->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    job->stderr_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (!job->pes || job->wake_fd < 0 || job->stderr_fd < 0) {
        oshrun_say("no memory or descriptors for %d PEs: %s", job->options.npes, strerror(errno));
        return STATUS_FAILED;
    }

    /* A process that knows the namespace can join the job, so the namespace is a secret. The name of the folder is
     * none: any user may read it. */
    uint32_t random[5];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return oshrun_fail("no random numbers for the name of the job");
    snprintf(job->name, sizeof job->name, "oshrun-%d-%08x%08x%08x%08x", (int)getpid(), (unsigned)random[0],
             (unsigned)random[1], (unsigned)random[2], (unsigned)random[3]);
    const char *base = getenv("TMPDIR");
    snprintf(job->folder, sizeof job->folder, "%s/oshrun-%d-%08x", base && base[0] ? base : "/tmp", (int)getpid(),
             (unsigned)random[4]);

    int status = watch_start(job); /* before there is anything to clean up */
    if (job->options.part != PART_ALONE)
        job->folder[0] = 0; /* there is no PMIx server */
    if (status || job->folder[0] == 0 || mkdir(job->folder, 0700) == 0)
        return status;
    oshrun_say("cannot make the temporary folder %s: %s", job->folder, strerror(errno));
    job->folder[0] = 0; /* it belongs to another process */
    return STATUS_FAILED;
}

static int run_job(struct job *job, struct course *course, int signal_fd)
{
    course->looked = (bool *)calloc((size_t)job->options.npes, sizeof *course->looked);
    int status = course->looked ? 0 : STATUS_FAILED;
    if (!status && job->options.part != PART_NODE)
        status = job->options.part == PART_HEAD ? hosts_open(job) : pmix_open(job);
    if (!status)
        status = relay_open(job);
    if (!status)
        status = pes_start(job);
    if (!status)
        status = relay_start(job);
    if (!status) {
        run_course(job, course, signal_fd);
        status = course->cause.status;
    }
    pes_finish(job);
    free(course->looked);
    return drain(job, course, signal_fd, status);
}

int main(int argc, char **argv)
{
    static struct job job = {.watch = {.fd = WATCH_NONE}, .control_fd = -1};
    struct course course = {.phase = RUNNING};
    char npes[16];

    /* Descriptors 0 to 2 exist, so that no pipe of oshrun becomes the stdout of a PE. */
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", fd ? O_WRONLY : O_RDONLY);
    pes_note_files(&job);
    drop_foreign();
    int status = parse_options(argc, argv, &job.options);
    if (!status && job.options.part == PART_NODE) {
        status = hosts_read_control(&job);
        job.control_fd = STDIN_FILENO;
        gethostname(job.host, sizeof job.host - 1);
    }
    if (!status && job.options.part != PART_HEAD)
        status = job_find_program(&job, job.options.argv[0], job.options.wdir);
    if (status)
        return status;
    snprintf(npes, sizeof npes, "%d", job.options.job_npes);
    setenv("OSHRUN_VERSION", OSHRUN_VERSION, 1);
    setenv("OSHRUN_NPES", npes, 1); /* shmem_init compares it with what PMIx says: MPI_Init may have changed that */
    status = raise_file_limit(&job);
    if (status)
        return status;
    int signal_fd = block_signals(&job);
    status = signal_fd < 0 ? STATUS_FAILED : prepare_job(&job);
    if (!status)
        status = run_job(&job, &course, signal_fd);
    watch_remove_folder(job.folder);
    watch_dismiss(&job);
    if (course.interrupt) { /* so that the shell sees how oshrun ended */
        signal(course.interrupt, SIG_DFL);
        raise(course.interrupt);
        sigprocmask(SIG_SETMASK, &job.caller_mask, NULL);
    }
    _exit(status); /* without the destructors of PMIx, see oshrun.h */
}
