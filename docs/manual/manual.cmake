# The manual: made from the public headers, the variables and the tools' help whenever one of them changes.
find_program(ISO_MANUAL_PYTHON python3)
if(NOT ISO_MANUAL_PYTHON)
  message(STATUS "python3 was not found: there is no manual (man pages, HTML, completion in shells)")
elseif(PROJECT_IS_TOP_LEVEL AND NOT ISO_TEST_OWN)
  set(iso_manual ${PROJECT_BINARY_DIR}/manual)
  file(GLOB files CONFIGURE_DEPENDS include/*.h include/*.hpp docs/manual/*.py)
  add_custom_command(OUTPUT ${iso_manual}/made
                     COMMAND ${ISO_MANUAL_PYTHON} -B ${PROJECT_SOURCE_DIR}/docs/manual/manual.py ${PROJECT_SOURCE_DIR}
                             ${CMAKE_C_COMPILER} ${PROJECT_VERSION} ${iso_manual}
                     COMMAND ${CMAKE_COMMAND} -E touch ${iso_manual}/made
                     DEPENDS ${files} bootstrap/env.h bootstrap/tools/oshrun.c bootstrap/tools/isomer_info.c
                             bootstrap/tools/oshcc.in CHANGELOG.md
                     COMMENT "Making the manual" VERBATIM)
  add_custom_target(manual ALL DEPENDS ${iso_manual}/made)
  set(tools oshrun.1 isomer-info.1 isomer.7) # and the variables
  list(JOIN tools "|" pages)
  install(DIRECTORY ${iso_manual}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR} REGEX "/(${pages})$" EXCLUDE)
  foreach(page ${tools})
    string(REGEX REPLACE ".*[.]" "man" folder ${page})
    install(FILES ${iso_manual}/man/${folder}/${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/${folder} COMPONENT tools)
  endforeach()
  install(DIRECTORY ${iso_manual}/html DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(DIRECTORY ${iso_manual}/shell/ DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT tools)
endif()
