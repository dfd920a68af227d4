/* SPDX-License-Identifier: MIT */
/* The row of verbs.c in a build without libibverbs: it reaches no peer and says why. */
#include "../transport.h"

static bool verbs_reaches_none(const struct peer *peer, const char **why)
{
    if (!peer->local)
        *why = "this build has no RDMA: install libibverbs-dev (rdma-core) and build again";
    return false;
}

const struct transport_ops iso_transport_verbs = {.name = "verbs", .reaches = verbs_reaches_none};
