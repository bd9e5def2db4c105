# A layer is a static library made of every .c file in its folder and in the rooms below it.

# Text files of a layer (schema.sql, ...) become C strings: src/store/schema/schema.sql is
# `const char store_schema_sql[]`, declared where it is used. More files are named by EMBED.
function(milligpu_embed out layer)
    file(GLOB texts CONFIGURE_DEPENDS *.sql *.json *.txt */*.sql)
    list(FILTER texts EXCLUDE REGEX "CMakeLists.txt$")
    list(APPEND texts ${ARGN})
    set(made)
    foreach(text IN LISTS texts)
        get_filename_component(file ${text} NAME)
        string(MAKE_C_IDENTIFIER "${layer}_${file}" symbol)
        set(source ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.c)
        add_custom_command(OUTPUT ${source}
            COMMAND ${CMAKE_COMMAND} -DIN=${text} -DOUT=${source} -DSYMBOL=${symbol}
                    -P ${PROJECT_SOURCE_DIR}/cmake/EmbedText.cmake
            DEPENDS ${text} ${PROJECT_SOURCE_DIR}/cmake/EmbedText.cmake
            VERBATIM)
        list(APPEND made ${source})
    endforeach()
    set(${out} ${made} PARENT_SCOPE)
endfunction()

function(milligpu_layer name)
    cmake_parse_arguments(ARG "" "" "LINKS;PRIVATE;EMBED" ${ARGN})
    file(GLOB sources CONFIGURE_DEPENDS *.c */*.c)
    if(NOT sources) # a layer without sources yet
        add_library(milligpu_${name} INTERFACE)
        target_link_libraries(milligpu_${name} INTERFACE ${ARG_LINKS} milligpu_options)
        return()
    endif()
    milligpu_embed(embedded ${name} ${ARG_EMBED})
    add_library(milligpu_${name} STATIC ${sources} ${embedded})
    target_include_directories(milligpu_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(milligpu_${name}
        PUBLIC ${ARG_LINKS} milligpu_options PRIVATE ${ARG_PRIVATE})
endfunction()

# bench_<x>.c becomes the program build/<preset>/bench/<x>; the programs share the other files and the
# fake API server of the tests. `cmake --build . --target benches` builds them all.
function(milligpu_benches folder)
    file(GLOB programs CONFIGURE_DEPENDS ${folder}/bench_*.c)
    file(GLOB shared CONFIGURE_DEPENDS ${folder}/*.c)
    list(REMOVE_ITEM shared ${programs})
    add_custom_target(benches)
    if(NOT programs)
        return()
    endif()
    add_library(milligpu_bench STATIC EXCLUDE_FROM_ALL ${shared}
        ${PROJECT_SOURCE_DIR}/tests/support/certificate.c
        ${PROJECT_SOURCE_DIR}/tests/support/fake_api.c
        ${PROJECT_SOURCE_DIR}/tests/support/fake_http.c
        ${PROJECT_SOURCE_DIR}/tests/support/nghttpd.c
        ${PROJECT_SOURCE_DIR}/tests/support/patience.c)
    target_include_directories(milligpu_bench
        PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
    target_link_libraries(milligpu_bench PUBLIC milligpu_daemon
        PkgConfig::MICROHTTPD PkgConfig::GNUTLS PkgConfig::JANSSON PkgConfig::SQLITE3)
    foreach(source IN LISTS programs)
        get_filename_component(name ${source} NAME_WE)
        string(REPLACE "bench_" "bench." target ${name})
        string(REPLACE "bench_" "" name ${name})
        add_executable(${target} EXCLUDE_FROM_ALL ${source})
        target_link_libraries(${target} PRIVATE milligpu_bench)
        set_target_properties(${target} PROPERTIES
            OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
        add_dependencies(benches ${target})
    endforeach()
endfunction()
