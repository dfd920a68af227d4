# SPDX-License-Identifier: MIT
# Packages by cpack: libisomer0 has what programs need, libisomer-dev what builds them, isomer-tools what starts and
# examines jobs. Included last: it reads what was installed where. packaging/build makes a tree with a package's prefix.
set(CPACK_PACKAGE_NAME isomer)
set(CPACK_PACKAGE_VENDOR "The Isomer authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Symmetric-memory runtime with the OpenSHMEM 1.6 API")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL library dev tools)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/packaging/compress.cmake)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # SOURCE_DATE_EPOCH counts

# Who makes a package, as Debian's tools are told.
set(maker $ENV{DEBFULLNAME})
set(address $ENV{DEBEMAIL})
if(NOT maker)
  set(maker ${CPACK_PACKAGE_VENDOR})
endif()
if(NOT address)
  cmake_host_system_information(RESULT address QUERY HOSTNAME)
  set(address isomer@${address})
endif()

# Both formats.
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_RPM_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${maker} <${address}>")
set(CPACK_RPM_PACKAGE_LICENSE MIT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}) # where the tools find the library
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/bin /usr/include /usr/lib /usr/lib64 /usr/share /usr/share/doc
    /usr/share/man /usr/share/man/man1 /usr/share/man/man3 /usr/share/man/man7)

function(iso_package component package section summary text)
  string(TOUPPER ${component} name)
  set(CPACK_COMPONENT_${name}_DESCRIPTION "${summary}\n${text}" PARENT_SCOPE)
  set(CPACK_DEBIAN_${name}_PACKAGE_NAME ${package} PARENT_SCOPE)
  set(CPACK_DEBIAN_${name}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_RPM_${name}_PACKAGE_NAME ${package} PARENT_SCOPE)
  set(CPACK_RPM_${name}_PACKAGE_SUMMARY "${summary}" PARENT_SCOPE)
  set(CPACK_RPM_${name}_PACKAGE_DESCRIPTION "${text}" PARENT_SCOPE)
  # What Debian asks of every package.
  set(folder ${PROJECT_BINARY_DIR}/packaging/${package})
  file(READ ${PROJECT_SOURCE_DIR}/LICENSE license)
  file(CONFIGURE OUTPUT ${folder}/copyright CONTENT "${license}" @ONLY)
  file(WRITE ${folder}/changelog.Debian
       "isomer (${PROJECT_VERSION}-1) unstable; urgency=medium\n\n  * Upstream version ${PROJECT_VERSION}.\n\n"
       " -- ${maker} <${address}>  ${date}\n")
  install(FILES ${folder}/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} COMPONENT ${component}
          EXCLUDE_FROM_ALL)
  find_program(ISO_GZIP gzip)
  if(ISO_GZIP)
    execute_process(COMMAND ${ISO_GZIP} -9nf ${folder}/changelog.Debian)
    install(FILES ${folder}/changelog.Debian.gz DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package}
            COMPONENT ${component} EXCLUDE_FROM_ALL)
  endif()
endfunction()
iso_package(library libisomer${PROJECT_VERSION_MAJOR} libs "symmetric memory with the OpenSHMEM 1.6 API, library"
            "Processing elements (PEs) on one host or several allocate the same objects\nand put, get, signal and reduce into those of each other, from the host and\nfrom GPU kernels.")
iso_package(dev libisomer-dev libdevel "symmetric memory with the OpenSHMEM 1.6 API, for programmers"
            "Headers, the static library, the compiler wrappers oshcc and oshc++, and\nfiles for pkg-config and CMake.")
iso_package(tools isomer-tools net "symmetric memory with the OpenSHMEM 1.6 API, tools"
            "oshrun starts a job of PEs on one host or several; isomer-info examines a\nmachine.")
set(library libisomer${PROJECT_VERSION_MAJOR})
# cpack's own shlibs come with scripts that call ldconfig, where Debian has a trigger.
set(control ${PROJECT_BINARY_DIR}/packaging/control)
file(WRITE ${control}/shlibs "libisomer ${PROJECT_VERSION_MAJOR} ${library} (>= ${PROJECT_VERSION}-1)\n")
file(WRITE ${control}/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${control}/shlibs ${control}/triggers)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_RECOMMENDS "libpmix2")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SUGGESTS "libibverbs1, libfabric1")
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${library} (= ${PROJECT_VERSION}-1)")
set(CPACK_DEBIAN_DEV_PACKAGE_RECOMMENDS "isomer-tools")
set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS "${library} (= ${PROJECT_VERSION}-1)")
set(CPACK_RPM_DEV_PACKAGE_REQUIRES "${library} = ${PROJECT_VERSION}")
set(CPACK_RPM_TOOLS_PACKAGE_REQUIRES "${library} = ${PROJECT_VERSION}")
include(CPack)
