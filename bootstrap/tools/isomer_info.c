/* SPDX-License-Identifier: MIT */
/* isomer-info: describes the library, the start of the job and the problems of this machine.
 * A program over the public headers. Started by a launcher it is part of a job like any other program, and PE 0 prints.
 * --doctor alone looks at the machine and starts nothing; --job looks at a job that runs; --tune measures the job's
 * devices. */
#include <shmem.h>
#include <shmemx.h>

#include "info_ras.h"
#include "info_trace.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROBLEM "problem: " /* the start of a doctor's line that names a problem */
/* The starts of the last two parts of the library's text. Every variable has two lines there. */
#define VARIABLES "\nenvironment variables ("
#define TABLES "\ncollective algorithms:"
#define FOR_TESTS ", for tests)\n" /* the end of the first line of a variable that users do not set */

static const char help[] =
    "usage: [launcher] isomer-info [NAME | --variables [all] | --table | --device | --doctor [start] | --version |\n"
    "                               --tune [--tune-most BYTES]]\n"
    "       isomer-info --jobs [--json]\n"
    "       isomer-info --trace FOLDER | --flight FOLDER\n"
    "       isomer-info --job JOB [--json | --watch | --flight | --ras PORT]\n"
    "  (no option) version, launcher, nodes, PEs, segments, paths, the variables that are set\n"
    "  NAME        one environment variable, as SHMEM_TIMEOUT: its value, kind, default and purpose\n"
    "  --variables every variable that users set; --variables all: those for tests of the library, too\n"
    "  --table     the algorithms that the collectives choose, on the host and on streams\n"
    "  --device    as without an option, with the devices started: how memory is shared, and reached by the network\n"
    "  --doctor    the problems of this machine and their remedies; status 1 if there is a problem; --doctor start: of\n"
    "              a job of these PEs too, which phase of its start took unusually long and the likely cause\n"
    "  --jobs      the jobs of this user on this host\n"
    "  --job JOB   which PE of a running job waits for which and why, and which PE is the cause; JOB: its 8 digits,\n"
    "              the process number of a PE or of its launcher. Other hosts of the job are asked by ssh, or as\n"
    "              SHMEM_AGENT says. --json: as JSON; --watch: again each second until it ends;\n"
    "              --flight: the last 256 collectives of each PE as JSON, behind the first call that differs\n"
    "              --ras: answers monitors of NCCL's RAS on this port of 127.0.0.1 until the job ends (theirs: 28028)\n"
    "  --flight FOLDER  the same, of the files that SHMEM_FLIGHT=FOLDER has made, of PEs of all hosts\n"
    "  --trace FOLDER   the files that SHMEM_TRACE=FOLDER has made: as one time line for Perfetto (ui.perfetto.dev),\n"
    "              FOLDER/trace.json, and as a picture with the bytes between PEs, FOLDER/trace.svg; prints the\n"
    "              longest waits, and how long streams were busy\n"
    "  --tune      measures the collectives on streams, in a job of one PE for each device, and writes the table by\n"
    "              which later programs choose: to the file that SHMEM_COLL_TABLE names, else in the user's cache\n"
    "  --tune-most BYTES   only calls of up to BYTES bytes, 1k or more; suffixes k, m, g\n"
    "  --version   version of the library and of the specification\n"
    "  --help      this text\n";

/* The whole text, or NULL. */
static char *get_text(size_t (*write_text)(char *text, size_t bytes))
{
    size_t bytes = write_text(NULL, 0) + 1;
    for (;;) { /* the text may grow between two calls */
        char *text = (char *)malloc(bytes);
        size_t needed = text ? write_text(text, bytes) + 1 : 0;
        if (needed <= bytes)
            return text;
        free(text);
        bytes = needed;
    }
}

static int print_text(const char *text)
{
    if (!text) {
        fprintf(stderr, "isomer-info: no memory for the text\n");
        return 1;
    }
    fputs(text, stdout);
    return fflush(stdout) ? 1 : 0;
}

static int print_doctor(void)
{
    char *text = get_text(shmemx_doctor_text);
    int status = print_text(text);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, PROBLEM, strlen(PROBLEM)) == 0)
            status = 1;
    }
    free(text);
    return status;
}

static int print_doctor_of_job(void)
{
    int status = 0;
    shmem_init();
    if (shmem_my_pe() == 0)
        status = print_doctor();
    shmem_finalize();
    return status;
}

/* ---- jobs that run ---- */

/* job NULL: all. 1: there is no such job, and the library has said so. */
static int print_job(const char *job, int form)
{
    static char *text; /* kept: --watch comes again and again */
    static size_t bytes;
    size_t needed = shmemx_job_text(job, form, text, bytes);
    while (needed != 0 && needed >= bytes) { /* the text may grow between two calls */
        char *larger = (char *)realloc(text, needed + 1024);
        if (!larger)
            return print_text(NULL);
        text = larger;
        bytes = needed + 1024;
        needed = shmemx_job_text(job, form, text, bytes);
    }
    return needed == 0 ? 1 : print_text(text);
}

static int watch_job(const char *job)
{
    bool on_terminal = isatty(STDOUT_FILENO) == 1, seen = false;
    for (;; seen = true, sleep(1)) {
        if (on_terminal)
            fputs("\033[H\033[2J", stdout);
        if (print_job(job, SHMEMX_TEXT) != 0)
            return seen ? 0 : 1;
    }
}

/* argv[1]: --jobs or --job. */
static int look_at_jobs(int argc, char **argv)
{
    bool all = strcmp(argv[1], "--jobs") == 0;
    int at = all ? 2 : 3;
    const char *job = all ? NULL : argv[2], *option = argc == at + 1 ? argv[at] : "";
    if (argc == at)
        return print_job(job, SHMEMX_TEXT);
    if (strcmp(option, "--json") == 0)
        return print_job(job, SHMEMX_JSON);
    if (!all && strcmp(option, "--part") == 0) /* another host's isomer-info has asked */
        return print_job(job, SHMEMX_PART);
    if (!all && strcmp(option, "--flight-part") == 0)
        return print_job(job, SHMEMX_FLIGHT_PART);
    if (!all && strcmp(option, "--flight") == 0)
        return print_job(job, SHMEMX_FLIGHT);
    if (!all && strcmp(option, "--watch") == 0)
        return watch_job(job);
    if (!all && argc == 5 && strcmp(argv[3], "--ras") == 0 && atoi(argv[4]) > 0 && atoi(argv[4]) < 65536)
        return info_ras_serve(job, atoi(argv[4]));
    fputs(help, stderr);
    return 2;
}

/* ---- parts of the library's text ---- */

static void print_range(const char *begin, const char *end) { fwrite(begin, 1, (size_t)(end - begin), stdout); }

/* Two lines: "  NAME = value (kind, default)" and what it is for. */
static const char *end_of_variable(const char *entry)
{
    const char *end = strchr(entry, '\n');
    end = end ? strchr(end + 1, '\n') : NULL;
    return end ? end + 1 : entry + strlen(entry);
}

static void print_set(const char *entry, const char *end)
{
    char name[64];
    bool any = false;
    for (; entry < end && sscanf(entry, "  %63[A-Z0-9_] =", name) == 1; entry = end_of_variable(entry)) {
        const char *value = getenv(name);
        if (!value || !*value)
            continue;
        fputs(any ? "" : "environment variables that are set (value, kind, default):\n", stdout);
        print_range(entry, strchr(entry, '\n') + 1);
        any = true;
    }
    fputs(any ? "" : "environment variables: none of the library's is set\n", stdout);
}

enum info_part { SUMMARY, ONE_VARIABLE, USER_VARIABLES, ALL_VARIABLES, ALL_TABLES };

static int print_part(const char *text, enum info_part part, const char *name)
{
    const char *variables = strstr(text, VARIABLES) + 1, *tables = strstr(text, TABLES) + 1;
    const char *first = strchr(variables, '\n') + 1;
    int status = 0;
    if (part == SUMMARY) {
        print_range(text, variables);
        print_set(first, tables);
        fputs("more: isomer-info SHMEM_TIMEOUT, --variables, --table, --device, --doctor, --help\n", stdout);
    } else if (part == ONE_VARIABLE) {
        const char *entry = first;
        char found[64] = "";
        while (entry < tables && sscanf(entry, "  %63[A-Z0-9_] =", found) == 1 && strcmp(found, name) != 0)
            entry = end_of_variable(entry);
        if (strcmp(found, name) == 0) {
            print_range(entry, end_of_variable(entry));
        } else {
            fprintf(stderr,
                    "isomer-info: there is no environment variable %s; isomer-info --variables lists them all\n",
                    name);
            status = 2;
        }
    } else if (part == USER_VARIABLES) {
        print_range(variables, first);
        for (const char *next; first < tables; first = next) {
            const char *first_end = strchr(first, '\n') + 1;
            next = end_of_variable(first);
            if (strncmp(first_end - strlen(FOR_TESTS), FOR_TESTS, strlen(FOR_TESTS)) != 0)
                print_range(first, next);
        }
    } else {
        print_range(part == ALL_TABLES ? tables : variables, part == ALL_TABLES ? text + strlen(text) : tables);
    }
    return fflush(stdout) ? 1 : status;
}

static int print_info(bool device, enum info_part part, const char *name)
{
    int status = 0;
    shmem_init();
    if (device && shmemx_device_init() != 0) { /* which has printed the reason */
        shmem_finalize();
        return 1;
    }
    if (shmem_my_pe() == 0) {
        char *text = get_text(shmemx_info_text);
        status = text ? print_part(text, part, name) : print_text(NULL);
        free(text);
    }
    shmem_finalize();
    return status;
}

/* most_bytes: 0 all sizes. */
static int tune(size_t most_bytes)
{
    int status = 2;
    shmem_init();
    if (shmem_n_pes() == 1)
        fputs("isomer-info: --tune needs 2 PEs or more, and this job has 1 PE; start one PE for each device by a "
              "launcher: oshrun -n 4 isomer-info --tune (or mpirun, srun)\n",
              stderr);
    else
        status = shmemx_coll_tune(NULL, most_bytes, 1) == 0 ? 0 : 1;
    shmem_finalize();
    return status;
}

/* `text`: "4k", "256m", "1g"; 1k or more. */
static int tune_up_to(const char *text)
{
    static const char suffixes[] = "kmg";
    char *end;
    unsigned long long n = strtoull(text, &end, 10);
    const char *suffix = *end != '\0' ? strchr(suffixes, *end) : NULL;
    unsigned shift = suffix ? (unsigned)(suffix - suffixes + 1) * 10 : 0;
    bool is_number = *text >= '0' && *text <= '9' && (suffix ? end[1] : end[0]) == '\0';
    if (is_number && n < SIZE_MAX >> shift && n << shift >= 1024)
        return tune((size_t)(n << shift));
    fprintf(stderr, "isomer-info: --tune-most %s is not a size; allowed: 1024 bytes or more, suffixes k, m, g\n",
            text);
    return 2;
}

int main(int argc, char **argv)
{
    if (argc == 1)
        return print_info(false, SUMMARY, NULL);
    if (argc == 2 && strcmp(argv[1], "--device") == 0)
        return print_info(true, SUMMARY, NULL);
    if (argc == 2 && strcmp(argv[1], "--variables") == 0)
        return print_info(false, USER_VARIABLES, NULL);
    if (argc == 3 && strcmp(argv[1], "--variables") == 0 && strcmp(argv[2], "all") == 0)
        return print_info(false, ALL_VARIABLES, NULL);
    if (argc == 2 && strcmp(argv[1], "--table") == 0)
        return print_info(false, ALL_TABLES, NULL);
    if (argc == 2 && argv[1][0] != '-')
        return print_info(false, ONE_VARIABLE, argv[1]);
    if (argc == 2 && strcmp(argv[1], "--doctor") == 0)
        return print_doctor();
    if (argc == 3 && strcmp(argv[1], "--doctor") == 0 && strcmp(argv[2], "start") == 0)
        return print_doctor_of_job();
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        int major = 0, minor = 0;
        char name[SHMEM_MAX_NAME_LEN + 1] = "";
        shmem_info_get_version(&major, &minor);
        shmem_info_get_name(name);
        printf("%s, OpenSHMEM %d.%d\n", name, major, minor);
        return fflush(stdout) ? 1 : 0;
    }
    if ((argc >= 2 && strcmp(argv[1], "--jobs") == 0) || (argc >= 3 && strcmp(argv[1], "--job") == 0))
        return look_at_jobs(argc, argv);
    if (argc == 3 && strcmp(argv[1], "--flight") == 0) {
        char path[4096];
        snprintf(path, sizeof path, "%s/", argv[2]); /* by which the library tells a folder from a job */
        return print_job(path, SHMEMX_FLIGHT);
    }
    if (argc == 3 && strcmp(argv[1], "--trace") == 0)
        return info_trace(argv[2]);
    if (argc == 2 && strcmp(argv[1], "--tune") == 0)
        return tune(0);
    if (argc == 4 && strcmp(argv[1], "--tune") == 0 && strcmp(argv[2], "--tune-most") == 0)
        return tune_up_to(argv[3]);
    bool asked = argc == 2 && strcmp(argv[1], "--help") == 0;
    fputs(help, asked ? stdout : stderr);
    return asked ? 0 : 2;
}
