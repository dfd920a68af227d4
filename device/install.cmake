# What is installed for programs with kernels. The in-kernel API is header-only: its bodies go to include/isomer/, and
# what they include is spelled accordingly there.
set(iso_installed ${PROJECT_BINARY_DIR}/installed)

function(iso_install_header source folder)
  file(READ ${source} text)
  if(folder STREQUAL "")
    string(REGEX REPLACE "(#include \")\\.\\./(device|coll)/" "\\1isomer/\\2/" text "${text}")
  else()
    string(REPLACE "#include \"../../include/" "#include \"../../../" text "${text}")
  endif()
  get_filename_component(name ${source} NAME)
  file(CONFIGURE OUTPUT ${iso_installed}/${folder}/${name} CONTENT "${text}" @ONLY)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  install(FILES ${iso_installed}/${folder}/${name} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder})
endfunction()

file(GLOB iso_headers CONFIGURE_DEPENDS include/*.h include/*.hpp)
foreach(header ${iso_headers})
  iso_install_header(${header} "")
endforeach()
file(GLOB iso_headers CONFIGURE_DEPENDS device/api/*.h device/api/*.hpp)
foreach(header ${iso_headers})
  iso_install_header(${header} isomer/device/api)
endforeach()
file(GLOB iso_headers CONFIGURE_DEPENDS coll/kernel/*.h)
foreach(header ${iso_headers})
  iso_install_header(${header} isomer/coll/kernel)
endforeach()
install(DIRECTORY include/compat DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# A folder that a build system takes for NVSHMEM's prefix: its includes are include/compat, its libraries lead to ours.
# Device code comes with the headers, so the library of device code has none.
set(iso_home ${iso_installed}/nvshmem)
file(MAKE_DIRECTORY ${iso_home}/lib)
file(RELATIVE_PATH path /${CMAKE_INSTALL_LIBDIR}/isomer/nvshmem /${CMAKE_INSTALL_INCLUDEDIR}/compat)
file(CREATE_LINK ${path} ${iso_home}/include SYMBOLIC)
foreach(name libnvshmem.so libnvshmem_host.so)
  file(CREATE_LINK ../../../libisomer.so ${iso_home}/lib/${name} SYMBOLIC)
endforeach()
file(CREATE_LINK ../../../libisomer.so.${PROJECT_VERSION_MAJOR} ${iso_home}/lib/libisomer.so.${PROJECT_VERSION_MAJOR} SYMBOLIC)
file(CONFIGURE OUTPUT ${iso_installed}/nvshmem_device.c CONTENT "const char isomer_nvshmem_device[] = \"none\";\n")
add_library(nvshmem_device STATIC ${iso_installed}/nvshmem_device.c)
install(TARGETS nvshmem_device ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/isomer/nvshmem/lib)
install(DIRECTORY ${iso_home} DESTINATION ${CMAKE_INSTALL_LIBDIR}/isomer)
install(DIRECTORY include/mpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY examples/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples FILES_MATCHING PATTERN *.[ch] PATTERN *.pgm
        PATTERN README.md PATTERN *.py)

# The device's libraries for a linker, and where a loader finds those outside of its own folders: -Xlinker is an option
# of gcc, clang and nvcc, -Wl is none of nvcc's.
set(ISO_DEVICE_LINK)
set(iso_device_folders)
foreach(library ${ISO_DEVICE_LIBS})
  list(APPEND ISO_DEVICE_LINK ${library})
  get_filename_component(folder ${library} DIRECTORY)
  file(REAL_PATH ${folder} real)
  if(NOT folder IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES AND NOT real IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES
     AND NOT folder IN_LIST iso_device_folders)
    list(APPEND iso_device_folders ${folder})
    list(APPEND ISO_DEVICE_LINK -Xlinker -rpath=${folder})
  endif()
endforeach()
list(JOIN ISO_DEVICE_LINK " " ISO_DEVICE_LINK)
set_target_properties(isomer_shared PROPERTIES INSTALL_RPATH "${iso_device_folders}")

install(TARGETS isomer_shared isomer_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT dev)
install(FILES ${ISO_DEVICE_FILES} DESTINATION ${CMAKE_INSTALL_LIBDIR}/isomer)
install(FILES ${ISO_BITCODE_FILES} DESTINATION ${CMAKE_INSTALL_LIBDIR}/isomer OPTIONAL) # where it was built
install(FILES device/kernels.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/isomer)
