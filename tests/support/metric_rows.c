#include "support/metric_rows.h"

void metric_rows(struct strbuf *out, enum metric_id begin, enum metric_id end)
{
    static const char *const types[] = {"counter",   "gauge",   "histogram",
                                        "histogram", "counter", "gauge"};

    strbuf_str(out, "| metric | type | labels | meaning |\n|---|---|---|---|\n");
    for (enum metric_id id = begin; id < end; id++) {
        const struct metric_info *info = metric_info(id);
        if (info->name != NULL)
            strbuf_printf(out, "| `%s` | %s | %s | %s |\n", info->name, types[info->type],
                          info->labels, info->help);
    }
}
