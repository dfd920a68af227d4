/* SPDX-License-Identifier: MIT */
/* --hosts a:2,b:2: one job over several hosts. For each host an agent (ssh) runs an oshrun there, which starts the
 * host's PEs. To the oshrun that the user called, agents are what PEs are on one host: their ends and their statuses
 * make the course of the job. PEs find each other by a unique id.
 *
 * The agent's stdin is the control of its host: lines NAME=VALUE, an empty line, then one byte for each signal that the
 * PEs get. Its end means that nobody waits for these PEs any more. So the secret of the job is in no command line. */
#define _GNU_SOURCE
#include "oshrun.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

static const char ssh[] =
    "ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=3";

enum { CONTROL_BYTES = 60000, AGENT_WORDS = 64 };
enum { FIRST_PORT = 20000, PORTS = 12000 }; /* below those that systems give out */

struct host {
    char *name; /* as the user wrote it: the agent may know it by another address than the resolver */
    int npes, first;
    int control; /* write end; -1: closed */
    char **argv; /* of the agent */
};

/* ---- text that grows ---- */

struct growing_text {
    char *at;
    size_t used;
};

static bool add_words(struct growing_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool add_words(struct growing_text *text, const char *format, ...)
{
    va_list args;
    char *piece = NULL;
    va_start(args, format);
    int len = vasprintf(&piece, format, args);
    va_end(args);
    char *more = len >= 0 ? (char *)realloc(text->at, text->used + (size_t)len + 1) : NULL;
    if (more) {
        memcpy(more + text->used, piece, (size_t)len + 1);
        text->at = more;
        text->used += (size_t)len;
    }
    if (len >= 0)
        free(piece);
    return more;
}

/* For the shell of the other host: quotes around it, and each quote within becomes '\''. */
static bool add_quoted(struct growing_text *text, const char *word)
{
    bool fits = add_words(text, " '");
    for (; fits && *word; word++)
        fits = *word == '\'' ? add_words(text, "'\\''") : add_words(text, "%c", *word);
    return fits && add_words(text, "'");
}

/* ---- the list of hosts ---- */

int hosts_parse(struct options *options, const char *list)
{
    char *rest = strdup(list); /* names point into it */
    options->part = PART_HEAD;
    options->npes = options->job_npes = 0;
    if (!rest)
        return oshrun_fail("no memory for the list of hosts");
    for (char *entry; (entry = strsep(&rest, ","));) {
        char *colon = strrchr(entry, ':'), *end = NULL;
        long npes = colon ? strtol(colon + 1, &end, 10) : 1;
        if (colon)
            *colon = 0;
        if (!entry[0] || entry[0] == '-' || (colon && (end == colon + 1 || *end)) || npes < 1 ||
            npes > MAX_PES - options->job_npes) {
            oshrun_say("--hosts %s: entries are HOST or HOST:N, with N 1 or more and %d PEs at most in all", list,
                       MAX_PES);
            return STATUS_USAGE;
        }
        struct host *more =
            (struct host *)realloc(options->hosts, ((size_t)options->npes + 1) * sizeof *options->hosts);
        if (!more)
            return oshrun_fail("no memory for the list of hosts");
        options->hosts = more;
        more[options->npes++] =
            (struct host){.name = entry, .npes = (int)npes, .first = options->job_npes, .control = -1};
        options->job_npes += (int)npes;
    }
    return 0;
}

/* "FIRST:SIZE": the number of this host's first PE, and the PEs of the job. */
int hosts_parse_node(struct options *options, const char *text)
{
    char end;
    if (sscanf(text, "%d:%d%c", &options->first_pe, &options->job_npes, &end) == 2 && options->first_pe >= 0 &&
        options->job_npes > options->first_pe) {
        options->part = PART_NODE;
        return 0;
    }
    oshrun_say("--node is for oshrun itself, which calls it on each of its --hosts");
    return STATUS_USAGE;
}

/* ---- the job's id ---- */

/* The address by which all PEs reach the one of rank 0: SHMEM_UID_ADDRESS, or that of the first host's name. */
static int find_address(const struct options *options, char text[INET6_ADDRSTRLEN + 2])
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    const char *wanted = getenv("SHMEM_UID_ADDRESS"), *name = wanted && wanted[0] ? wanted : options->hosts[0].name;
    const char *at = strrchr(name, '@');
    char number[INET6_ADDRSTRLEN];
    int rc = getaddrinfo(at ? at + 1 : name, NULL, &hints, &found);
    if (rc != 0) {
        oshrun_say("the address of %s is not known: %s; SHMEM_UID_ADDRESS names it", at ? at + 1 : name,
                   gai_strerror(rc));
        return STATUS_FAILED;
    }
    const void *address = found->ai_addr;
    bool alone = options->npes == 1 || (wanted && wanted[0]), ipv6 = found->ai_family == AF_INET6;
    bool near = ipv6 ? IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr)
                     : ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
    if (getnameinfo(found->ai_addr, found->ai_addrlen, number, sizeof number, NULL, 0, NI_NUMERICHOST) != 0)
        number[0] = 0;
    freeaddrinfo(found);
    if (near && !alone) {
        oshrun_say("%s is %s here, which %s cannot reach; SHMEM_UID_ADDRESS names an address of %s for all",
                   name, number, options->hosts[1].name, options->hosts[0].name);
        return STATUS_FAILED;
    }
    snprintf(text, INET6_ADDRSTRLEN + 2, ipv6 ? "[%s]" : "%s", number);
    return 0;
}

/* What the PEs get by way of their oshrun: the id, this process's SHMEM_ variables, and those of -x. */
static int make_control(struct job *job, struct growing_text *text)
{
    char address[INET6_ADDRSTRLEN + 2];
    unsigned char random[18];
    int status = find_address(&job->options, address);
    if (status)
        return status;
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return oshrun_fail("no random numbers for the secret of the job");
    bool fits = true;
    for (char **at = environ; *at && fits; at++) {
        size_t len = strcspn(*at, "=");
        bool passed = !strncmp(*at, "SHMEM_", 6) && strncmp(*at, "SHMEM_UID=", 10) && strncmp(*at, "SHMEM_RANK=", 11);
        for (int i = 0; i < job->options.n_exports && !passed; i++)
            passed = strlen(job->options.exports[i]) == len && !strncmp(job->options.exports[i], *at, len);
        if (passed && strchr(*at, '\n')) {
            oshrun_say("the value of %.*s has a line break, which cannot be passed on to another host", (int)len, *at);
            return STATUS_USAGE;
        }
        fits = !passed || add_words(text, "%s\n", *at);
    }
    fits = fits && add_words(text, "SHMEM_UID=%s:%d:", address, FIRST_PORT + (random[16] << 8 | random[17]) % PORTS);
    for (int i = 0; i < 16 && fits; i++)
        fits = add_words(text, "%02x", random[i]);
    fits = fits && add_words(text, "\n\n");
    if (fits && text->used <= CONTROL_BYTES)
        return 0;
    oshrun_say("SHMEM_ variables and those of -x have %zu bytes, allowed are %d", text->used, CONTROL_BYTES);
    return STATUS_FAILED;
}

/* ---- the agents ---- */

/* The words of the agent, the host, and one word that is a command line for the shell there: this very program, by the
 * path that it has here, in the folder of the PEs. */
static int make_argv(struct job *job, struct host *host)
{
    const struct options *o = &job->options;
    char self[PATH_MAX], folder[PATH_MAX];
    struct growing_text line = {NULL, 0};
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    char *words = strdup(o->agent ? o->agent : ssh);
    host->argv = (char **)calloc(AGENT_WORDS + 3, sizeof *host->argv);
    if (len <= 0)
        return oshrun_fail("cannot read /proc/self/exe");
    bool fits = words && host->argv;
    self[len] = 0;
    const char *at = o->wdir ? realpath(o->wdir, folder) : getcwd(folder, sizeof folder);
    if (fits && !at) {
        oshrun_say("cannot use the working directory %s: %s", o->wdir ? o->wdir : ".", strerror(errno));
        return STATUS_USAGE;
    }
    fits = fits && add_words(&line, "cd") && add_quoted(&line, folder) && add_words(&line, " && exec") &&
           add_quoted(&line, self) &&
           add_words(&line, " --node %d:%d -n %d%s", host->first, o->job_npes, host->npes,
                     o->tag_output ? " --tag-output" : "");
    for (char **word = o->argv; fits && *word; word++)
        fits = add_quoted(&line, *word);
    int n = 0;
    for (char *word; fits && (word = strsep(&words, " "));)
        if (*word && n < AGENT_WORDS)
            host->argv[n++] = word;
    if (!fits) {
        oshrun_say("no memory for the command of the agent of %s", host->name);
        return STATUS_FAILED;
    }
    if (n == 0 || n == AGENT_WORDS) {
        oshrun_say("--agent '%s' has no word, or more than %d", o->agent ? o->agent : ssh, AGENT_WORDS - 1);
        return STATUS_USAGE;
    }
    host->argv[n++] = host->name;
    host->argv[n] = line.at;
    return job_find_program(job, host->argv[0], NULL);
}

int hosts_open(struct job *job)
{
    struct growing_text control = {NULL, 0};
    int status = make_control(job, &control);
    for (int i = 0; i < job->options.npes && !status; i++) {
        struct host *host = &job->options.hosts[i];
        int fd[2];
        status = make_argv(job, host);
        if (!status && pipe2(fd, O_CLOEXEC))
            status = oshrun_fail("cannot make a pipe");
        if (status)
            break;
        host->control = fd[1];
        job->pes[i].control = fd[0];
        fcntl(fd[1], F_SETFL, O_NONBLOCK); /* an empty pipe takes 64 KiB */
        if (write(fd[1], control.at, control.used) != (ssize_t)control.used) {
            oshrun_say("cannot write to the agent of %s: %s", host->name, strerror(errno));
            status = STATUS_FAILED;
        }
    }
    if (control.at)
        explicit_bzero(control.at, control.used);
    free(control.at);
    return status;
}

char **hosts_argv(const struct job *job, int i) { return job->options.hosts[i].argv; }
const char *hosts_name(const struct job *job, int i) { return job->options.hosts[i].name; }

void hosts_signal(struct job *job, int signal_number)
{
    const unsigned char byte = (unsigned char)signal_number;
    for (int i = 0; i < job->options.npes; i++) /* where it fails, the agent has ended, or SIGKILL will end it */
        (void)!write(job->options.hosts[i].control, &byte, 1);
}

/* ---- on each host ---- */

/* Byte by byte: what follows the empty line is for the course of the job. */
int hosts_read_control(struct job *job)
{
    char line[CONTROL_BYTES];
    size_t used = 0;
    bool begun = false;
    for (ssize_t got; (got = read(STDIN_FILENO, line + used, 1)) != 0; begun = true) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 || used == sizeof line - 1)
            break;
        if (line[used] != '\n') {
            used++;
            continue;
        }
        line[used] = 0;
        char *equals = strchr(line, '=');
        if (used == 0) {
            char size[16];
            snprintf(size, sizeof size, "%d", job->options.job_npes);
            setenv("SHMEM_SIZE", size, 1);
            return 0;
        }
        if (equals) {
            *equals = 0;
            setenv(line, equals + 1, 1);
        }
        used = 0;
    }
    oshrun_say(begun ? "the oshrun that started this job is gone, or the connection to it"
                     : "--node is for oshrun itself, and its stdin has no variables");
    return STATUS_USAGE;
}

/* PEs find each other by the unique id; agents have the caller's environment. */
char **hosts_environment(const struct job *job, int pe)
{
    char **copy = environment_copy("SHMEM_RANK="), **end = copy;
    while (end && *end)
        end++;
    if (copy && (job->options.part == PART_HEAD || asprintf(end, "SHMEM_RANK=%d", job->options.first_pe + pe) >= 0))
        return copy;
    oshrun_say("no memory for the environment of PE %d", job->options.first_pe + pe);
    return NULL; /* the job ends */
}
