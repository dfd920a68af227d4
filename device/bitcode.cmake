# SPDX-License-Identifier: MIT
# lib/isomer_device-ARCH.bc: the in-kernel API as bitcode, for compilers that link it (Triton), in every flavour. It
# needs a clang 19 or later, and no header or library of CUDA and HIP. Without such a clang there is no file. And
# lib/isomer_nvshmem-nvptx64.bc: the same by NVSHMEM's names.
#   ISO_BITCODE_FILES   what is installed in lib/isomer/
option(ISO_BITCODE "Bitcode of the in-kernel API for NVIDIA and AMD, where a clang 19 or later is found" ON)
set(ISO_BITCODE_ARCH gfx90a gfx942 gfx950 CACHE STRING "AMD architectures that get bitcode, in a build for another device")
set(bitcode_hip_arch ${ISO_BITCODE_ARCH})
if(GPU STREQUAL "hip")
  set(bitcode_hip_arch ${ISO_HIP_ARCH})
endif()
set(ISO_BITCODE_FILES)
if(NOT ISO_BITCODE OR NOT ISO_SANITIZE STREQUAL "none")
  add_custom_target(isomer_bitcode)
  return()
endif()

set(bitcode_clangs)
if(GPU STREQUAL "hip")
  list(APPEND bitcode_clangs ${hip_compiler})
endif()
foreach(version 22 21 20 19)
  find_program(bitcode_clang_${version} clang-${version})
  mark_as_advanced(bitcode_clang_${version})
  list(APPEND bitcode_clangs ${bitcode_clang_${version}})
endforeach()
find_program(bitcode_clang_rocm clang PATHS /opt/rocm/llvm/bin NO_DEFAULT_PATH)
mark_as_advanced(bitcode_clang_rocm)
list(APPEND bitcode_clangs ${bitcode_clang_rocm})
list(FILTER bitcode_clangs EXCLUDE REGEX NOTFOUND)

# -fgpu-rdc, or all functions would be internal to the file. In each module for NVIDIA, clang says how denormal numbers
# are treated. No function here computes with them, and a module that says otherwise (Triton's) could not be linked. So
# the flag gets another name in the module's text. The list of used functions is removed, or each kernel would get all.
# A structure that is passed by value is passed by the address of the caller's copy: code generators with short pointers
# to local memory (Triton 3.6's) fail at the former. No function here writes to such an argument; else the build fails.
# Nor may such a call be marked `tail`: that says that the called function touches no memory of the caller's.
# Loops that are to be unrolled are, where the compiler can; whoever links the file would be warned of the others.
function(iso_bitcode name source triple clang)
  set(externs ${PROJECT_SOURCE_DIR}/device/${source})
  set(file ${PROJECT_BINARY_DIR}/lib/isomer_${name}.bc)
  set(work ${PROJECT_BINARY_DIR}/CMakeFiles/isomer_${name})
  add_custom_command(OUTPUT ${file} DEPENDS ${externs} DEPFILE ${work}.d VERBATIM
                     COMMENT "Building isomer_${name}.bc"
                     COMMAND ${clang} ${ARGN} -std=c++17 -O3 --cuda-device-only -fgpu-rdc -fuse-cuid=none -emit-llvm
                             -fomit-frame-pointer -I${PROJECT_SOURCE_DIR}/include -MMD -MF ${work}.d -MT ${file}
                             -S ${externs} -o ${work}.ll
                     COMMAND sh -c "! grep ^define ${work}.ll | grep -o '[^,(]*byval([^)]*)[^,)]*' | grep -v readonly"
                     COMMAND sed -i -E -e s/nvvm-reflect-ftz/isomer-denormals/ -e "/^@llvm.compiler.used = /d"
                             -e "s/^(source_filename = ).*/\\1\"${source}\"/" # the same bytes from any folder
                             -e "/disable/!s/llvm.loop.unroll/isomer.loop.unroll/"
                             -e "/byval/s/tail call /call /" -e "s/byval\\(%struct\\.[A-Za-z0-9_.]+\\) //g" ${work}.ll
                     COMMAND ${clang} -x ir --target=${triple} -nogpulib -Xclang -disable-llvm-passes -emit-llvm
                             -Wno-override-module -c ${work}.ll -o ${file})
  set(ISO_BITCODE_FILES ${ISO_BITCODE_FILES} ${file} PARENT_SCOPE)
endfunction()

foreach(target nvptx64 amdgcn)
  set(bitcode_${target})
  foreach(candidate ${bitcode_clangs})
    execute_process(COMMAND ${candidate} -print-targets OUTPUT_VARIABLE targets ERROR_QUIET)
    if(targets MATCHES " ${target} ")
      set(bitcode_${target} ${candidate})
      break()
    endif()
  endforeach()
endforeach()
# One file serves all NVIDIA GPUs of 8.0 and later. Calls of many types are those of bytes: merged, and not inlined, a
# third of the bytes are left.
if(bitcode_nvptx64)
  set(options -x cuda -nocudalib -nocudainc --cuda-gpu-arch=sm_80 -Wno-pass-failed -Wno-unknown-cuda-version)
  iso_bitcode(device-nvptx64 externs.c nvptx64-nvidia-cuda ${bitcode_nvptx64} ${options})
  iso_bitcode(nvshmem-nvptx64 nvshmem_externs.cpp nvptx64-nvidia-cuda ${bitcode_nvptx64} ${options}
              -mllvm -inline-threshold=0 -Xclang -fmerge-functions)
endif()
# Code object version 5 is what Triton makes.
if(bitcode_amdgcn)
  execute_process(COMMAND ${bitcode_amdgcn} --target=amdgcn-amd-amdhsa -mcpu=gfx950 -x c -E - INPUT_FILE /dev/null
                  RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET)
  if(NOT result EQUAL 0) # before clang 20
    list(REMOVE_ITEM bitcode_hip_arch gfx950)
  endif()
  foreach(arch ${bitcode_hip_arch})
    iso_bitcode(device-${arch} externs.c amdgcn-amd-amdhsa ${bitcode_amdgcn} -x hip -nogpulib -nogpuinc -mcode-object-version=5
                --offload-arch=${arch} -Wno-pass-failed)
  endforeach()
endif()
add_custom_target(isomer_bitcode ALL DEPENDS ${ISO_BITCODE_FILES})
if(NOT ISO_BITCODE_FILES)
  message(STATUS "no bitcode for Triton: there is no clang 19 or later with the targets nvptx64 or amdgcn")
endif()
