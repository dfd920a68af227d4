/* SPDX-License-Identifier: MIT */
/* isomer-info: what this library is, how it was started and what would not work here.
 * A program over the public headers. Started by a launcher it is part of a job like any other program, and PE 0 prints;
 * --doctor looks at the machine and starts nothing. */
#include <shmem.h>
#include <shmemx.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROBLEM "problem: " /* how a line of the doctor starts that names something that will not work */

static const char help[] = "usage: [launcher] isomer-info [--doctor | --version]\n"
                           "  (nothing)   version, launcher, nodes, PEs, segments, paths, variables, algorithms\n"
                           "  --doctor    what would not work here and what to do; status 1 if there is anything\n"
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

static int print_info(void)
{
    int status = 0;
    shmem_init();
    if (shmem_my_pe() == 0) {
        char *text = get_text(shmemx_info_text);
        status = print_text(text);
        free(text);
    }
    shmem_finalize();
    return status;
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
        return print_info();
    if (argc == 2 && strcmp(argv[1], "--doctor") == 0)
        return print_doctor();
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return print_version();
    bool asked = argc == 2 && strcmp(argv[1], "--help") == 0;
    fputs(help, asked ? stdout : stderr);
    return asked ? 0 : 2;
}
