#include "kube/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kube_config *config = NULL;
    struct err err;

    if (kube_config_parse((struct text){(const char *)data, size}, "/nowhere/config", NULL, &config,
                          &err) == 0) {
        must(kube_config_server(config)[0] != '\0');
        must(kube_config_namespace(config) != NULL);
    } else {
        must(config == NULL && err.text[0] != '\0');
    }
    kube_config_free(config);
    return 0;
}
