# The CPU as a device: kernels are C like everything else.
#   ISO_DEVICE_SOURCES  host code of the flavour        ISO_DEVICE_LIBS  what it links
#   ISO_KERNEL_COMMAND  compiler of kernels and its options; empty: the C compiler
#   ISO_KERNEL_OPTIONS  more of them for this project's own kernels
#   ISO_DEVICE_FILES    the in-kernel API for other tool chains, and how to make it
set(ISO_DEVICE_SOURCES device/cpu/gpu_cpu.c device/cpu/cpu_stream.c device/cpu/cpu_graph.c device/cpu/cpu_fault.c
    device/cpu/fiber.c)
set(ISO_DEVICE_LIBS)
set(ISO_KERNEL_COMMAND)
set(ISO_KERNEL_OPTIONS)
set(ISO_DEVICE_FILES)
