"""The bugs that tests/seeded_bugs/run plants: each is a mistake that a careful maintainer could make.

A bug replaces a piece of source that occurs exactly once. `by` is the suite that has to notice it:
a test as ctest names it, or a test program with its arguments.
"""

from typing import List, NamedTuple


class Bug(NamedTuple):
    name: str
    story: str
    file: str
    old: str
    new: str
    by: str


BUGS: List[Bug] = [
    Bug(
        "no_commit",
        "skip the commit: the batch is rolled back, but success is reported",
        "src/store/store.c",
        "const int failed = db_run(store->stmt[ST_COMMIT], err);",
        "db_rollback(store->db);\n    const int failed = 0;",
        "unit.store.write",
    ),
    Bug(
        "leak",
        "forget one release path: a Binding that is certainly void keeps its reservation",
        "src/writer/writer_binds.c",
        "        command.kind = COMMAND_RELEASE;\n        command.why = asked",
        "        command.kind = COMMAND_CONFIRM;\n        command.why = asked",
        "sim 1-60",
    ),
    Bug(
        "no_uid",
        "drop the uid check: the Binding names the pod without its uid",
        "src/wire/wire_kube_encode.c",
        'json_write_key(&json, "uid");\n    json_write_str(&json, allocation->is.uid);\n    write_version',
        "write_version",
        "unit.wire.wire_kube_encode",
    ),
    Bug(
        "reply_first",
        "swap commit and reply: the Binding goes out before the reservation is on disk",
        "src/writer/writer.c",
        "    if (batch_end(&writer->batch)) {\n        writer_leave_over",
        "    const bool open = writer->batch.open;\n"
        "    writer->batch.open = false;\n"
        "    if (whole)\n        writer_run_actions(writer);\n"
        "    writer->batch.open = open;\n"
        "    if (batch_end(&writer->batch)) {\n        writer_leave_over",
        "sim 1-60",
    ),
    Bug(
        "thousand_and_one",
        "off by one at 1000: a GPU offers one thousandth more than it has",
        "include/milligpu/node.h",
        "return taken < gpu->milli ? gpu->milli - (uint32_t)taken : 0;",
        "return taken <= gpu->milli ? gpu->milli - (uint32_t)taken + 1 : 0;",
        "unit.core.node",
    ),
    Bug(
        "no_410",
        "ignore a 410: the watch goes on from a version that is gone",
        "src/kube/reflector.c",
        "    return status->code == 410 || strcmp(status->reason, \"Expired\") == 0 ||\n"
        "           strcmp(status->reason, \"Gone\") == 0;",
        "    return status->code == 0;",
        "unit.kube.reflector",
    ),
    Bug(
        "credulous",
        "trust an annotation: whatever amounts it names are believed",
        "src/core/ledger_believe.c",
        "        if (!ledger_believe_answers(pod, &request->want[w]))\n            return false;\n"
        "        parts += request->want[w].parts;",
        "        parts += ledger_believe_answers(pod, &request->want[w]) ? request->want[w].parts : pod->shares;",
        "unit.core.ledger_believe",
    ),
    Bug(
        "twice",
        "double apply after a restart: a loaded allocation is charged more than its row says",
        "src/core/ledger_restore.c",
        "struct allocation *allocation = allocation_new(facts);",
        "struct allocation_facts again = *facts;\n"
        "        again.unplaced_milli += again.state == STATE_BOUND ? 1 : 0;\n"
        "        again.origin = ORIGIN_OBSERVED;\n"
        "        struct allocation *allocation = allocation_new(&again);",
        "unit.core.ledger_restore",
    ),
    Bug(
        "lost_container",
        "lose one container of a pod: the last one gets nothing",
        "src/core/request.c",
        "for (uint32_t i = 0; i < parser->pod->containers; i++) {",
        "for (uint32_t i = 0; i < parser->pod->containers - (parser->pod->containers > 1); i++) {",
        "unit.core.request",
    ),
    Bug(
        "too_early",
        "release at the deletion timestamp: a pod that is being deleted holds nothing",
        "src/core/reconcile.c",
        "    if (pod_ended(pod)) {\n        if (row != NULL)",
        "    if (pod_ended(pod) || pod->terminating_ms != 0) {\n        if (row != NULL)",
        "unit.core.reconcile",
    ),
    # Bugs that survived when somebody else first tried seeded bugs.
    Bug(
        "one_look",
        "a refusal stands although capacity came free after its snapshot",
        "src/scheduler/webhooks.c",
        "question->last || view_capacity_generation(question->app->view) ==",
        "question->last || snapshot->capacity_generation > 0 || 1 ==",
        "sim 1-300",
    ),
    Bug(
        "any_names",
        "the cache of refusals forgets which nodes were asked about",
        "src/scheduler/hints_answers.c",
        "answer->names == key->names &&",
        "true &&",
        "sim 1-60",
    ),
    Bug(
        "room_first",
        "capacity that a batch frees is shown before its COMMIT",
        "src/writer/batch.c",
        "ledger_publish(batch->ledger, give, gives));",
        "ledger_publish(batch->ledger, NULL, 0));",
        "sim 1-60",
    ),
    Bug(
        "new_node",
        "a new node wakes no waiting pod",
        "src/core/ledger.c",
        "    if (to == NULL || to->gone)\n        return false;\n    /* Without shares",
        "    if (from == NULL || to == NULL || to->gone)\n        return false;\n    /* Without shares",
        "sim 1-300",
    ),
    Bug(
        "swept",
        "a pod that is no longer in a list stays in the table of waiting pods",
        "src/writer/writer_pods.c",
        "    hints_listed(writer->app->hints, writer->listed_ms, writer, writer_pod_state);\n",
        "",
        "sim 1-300",
    ),
    Bug(
        "news_behind",
        "a lost batch that is tried again is queued behind newer news",
        "src/writer/writer_lost.c",
        "    keep_first(writer, message, keeps);\n    writer->retry_ms",
        "    for (size_t i = 0; i < keeps; i++) {\n"
        "        writer->kept =\n"
        "            xgrow(writer->kept, writer->keeps, &writer->keep_capacity, sizeof(void *));\n"
        "        writer->kept[writer->keeps++] = message[i];\n"
        "    }\n    writer->retry_ms",
        "unit.app.writer",
    ),
    Bug(
        "client_ca",
        "a changed client CA is not noticed",
        "src/http/http_tls.c",
        "    return tls_mix(tls_mix(tls_mix(14695981039346656037U, rules->cert_file), rules->key_file),\n"
        "                   rules->client_ca_file);",
        "    return tls_mix(tls_mix(14695981039346656037U, rules->cert_file), rules->key_file);",
        "unit.http.tls",
    ),
    Bug(
        "list_on_its_way",
        "a list that began before the grace period of a new ledger ended counts as one that began after",
        "src/sync/informer.c",
        "    reflector_free(informer->pods.reflector);\n    informer->pods.reflector = NULL;\n"
        "    informer->pods.watches = 0;\n    informer->pods.after_grace = true;\n",
        "    struct reflector_stats stats;\n"
        "    reflector_stats(informer->pods.reflector, &stats);\n"
        "    informer->pods.after_grace = true;\n"
        "    if (!stats.synced || stats.lists > 1)\n        return INT64_MAX;\n"
        "    reflector_free(informer->pods.reflector);\n    informer->pods.reflector = NULL;\n"
        "    informer->pods.watches = 0;\n",
        "unit.app.writer",
    ),
    # More bugs of that kind; half of them harm waiting pods.
    Bug(
        "well_again",
        "a GPU that is healthy again, or no longer cordoned, is not counted as freed capacity",
        "src/core/ledger.c",
        "    if (was != REASON_NONE)\n        return true;\n    const uint32_t mib_from",
        "    const uint32_t mib_from",
        "sim 1-300",
    ),
    Bug(
        "taken_back",
        "a grant that a lost batch takes back is not counted as freed capacity: refusals stay in the cache",
        "src/core/ledger.c",
        "    if (gives_room(change->node_after, change->node_before))\n"
        "        ledger->room_came = true;\n",
        "",
        "unit.core.snapshot",
    ),
    Bug(
        "sidecars",
        "an init container is charged without the sidecars that run beside it",
        "src/core/allocation.c",
        "        now = allocation_sum(life->sidecars, amount);\n",
        "        now = amount;\n",
        "unit.core.allocation",
    ),
    Bug(
        "same_ring",
        "the first wake-up after a restart writes the same value as the first one before it: no change",
        "src/wire/wire_kube_encode.c",
        "    strbuf_char(&value, ' ');\n    strbuf_str(&value, at);\n",
        "",
        "sim 1-60",
    ),
    Bug(
        "plain_init",
        "a sidecar is read as an init container",
        "src/wire/wire_kube_pod.c",
        "    out->is.kind = sidecar ? CONTAINER_SIDECAR : init ? CONTAINER_INIT : CONTAINER_APP;",
        "    out->is.kind = init && !(sidecar && false) ? CONTAINER_INIT : CONTAINER_APP;",
        "unit.wire.wire_kube_pod",
    ),
    Bug(
        "surely",
        "a reservation in doubt is stored as one without doubt",
        "src/store/write.c",
        "    bind_number(&bind, after->is.in_doubt);",
        "    bind_number(&bind, after->is.in_doubt && after->is.state == STATE_BOUND);",
        "sim 1-300",
    ),
    Bug(
        "large_page",
        "a page that is too large is requested again in the same size, for ever",
        "src/kube/reflector.c",
        "    if (r->page == 1) {\n        reflector_relist(r, now_ms, &err);\n        return;\n",
        "    if (r->page > 0) {\n        reflector_relist(r, now_ms, &err);\n        return;\n",
        "unit.kube.reflector",
    ),
    Bug(
        "last_page",
        "the watch begins at the version of a list's last page: what happened since its first page is lost",
        "src/kube/reflector.c",
        "!reflector_remember(first ? r->list_rv : version, page.resource_version)",
        "!reflector_remember(first || true ? r->list_rv : version, page.resource_version)",
        "unit.kube.reflector",
    ),
    Bug(
        "never_well",
        "failures of the API server from long ago still lengthen the pause",
        "src/kube/reflector.c",
        "    if (r->failed_ever && now_ms - r->failed_ms >= HEALTHY_MS)\n        r->failures = 0;\n",
        "",
        "unit.kube.reflector",
    ),
    Bug(
        "rang_once",
        "a failed wake-up is not tried again",
        "src/sync/outbox.c",
        "        outbox->wake_wanted = true;\n        outbox->wake_not_before_ms",
        "        outbox->wake_not_before_ms",
        "sim 1-60",
    ),
    Bug(
        "ready_again",
        "pods that were refused before granting began are not woken when it begins",
        "src/writer/writer.c",
        "        writer_wake(writer, writer_some_node(writer));\n    }\n    writer->was_ready",
        "    }\n    writer->was_ready",
        "sim 1-60",
    ),
    Bug(
        "short_list",
        "a pod that was offered fewer nodes than fit is not woken to ask again",
        "src/scheduler/hints.c",
        "    kept->due = is_short(kept, offered);",
        "    kept->due = is_short(kept, offered) && false;",
        "sim 1-300",
    ),
    Bug(
        "other_copy",
        "a Binding that was sent before a restart is forgotten: a refusal of the second one ends both",
        "src/sync/outbox.c",
        "    call->maybe_sent = binding->sending != SENDING_FIRST;",
        "    call->maybe_sent = false;",
        "unit.app.outbox",
    ),
    Bug(
        "unanswered",
        "a bind of a lost batch gets no answer",
        "src/writer/writer_actions.c",
        "            inflight_end(writer, writer->action[i].uid, text);\n",
        "            continue;\n",
        "sim 1-60",
    ),
    Bug(
        "no_purpose",
        "a client certificate is requested, but any certificate is accepted",
        "src/http/http_tls.c",
        " == 0 && doubts == 0)",
        " == 0)",
        "unit.http.tls",
    ),
    Bug(
        "never_quiet",
        "a finished call is still counted as pending: a stop waits for it in vain",
        "src/http/http_call.c",
        "    atomic_fetch_sub(&call->http->pending, 1);",
        "    must(call->http != NULL);",
        "unit.http.http",
    ),
    Bug(
        "blank_before_colon",
        "a blank counts as part of a header's name: the length is overlooked, and the body is the next request",
        "src/http/http_headers.c",
        "!#$%&'*+-.^_`|~",
        " !#$%&'*+-.^_`|~",
        "unit.http.strict",
    ),
    Bug(
        "never_given_back",
        "the memory that bodies claim is never released: after some bodies, all others are refused",
        "src/http/http_body.c",
        "atomic_fetch_sub(&call->http->body_bytes, claimed);",
        "atomic_load(&call->http->body_bytes);",
        "unit.http.border",
    ),
    Bug(
        "everybody_alike",
        "any address with idle connections may have to give one up, not the address with the most",
        "src/http/http_admission.c",
        "    uint32_t to = address->idle.count;",
        "    uint32_t to = address->idle.count > 0 ? 1 : 0;",
        "unit.http.admission",
    ),
    Bug(
        "stranger_for_ever",
        "a client that completed a request stays a stranger: a flood closes a scheduler's connections on loopback",
        "src/http/http_admission.c",
        "    connection->known = true;",
        "    connection->known = http->rules.client_ca_file != NULL;",
        "unit.http.admission",
    ),
    Bug(
        "patient_with_bodies",
        "a slow body keeps its memory for as long as a request may take",
        "src/http/http_body.c",
        "BODY_GRACE_MS = 1000,",
        "BODY_GRACE_MS = 10000,",
        "unit.http.admission",
    ),
    Bug(
        "both_hold_one",
        "a pod that requests both resources holds its shares, but none of the whole GPUs",
        "src/core/ledger_decide.c",
        "        .held_gpus = command->request->whole,\n        .reserved_ms",
        "        .held_gpus = command->request->wants > 0 ? 0 : command->request->whole,\n        .reserved_ms",
        "sim 1-60",
    ),
    Bug(
        "no_gpu_beside",
        "a pod's whole GPUs may be the GPUs that hold its shares",
        "src/core/place.c",
        "    return request->whole <= there - touched;",
        "    return request->whole <= there;",
        "sim 1-60",
    ),
    Bug(
        "squatter_counts",
        "a pod that names its own node and requests more than the node has is charged for the excess, too",
        "src/core/ledger_adopt.c",
        "places->unplaced_milli += there == 0 ? want->milli : 0;",
        "places->unplaced_milli += there < UINT32_MAX ? want->milli : 0;",
        "sim 1-150",
    ),
    Bug(
        "squatter_fits",
        "a pod that already runs where nothing fits is charged only on GPUs that are not full",
        "src/core/ledger_adopt.c",
        "        if ((gpu->flags & GPU_ABSENT) != 0 || ledger_adopt_twice(places, &on))\n            continue;",
        "        if ((gpu->flags & GPU_ABSENT) != 0 || ledger_adopt_twice(places, &on) ||\n"
        "            (places->shares > 0 && taken[i] >= gpu->milli))\n            continue;",
        "sim 1-60",
    ),
    Bug(
        "odd_is_gone",
        "a Node that cannot be read counts as gone",
        "src/writer/writer.c",
        "        return writer_handle_node(writer, &is->node);",
        "        return is->node.gpus_error != NULL || is->node.unreadable != NULL\n"
        "                   ? writer_node_gone(writer, is->node.name)\n"
        "                   : writer_handle_node(writer, &is->node);",
        "sim 1-60",
    ),
    Bug(
        "odd_cordon",
        "a cordon that cannot be read counts as none",
        "src/wire/wire_kube_node.c",
        '    node->cordon = "all";\n',
        "    node->cordon = NULL;\n",
        "sim 1-60",
    ),
    Bug(
        "odd_counts",
        "if a Node's GPU annotation cannot be read, its counts are used instead",
        "src/core/inventory.c",
        "    if (facts->gpus_error != NULL) {",
        "    if (facts->gpus_error != NULL && !shown) {",
        "sim 1-60",
    ),
    Bug(
        "odd_sticks",
        "a Node that can be read again stays closed until it is reported once more",
        "src/core/ledger_draft.c",
        "    if (facts->cordoned)\n",
        "    if (facts->cordoned || (draft->old != NULL && draft->old->problem == PROBLEM_ANNOTATION))\n",
        "sim 1-60",
    ),
    Bug(
        "moment",
        "a node that shows no GPUs for a moment loses its UUIDs to a node that copies them",
        "src/core/ledger_draft.c",
        "            owned_ids = add_owned_id(out, owned_ids, gpu->id);\n",
        "            owned_ids += 0;\n",
        "sim 1-150",
    ),
    Bug(
        "first_in_list",
        "in a new ledger, the first Node in the list gets the UUID instead of the older Node",
        "src/writer/writer_nodes.c",
        ".elder = inventory};",
        ".elder = NULL};",
        "sim 1-150",
    ),
    Bug(
        "old_minimum",
        "the old minimum, 50, still applies after the minimum was raised",
        "src/core/request.c",
        "    if (want->milli >= parser->rules->min_milli)\n",
        "    if (want->milli >= parser->rules->min_milli || want->milli >= 50)\n",
        "sim 1-60",
    ),
    Bug(
        "any_clock",
        "old history is dropped by a wall clock that is in doubt",
        "src/store/maintain.c",
        "wait <= store->limits.retain_ms) ||\n        atomic_load(&store->clock_doubted))",
        "wait <= store->limits.retain_ms))",
        "sim 1-60",
    ),
    # Where GPUs lie, and idle hosts that are kept.
    Bug(
        "any_which_way",
        "a pod that demands another topology than it had keeps its reservation, wherever its GPUs lie",
        "src/core/ledger_decide.c",
        "    if (a == b || request->topology == TOPOLOGY_ANY)\n",
        "    if (a == b || request->topology < TOPOLOGIES)\n",
        "sim 1-60",
    ),
    Bug(
        "only_a_wish",
        "a demanded topology is preferred, not demanded",
        "src/core/place_together.c",
        "    must(plan->topology < TOPOLOGIES);\n    return last[plan->topology];",
        "    must(plan->topology < TOPOLOGIES);\n    return last[plan->topology < TOPOLOGIES ? TOPOLOGY_ANY : plan->topology];",
        "sim 1-60",
    ),
    Bug(
        "across",
        "linked GPUs do for a demand for one NUMA node",
        "src/core/place_together.c",
        "plan->topology == TOPOLOGY_NUMA ? links & numa : links;",
        "links;",
        "sim 1-60",
    ),
    Bug(
        "untold_numa",
        "GPUs whose NUMA node is not told count as being on one",
        "src/core/place_together.c",
        "    if (room->gpu[gpu].socket == 0)\n        return 0;\n",
        "",
        "sim 1-60",
    ),
    Bug(
        "only_if_demanded",
        "several containers lie as near as they can only if they demand it",
        "src/core/place.c",
        "together_matters(plan, room) ? APART_LINKED : untold;",
        "plan->topology != TOPOLOGY_ANY ? APART_LINKED : untold;",
        "sim 1-60",
    ),
    Bug(
        "taken_is_never",
        "a node whose linked GPUs are only taken is said never to have had any",
        "src/core/place.c",
        "together_may(plan, room, able, want->parts)",
        "together_may(plan, room, set_count(*out) < want->parts ? able : *out, want->parts)",
        "sim 1-60",
    ),
    Bug(
        "unheard_link",
        "a link that a Node tells of later wakes nobody",
        "src/core/ledger.c",
        " || from->numa != to->numa ||\n           from->peers != to->peers;",
        " || from->numa != to->numa;",
        "sim 1-300",
    ),
    Bug(
        "one_too_few",
        "the last host that a rule keeps takes small pods",
        "src/core/place_rule.c",
        "plan->outlook->idle[at] + room->leaves <= rule->reserve;",
        "plan->outlook->idle[at] + room->leaves < rule->reserve;",
        "sim 1-60",
    ),
    Bug(
        "nobody_leaves",
        "preempt counts a host as kept that its victims would leave to the others",
        "src/core/place.c",
        "    out->leaves = out->idle && !node_is_idle(node);",
        "    out->leaves = false;",
        "sim 1-600",
    ),
    Bug(
        "half_a_host",
        "a node of which one GPU takes shares is an idle host",
        "src/core/node_inventory.c",
        "    return open > 1;",
        "    return open > 0;",
        "sim 1-60",
    ),
    Bug(
        "preempt_without_rules",
        "preempt does not know the rules of the policy",
        "src/core/place.c",
        "        .rules = node->rules,\n        .gpus = node->gpus,\n        .gpu = node->gpu,\n        .allocation = staying,",
        "        .gpus = node->gpus,\n        .gpu = node->gpu,\n        .allocation = staying,",
        "sim 1-60",
    ),
]
