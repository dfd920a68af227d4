/* SPDX-License-Identifier: MIT */
/* What HIP links but has no sense here: images, graphics, shared virtual memory. Without the headers, since
 * the parameters do not matter: by the x86-64 calling conventions, the caller removes them. */
enum { HSA_ERROR = 0x1000 };

#define REFUSED(name) \
    int name(void);   \
    int name(void) { return HSA_ERROR; }

REFUSED(hsa_amd_image_create)
REFUSED(hsa_ext_image_create)
REFUSED(hsa_ext_image_create_with_layout)
REFUSED(hsa_ext_image_data_get_info)
REFUSED(hsa_ext_image_destroy)
REFUSED(hsa_ext_image_export)
REFUSED(hsa_ext_image_import)
REFUSED(hsa_ext_sampler_create)
REFUSED(hsa_ext_sampler_destroy)
REFUSED(hsa_amd_interop_map_buffer)
REFUSED(hsa_amd_interop_unmap_buffer)
REFUSED(hsa_amd_svm_attributes_get)
REFUSED(hsa_amd_svm_attributes_set)
REFUSED(hsa_amd_svm_prefetch_async)
REFUSED(hsa_amd_ipc_signal_create)
REFUSED(hsa_amd_ipc_signal_attach)
