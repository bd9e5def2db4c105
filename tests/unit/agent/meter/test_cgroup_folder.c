/* cgroup_folder - the folder of a container's cgroup. */
#include <stdint.h>
#include <string.h>

#include "agent/meter/cgroup_folder.h"
#include "support/scoped.h"
#include "support/test.h"

TEST(cgroup_folder__reads_both_forms_of_a_path)
{
    static const struct {
        const char *path;
        const char *folder; /* below /c; NULL: refused */
    } row[] = {
        {"/kubepods/burstable/pod1/0123", "/kubepods/burstable/pod1/0123"},
        {"kubepods-burstable-pod1_2.slice:cri-containerd:0123",
         "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice/"
         "cri-containerd-0123.scope"},
        {"kubepods.slice:crio:0123", "/kubepods.slice/crio-0123.scope"},
        {"-.slice:crio:0123", "/crio-0123.scope"},
        {":crio:0123", "/system.slice/crio-0123.scope"},
        {"a.slice::0123", "/a.slice/0123.scope"},
        {"", NULL},
        {"/", NULL},
        {"/a//b", NULL},
        {"/a/../../etc", NULL},
        {"/a/./b", NULL},
        {"a/b", NULL},
        {"a.slice:0123", NULL},
        {"a.slice:x:0123:4", NULL},
        {"a.slice:x:../0123", NULL},
        {"a.slice:..:", NULL},
        {"a.slice:b/c:0123", NULL},
        {"../a.slice:x:0123", NULL},
        {"a--b.slice:x:0123", NULL},
        {"-a.slice:x:0123", NULL},
        {"a-.slice:x:0123", NULL},
        {".slice:x:0123", NULL},
        {"a.scope:x:0123", NULL},
    };
    SCOPED_STRBUF(out);
    struct err err;
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        strbuf_reset(&out);
        const int rc = cgroup_folder("/c", text_of(row[i].path), &out, &err);
        if ((rc == 0) != (row[i].folder != NULL) ||
            (rc == 0 && strcmp(out.data + strlen("/c"), row[i].folder) != 0))
            fail_msg("%s: %s", row[i].path, out.data);
    }
    assert_true(cgroup_folder("/c", (struct text){"/a\0b", 4}, &out, &err) < 0);
}
