# The Debian packages: `cpack -G DEB` in a built tree, or scripts/build-debs.sh, which also fixes the time of the files.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME milligpu)
set(CPACK_PACKAGE_VENDOR milligpu)
set(CPACK_PACKAGE_CONTACT "The milligpu authors")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_STRIP_FILES ON)
# Files of /etc are outside of the prefix.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_COMPONENTS_ALL milligpud milligpuctl milligpu-node)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

function(milligpu_control component out)
    set(files)
    foreach(name IN ITEMS conffiles postinst prerm postrm)
        list(APPEND files ${PROJECT_SOURCE_DIR}/packaging/deb/${component}/${name})
    endforeach()
    set(${out} ${files} PARENT_SCOPE)
endfunction()

set(CPACK_DEBIAN_MILLIGPUD_PACKAGE_NAME milligpud)
set(CPACK_DEBIAN_MILLIGPUD_PACKAGE_DEPENDS "adduser, tzdata")
set(CPACK_DEBIAN_MILLIGPUD_PACKAGE_RECOMMENDS milligpuctl)
set(CPACK_DEBIAN_MILLIGPUD_DESCRIPTION "kube-scheduler extender that places pods on fractions of GPUs
milligpud answers kube-scheduler from a ledger of thousandths of GPUs, which
it keeps in SQLite and reconciles with the API server. The unit is neither
enabled nor started by the package. With --standalone, milligpud runs on a
cluster read from a file; /usr/share/milligpu/demo has one.")
milligpu_control(milligpud CPACK_DEBIAN_MILLIGPUD_PACKAGE_CONTROL_EXTRA)

set(CPACK_DEBIAN_MILLIGPUCTL_PACKAGE_NAME milligpuctl)
set(CPACK_DEBIAN_MILLIGPUCTL_DESCRIPTION "shows and steers milligpud, also as a plugin of kubectl
milligpuctl shows which pod holds which part of which GPU and why a pod
waits, makes backups of the ledger, verifies and restores them, and simulates
policies. kubectl runs it as its plugin milligpu.")

set(CPACK_DEBIAN_MILLIGPU-NODE_PACKAGE_NAME milligpu-node)
set(CPACK_DEBIAN_MILLIGPU-NODE_DESCRIPTION "gives containers the GPUs of their shares, as an agent of a node
milligpu-node is a plugin of the container runtime (NRI). It gives the
containers of a pod the GPUs of the allocation that milligpud signed, and no
others. Most clusters run it as a DaemonSet instead. The unit is neither
enabled nor started by the package.")
milligpu_control(milligpu-node CPACK_DEBIAN_MILLIGPU-NODE_PACKAGE_CONTROL_EXTRA)

include(CPack)
