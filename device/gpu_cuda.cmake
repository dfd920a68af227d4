# NVIDIA GPUs: kernels by nvcc, one command a file; the library's host code stays C.
#   ISO_DEVICE_SOURCES  host code of the flavour        ISO_DEVICE_LIBS  what it links, and every program with kernels
#   iso_kernel_objects(VARIABLE file.c ...)             what a library or program adds to its sources to contain the
#                                                       kernels of these files (they may hold host code too)
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

set(ISO_DEVICE_SOURCES device/gpu_cuda.c)
# Nothing links libcuda: a build starts on machines without a driver and says that there is none.
set(ISO_DEVICE_LIBS ${ISO_CUDART})
set_source_files_properties(${PROJECT_SOURCE_DIR}/device/gpu_cuda.c PROPERTIES COMPILE_OPTIONS
                            "-isystem;${ISO_CUDA_INCLUDE}")

# The host part of a kernel file is C++ without exceptions, run-time types and guarded statics: it needs no C++ runtime.
set(ISO_NVCC_FLAGS -x cu -std=c++17 -O3 -lineinfo -ccbin ${CMAKE_C_COMPILER} -I${PROJECT_SOURCE_DIR}/include
    -Xcompiler -fPIC,-g,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics,-fvisibility=hidden,-Wall,-Wextra)
if(ISO_SANITIZE STREQUAL "address")
  list(APPEND ISO_NVCC_FLAGS -Xcompiler -fsanitize=address,-fno-omit-frame-pointer)
elseif(ISO_SANITIZE STREQUAL "thread")
  list(APPEND ISO_NVCC_FLAGS -Xcompiler -fsanitize=thread)
endif()
foreach(arch ${ISO_CUDA_ARCH})
  list(APPEND ISO_NVCC_FLAGS -gencode arch=compute_${arch},code=sm_${arch})
endforeach()
list(GET ISO_CUDA_ARCH -1 last_arch)
list(APPEND ISO_NVCC_FLAGS -gencode arch=compute_${last_arch},code=compute_${last_arch})

function(iso_kernel_objects variable)
  set(objects)
  foreach(source ${ARGN})
    get_filename_component(source ${source} ABSOLUTE)
    file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR} ${source})
    string(MAKE_C_IDENTIFIER ${name} name)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/kernels/${name}.o)
    get_property(known GLOBAL PROPERTY iso_kernel_${object})
    if(NOT known) # two targets of a folder may share a file
      set_property(GLOBAL PROPERTY iso_kernel_${object} 1)
      file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/kernels)
      add_custom_command(OUTPUT ${object} DEPENDS ${source} DEPFILE ${object}.d VERBATIM
                         COMMENT "Building CUDA object ${name}.o"
                         COMMAND ${CMAKE_C_COMPILER_LAUNCHER} ${ISO_NVCC} ${ISO_NVCC_FLAGS} -MMD -MF ${object}.d -MT ${object}
                                 -c ${source} -o ${object})
      set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
    endif()
    list(APPEND objects ${object})
  endforeach()
  set(${variable} ${objects} PARENT_SCOPE)
endfunction()
