/* SPDX-License-Identifier: MIT */
/* The row of ofi.c in a build without libfabric's headers: it reaches no peer and says why. */
#include "../transport.h"

static bool ofi_reaches_none(const struct peer *peer, const char **why)
{
    if (!peer->local)
        *why = "this build has no libfabric: install libfabric-dev and build again";
    return false;
}

const struct transport_ops iso_transport_ofi = {.name = "ofi", .reaches = ofi_reaches_none};
