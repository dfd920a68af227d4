# NVIDIA GPUs: kernels by nvcc, one command a file; the library's host code stays C.
#   ISO_DEVICE_SOURCES  host code of the flavour        ISO_DEVICE_LIBS  what it links, and every program with kernels
#   ISO_KERNEL_COMMAND  nvcc and its options            ISO_KERNEL_OPTIONS  more of them for this project's own kernels
#   ISO_KERNEL_REPORT, ISO_KERNEL_KEEP   have ptxas's report left beside each object of the library's kernels, for
#                       tests/unit/cuda_resources.sh
#   ISO_DEVICE_FILES    lib/isomer_device.ptx           the in-kernel API for other tool chains
set(ISO_CUDA_ARCH 90 CACHE STRING "Compute capabilities to build kernels for, a list; of the last one PTX goes along")

get_filename_component(cuda_of_compiler "$ENV{CUDACXX}" DIRECTORY)
find_program(ISO_NVCC nvcc HINTS ${cuda_of_compiler} PATHS ENV PATH /usr/local/cuda/bin
             DOC "CUDA compiler, 12.4 or later")
if(NOT ISO_NVCC)
  message(FATAL_ERROR "GPU=cuda needs nvcc (CUDA 12.4 or later): not found by CUDACXX, in PATH or in /usr/local/cuda/bin")
endif()
execute_process(COMMAND ${ISO_NVCC} --version OUTPUT_VARIABLE cuda_version)
string(REGEX MATCH "release ([0-9]+\\.[0-9]+)" cuda_version "${cuda_version}")
set(ISO_CUDA_VERSION ${CMAKE_MATCH_1})
if(ISO_CUDA_VERSION VERSION_LESS 12.4)
  message(FATAL_ERROR "GPU=cuda needs CUDA 12.4 or later: ${ISO_NVCC} is ${ISO_CUDA_VERSION}")
endif()

get_filename_component(cuda_root ${ISO_NVCC} REALPATH)
get_filename_component(cuda_root ${cuda_root}/../.. ABSOLUTE)
find_path(ISO_CUDA_INCLUDE cuda_runtime_api.h HINTS ${cuda_root}/include ${cuda_root}/targets/x86_64-linux/include
          DOC "Folder of cuda_runtime_api.h")
# The shared runtime: a kernel can only be launched by the runtime that it was registered with when the program started,
# and each copy of the static one is a runtime of its own, in libisomer.so another than in the program.
find_library(ISO_CUDART NAMES cudart HINTS ${cuda_root}/lib64 ${cuda_root}/lib ${cuda_root}/targets/x86_64-linux/lib
             DOC "libcudart.so")
if(NOT ISO_CUDA_INCLUDE OR NOT ISO_CUDART)
  message(FATAL_ERROR "GPU=cuda needs cuda_runtime_api.h and libcudart.so: not found around ${ISO_NVCC}")
endif()
message(STATUS "CUDA ${ISO_CUDA_VERSION}: ${ISO_NVCC}, kernels for ${ISO_CUDA_ARCH}")

set(ISO_DEVICE_SOURCES device/cuda/gpu_cuda.c)
list(JOIN ISO_CUDA_ARCH "," iso_cuda_archs)
set_source_files_properties(${PROJECT_SOURCE_DIR}/device/cuda/gpu_cuda.c PROPERTIES
                            COMPILE_DEFINITIONS ISO_CUDA_ARCH="${iso_cuda_archs}")
# Nothing links libcuda: a build starts on machines without a driver and says that there is none.
set(ISO_DEVICE_LIBS ${ISO_CUDART})
list(TRANSFORM ISO_DEVICE_SOURCES PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE device_sources)
set_source_files_properties(${device_sources} PROPERTIES COMPILE_OPTIONS "-isystem;${ISO_CUDA_INCLUDE}")

# The host part of a kernel file is C++ without exceptions, run-time types and guarded statics: it needs no C++ runtime.
set(ISO_KERNEL_COMMAND ${ISO_NVCC} -x cu -std=c++17 -O3 -lineinfo
    -Xcompiler -fPIC,-g,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics)
foreach(arch ${ISO_CUDA_ARCH})
  list(APPEND ISO_KERNEL_COMMAND -gencode arch=compute_${arch},code=sm_${arch})
endforeach()
list(GET ISO_CUDA_ARCH -1 last_arch)
list(APPEND ISO_KERNEL_COMMAND -gencode arch=compute_${last_arch},code=compute_${last_arch})
set(ISO_KERNEL_OPTIONS -ccbin ${CMAKE_C_COMPILER} -Xcompiler -fvisibility=hidden,-Wall,-Wextra)
if(ISO_SANITIZE STREQUAL "address")
  list(APPEND ISO_KERNEL_OPTIONS -Xcompiler -fsanitize=address,-fno-omit-frame-pointer)
elseif(ISO_SANITIZE STREQUAL "thread")
  list(APPEND ISO_KERNEL_OPTIONS -Xcompiler -fsanitize=thread)
endif()
set(ISO_KERNEL_REPORT ${PROJECT_SOURCE_DIR}/device/cuda/cuda_report.sh)
set(ISO_KERNEL_KEEP -Xptxas -v)

# For what links PTX: Triton, run-time compiled modules. Of the first architecture, since PTX runs on later ones too.
list(GET ISO_CUDA_ARCH 0 first_arch)
set(ISO_DEVICE_FILES ${PROJECT_BINARY_DIR}/lib/isomer_device.ptx)
set(externs ${PROJECT_SOURCE_DIR}/device/externs.c)
set(depends ${PROJECT_BINARY_DIR}/CMakeFiles/isomer_device.ptx.d)
add_custom_command(OUTPUT ${ISO_DEVICE_FILES} DEPENDS ${externs} DEPFILE ${depends} VERBATIM
                   COMMENT "Building isomer_device.ptx"
                   COMMAND ${ISO_NVCC} -x cu -std=c++17 -O3 -ccbin ${CMAKE_C_COMPILER} -arch=compute_${first_arch}
                           -I${PROJECT_SOURCE_DIR}/include -rdc=true -MMD -MF ${depends} -MT ${ISO_DEVICE_FILES}
                           -ptx ${externs} -o ${ISO_DEVICE_FILES})
add_custom_target(isomer_device_ptx ALL DEPENDS ${ISO_DEVICE_FILES})
