/* SPDX-License-Identifier: MIT */
/* A program whose every run is one wrong use: `PROGRAM CASE` makes that call; without a case it lists them. A call that
 * ends the job does not return; one that is refused returns nonzero, and the program ends with WRONG_REFUSED. Reaching
 * the end otherwise is a failure. The script beside the program, by wrong_use.sh, knows what each must print. */
#ifndef WRONG_USE_H
#define WRONG_USE_H

#include "device_test.h"

/* What has been called before. */
enum { BEFORE_INIT, BEFORE_DEVICE, WITH_DEVICE };
enum { WRONG_REFUSED = 3 };

struct wrong {
    const char *name;
    int (*call)(void);
    int stage;
    bool everybody; /* else the last PE alone */
};
/* X(case, stage, everybody) */
#define WRONG_ROW(name, stage, everybody) {#name, name, stage, everybody},

/* 0, or the exit status. `objects` makes what all cases with a device need; nonzero: there is no room. */
static inline int wrong_prepare(const struct wrong *wrong, int (*objects)(void))
{
    if (wrong->stage == BEFORE_INIT)
        return 0;
    shmem_init();
    if (wrong->stage == BEFORE_DEVICE)
        return 0;
    if (shmemx_device_init() != 0) {
        shmem_finalize();
        return CHECK_SKIP("there is no device for every PE");
    }
    return objects();
}

static inline int wrong_main(int argc, char **argv, const struct wrong *cases, int (*objects)(void))
{
    const struct wrong *wrong = cases;
    while (wrong->name != NULL && (argc < 2 || strcmp(wrong->name, argv[1]) != 0))
        wrong++;
    if (wrong->name == NULL) {
        for (wrong = cases; wrong->name != NULL; wrong++)
            printf("%s\n", wrong->name); /* the script looks that it has them all */
        return 2;
    }
    int unable = wrong_prepare(wrong, objects);
    if (unable != 0)
        return unable;
    bool mine = wrong->stage == BEFORE_INIT || wrong->everybody || shmem_my_pe() == shmem_n_pes() - 1;
    int seen = mine ? wrong->call() : WRONG_REFUSED;
    if (seen != 0) {
        fflush(stderr);
        _exit(WRONG_REFUSED);
    }
    printf("the call went through\n");
    return 0;
}

#endif
