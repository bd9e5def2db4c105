/*
 * Reads, creates and moves the file of a private key. Called at the start, before other threads
 * run, and by the one thread that changes the keyring.
 * A file is always complete: it is written under a temporary name, synced and linked. A link never
 * replaces a file, so of two processes that create one the first wins, and both use it. A crash in
 * between leaves an unused temporary file. In order: reading, creating, moving.
 */
#include "key_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gnutls/abstract.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/file.h"

static int say_errno(const char *file, const char *what, struct err *err)
{
    const int error = errno;
    const enum err_code code = error == ENOENT ? ERR_NOT_FOUND : ERR_IO;

    must(error != 0);
    return err_set(err, code, "signing key %s %s: %s", file, what, strerrordesc_np(error));
}

/*
 * Refuses a file that others can read: they could sign. A file of root may be readable by its
 * group, as in a Secret mounted for a pod with fsGroup. If kubelet applies fsGroup to the volume of
 * the ledger, it sets mode 0660 on each file, the key too: that is reset to 0600.
 */
static int check_mode(const char *file, int fd, struct err *err)
{
    struct stat st;

    must(fd >= 0);
    if (fstat(fd, &st) < 0)
        return say_errno(file, "cannot be read", err);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_INVALID, "signing key %s is no file", file);
    const unsigned mode = st.st_mode & 0777U;
    if (st.st_uid == geteuid() && mode == 0660U) {
        if (fchmod(fd, 0600) < 0)
            return say_errno(file, "is readable by a group, and that cannot be changed", err);
        return 0;
    }
    const bool roots = st.st_uid == 0 && geteuid() != 0;
    if ((mode & (roots ? 0037U : 0077U)) == 0)
        return 0;
    return err_set(err, ERR_INVALID,
                   "signing key %s has mode %04o: others could read it and sign; run chmod 600, or "
                   "mount its Secret with defaultMode 0400",
                   file, mode);
}

static int read_all(const char *file, int fd, struct strbuf *out, struct err *err)
{
    char piece[1024];
    ssize_t len;

    must(fd >= 0);
    while ((len = read(fd, piece, sizeof piece)) != 0) {
        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0)
            return say_errno(file, "cannot be read", err);
        if (out->len + (size_t)len >= KEY_FILE_BYTES_MAX)
            return err_set(err, ERR_TOO_LARGE, "signing key %s is no key: it is too large", file);
        strbuf_text(out, (struct text){piece, (size_t)len});
    }
    explicit_bzero(piece, sizeof piece);
    if (out->len == 0)
        return err_set(err, ERR_INVALID,
                       "signing key %s is empty; remove it to get a new key, which agents learn by "
                       "themselves",
                       file);
    return 0;
}

int key_file_read(const char *file, struct strbuf *out, struct err *err)
{
    must(out->len == 0);
    /* Non-blocking: open() of a pipe would wait for a writer. */
    const int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return say_errno(file, "cannot be read", err);
    int rc = check_mode(file, fd, err);
    if (rc == 0)
        rc = read_all(file, fd, out, err);
    (void)close(fd);
    return rc;
}

/* Creates a key as PEM; *out is owned by the caller (gnutls_free). */
static int make_pem(gnutls_datum_t *out, struct err *err)
{
    const unsigned bits = GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_ED25519);
    gnutls_x509_privkey_t key = NULL;

    must(out->data == NULL);
    int rc = gnutls_x509_privkey_init(&key);
    if (rc == 0)
        rc = gnutls_x509_privkey_generate(key, GNUTLS_PK_EDDSA_ED25519, bits, 0);
    if (rc == 0)
        rc = gnutls_x509_privkey_export2_pkcs8(key, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN,
                                               out);
    if (key != NULL)
        gnutls_x509_privkey_deinit(key);
    return rc == 0 ? 0
                   : err_set(err, ERR_INTERNAL, "could not generate a signing key: %s",
                             gnutls_strerror(rc));
}

/* Without it, a power loss could remove the name of a key that has signed already. */
static bool sync_folder(const char *file)
{
    const char *slash = strrchr(file, '/');
    const size_t len = slash == NULL ? 0 : (size_t)(slash - file);
    CLEANUP(xfreep) char *folder = xstrdup(slash == NULL ? "." : file);

    if (slash != NULL)
        folder[len > 0 ? len : 1] = '\0';
    must(folder[0] != '\0');
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool good = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0)
        (void)close(fd);
    return good;
}

int key_file_make(const char *file, struct err *err)
{
    gnutls_datum_t pem = {NULL, 0};
    struct strbuf name;

    must(file[0] != '\0');
    if (make_pem(&pem, err) < 0)
        return err_same(err);
    strbuf_init(&name);
    strbuf_printf(&name, "%s.XXXXXX", file);
    int rc = 0;
    /* Mode 0600, whatever the umask. */
    const int fd = mkostemp(name.data, O_CLOEXEC);
    if (fd >= 0 &&
        (!file_write(fd, (struct text){(const char *)pem.data, pem.size}) || fsync(fd) != 0))
        rc = say_errno(file, "cannot be written", err);
    else if (fd < 0 || (link(name.data, file) < 0 && errno != EEXIST))
        rc = say_errno(file, "cannot be made", err);
    if (fd >= 0) {
        (void)close(fd);
        (void)unlink(name.data);
    }
    if (rc == 0 && !sync_folder(file))
        rc = say_errno(file, "cannot be made: its folder cannot be written", err);
    strbuf_done(&name);
    gnutls_memset(pem.data, 0, pem.size);
    gnutls_free(pem.data);
    return rc;
}

int key_file_move(const char *from, const char *to, bool *moved, struct err *err)
{
    must(from[0] != '\0' && to[0] != '\0');
    if (!*moved && rename(from, to) < 0)
        return say_errno(from, "cannot be moved", err);
    *moved = true;
    return sync_folder(to) ? 0 : say_errno(to, "cannot be made: its folder cannot be written", err);
}
