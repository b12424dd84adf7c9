/* Measured numbers as JSON, and back. Zero is not measured in the model and null outside. */
#include <stdlib.h>

#include "emit/emit.h"

#define ROWS_MAX 256 /* of a size table that is read back */

static json_t *number_or_null(uint64_t v)
{
	return v == 0 || v > INT64_MAX ? json_null() : json_integer((json_int_t)v);
}

static uint64_t number(const json_t *o, const char *key)
{
	json_int_t v = json_integer_value(json_object_get(o, key));

	return v > 0 ? (uint64_t)v : 0;
}

json_t *p2s_emit_bandwidth(const struct p2s_bandwidth *b)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "ce_write", number_or_null(b->ce_write), "ce_read",
					 number_or_null(b->ce_read), "sm_store", number_or_null(b->sm_store), "sm_load", number_or_null(b->sm_load),
					 "both_ways", number_or_null(b->both_ways), "loaded", number_or_null(b->loaded));
}

json_t *p2s_emit_latency(const struct p2s_latency *l)
{
	return json_pack("{s:o, s:o, s:o}", "write_issue_ns", number_or_null(l->write_issue_ns), "load_ns",
					 number_or_null(l->load_ns), "store_flag_ns", number_or_null(l->store_flag_ns));
}

json_t *p2s_emit_sizes(const struct p2s_size_row *rows, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		p2s_emit_append(list,
							  json_pack("{s:I, s:o, s:o, s:o, s:o}", "bytes", (json_int_t)rows[i].bytes, "p2p_bytes_per_s",
										number_or_null(rows[i].p2p_bytes_per_s), "p2p_ns", number_or_null(rows[i].p2p_ns),
										"staged_bytes_per_s", number_or_null(rows[i].staged_bytes_per_s), "staged_ns",
										number_or_null(rows[i].staged_ns)));
	return list;
}

void p2s_emit_pair_numbers(json_t *pair, const struct p2s_pair *p)
{
	p2s_emit_set(pair, "limit_loaded_bytes_per_s", number_or_null(p->limit_loaded));
	p2s_emit_set(pair, "efficiency", p->efficiency < 0 ? json_null() : json_integer(p->efficiency));
	p2s_emit_set(pair, "p2p_wins_from_bytes", number_or_null(p->wins_from));
}

void p2s_emit_gpu_numbers(json_t *gpu, const struct p2s_gpu_facts *f)
{
	p2s_emit_set(gpu, "host_link",
						json_pack("{s:o, s:o, s:o, s:o}", "to_host_bytes_per_s", number_or_null(f->to_host),
								  "from_host_bytes_per_s", number_or_null(f->from_host), "both_ways_bytes_per_s",
								  number_or_null(f->host_both_ways), "numa_node",
								  f->host_node < 0 ? json_null() : json_integer(f->host_node)));
	p2s_emit_set(gpu, "all_to_one_bytes_per_s", number_or_null(f->all_to_one));
	p2s_emit_set(gpu, "one_to_all_bytes_per_s", number_or_null(f->one_to_all));
}

void p2s_emit_parse_bandwidth(const json_t *o, struct p2s_bandwidth *b)
{
	b->ce_write = number(o, "ce_write");
	b->ce_read = number(o, "ce_read");
	b->sm_store = number(o, "sm_store");
	b->sm_load = number(o, "sm_load");
	b->both_ways = number(o, "both_ways");
	b->loaded = number(o, "loaded");
}

void p2s_emit_parse_latency(const json_t *o, struct p2s_latency *l)
{
	l->write_issue_ns = number(o, "write_issue_ns");
	l->load_ns = number(o, "load_ns");
	l->store_flag_ns = number(o, "store_flag_ns");
}

int32_t p2s_emit_parse_sizes(const json_t *list, struct p2s_size_row **rows, size_t *count)
{
	size_t n = json_array_size(list);

	if (n == 0 || *rows != NULL)
		return 1;
	if (n > ROWS_MAX)
		n = ROWS_MAX;
	*rows = calloc(n, sizeof **rows);
	if (*rows == NULL)
		return 0;
	for (size_t i = 0; i < n; i++) {
		const json_t *o = json_array_get(list, i);
		struct p2s_size_row *r = &(*rows)[i];

		r->bytes = number(o, "bytes");
		r->p2p_bytes_per_s = number(o, "p2p_bytes_per_s");
		r->p2p_ns = number(o, "p2p_ns");
		r->staged_bytes_per_s = number(o, "staged_bytes_per_s");
		r->staged_ns = number(o, "staged_ns");
	}
	*count = n;
	return 1;
}

void p2s_emit_parse_gpu_numbers(const json_t *gpu, struct p2s_gpu_facts *f)
{
	const json_t *host = json_object_get(gpu, "host_link");
	const json_t *node = json_object_get(host, "numa_node");

	f->to_host = number(host, "to_host_bytes_per_s");
	f->from_host = number(host, "from_host_bytes_per_s");
	f->host_both_ways = number(host, "both_ways_bytes_per_s");
	f->host_node = json_is_integer(node) && json_integer_value(node) >= 0 && json_integer_value(node) < 65536
					   ? (int32_t)json_integer_value(node)
					   : -1;
	f->all_to_one = number(gpu, "all_to_one_bytes_per_s");
	f->one_to_all = number(gpu, "one_to_all_bytes_per_s");
}
