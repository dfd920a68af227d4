/* SPDX-License-Identifier: MIT */
/* What this PE's transport has asked of the device so far, as the network section of shmemx_info_text tells it.
 * Included by counts.c, joins.c. */
#ifndef NETWORK_COUNTS_H
#define NETWORK_COUNTS_H

#include "../check.h"

struct counts {
    uint64_t requests, posts, completions, messages, copies, system_calls, events, joined;
};

static inline uint64_t count_of(const char *network, const char *name)
{
    char key[64];
    snprintf(key, sizeof key, " %s ", name);
    const char *at = strstr(network, key);
    return at != NULL ? strtoull(at + strlen(key), NULL, 10) : UINT64_MAX;
}

/* false: this job has no network. */
static inline bool read_counts(struct counts *c)
{
    size_t len = shmemx_info_text(NULL, 0) + 256; /* numbers grow */
    char *text = (char *)malloc(len);
    CHECK_OR_EXIT(text != NULL);
    shmemx_info_text(text, len);
    const char *network = strstr(text, "network of PE");
    if (network != NULL)
        *c = (struct counts){count_of(network, "requests"),    count_of(network, "posts"),
                             count_of(network, "completions"), count_of(network, "messages"),
                             count_of(network, "copies"),      count_of(network, "system_calls"),
                             count_of(network, "events"),      count_of(network, "joined")};
    free(text);
    return network != NULL;
}

static inline struct counts since(const struct counts *before)
{
    struct counts now;
    CHECK_OR_EXIT(read_counts(&now));
    return (struct counts){
        now.requests - before->requests, now.posts - before->posts,   now.completions - before->completions,
        now.messages - before->messages, now.copies - before->copies, now.system_calls - before->system_calls,
        now.events - before->events,     now.joined - before->joined};
}

#endif
