/* SPDX-License-Identifier: MIT */
/* libibverbs, loaded when a job turns out to have PEs on other nodes: a job on one node never pays for it.
 * What its header defines inline needs no entry here. Included by verbs.h. */
#ifndef ISO_VERBS_LIBRARY_H
#define ISO_VERBS_LIBRARY_H

#include <infiniband/verbs.h>

#define VERBS_FUNCTIONS(X)                                                                                          \
    X(get_device_list, ibv_get_device_list)                                                                         \
    X(free_device_list, ibv_free_device_list)                                                                       \
    X(get_device_name, ibv_get_device_name)                                                                         \
    X(open_device, ibv_open_device) X(close_device, ibv_close_device) X(query_device, ibv_query_device)             \
        X(query_port, ibv_query_port) X(query_gid, ibv_query_gid) X(query_gid_table, _ibv_query_gid_table)          \
            X(alloc_pd, ibv_alloc_pd) X(dealloc_pd, ibv_dealloc_pd) X(reg_mr, ibv_reg_mr) X(dereg_mr, ibv_dereg_mr) \
                X(create_comp_channel, ibv_create_comp_channel) X(destroy_comp_channel, ibv_destroy_comp_channel)   \
                    X(create_cq, ibv_create_cq) X(destroy_cq, ibv_destroy_cq) X(get_cq_event, ibv_get_cq_event)     \
                        X(ack_cq_events, ibv_ack_cq_events) X(create_srq, ibv_create_srq)                           \
                            X(destroy_srq, ibv_destroy_srq) X(create_qp, ibv_create_qp) X(modify_qp, ibv_modify_qp) \
                                X(destroy_qp, ibv_destroy_qp) X(wc_status_str, ibv_wc_status_str)                   \
                                    X(get_async_event, ibv_get_async_event) X(ack_async_event, ibv_ack_async_event) \
                                        X(event_type_str, ibv_event_type_str)

struct verbs_library {
    void *handle;
    /* ibv_reg_dmabuf_mr, rdma-core 34; NULL: the library is older. */
    struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t len, uint64_t iova, int fd, int access);
#define X(field, name) __typeof__(&name) field;
    VERBS_FUNCTIONS(X)
#undef X
};

#endif
