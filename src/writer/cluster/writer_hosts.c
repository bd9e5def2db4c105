/*
 * Sets the CPU and memory that pods leave free on nodes with GPUs, under policies that use them;
 * under others nothing is summed or published. Called by writer_nodes.c, and by writer.c between
 * two batches, because these changes are never undone. A node of the ledger is replaced only if its
 * amounts differ, because that invalidates its entries in score caches.
 */
#include "milligpu/sync/host_sums.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/writer/writer.h"

#include "writer/writer_internal.h"

void writer_show_host(struct writer *writer, const struct node_facts *facts)
{
    const struct node *node = ledger_node(writer->ledger, text_of(facts->name));

    if (node != NULL && node->n_gpus > 0)
        host_sums_show(writer->host_sums, facts->name, &facts->host);
    else
        host_sums_hide(writer->host_sums, facts->name);
}

/* Not before the lists are complete: the sums would be partial. */
static bool hosts_matter(const struct writer *writer)
{
    const struct policy_context *context = ledger_policy_context(writer->ledger);

    return policy_context_needs_workload(context) &&
           atomic_load(&writer->app->watch.nodes_synced) &&
           atomic_load(&writer->app->watch.pods_synced);
}

/*
 * After a list, all nodes are replaced. Each lives on in the last published snapshot, so these are
 * published in parts: the memory of one part serves the next.
 */
enum { HOSTS_A_PART = 256 };

struct host_setting {
    struct app *app;
    struct ledger *ledger;
    uint32_t unpublished; /* replaced nodes */
};

static void host_setting_publish(struct host_setting *setting)
{
    must(setting->unpublished > 0);
    batch_publish(setting->app, setting->ledger);
    setting->unpublished = 0;
}

/* For host_sums_report_changed(). Nodes without GPUs are not in the sums: their host is unknown. */
static void set_host(void *user, const char *name, const struct host *left)
{
    struct host_setting *setting = user;
    const struct node *node = ledger_node(setting->ledger, text_of(name));

    if (node == NULL)
        return;
    const struct host known =
        node->host_known ? node->host : (struct host){HOST_UNKNOWN, HOST_UNKNOWN};
    if (known.cpu_milli == left->cpu_milli && known.memory_mib == left->memory_mib)
        return;
    must(ledger_set_host(setting->ledger, text_of(name), left));
    if (++setting->unpublished == HOSTS_A_PART)
        host_setting_publish(setting);
}

void writer_stop_hosts(struct writer *writer)
{
    if (!host_sums_started(writer->host_sums))
        return;
    pod_cache_sum_into(writer->app->pod_cache, NULL);
    host_sums_stop(writer->host_sums);
}

void writer_set_hosts(struct writer *writer)
{
    struct host_setting setting = {.app = writer->app, .ledger = writer->ledger};

    must(!writer->batch.open && writer->batch.n_changes == 0);
    if (!hosts_matter(writer)) {
        writer_stop_hosts(writer);
        return;
    }
    if (!host_sums_started(writer->host_sums)) {
        host_sums_start(writer->host_sums);
        pod_cache_sum_into(writer->app->pod_cache, writer->host_sums);
    }
    host_sums_report_changed(writer->host_sums, &setting, set_host);
    if (setting.unpublished > 0)
        host_setting_publish(&setting);
}
