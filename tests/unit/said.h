/* SPDX-License-Identifier: MIT */
/* What the library prints to stderr between listen and heard. */
#ifndef ISO_SAID_H
#define ISO_SAID_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct said {
    int saved, file;
    char text[2048];
};

static void listen(struct said *s)
{
    char path[] = "/tmp/isomer-said-XXXXXX";
    s->file = mkstemp(path);
    CHECK(s->file >= 0 && unlink(path) == 0);
    fflush(stderr);
    s->saved = dup(STDERR_FILENO);
    dup2(s->file, STDERR_FILENO);
}

static const char *heard(struct said *s)
{
    fflush(stderr);
    dup2(s->saved, STDERR_FILENO);
    ssize_t n = pread(s->file, s->text, sizeof s->text - 1, 0);
    s->text[n > 0 ? n : 0] = '\0';
    close(s->saved);
    close(s->file);
    return s->text;
}

#endif
