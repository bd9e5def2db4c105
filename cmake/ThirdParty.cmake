# Every library that is not ours, found once. src/*/CMakeLists.txt says which layer may use
# which, and the layers test checks it.

find_package(PkgConfig REQUIRED)

function(milligpu_find name module)
    pkg_check_modules(${name} REQUIRED IMPORTED_TARGET GLOBAL ${module})
endfunction()

milligpu_find(SQLITE3 sqlite3>=3.37)
milligpu_find(CURL libcurl>=7.85)
milligpu_find(NGHTTP2 libnghttp2>=1.43)
milligpu_find(OPENSSL libssl>=3.0)
milligpu_find(JANSSON jansson>=2.13)
milligpu_find(YAML yaml-0.1)
milligpu_find(MICROHTTPD libmicrohttpd>=0.9.70)
milligpu_find(GNUTLS gnutls)
milligpu_find(PROTOBUF_C libprotobuf-c>=1.4)
find_program(MILLIGPU_PROTOC_C protoc-c REQUIRED)
milligpu_find(SMARTCOLS smartcols)
milligpu_find(SECCOMP libseccomp>=2.5)
if(MILLIGPU_TESTS)
    milligpu_find(CMOCKA cmocka)
endif()
