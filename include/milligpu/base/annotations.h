/*
 * annotations - the keys by which milligpud and milligpu-node talk through the API server.
 *
 * On a pod, written by our Binding in its one write; on a Node, written by the agent. The ConfigMap
 * is in milligpud's namespace: for each public key of a milligpud, its id and the key in base64.
 */
#ifndef MILLIGPU_ANNOTATIONS_H
#define MILLIGPU_ANNOTATIONS_H

/* On pods. */
#define ANNOTATION_ALLOCATION "milligpu.io/allocation"
#define ANNOTATION_SIGNATURE  "milligpu.io/signature" /* signing.h */
/*
 * Plugins without which the runtime makes no container: a YAML list. The runtime looks at
 * KEY/container.NAME first, then at KEY/pod, then at KEY.
 */
#define ANNOTATION_REQUIRED           "required-plugins.noderesource.dev"
#define ANNOTATION_REQUIRED_POD       ANNOTATION_REQUIRED "/pod"
#define ANNOTATION_REQUIRED_CONTAINER ANNOTATION_REQUIRED "/container."
#define REQUIRED_PLUGINS              "[\"milligpu\"]"

/* On Nodes: written when the agent starts, and when it is uninstalled (AGENT_UNINSTALLED). */
#define ANNOTATION_AGENT "milligpu.io/agent"

#define KEYS_CONFIGMAP "milligpu-keys"
/* On the ConfigMap, written by an operator: the id of a key that shall sign no more (keyring.h). */
#define ANNOTATION_REPLACE_KEY "milligpu.io/replace-key"
/* The same, with the id of a key behind it that shall be trusted no more; any value. */
#define ANNOTATION_REVOKED_KEY "revoked-key.milligpu.io/"

#endif
