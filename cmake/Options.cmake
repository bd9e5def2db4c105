# How everything is compiled: one INTERFACE target carries language, warnings, sanitizers.

set(MILLIGPU_SANITIZE "" CACHE STRING "The -fsanitize= list: address,undefined or thread")
set(MILLIGPU_TEST_WRAPPER "" CACHE STRING "Command, as a list, that every test program runs under")
option(MILLIGPU_TESTS "Build the tests" ON)
option(MILLIGPU_FUZZ "Link the fuzz targets with libFuzzer (clang)" OFF)
option(MILLIGPU_COVERAGE "Instrument for gcov" OFF)
option(MILLIGPU_HARDEN "Release hardening: LTO, PIE, relro, stack protector, fortify" OFF)
option(MILLIGPU_ANALYZE "Run gcc -fanalyzer" OFF)

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Debug CACHE STRING "Build type" FORCE)
endif()

if(NOT CMAKE_C_COMPILER_LAUNCHER)
    find_program(MILLIGPU_CCACHE ccache)
    if(MILLIGPU_CCACHE)
        # Without the folder in the hash, several build folders of one tree share objects.
        set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_NOHASHDIR=1 ${MILLIGPU_CCACHE})
    endif()
endif()

find_package(Threads REQUIRED)

add_library(milligpu_options INTERFACE)
target_include_directories(milligpu_options INTERFACE ${PROJECT_SOURCE_DIR}/include)
target_compile_definitions(milligpu_options INTERFACE _GNU_SOURCE)
target_compile_options(milligpu_options INTERFACE
    -Wall -Wextra -Werror -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
    -Wwrite-strings -Wvla -Wformat=2 -Wundef -Wcast-qual -Wnull-dereference -Wimplicit-fallthrough
    -fno-common -fno-omit-frame-pointer
    # A failed must() names src/core/ledger/ledger.c, not a path of the build machine.
    -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
target_link_libraries(milligpu_options INTERFACE Threads::Threads)

if(NOT MILLIGPU_HARDEN)
    target_compile_definitions(milligpu_options INTERFACE MILLIGPU_MUST_DEBUG)
    # The tests are hundreds of programs. The default linker takes three times as long as gold, five times as long as mold.
    include(CheckLinkerFlag)
    foreach(linker IN ITEMS mold gold)
        check_linker_flag(C -fuse-ld=${linker} MILLIGPU_HAS_${linker})
        if(MILLIGPU_HAS_${linker})
            add_link_options(-fuse-ld=${linker})
            break()
        endif()
    endforeach()
endif()

if(MILLIGPU_SANITIZE)
    target_compile_options(milligpu_options INTERFACE
        -fsanitize=${MILLIGPU_SANITIZE} -fno-sanitize-recover=all)
    target_link_options(milligpu_options INTERFACE -fsanitize=${MILLIGPU_SANITIZE})
    if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
        # The checks gcc inserts confuse its own flow analysis; the dev build keeps both.
        target_compile_options(milligpu_options INTERFACE
            -Wno-null-dereference -Wno-maybe-uninitialized)
    endif()
endif()

if(MILLIGPU_FUZZ)
    target_compile_options(milligpu_options INTERFACE -fsanitize=fuzzer-no-link)
    target_link_options(milligpu_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

if(MILLIGPU_COVERAGE)
    target_compile_options(milligpu_options INTERFACE --coverage -fprofile-update=atomic)
    target_link_options(milligpu_options INTERFACE --coverage)
endif()

if(MILLIGPU_ANALYZE)
    target_compile_options(milligpu_options INTERFACE -fanalyzer -Wno-analyzer-too-complex)
endif()

if(MILLIGPU_HARDEN)
    include(CheckCCompilerFlag)
    include(CheckIPOSupported)
    check_ipo_supported(RESULT MILLIGPU_IPO LANGUAGES C)
    set(CMAKE_INTERPROCEDURAL_OPTIMIZATION ${MILLIGPU_IPO})
    target_compile_options(milligpu_options INTERFACE
        -fstack-protector-strong -U_FORTIFY_SOURCE)
    # For every target, generated code too, and for linking, when LTO compiles: the same sources give the same program in
    # each folder, build id included.
    add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
    add_link_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
    # Not every compiler and processor has these. Automatic variables are zeroed so that one without
    # an initializer does not leak the stack; where zeroing costs time, the variable is UNSET (base.h).
    foreach(option IN ITEMS -D_FORTIFY_SOURCE=3 -fstack-clash-protection -fcf-protection=full
                            -ftrivial-auto-var-init=zero)
        string(MAKE_C_IDENTIFIER "MILLIGPU_HAS${option}" has)
        check_c_compiler_flag("-O2 -U_FORTIFY_SOURCE ${option}" ${has})
        if(${has})
            target_compile_options(milligpu_options INTERFACE ${option})
            target_link_options(milligpu_options INTERFACE ${option}) # LTO compiles when linking
        endif()
    endforeach()
    target_link_options(milligpu_options INTERFACE -Wl,-z,relro,-z,now -Wl,--as-needed)
    include(CheckPIESupported)
    check_pie_supported()
endif()
