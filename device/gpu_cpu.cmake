# The CPU as a device: kernels are C like everything else.
#   ISO_DEVICE_SOURCES  host code of the flavour        ISO_DEVICE_LIBS  what it links
#   iso_kernel_objects(VARIABLE file.c ...)             what a library or program adds to its sources to contain the
#                                                       kernels of these files (they may hold host code too)
set(ISO_DEVICE_SOURCES device/gpu_cpu.c device/cpu_stream.c device/fiber.c)
set(ISO_DEVICE_LIBS)

function(iso_kernel_objects variable)
  set(sources)
  foreach(source ${ARGN})
    get_filename_component(source ${source} ABSOLUTE)
    list(APPEND sources ${source})
  endforeach()
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()
