#include "support_tls.h"

#include <fcntl.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void write_config(const char *path)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs("[req]\ndistinguished_name = dn\n[dn]\n"
                      "[ca]\nbasicConstraints = critical, CA:TRUE\n"
                      "subjectKeyIdentifier = hash\n"
                      "[leaf]\nbasicConstraints = critical, CA:FALSE\n"
                      "subjectAltName = IP:127.0.0.1, DNS:kube.test\n"
                      "extendedKeyUsage = serverAuth, clientAuth\n",
                      file) >= 0);
    assert_int_equal(fclose(file), 0);
}

void tls_certificate(const char *folder, const char *name, const char *issuer)
{
    char key[128], crt[128], config[128], log[128], ca_crt[128], ca_key[128], subject[64];
    pid_t pid;
    int status = -1;

    (void)snprintf(key, sizeof key, "%s/%s.key", folder, name);
    (void)snprintf(crt, sizeof crt, "%s/%s.crt", folder, name);
    (void)snprintf(config, sizeof config, "%s/openssl.cnf", folder);
    (void)snprintf(log, sizeof log, "%s/log", folder);
    (void)snprintf(subject, sizeof subject, "/CN=%s", name);
    (void)snprintf(ca_crt, sizeof ca_crt, "%s/%s.crt", folder, issuer != NULL ? issuer : "");
    (void)snprintf(ca_key, sizeof ca_key, "%s/%s.key", folder, issuer != NULL ? issuer : "");
    write_config(config);
    const char *const args[] = {"openssl",
                                "req",
                                "-x509",
                                "-newkey",
                                "ec",
                                "-pkeyopt",
                                "ec_paramgen_curve:prime256v1",
                                "-nodes",
                                "-days",
                                "2",
                                "-config",
                                config,
                                "-subj",
                                subject,
                                "-keyout",
                                key,
                                "-out",
                                crt,
                                "-extensions",
                                issuer != NULL ? "leaf" : "ca",
                                issuer != NULL ? "-CA" : NULL,
                                ca_crt,
                                "-CAkey",
                                ca_key,
                                NULL};
    union {
        const char *const *given;
        char *const *wanted;
    } argv = {args};
    posix_spawn_file_actions_t files;
    (void)posix_spawn_file_actions_init(&files);
    (void)posix_spawn_file_actions_addopen(&files, 2, log, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(posix_spawnp(&pid, "openssl", &files, NULL, argv.wanted, environ), 0);
    (void)posix_spawn_file_actions_destroy(&files);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

void tls_tidy(const char *folder)
{
    char path[128];

    (void)snprintf(path, sizeof path, "%s/openssl.cnf", folder);
    (void)unlink(path);
    (void)snprintf(path, sizeof path, "%s/log", folder);
    (void)unlink(path);
}
