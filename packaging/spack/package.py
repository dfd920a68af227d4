# SPDX-License-Identifier: MIT
from spack.package import *


class Isomer(CMakePackage):
    """Symmetric-memory runtime with the OpenSHMEM 1.6 API, for processing elements on one host or several and inside
    GPU kernels."""

    license("MIT")
    # The folder of the sources: spack develop --path FOLDER isomer@0.2.0
    version("0.2.0")

    variant("cuda", default=False, description="Kernels for NVIDIA GPUs")
    variant("rocm", default=False, description="Kernels for AMD GPUs")
    variant("verbs", default=True, description="RDMA between nodes by libibverbs")
    variant("libfabric", default=True, description="Other networks between nodes by libfabric")
    conflicts("+cuda", when="+rocm", msg="a build has one flavour: +cuda or +rocm")

    depends_on("c", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("pmix@4.2:")
    depends_on("rdma-core", when="+verbs")
    depends_on("libfabric@1.15:", when="+libfabric")
    depends_on("cuda@12:", when="+cuda")
    depends_on("hip@6:", when="+rocm")
    depends_on("hsa-rocr-dev@6:", when="+rocm")

    generator("ninja")

    def cmake_args(self):
        flavour = "cuda" if "+cuda" in self.spec else "hip" if "+rocm" in self.spec else "cpu"
        args = [self.define("GPU", flavour), self.define("ISO_TESTS", False)]
        if "+rocm" in self.spec:
            args.append(self.define("HIP_ROOT", self.spec["hip"].prefix))
        return args
