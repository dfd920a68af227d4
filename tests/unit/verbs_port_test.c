/* SPDX-License-Identifier: MIT */
/* Which port a PE takes, and how its queue pairs address the other end, over a double of libibverbs: kinds of networks,
 * subnets, devices that take little within a request, more queue pairs than there are numbers for. */
#include "../../bootstrap/env.h"
#include "../check.h"

#if !__has_include(<infiniband/verbs.h>)
int main(void) { return CHECK_SKIP("no header infiniband/verbs.h on this machine"); }
#else

#include "verbs_double.h"
#include "../../shmem/node/channel.h"

/* ---- devices with one port each ---- */

enum { DEVICES_MAX = 4 };
struct model {
    const char *name;
    enum ibv_transport_type transport;
    bool ethernet;
    uint8_t flags;
    uint64_t subnet; /* of the only GID; 0: there is none */
};
static struct {
    const struct model *models;
    struct ibv_device devices[DEVICES_MAX];
    struct ibv_device *list[DEVICES_MAX + 1];
    struct ibv_context contexts[DEVICES_MAX];
    struct ibv_pd pd;
} machine;

static struct ibv_device **get_device_list(int *n)
{
    *n = 1;
    return machine.list;
}

static void free_device_list(struct ibv_device **list) { CHECK(list == machine.list); }

static const struct model *model_of(const struct ibv_device *device)
{
    return &machine.models[device - machine.devices];
}

static const char *get_device_name(struct ibv_device *device) { return model_of(device)->name; }

static struct ibv_context *open_device(struct ibv_device *device)
{
    struct ibv_context *context = &machine.contexts[device - machine.devices];
    CHECK(device->transport_type == IBV_TRANSPORT_IB); /* others are not touched */
    context->device = device;
    return context;
}

static int close_device(struct ibv_context *context) { return context != NULL ? 0 : EINVAL; }

static int query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    (void)context;
    *attr = (struct ibv_device_attr){.phys_port_cnt = 1, .max_qp_rd_atom = 16, .max_qp_init_rd_atom = 16};
    return 0;
}

static int query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *compat)
{
    const struct model *m = model_of(context->device);
    struct ibv_port_attr attr = {.state = IBV_PORT_ACTIVE, .active_mtu = IBV_MTU_4096, .max_msg_sz = 1u << 30};
    attr.link_layer = m->ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
    attr.flags = m->flags;
    memcpy(compat, &attr, sizeof attr);
    return port == 1 ? 0 : EINVAL;
}

static ssize_t query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t n, uint32_t flags,
                               size_t size)
{
    const struct model *m = model_of(context->device);
    (void)n, (void)flags, (void)size;
    memset(entries, 0, sizeof *entries);
    entries->port_num = 1;
    memcpy(entries->gid.raw, &m->subnet, sizeof m->subnet);
    entries->gid.raw[15] = 1;
    return m->subnet != 0;
}

static struct ibv_pd *alloc_pd(struct ibv_context *context) { return context != NULL ? &machine.pd : NULL; }

/* The port that this PE takes: its device's name, NULL: none. */
static const char *chosen(struct verbs *v, const struct model *models, int n)
{
    machine.models = models;
    memset(machine.list, 0, sizeof machine.list);
    for (int i = 0; i < n; i++) {
        machine.devices[i].transport_type = models[i].transport;
        machine.list[i] = &machine.devices[i];
    }
    v->lib.get_device_list = get_device_list;
    v->lib.free_device_list = free_device_list;
    v->lib.get_device_name = get_device_name;
    v->lib.open_device = open_device;
    v->lib.close_device = close_device;
    v->lib.query_device = query_device;
    v->lib.query_port = query_port;
    v->lib.query_gid_table = query_gid_table;
    v->lib.alloc_pd = alloc_pd;
    return iso_verbs_device_open(v) == 0 ? v->port.device : NULL;
}

/* Of two devices, in this order. */
static bool takes(const struct model *first, const struct model *second, const char *name)
{
    const struct model models[] = {*first, *second};
    struct verbs *v = open_double(2);
    const char *seen = chosen(v, models, 2);
    bool same = seen != NULL && name != NULL ? strcmp(seen, name) == 0 : seen == name;
    close_double(v);
    return same;
}

static const struct model iwarp = {"siw0", IBV_TRANSPORT_IWARP, true, 0, 1};
static const struct model efa = {"efa0", IBV_TRANSPORT_UNSPECIFIED, true, 0, 1};
static const struct model roce = {"roce0", IBV_TRANSPORT_IB, true, 0, 1};
static const struct model infiniband = {"ib0", IBV_TRANSPORT_IB, false, 0, 0xfe};

static void test_choice(void)
{
    ISO->env->nic = "";
    CHECK(takes(&iwarp, &roce, "roce0"));
    CHECK(takes(&roce, &efa, "roce0"));
    CHECK(takes(&efa, &infiniband, "ib0"));
    CHECK(takes(&roce, &infiniband, "ib0")); /* in whichever order they come */
    CHECK(takes(&infiniband, &roce, "ib0"));
    ISO->env->nic = "roce0";
    CHECK(takes(&infiniband, &roce, "roce0"));
    ISO->env->nic = "";
    fprintf(stderr, "expected: a sentence that no port can be used\n");
    CHECK(takes(&iwarp, &efa, NULL));
}

/* ---- queue pairs, as the target of PE 1 ---- */

static struct {
    uint32_t inline_most;
    bool global;
    struct ibv_qp pairs[4];
    int made, destroyed;
} maker;

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    (void)pd;
    errno = EINVAL;
    return attr->cap.max_inline_data <= maker.inline_most ? &maker.pairs[maker.made++] : NULL;
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    (void)qp;
    if ((mask & IBV_QP_AV) != 0)
        maker.global = attr->ah_attr.is_global != 0;
    return 0;
}

static int destroy_qp(struct ibv_qp *qp)
{
    maker.destroyed++;
    return qp != NULL ? 0 : EINVAL;
}

static struct verbs *open_target(const struct model *model, uint32_t inline_most)
{
    struct verbs *v = open_double(2);
    memset(&maker, 0, sizeof maker);
    maker.inline_most = inline_most;
    CHECK(chosen(v, model, 1) != NULL);
    v->lib.create_qp = create_qp;
    v->lib.modify_qp = modify_qp;
    v->lib.destroy_qp = destroy_qp;
    return v;
}

static struct verbs_hello connect_from(bool ethernet, bool global, uint64_t subnet)
{
    unsigned char request[CHANNEL_BODY_BYTES] = {0}, answer[CHANNEL_BODY_BYTES] = {0};
    struct verbs_hello hello = {.type = VERBS_CONNECT, .ethernet = ethernet, .global = global}, back;
    memcpy(hello.gid, &subnet, sizeof subnet);
    memcpy(request, &hello, sizeof hello);
    iso_network_answer(&ISO->verbs->net, 1, request, answer);
    memcpy(&back, answer, sizeof back);
    return back;
}

/* The pairs are the double's. */
static void close_target(struct verbs *v)
{
    for (uint32_t i = 0; i < v->n_queues; i++)
        v->queues[i]->qp = NULL;
    close_double(v);
}

static bool addresses_globally(const struct model *model, bool global, uint64_t subnet)
{
    struct verbs *v = open_target(model, 128);
    CHECK_EQ(connect_from(model->ethernet, global, subnet).error, 0);
    close_target(v);
    return maker.global;
}

static void test_subnets(void)
{
    struct model strict = infiniband, nameless = infiniband;
    strict.flags = IBV_QPF_GRH_REQUIRED;
    nameless.subnet = 0;
    CHECK(!addresses_globally(&infiniband, false, 0xfe));
    CHECK(addresses_globally(&infiniband, false, 0xff));
    CHECK(addresses_globally(&infiniband, true, 0xfe));
    CHECK(addresses_globally(&strict, false, 0xfe));
    CHECK(!addresses_globally(&nameless, false, 0xfe)); /* nobody knows */
    CHECK(!addresses_globally(&infiniband, false, 0));
    CHECK(addresses_globally(&roce, false, 1));
}

/* The refusal names the port here. */
static void test_two_kinds(void)
{
    struct verbs *v = open_target(&infiniband, 128);
    struct verbs_hello back = connect_from(true, false, 0xfe);
    CHECK(back.error == -EPROTO && back.port == 1 && !back.ethernet && strcmp(back.device, "ib0") == 0);
    CHECK_EQ(maker.made, 0);
    close_target(v);
}

static void test_inline_bytes(void)
{
    static const uint32_t most[] = {200, 128, 127, 80, 63, 40, 0}, given[] = {128, 128, 96, 64, 48, 0, 0};
    for (size_t i = 0; i < sizeof most / sizeof most[0]; i++) {
        struct verbs *v = open_target(&roce, most[i]);
        CHECK_EQ(connect_from(true, false, 1).error, 0);
        CHECK_OR_EXIT(v->n_queues == 1);
        CHECK_EQ(v->queues[0]->inline_bytes, given[i]);
        close_target(v);
    }
}

/* One more than ids of requests can tell apart. */
static void test_too_many_queues(void)
{
    struct verbs *v = open_target(&roce, 128);
    v->queues = (struct verbs_queue **)calloc(VERBS_QUEUES_MAX, sizeof *v->queues);
    v->n_queues = v->max_queues = VERBS_QUEUES_MAX;
    CHECK_EQ(connect_from(true, false, 1).error, -ENOSPC);
    CHECK(maker.made == 1 && maker.destroyed == 1);
    CHECK(v->queues != NULL && v->queues[VERBS_QUEUES_MAX - 1] == NULL); /* they are there still */
    v->n_queues = 0;
    close_target(v);
}

int main(void)
{
    alarm(60);
    test_choice();
    test_subnets();
    test_two_kinds();
    test_inline_bytes();
    test_too_many_queues();
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}

#endif
