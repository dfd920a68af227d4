# How files with kernels become objects, here and in projects that use the installed library.
#   isomer_compile_kernels(VARIABLE "compiler;option;..." file.c ...)
# gives in VARIABLE what a library or program adds to its sources; where the list is empty (the CPU as device) the C
# compiler of the project does it, and these are the files themselves. ISOMER_KERNEL_CHECK, where it is set, is a command
# that looks at each object: a wrong one fails the build.
function(isomer_compile_kernels variable command)
  set(results)
  foreach(source ${ARGN})
    get_filename_component(source ${source} ABSOLUTE)
    if("${command}" STREQUAL "")
      list(APPEND results ${source})
      continue()
    endif()
    file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR} ${source})
    string(MAKE_C_IDENTIFIER ${name} name)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/kernels/${name}.o)
    list(APPEND results ${object})
    get_property(known GLOBAL PROPERTY isomer_kernel_${object})
    if(known) # two targets of a folder may share a file
      continue()
    endif()
    set_property(GLOBAL PROPERTY isomer_kernel_${object} 1)
    set(check)
    if(ISOMER_KERNEL_CHECK)
      set(check COMMAND ${ISOMER_KERNEL_CHECK} ${object})
    endif()
    file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/kernels)
    add_custom_command(OUTPUT ${object} DEPENDS ${source} DEPFILE ${object}.d VERBATIM
                       COMMENT "Building kernels ${name}.o"
                       COMMAND ${CMAKE_C_COMPILER_LAUNCHER} ${command} -MMD -MF ${object}.d -MT ${object} -c ${source}
                               -o ${object}
                       ${check})
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  endforeach()
  set(${variable} ${results} PARENT_SCOPE)
endfunction()
