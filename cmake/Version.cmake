# milligpu_version.h: MILLIGPU_VERSION and MILLIGPU_COMMIT. Checked in every build, but
# rewritten only when the commit changed, so a commit recompiles only the files that include it.

set(MILLIGPU_COMMIT "" CACHE STRING "What is built, where the sources have no history; else git is asked")
set(MILLIGPU_GENERATED_DIR ${PROJECT_BINARY_DIR}/generated)
add_custom_target(milligpu_version
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DVERSION=${PROJECT_VERSION}
            -DCOMMIT=${MILLIGPU_COMMIT} -DOUT=${MILLIGPU_GENERATED_DIR}/milligpu_version.h
            -P ${PROJECT_SOURCE_DIR}/cmake/WriteVersion.cmake
    BYPRODUCTS ${MILLIGPU_GENERATED_DIR}/milligpu_version.h
    COMMENT "Looking at the commit"
    VERBATIM)
