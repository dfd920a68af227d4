# AMD GPUs: kernels by a clang that knows the targets, one command a file, without HIP's headers and device libraries;
# the library's host code stays C and links HIP's runtime.
#   ISO_DEVICE_SOURCES  host code of the flavour        ISO_DEVICE_LIBS  what it links, and every program with kernels
#   ISO_KERNEL_COMMAND  clang and its options           ISO_KERNEL_OPTIONS  more of them for this project's own kernels
#   ISO_KERNEL_CHECK    looks at each object            ISO_KERNEL_HEAVY  options of kernels that would not pass it
#   ISO_KERNEL_KEEP     has the assembly of the library's kernels left beside their objects, for tests/unit/isa.sh
#   ISO_DEVICE_FILES    none: bitcode.cmake makes the in-kernel API for other tool chains
if(DEFINED ENV{ROCM_PATH})
  set(hip_root $ENV{ROCM_PATH})
elseif(EXISTS /opt/rocm/include/hip/hip_runtime_api.h)
  set(hip_root /opt/rocm)
else()
  set(hip_root /usr)
endif()
set(HIP_ROOT ${hip_root} CACHE PATH "Where HIP is installed: include/hip, lib/libamdhip64.so, llvm/bin")
set(ISO_HIP_ARCH "" CACHE STRING
    "AMD architectures to build kernels for, a list; empty: gfx90a, gfx942 and, where the compiler knows it, gfx950")
set(ISO_HIP_COMPILER "" CACHE FILEPATH "clang that builds kernels for ISO_HIP_ARCH; empty: the first that can")

# ---- headers and libraries of the host ----

find_path(ISO_HIP_INCLUDE hip/hip_runtime_api.h HINTS ${HIP_ROOT}/include DOC "Folder of hip/hip_runtime_api.h")
find_library(ISO_AMDHIP64 amdhip64 HINTS ${HIP_ROOT}/lib ${HIP_ROOT}/lib64 DOC "libamdhip64.so")
find_library(ISO_HSA_RUNTIME64 hsa-runtime64 HINTS ${HIP_ROOT}/lib ${HIP_ROOT}/lib64 DOC "libhsa-runtime64.so")
if(NOT ISO_HIP_INCLUDE OR NOT ISO_AMDHIP64 OR NOT ISO_HSA_RUNTIME64)
  message(FATAL_ERROR "GPU=hip needs HIP's headers, libamdhip64 and libhsa-runtime64 (Debian: libamdhip64-dev "
                      "libhsa-runtime-dev): not found in HIP_ROOT=${HIP_ROOT}")
endif()
file(STRINGS ${ISO_HIP_INCLUDE}/hip/hip_version.h hip_version REGEX "define HIP_VERSION_M(AJOR|INOR)")
string(REGEX MATCHALL "[0-9]+" hip_version "${hip_version}")
list(JOIN hip_version "." ISO_HIP_VERSION)
set(code_object 5)
if(ISO_HIP_VERSION VERSION_LESS 5.4)
  set(code_object 4) # the newest that these runtimes load
endif()
set(ISO_HIP_CODE_OBJECT ${code_object} CACHE STRING "Code object version of kernels, one that the HIP runtime loads")

# ---- the compiler ----

set(ISO_HIP_FLAGS -x hip -std=c++17 -nogpulib -nogpuinc -mcode-object-version=${ISO_HIP_CODE_OBJECT})
set(hip_arch ${ISO_HIP_ARCH})
if(NOT ISO_HIP_ARCH)
  set(hip_arch gfx90a gfx942)
endif()
# Fences, waits and scopes are spelled out for these (device/api/prim_hip.h).
set(hip_unfit ${hip_arch})
list(FILTER hip_unfit EXCLUDE REGEX "^gfx(90a|94[0-2]|950)(:(sramecc|xnack)[+-])*$")
if(hip_unfit)
  message(FATAL_ERROR "ISO_HIP_ARCH is ${ISO_HIP_ARCH}, but there are no kernels for ${hip_unfit}; allowed are gfx90a "
                      "(MI200), gfx942 (MI300) and gfx950 (MI350)")
endif()

# Whether a compiler makes objects for all of these architectures: its linker and bundler must be there too.
function(hip_compiler_works compiler variable)
  set(folder ${PROJECT_BINARY_DIR}/CMakeFiles/hip)
  list(TRANSFORM ARGN PREPEND --offload-arch= OUTPUT_VARIABLE hip_arch_flags)
  file(WRITE ${folder}/probe.c "__attribute__((device)) int probe(void) { return 1; }\n")
  execute_process(COMMAND ${compiler} ${ISO_HIP_FLAGS} ${hip_arch_flags} -c probe.c -o probe.o
                  WORKING_DIRECTORY ${folder} RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE errors)
  string(REGEX REPLACE "\n.*" "" errors "${errors}")
  set(${variable} "" PARENT_SCOPE)
  if(NOT result EQUAL 0)
    set(${variable} "${compiler}: ${errors}" PARENT_SCOPE)
  endif()
endfunction()

set(hip_candidates ${ISO_HIP_COMPILER})
if(NOT ISO_HIP_COMPILER)
  foreach(folder ${HIP_ROOT}/llvm/bin ${HIP_ROOT}/lib/llvm/bin)
    if(EXISTS ${folder}/clang)
      list(APPEND hip_candidates ${folder}/clang)
    endif()
  endforeach()
  foreach(version 22 21 20 19)
    find_program(hip_clang_${version} clang-${version})
    mark_as_advanced(hip_clang_${version})
    if(hip_clang_${version})
      # By its own folder, or it takes another version's linker; not by ccache, which is in no compiler's folder.
      file(REAL_PATH ${hip_clang_${version}} hip_clang)
      if(hip_clang MATCHES "/ccache$" AND EXISTS /usr/lib/llvm-${version}/bin/clang)
        set(hip_clang /usr/lib/llvm-${version}/bin/clang)
      endif()
      list(APPEND hip_candidates ${hip_clang})
    endif()
  endforeach()
endif()
set(hip_troubles)
set(hip_compiler)
foreach(candidate ${hip_candidates})
  hip_compiler_works(${candidate} trouble ${hip_arch})
  if(trouble STREQUAL "")
    set(hip_compiler ${candidate})
    break()
  endif()
  list(APPEND hip_troubles "\n  ${trouble}")
endforeach()
if(NOT hip_compiler)
  set(hip_oldest 19)
  if("${hip_arch}" MATCHES "gfx950")
    set(hip_oldest 20)
  endif()
  message(FATAL_ERROR "GPU=hip needs a clang for ${hip_arch}: clang-${hip_oldest} or later (Debian: clang-${hip_oldest} "
                      "lld-${hip_oldest} clang-tools-${hip_oldest} llvm-${hip_oldest}; else set ISO_HIP_COMPILER, or "
                      "ISO_HIP_ARCH): none works" ${hip_troubles})
endif()
if(NOT ISO_HIP_ARCH)
  hip_compiler_works(${hip_compiler} trouble gfx950)
  if(trouble STREQUAL "")
    list(APPEND hip_arch gfx950)
  endif()
endif()
set(ISO_HIP_ARCH ${hip_arch}) # the cache keeps what the user has asked for
list(TRANSFORM hip_arch PREPEND --offload-arch= OUTPUT_VARIABLE hip_arch_flags)
# clang's wrappers of C++ headers (complex, which shmem.h includes) need HIP's headers: without the wrappers, then.
execute_process(COMMAND ${hip_compiler} -print-resource-dir OUTPUT_VARIABLE resources OUTPUT_STRIP_TRAILING_WHITESPACE)
list(APPEND ISO_HIP_FLAGS -nobuiltininc -idirafter ${resources}/include)
message(STATUS "HIP ${ISO_HIP_VERSION}: ${hip_compiler}, kernels for ${ISO_HIP_ARCH}, code object ${ISO_HIP_CODE_OBJECT}")

# ---- what the build uses ----

set(ISO_DEVICE_SOURCES device/hip/gpu_hip.c device/hip/gpu_hip_memory.c device/hip/gpu_hip_engine.c)
set(ISO_DEVICE_LIBS ${ISO_AMDHIP64} ${ISO_HSA_RUNTIME64})
list(JOIN ISO_HIP_ARCH ", " hip_arch_text)
set_source_files_properties(${PROJECT_SOURCE_DIR}/device/hip/gpu_hip.c PROPERTIES COMPILE_DEFINITIONS
                            ISO_HIP_ARCH="${hip_arch_text}")
if(NOT ISO_HIP_INCLUDE STREQUAL "/usr/include")
  foreach(source ${ISO_DEVICE_SOURCES})
    set_source_files_properties(${PROJECT_SOURCE_DIR}/${source} PROPERTIES COMPILE_OPTIONS
                                "-isystem;${ISO_HIP_INCLUDE}")
  endforeach()
endif()

# The host part of a kernel file is C++ without exceptions, run-time types and guarded statics: it needs no C++ runtime.
# Never instrumented: the sanitizers' runtimes of two compilers do not mix, and kernels would need their device library.
set(ISO_KERNEL_COMMAND ${hip_compiler} ${ISO_HIP_FLAGS} ${hip_arch_flags} -O3 -g1 -fPIC -Wno-unused-command-line-argument -Wno-pass-failed
    -fno-exceptions -fno-rtti -fno-threadsafe-statics -D_GNU_SOURCE)
set(ISO_KERNEL_OPTIONS -Wall -Wextra -Wno-missing-field-initializers -fvisibility=hidden)
if(ISO_WERROR)
  list(APPEND ISO_KERNEL_OPTIONS -Werror)
endif()
set(ISO_KERNEL_KEEP -save-temps=obj -g0) # with its lines, the assembly is ten times as long

# See hip_spills.sh. The library's own kernels spill nothing to memory (tests/unit/isa.sh).
set(ISO_KERNEL_CHECK)
set(ISO_KERNEL_HEAVY)
execute_process(COMMAND ${hip_compiler} -dumpversion OUTPUT_VARIABLE hip_clang_version OUTPUT_STRIP_TRAILING_WHITESPACE)
get_filename_component(hip_folder ${hip_compiler} DIRECTORY)
if(hip_clang_version VERSION_LESS 20)
  set(ISO_KERNEL_HEAVY -mllvm -amdgpu-spill-sgpr-to-vgpr=0)
endif()
if(EXISTS ${hip_folder}/llvm-objdump AND EXISTS ${hip_folder}/llvm-objcopy)
  set(ISO_KERNEL_CHECK ${PROJECT_SOURCE_DIR}/device/hip/hip_spills.sh ${hip_folder})
else()
  message(WARNING "no llvm-objdump and llvm-objcopy beside ${hip_compiler} (Debian: llvm-19): large kernels that it "
                  "compiles wrong (device/hip/hip_spills.sh) are not found")
endif()

set(ISO_DEVICE_FILES) # bitcode.cmake makes them
