/* SPDX-License-Identifier: MIT */
/* Network findings of isomer-info --doctor: the RDMA ports of this host, whether this user may open them, whether
 * libibverbs is installed, and what device memory needs. Reads /sys and /dev, starts nothing. Called by info.c. */
#include "transport.h"
#include "../../bootstrap/env.h"
#include "../../bootstrap/library.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PORTS "/sys/class/infiniband/*/ports/*"
#define DEVICE_FILES "/dev/infiniband/uverbs*"
#define PEER_MODULE "/sys/module/nvidia_peermem"

enum { FINE, WARNING };

typedef void finding(void *doctor, int severity, const char *sentence);

/* The line of the file in `folder`, without its end; "" where there is none. */
static void read_line(const char *folder, const char *file, char line[64])
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *f = fopen(path, "re");
    line[0] = '\0';
    if (f != NULL && fgets(line, 64, f) != NULL)
        line[strcspn(line, "\n")] = '\0';
    if (f != NULL)
        fclose(f);
}

static bool has_libfabric(void)
{
    struct peer far = {.local = false};
    const char *why = "";
    /* It stays: libraries under it start once in a process. */
    const int flags = RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE;
    void *library = iso_transport_ofi.reaches(&far, &why) ? iso_library_load("libfabric.so.1", flags) : NULL;
    if (library != NULL)
        dlclose(library);
    return library != NULL;
}

/* False: there are none. */
static bool examine_ports(finding *find, void *doctor)
{
    char ports[400] = "", text[512];
    glob_t found;
    bool any = false;
    int rc = glob(PORTS, 0, NULL, &found);
    for (size_t i = 0; rc == 0 && i < found.gl_pathc; i++) {
        /* Appends "rxea port 1 ACTIVE (Ethernet)". */
        const char *folder = found.gl_pathv[i];
        char state[64], layer[64], device[64] = "", number[16] = "";
        read_line(folder, "state", state); /* "4: ACTIVE" */
        read_line(folder, "link_layer", layer);
        sscanf(folder, "/sys/class/infiniband/%63[^/]/ports/%15s", device, number);
        const char *word = strchr(state, ' ');
        size_t n = strlen(ports);
        snprintf(ports + n, sizeof ports - n, "%s%s port %s %s (%s)", n > 0 ? ", " : "", device, number,
                 word != NULL ? word + 1 : state, layer);
        any |= strcmp(state, "4: ACTIVE") == 0;
    }
    if (rc == 0)
        globfree(&found);
    if (rc != 0) {
        find(doctor, FINE,
             has_libfabric() ? "no RDMA devices: PEs on this host reach other hosts by libfabric, whose tcp neither "
                               "encrypts nor authenticates: use it in a network that you trust"
                             : "no RDMA devices, and no libfabric.so.1 (package libfabric1): PEs on this host cannot "
                               "reach other hosts");
        return false;
    }
    snprintf(text, sizeof text, "RDMA devices: %s%s", ports,
             any ? "" : "; no port is active, so PEs on this host cannot reach other hosts");
    find(doctor, any ? FINE : WARNING, text);
    return true;
}

bool iso_network_has_rdma(void)
{
    glob_t found;
    bool built = iso_transport_verbs.open != NULL, any = built && ISO->env->nic[0] != '\0';
    if (!built || any || glob(PORTS, 0, NULL, &found) != 0)
        return any;
    for (size_t i = 0; i < found.gl_pathc && !any; i++) {
        char state[64];
        read_line(found.gl_pathv[i], "state", state);
        any = strcmp(state, "4: ACTIVE") == 0;
    }
    globfree(&found);
    return any;
}

static void examine_files(finding *find, void *doctor)
{
    char text[512];
    glob_t found;
    int rc = glob(DEVICE_FILES, 0, NULL, &found);
    if (rc != 0)
        find(doctor, WARNING,
             "there are RDMA devices but no " DEVICE_FILES ": load the module ib_uverbs, and give the container the "
             "device files");
    for (size_t i = 0; rc == 0 && i < found.gl_pathc; i++) {
        if (access(found.gl_pathv[i], R_OK | W_OK) == 0)
            continue;
        snprintf(text, sizeof text, "%s cannot be read and written by this user: %s", found.gl_pathv[i],
                 strerror(errno));
        find(doctor, WARNING, text);
    }
    if (rc == 0)
        globfree(&found);
}

void iso_network_examine(finding *find, void *doctor)
{
    struct peer far = {.local = false};
    const char *why = "";
    char text[512];
    if (!examine_ports(find, doctor))
        return;
    if (!iso_transport_verbs.reaches(&far, &why)) {
        find(doctor, WARNING, why);
        return;
    }
    examine_files(find, doctor);
    void *library = iso_library_load("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library != NULL) {
        dlclose(library);
    } else {
        snprintf(text, sizeof text,
                 "there are RDMA devices, but libibverbs.so.1 cannot be loaded (%s): install the packages libibverbs1 "
                 "and ibverbs-providers",
                 dlerror());
        find(doctor, WARNING, text);
    }
    if (strcmp(ISO_GPU, "cuda") == 0)
        find(doctor, FINE,
             access(PEER_MODULE, F_OK) == 0
                 ? "RDMA reaches device memory by dma-buf if the driver makes them, else by the module nvidia_peermem, "
                   "which is loaded"
                 : "RDMA reaches device memory by dma-buf if the driver makes them; else the host copies, since the "
                   "module nvidia_peermem is not loaded");
}
