# cmake -DSOURCE=dir -DVERSION=x -DCOMMIT=c -DOUT=file.h -P WriteVersion.cmake
cmake_minimum_required(VERSION 3.25)

# The ceiling: an unpacked archive inside another repository must not report that one's commit.
set(commit unknown)
get_filename_component(parent "${SOURCE}" DIRECTORY)
set(ENV{GIT_CEILING_DIRECTORIES} "${parent}")
execute_process(COMMAND git -C "${SOURCE}" rev-parse --short=12 HEAD
    OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(COMMIT MATCHES "^[0-9a-f]+$")
    string(SUBSTRING "${COMMIT}" 0 12 commit) # passed in for a tree without history
elseif(NOT failed AND answer MATCHES "^[0-9a-f]+$")
    set(commit ${answer})
endif()

file(CONFIGURE OUTPUT "${OUT}" @ONLY CONTENT "/* Generated: what was built. */
#ifndef MILLIGPU_VERSION_H
#define MILLIGPU_VERSION_H

#define MILLIGPU_VERSION \"@VERSION@\"
#define MILLIGPU_COMMIT \"@commit@\"

#endif
")
