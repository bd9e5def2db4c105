#include "certificate.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH_BYTES = 4200 };

static void write_config(const char *path)
{
    FILE *file = fopen(path, "w");

    must(file != NULL);
    must(fputs("[req]\ndistinguished_name = dn\n[dn]\n"
               "[ca]\nbasicConstraints = critical, CA:TRUE\n"
               "subjectKeyIdentifier = hash\n"
               "[leaf]\nbasicConstraints = critical, CA:FALSE\n"
               "subjectAltName = IP:127.0.0.1, DNS:kube.test\n"
               "extendedKeyUsage = serverAuth, clientAuth\n",
               file) >= 0);
    must(fclose(file) == 0);
}

bool certificate_make(const char *folder, const char *name, const char *issuer)
{
    char key[PATH_BYTES], crt[PATH_BYTES], config[PATH_BYTES], log[PATH_BYTES];
    char ca_crt[PATH_BYTES], ca_key[PATH_BYTES], subject[64];
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
    const int failed = posix_spawnp(&pid, "openssl", &files, NULL, argv.wanted, environ);
    (void)posix_spawn_file_actions_destroy(&files);
    return failed == 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

void certificate_tidy(const char *folder)
{
    char path[PATH_BYTES];

    (void)snprintf(path, sizeof path, "%s/openssl.cnf", folder);
    (void)unlink(path);
    (void)snprintf(path, sizeof path, "%s/log", folder);
    (void)unlink(path);
}
