/* SPDX-License-Identifier: MIT */
/* libfabric, loaded when a job turns out to need it. What its headers define inline needs no entry here, except
 * fi_allocinfo, which would need the library at link time: dupinfo(NULL) is the same. Included by ofi.h. */
#ifndef ISO_OFI_LIBRARY_H
#define ISO_OFI_LIBRARY_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#define OFI_FUNCTIONS(X)      \
    X(getinfo, fi_getinfo)    \
    X(freeinfo, fi_freeinfo)  \
    X(dupinfo, fi_dupinfo)    \
    X(fabric, fi_fabric)      \
    X(version, fi_version)    \
    X(error_text, fi_strerror)

struct ofi_library {
    void *handle;
#define X(field, name) __typeof__(&name) field;
    OFI_FUNCTIONS(X)
#undef X
};

#endif
