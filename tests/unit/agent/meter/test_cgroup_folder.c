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
        const char *folder; /* below /c */
    } row[] = {
        {"/kubepods/burstable/pod1/0123", "/kubepods/burstable/pod1/0123"},
        {"kubepods-burstable-pod1_2.slice:cri-containerd:0123",
         "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice/"
         "cri-containerd-0123.scope"},
        {"kubepods.slice:crio:0123", "/kubepods.slice/crio-0123.scope"},
        {"-.slice:crio:0123", "/crio-0123.scope"},
        {":crio:0123", "/system.slice/crio-0123.scope"},
        {"a.slice::0123", "/a.slice/0123.scope"},
    };
    static const char *const refused[] = {"",
                                          "/",
                                          "/a//b",
                                          "/a/../../etc",
                                          "/a/./b",
                                          "a/b",
                                          "a.slice:0123",
                                          "a.slice:x:0123:4",
                                          "a.slice:x:../0123",
                                          "a.slice:..:",
                                          "a.slice:b/c:0123",
                                          "../a.slice:x:0123",
                                          "a--b.slice:x:0123",
                                          "-a.slice:x:0123",
                                          "a-.slice:x:0123",
                                          ".slice:x:0123",
                                          "a.scope:x:0123"};
    SCOPED_STRBUF(out);
    struct err err;
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        strbuf_reset(&out);
        assert_int_equal(cgroup_folder("/c", text_of(row[i].path), &out, &err), 0);
        assert_string_equal(out.data + strlen("/c"), row[i].folder);
    }
    for (size_t i = 0; i < ARRAY_LEN(refused); i++)
        if (cgroup_folder("/c", text_of(refused[i]), &out, &err) == 0)
            fail_msg("%s: %s", refused[i], out.data);
    assert_true(cgroup_folder("/c", (struct text){"/a\0b", 4}, &out, &err) < 0);
}
