# SPDX-License-Identifier: MIT
# Run by cpack over the files of a package: manual pages are compressed, as both formats want them, and links follow.
execute_process(WORKING_DIRECTORY ${CPACK_TEMPORARY_DIRECTORY} RESULT_VARIABLE result COMMAND sh -euc "
find . -path '*/share/man/*' -type f ! -name '*.gz' -exec gzip -9n {} +
find . -path '*/share/man/*' -type l ! -name '*.gz' -printf '%p %l\\n' | while read -r link target; do
    ln -s \"$target.gz\" \"$link.gz\"
    rm \"$link\"
done")
if(NOT result EQUAL 0)
  message(FATAL_ERROR "the manual pages of the package cannot be compressed: ${result}")
endif()
