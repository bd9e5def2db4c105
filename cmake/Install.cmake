# What `cmake --install` and the Debian packages contain: one component for each program.
#
# A unit names the folders of the prefix that it is installed to, which may be another one than at configure time, and
# a completion is what the program prints. So both are made when they are installed.
include(GNUInstallDirs)

set(packaging ${PROJECT_SOURCE_DIR}/packaging)

# Relative to the prefix; /etc for /usr.
set(etc "if(CMAKE_INSTALL_PREFIX STREQUAL \"/usr\")
    set(SYSCONFDIR /etc)
else()
    set(SYSCONFDIR \${CMAKE_INSTALL_PREFIX}/etc)
endif()
")

function(milligpu_install_unit component)
    install(CODE "${etc}
set(BINDIR \${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR})
set(unit ${PROJECT_BINARY_DIR}/packaging/${component}.service)
configure_file(${packaging}/${component}.service.in \${unit} @ONLY)
file(INSTALL \${unit} DESTINATION \${CMAKE_INSTALL_PREFIX}/lib/systemd/system)"
        COMPONENT ${component})
endfunction()

# A file that its owner changes: one that is there already stays.
function(milligpu_install_settings component name mode)
    install(CODE "${etc}
set(file \${SYSCONFDIR}/milligpu/${name})
if(EXISTS \"\$ENV{DESTDIR}\${file}\")
    message(STATUS \"Kept: \$ENV{DESTDIR}\${file}\")
else()
    file(INSTALL ${packaging}/${name} DESTINATION \${SYSCONFDIR}/milligpu PERMISSIONS ${mode})
endif()"
        COMPONENT ${component})
endfunction()

# Debian's zsh looks for completions of packages in a folder of its own.
function(milligpu_install_completion component)
    install(CODE "
if(CMAKE_INSTALL_PREFIX STREQUAL \"/usr\")
    set(zsh_folder ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
else()
    set(zsh_folder ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
endif()
foreach(shell IN ITEMS bash zsh fish)
    if(shell STREQUAL \"bash\")
        set(file ${CMAKE_INSTALL_DATADIR}/bash-completion/completions/${component})
    elseif(shell STREQUAL \"zsh\")
        set(file \${zsh_folder}/_${component})
    else()
        set(file ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d/${component}.fish)
    endif()
    set(made ${PROJECT_BINARY_DIR}/packaging/\${file})
    get_filename_component(folder \${file} DIRECTORY)
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/packaging/\${folder})
    execute_process(COMMAND ${PROJECT_BINARY_DIR}/bin/${component} completion \${shell}
        OUTPUT_FILE \${made} COMMAND_ERROR_IS_FATAL ANY)
    file(INSTALL \${made} DESTINATION \${CMAKE_INSTALL_PREFIX}/\${folder})
endforeach()"
        COMPONENT ${component})
endfunction()

function(milligpu_install_documents component manual section)
    install(FILES ${PROJECT_SOURCE_DIR}/docs/man/${manual}
        DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} COMPONENT ${component})
    install(FILES ${packaging}/copyright ${PROJECT_SOURCE_DIR}/CHANGELOG.md
        DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${component} COMPONENT ${component})
endfunction()

foreach(program IN ITEMS milligpud milligpuctl milligpu-node)
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${program})
endforeach()

# kubectl finds a plugin and its completion by these names.
install(FILES ${PROJECT_BINARY_DIR}/bin/kubectl-milligpu ${PROJECT_BINARY_DIR}/bin/kubectl_complete-milligpu
    DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT milligpuctl)
milligpu_install_completion(milligpuctl)
milligpu_install_documents(milligpuctl milligpuctl.1 1)

milligpu_install_unit(milligpud)
milligpu_install_settings(milligpud milligpud.yaml "OWNER_READ;OWNER_WRITE;GROUP_READ;WORLD_READ")
milligpu_install_documents(milligpud milligpud.8 8)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/policy DESTINATION ${CMAKE_INSTALL_DATADIR}/milligpu COMPONENT milligpud
    FILES_MATCHING PATTERN "*.yaml" PATTERN "*.json")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/demo DESTINATION ${CMAKE_INSTALL_DATADIR}/milligpu COMPONENT milligpud)

milligpu_install_unit(milligpu-node)
milligpu_install_settings(milligpu-node milligpu-node.env "OWNER_READ;OWNER_WRITE;GROUP_READ;WORLD_READ")
milligpu_install_documents(milligpu-node milligpu-node.8 8)
