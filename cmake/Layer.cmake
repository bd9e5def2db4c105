# A layer is a static library made of every .c file in its folder.

# Text files of a layer (schema.sql, ...) become C strings: src/store/schema.sql is
# `const char store_schema_sql[]`, declared by whoever uses it.
function(milligpu_embed out layer)
    file(GLOB texts CONFIGURE_DEPENDS *.sql *.json *.txt)
    list(FILTER texts EXCLUDE REGEX "CMakeLists.txt$")
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
    cmake_parse_arguments(ARG "" "" "LINKS;PRIVATE" ${ARGN})
    file(GLOB sources CONFIGURE_DEPENDS *.c)
    if(NOT sources) # a layer nobody has written to yet
        add_library(milligpu_${name} INTERFACE)
        target_link_libraries(milligpu_${name} INTERFACE ${ARG_LINKS} milligpu_options)
        return()
    endif()
    milligpu_embed(embedded ${name})
    add_library(milligpu_${name} STATIC ${sources} ${embedded})
    target_include_directories(milligpu_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(milligpu_${name}
        PUBLIC ${ARG_LINKS} milligpu_options PRIVATE ${ARG_PRIVATE})
endfunction()

function(milligpu_benches folder)
    file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.c)
    foreach(source IN LISTS sources)
        get_filename_component(name ${source} NAME_WE)
        add_executable(bench.${name} EXCLUDE_FROM_ALL ${source})
        target_link_libraries(bench.${name} PRIVATE milligpu_app)
        set_target_properties(bench.${name} PROPERTIES
            RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
    endforeach()
endfunction()
