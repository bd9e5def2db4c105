/*
 * Finds fields of a pod whose rules play does not consider. Called by play.c once for each object
 * of a manifest, so that only used rules are reported. Values of a wrong type count as absent: the
 * API server refuses them later.
 */
#include "unconsidered.h"

#include <string.h>

static const char *const unconsidered_texts[UNCONSIDEREDS] = {
    [UNCONSIDERED_POD_AFFINITY] = "affinity and anti-affinity between pods",
    [UNCONSIDERED_SPREAD] = "topology spread constraints",
    [UNCONSIDERED_HOST_PORTS] = "host ports",
    [UNCONSIDERED_VOLUMES] = "where volumes can be reached",
    [UNCONSIDERED_CLAIMS] = "resource claims (DRA)",
    [UNCONSIDERED_PREFERRED] = "preferred node affinity: milligpud's score alone decides",
    [UNCONSIDERED_PREFER_NO_SCHEDULE] = "taints of the effect PreferNoSchedule",
    [UNCONSIDERED_PRIORITY] = "priority: nothing is preempted",
    [UNCONSIDERED_RUNTIME_CLASS] = "what the runtime class adds to the pod",
    [UNCONSIDERED_GANG] = "gang scheduling: pods are placed one by one",
    [UNCONSIDERED_SCHEDULER] = "profiles of other schedulers: played as by the default profile",
};

const char *unconsidered_text(enum unconsidered what)
{
    must(what < UNCONSIDEREDS);
    must(unconsidered_texts[what] != NULL);
    return unconsidered_texts[what];
}

static bool has_items(const struct document *pod, const char *path)
{
    const struct document *found = document_at(pod, path);

    must(path[0] != '\0');
    return found != NULL && found->count > 0 &&
           (found->kind == DOCUMENT_ARRAY || found->kind == DOCUMENT_OBJECT);
}

/* In the host's network, every port of a container is a host port. */
static bool has_host_ports(const struct document *pod)
{
    static const char *const list[] = {"spec.containers", "spec.initContainers"};
    const bool host = document_true(pod, "spec.hostNetwork");

    must(pod != NULL);
    for (size_t i = 0; i < ARRAY_LEN(list); i++)
        document_each (container, document_at(pod, list[i]))
            document_each (port, document_get(container, "ports"))
                if (host || document_int(port, "hostPort") > 0)
                    return true;
    return false;
}

/* True for volumes that depend on the node's topology or its limit of volumes. */
static bool has_volumes(const struct document *pod)
{
    static const char *const kind[] = {"persistentVolumeClaim",
                                       "ephemeral",
                                       "csi",
                                       "gcePersistentDisk",
                                       "awsElasticBlockStore",
                                       "azureDisk",
                                       "cinder",
                                       "iscsi",
                                       "rbd"};

    must(pod != NULL);
    document_each (volume, document_at(pod, "spec.volumes"))
        for (size_t i = 0; i < ARRAY_LEN(kind); i++)
            if (document_get(volume, kind[i]) != NULL)
                return true;
    return false;
}

static bool has_other_scheduler(const struct document *pod)
{
    const char *name = document_str(pod, "spec.schedulerName");
    must(name != NULL);
    return name[0] != '\0' && strcmp(name, "default-scheduler") != 0;
}

uint32_t unconsidered_of(const struct document *pod)
{
    const bool used[UNCONSIDEREDS] = {
        [UNCONSIDERED_POD_AFFINITY] = has_items(pod, "spec.affinity.podAffinity") ||
                                      has_items(pod, "spec.affinity.podAntiAffinity"),
        [UNCONSIDERED_SPREAD] = has_items(pod, "spec.topologySpreadConstraints"),
        [UNCONSIDERED_HOST_PORTS] = has_host_ports(pod),
        [UNCONSIDERED_VOLUMES] = has_volumes(pod),
        [UNCONSIDERED_CLAIMS] = has_items(pod, "spec.resourceClaims"),
        [UNCONSIDERED_PREFERRED] =
            has_items(pod, "spec.affinity.nodeAffinity."
                           "preferredDuringSchedulingIgnoredDuringExecution"),
        [UNCONSIDERED_PRIORITY] = document_str(pod, "spec.priorityClassName")[0] != '\0' ||
                                  document_int(pod, "spec.priority") != 0,
        [UNCONSIDERED_RUNTIME_CLASS] = document_str(pod, "spec.runtimeClassName")[0] != '\0',
        [UNCONSIDERED_GANG] = has_items(pod, "spec.workloadRef"),
        [UNCONSIDERED_SCHEDULER] = has_other_scheduler(pod),
    };
    uint32_t bits = 0;

    static_assert(UNCONSIDEREDS <= 32, "one bit each");
    for (unsigned i = 0; i < UNCONSIDEREDS; i++)
        if (used[i])
            bits |= 1U << i;
    must((bits & 1U << UNCONSIDERED_PREFER_NO_SCHEDULE) == 0);
    return bits;
}
