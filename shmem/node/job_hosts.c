/* SPDX-License-Identifier: MIT */
/* The question travels as oshrun's start does: an agent (ssh) runs a command on each host, here isomer-info, which looks
 * at the files of the nodes there. So a host whose PEs are all stopped is described too, no PE takes part, and whoever
 * may not log in learns nothing. Times travel as ages, since the clocks of hosts differ. All of an answer is checked
 * before it is used: it is another process's. */
#include "job_hosts.h"
#include "../../bootstrap/boot.h"
#include "../../bootstrap/log.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_NS 15000000000u /* from all of them */
#define AGENT_WORDS 32
#define WAITS_OF_PE (ISO_WAIT_RECORDS + 1)
#define HEAD "isomer-part %d %08" PRIx32 " %d"

struct asked {
    pid_t pid; /* of the agent; -1: none */
    int fd;    /* its output */
    char *text;
    size_t len;
};

/* ---- lines ---- */

void iso_job_hosts_tell(const struct graph *g, uint32_t job, FILE *out)
{
    fprintf(out, HEAD "\n", ISO_PROTOCOL, job, g->n_pes);
    for (int pe = 0; pe < g->n_pes; pe++) {
        const struct graph_pe *p = &g->pes[pe];
        if (p->state == GRAPH_ELSEWHERE)
            continue;
        fprintf(out, "pe %d %d %d %c %.3f %" PRIu64 " %" PRIu64 " %" PRIu64 " %s %s\n", pe, (int)p->state, p->pid,
                p->process != '\0' ? p->process : '?', p->cpu_s, p->resident_bytes, p->heap_bytes, p->steps,
                p->host[0] != '\0' ? p->host : "?", p->node);
        for (int i = 0; i < p->n_waits; i++) {
            const struct wait_record *r = &g->waits[p->first + i].record;
            fprintf(out,
                    "wait %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRIu64
                    " %" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n",
                    g->now > r->since_ns ? g->now - r->since_ns : 0, r->addr, r->expected, r->seen, r->cmp,
                    r->is_signed, r->peer, r->kind, r->first, r->stride, r->size, (const char *)r->call);
        }
    }
    fputs("end\n", out);
}

/* True: a PE that was not known. */
static bool take_pe(struct graph *g, const char *line, int *pe)
{
    struct graph_pe p = {.first = g->n_waits};
    int state = -1;
    if (sscanf(line, "pe %d %d %d %c %lf %" SCNu64 " %" SCNu64 " %" SCNu64 " %63s %63[^\n]", pe, &state, &p.pid,
               &p.process, &p.cpu_s, &p.resident_bytes, &p.heap_bytes, &p.steps, p.host, p.node) != 10 ||
        *pe < 0 || *pe >= g->n_pes || state <= GRAPH_ELSEWHERE || state > GRAPH_DIED ||
        g->pes[*pe].state != GRAPH_ELSEWHERE)
        return false;
    p.process = p.process == '?' ? '\0' : p.process;
    p.state = (enum graph_state)state;
    g->pes[*pe] = p;
    return true;
}

static void take_wait(struct graph *g, const char *line, int pe)
{
    struct graph_pe *p = &g->pes[pe];
    struct graph_wait *e = &g->waits[g->n_waits];
    struct wait_record r = {.since_ns = 0};
    char call[sizeof r.call] = "";
    uint64_t age = 0;
    if (p->n_waits >= WAITS_OF_PE ||
        sscanf(line,
               "wait %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNd64 " %" SCNu64
               " %" SCNu64 " %" SCNu64 " %" SCNu64 " %39s",
               &age, &r.addr, &r.expected, &r.seen, &r.cmp, &r.is_signed, &r.peer, &r.kind, &r.first, &r.stride,
               &r.size, call) != 12 ||
        r.kind > WAIT_KERNEL || r.peer < -1 || r.peer >= g->n_pes)
        return;
    r.since_ns = g->now - ISO_MIN(age, g->now - 1);
    memcpy(r.call, call, sizeof r.call);
    *e = (struct graph_wait){.pe = pe, .record = r};
    g->n_waits++;
    p->n_waits++;
}

/* PEs seen; -1: it is no answer, or not all of one. What a terminal would take for orders is replaced. */
static int take_answer(struct graph *g, uint32_t job, char *text)
{
    char head[64];
    int n = 0, pe = -1;
    bool whole = false;
    for (char *c = text; *c != '\0'; c++)
        *c = *c == '\n' || isprint((unsigned char)*c) ? *c : '?';
    snprintf(head, sizeof head, HEAD "\n", ISO_PROTOCOL, job, g->n_pes);
    char *at = strstr(text, head); /* a shell there may have said something before */
    for (at = at != NULL ? at + strlen(head) : NULL; at != NULL && *at != '\0' && !whole;) {
        char *end = strchr(at, '\n');
        if (end == NULL)
            break;
        *end = '\0';
        whole = strcmp(at, "end") == 0;
        if (strncmp(at, "pe ", 3) == 0) {
            bool taken = take_pe(g, at, &pe);
            n += taken;
            pe = taken ? pe : -1;
        } else if (pe >= 0) {
            take_wait(g, at, pe);
        }
        at = end + 1;
    }
    return whole ? n : -1;
}

/* ---- agents ---- */

/* This program on the other host by its path here, where it is isomer-info. */
static void write_command(const struct job_question *q, char *text, size_t bytes)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    const char *name = strrchr(self, '/');
    bool is_tool = name != NULL && strcmp(name, "/isomer-info") == 0 && strchr(self, '\'') == NULL;
    snprintf(text, bytes, "'%s' --job %08" PRIx32 " %s", is_tool ? self : "isomer-info", q->job,
             q->flights != NULL ? "--flight-part" : "--part");
}

static void start_host_agent(struct asked *a, const struct job_question *q, const char *host)
{
    char *argv[AGENT_WORDS + 3], *words = strdup(q->agent), *rest = words, command[PATH_MAX + 64];
    int fd[2] = {-1, -1}, n = 0;
    for (char *word; words != NULL && n < AGENT_WORDS && (word = strsep(&rest, " ")) != NULL;)
        if (*word != '\0')
            argv[n++] = word;
    write_command(q, command, sizeof command);
    argv[n] = (char *)(uintptr_t)host;
    argv[n + 1] = command;
    argv[n + 2] = NULL;
    a->pid = n > 0 && pipe2(fd, O_CLOEXEC) == 0 ? fork() : -1;
    if (a->pid == 0) {
        int nowhere = open("/dev/null", O_RDWR);
        if (dup2(nowhere, 0) >= 0 && dup2(fd[1], 1) >= 0)
            execvp(argv[0], argv);
        _exit(127);
    }
    if (fd[1] >= 0)
        close(fd[1]);
    a->fd = a->pid > 0 ? fd[0] : -1;
    if (a->pid < 0 && fd[0] >= 0)
        close(fd[0]);
    free(words);
}

/* Whatever it has said. False: it has come to its end. */
static bool read_reply(struct asked *a)
{
    char *larger = (char *)realloc(a->text, a->len + 4096 + 1);
    ssize_t n = -1;
    if (larger != NULL) {
        a->text = larger;
        n = read(a->fd, a->text + a->len, 4096);
        a->len += n > 0 ? (size_t)n : 0;
        a->text[a->len] = '\0';
    }
    if (n > 0 || (n < 0 && errno == EINTR && larger != NULL))
        return true;
    close(a->fd);
    a->fd = -1;
    return false;
}

static void await_agents(struct asked *asked, struct pollfd *polls, int n)
{
    uint64_t end = iso_clock_now_ns() + ANSWER_NS, now;
    int open = 0;
    for (int i = 0; i < n; i++)
        open += asked[i].fd >= 0;
    while (open > 0 && (now = iso_clock_now_ns()) < end) {
        for (int i = 0; i < n; i++)
            polls[i] = (struct pollfd){asked[i].fd, POLLIN, 0};
        if (poll(polls, (nfds_t)n, (int)((end - now) / 1000000) + 1) < 0 && errno != EINTR)
            return;
        for (int i = 0; i < n; i++)
            if (polls[i].revents != 0 && asked[i].fd >= 0)
                open -= !read_reply(&asked[i]);
    }
}

/* The exit status of the agent, which is ended where it has not ended itself; -1: not known. */
static int end_agent(struct asked *a)
{
    int status = -1;
    if (a->fd >= 0) {
        close(a->fd);
        kill(a->pid, SIGKILL);
    }
    while (a->pid > 0 && waitpid(a->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int iso_job_hosts_ask(const struct job_question *q, FILE *notes)
{
    struct asked *asked = (struct asked *)calloc((size_t)q->n_hosts, sizeof *asked);
    struct pollfd *polls = (struct pollfd *)calloc((size_t)q->n_hosts, sizeof *polls);
    int n_seen = 0, n = asked != NULL && polls != NULL ? q->n_hosts : 0;
    for (int i = 0; i < n; i++)
        start_host_agent(&asked[i], q, q->hosts[i]);
    await_agents(asked, polls, n);
    for (int i = 0; i < n; i++) {
        bool late = asked[i].fd >= 0;
        int status = end_agent(&asked[i]), seen = -1;
        if (asked[i].text != NULL)
            seen = q->flights != NULL ? iso_flights_take_text(q->flights, asked[i].text)
                                      : take_answer(q->graph, q->job, asked[i].text);
        if (seen < 0)
            fprintf(notes,
                    "host %s has not answered: \"%s\" %s (status %d); set SHMEM_AGENT to a command that reaches it\n",
                    q->hosts[i], q->agent, late ? "took longer than 15 s" : "ended without an answer", status);
        n_seen += ISO_MAX(seen, 0);
        free(asked[i].text);
    }
    free(asked);
    free(polls);
    return n_seen;
}
