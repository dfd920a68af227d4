/* SPDX-License-Identifier: MIT */
/* isomer-info: what this library is, how it was started and what would not work here.
 * A program over the public headers. Started by a launcher it is part of a job like any other program, and PE 0 prints;
 * --doctor looks at the machine and starts nothing; --tune measures the job's devices. */
#include <shmem.h>
#include <shmemx.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROBLEM "problem: " /* how a line of the doctor starts that names something that will not work */

static const char help[] =
    "usage: [launcher] isomer-info [--device | --doctor | --version | --tune [--tune-most BYTES]]\n"
    "  (nothing)   version, launcher, nodes, PEs, segments, paths, variables, algorithms\n"
    "  --device    the same with the devices started: how their memory is shared, and reached by the network\n"
    "  --doctor    what would not work here and what to do; status 1 if there is anything\n"
    "  --tune      measures the collectives on streams, in a job of one PE for each device, and writes the table by\n"
    "              which later programs choose: to the file that SHMEM_COLL_TABLE names, else in the user's cache\n"
    "  --tune-most BYTES   only calls of up to so many bytes, at least 1k; suffixes k, m, g\n"
    "  --version   version of the library and of the specification\n";

/* The whole text, or NULL. */
static char *get_text(size_t (*write_text)(char *text, size_t bytes))
{
    size_t bytes = write_text(NULL, 0) + 1;
    for (;;) { /* it may grow between two calls */
        char *text = (char *)malloc(bytes);
        size_t needed = text ? write_text(text, bytes) + 1 : 0;
        if (needed <= bytes)
            return text;
        free(text);
        bytes = needed;
    }
}

static bool has_problem(const char *text)
{
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, PROBLEM, strlen(PROBLEM)) == 0)
            return true;
    }
    return false;
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
    if (text && has_problem(text))
        status = 1;
    free(text);
    return status;
}

static int print_info(bool device)
{
    int status = 0;
    shmem_init();
    if (device && shmemx_device_init() != 0) { /* it has said why */
        shmem_finalize();
        return 1;
    }
    if (shmem_my_pe() == 0) {
        char *text = get_text(shmemx_info_text);
        status = print_text(text);
        free(text);
    }
    shmem_finalize();
    return status;
}

/* "64", "4k", "256m", "1g"; 0: it is none, or below 1k. */
static size_t size_of(const char *text)
{
    char *end;
    unsigned long long n = strtoull(text, &end, 10);
    const char *suffix = *end != '\0' ? strchr("kmg", *end) : NULL;
    unsigned shift = suffix ? (unsigned)(suffix - "kmg" + 1) * 10 : 0;
    if (*text < '0' || *text > '9' || (suffix ? end[1] : end[0]) != '\0' || n >= SIZE_MAX >> shift || n << shift < 1024)
        return 0;
    return (size_t)(n << shift);
}

/* most_bytes: 0 all sizes. */
static int tune(size_t most_bytes)
{
    int status = 2;
    shmem_init();
    if (shmem_n_pes() == 1)
        fputs("isomer-info: --tune measures what PEs do together, and this is 1 PE; start one for each device by a "
              "launcher: oshrun -n 4 isomer-info --tune (or mpirun, srun)\n",
              stderr);
    else
        status = shmemx_coll_tune(NULL, most_bytes, 1) == 0 ? 0 : 1;
    shmem_finalize();
    return status;
}

static int tune_up_to(const char *text)
{
    size_t most_bytes = size_of(text);
    if (most_bytes != 0)
        return tune(most_bytes);
    fprintf(stderr, "isomer-info: --tune-most %s is no size; allowed: bytes, 1024 or more, with a suffix k, m or g\n",
            text);
    return 2;
}

static int print_version(void)
{
    int major = 0, minor = 0;
    char name[SHMEM_MAX_NAME_LEN + 1] = "";
    shmem_info_get_version(&major, &minor);
    shmem_info_get_name(name);
    printf("%s, OpenSHMEM %d.%d\n", name, major, minor);
    return fflush(stdout) ? 1 : 0;
}

int main(int argc, char **argv)
{
    if (argc == 1)
        return print_info(false);
    if (argc == 2 && strcmp(argv[1], "--device") == 0)
        return print_info(true);
    if (argc == 2 && strcmp(argv[1], "--doctor") == 0)
        return print_doctor();
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return print_version();
    if (argc == 2 && strcmp(argv[1], "--tune") == 0)
        return tune(0);
    if (argc == 4 && strcmp(argv[1], "--tune") == 0 && strcmp(argv[2], "--tune-most") == 0)
        return tune_up_to(argv[3]);
    bool asked = argc == 2 && strcmp(argv[1], "--help") == 0;
    fputs(help, asked ? stdout : stderr);
    return asked ? 0 : 2;
}
