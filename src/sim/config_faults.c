#include "sim/config_faults.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

struct word {
	const char *name;
	uint32_t value;
};

static const struct word op_words[] = {
	{ "ce_write", SIM_OP_CE_WRITE }, { "ce_read", SIM_OP_CE_READ },
	{ "sm_store", SIM_OP_SM_STORE }, { "sm_load", SIM_OP_SM_LOAD },
	{ "flag", SIM_OP_FLAG },         { "atomic", SIM_OP_ATOMIC },   { "enable", SIM_OP_ENABLE },     { "open", SIM_OP_OPEN },
	{ "export", SIM_OP_EXPORT },     { "staged", SIM_OP_STAGED },   { "launch", SIM_OP_LAUNCH },
	{ "call", SIM_OP_CALL },         { "fence", SIM_OP_FENCE },
};

static const struct word mapping_words[] = { { "peer", SIM_MAP_PEER }, { "ipc", SIM_MAP_IPC }, { "cumem", SIM_MAP_CUMEM } };

static const struct word effect_words[] = {
	{ "log", SIM_LOG },
	{ "drop", SIM_DROP },           { "zeros", SIM_ZEROS }, { "ones", SIM_ONES },   { "nan", SIM_NAN },
	{ "mirror", SIM_MIRROR },       { "stale", SIM_STALE }, { "shift", SIM_SHIFT }, { "misdirect", SIM_MISDIRECT },
	{ "duplicate", SIM_DUPLICATE },
	{ "torn", SIM_TORN },           { "error", SIM_ERROR }, { "crash", SIM_CRASH }, { "reorder", SIM_REORDER },
	{ "bit_flip", SIM_BIT_FLIP },   { "hang", SIM_HANG },   { "wedge", SIM_WEDGE },
	{ "alias", SIM_ALIAS },         { "slow", SIM_SLOW },   { "fast", SIM_FAST },   { "late_error", SIM_LATE_ERROR },
	{ "lost", SIM_LOST },           { "block", SIM_BLOCK },
};

/* Calls that move no bytes can only fail, kill or block. */
#define CALLS (SIM_OP_ENABLE | SIM_OP_OPEN | SIM_OP_EXPORT | SIM_OP_LAUNCH | SIM_OP_CALL | SIM_OP_FENCE)
#define TIMED (SIM_OP_CE_WRITE | SIM_OP_CE_READ | SIM_OP_SM_STORE | SIM_OP_SM_LOAD | SIM_OP_STAGED)
#define BIT(effect) (UINT64_C(1) << (effect))
#define CALL_EFFECTS \
	(BIT(SIM_ERROR) | BIT(SIM_CRASH) | BIT(SIM_HANG) | BIT(SIM_WEDGE) | BIT(SIM_LATE_ERROR) | BIT(SIM_LOST) | BIT(SIM_BLOCK))

#define FAULT_INT(key, min, max) { #key, SIM_KEY_INT, offsetof(struct sim_fault, key), min, max, 0 }

static const struct sim_key fault_keys[] = {
	{ "src", SIM_KEY_ELSE, 0, 0, 0, 0 },
	{ "dst", SIM_KEY_ELSE, 0, 0, 0, 0 },
	{ "op", SIM_KEY_ELSE, 0, 0, 0, 1 },
	{ "mapping", SIM_KEY_ELSE, 0, 0, 0, 0 },
	{ "effect", SIM_KEY_ELSE, 0, 0, 0, 1 },
	{ "target", SIM_KEY_ELSE, 0, 0, 0, 0 },
	{ "bits", SIM_KEY_ELSE, 0, 0, 0, 0 },
	FAULT_INT(min_bytes, 0, INT64_MAX),
	FAULT_INT(max_bytes, 1, INT64_MAX),
	FAULT_INT(from, 0, INT64_MAX),
	FAULT_INT(to, 1, INT64_MAX),
	FAULT_INT(after, 0, INT64_C(1) << 31),
	FAULT_INT(count, 1, INT64_C(1) << 31),
	FAULT_INT(rate, 1, 1000000),
	FAULT_INT(error, 1, 9999),
	FAULT_INT(shift, -(INT64_C(1) << 40), INT64_C(1) << 40),
	FAULT_INT(kmsg_delay_ms, 0, 10000),
	{ "kmsg", SIM_KEY_TEXT, offsetof(struct sim_fault, kmsg), 0, sizeof(((struct sim_fault *)0)->kmsg), 0 },
	FAULT_INT(bit, 3, 45),
	FAULT_INT(every, 1, INT64_C(1) << 31),
	FAULT_INT(min_active, 1, 64),
	FAULT_INT(factor, 2, 1000000),
	FAULT_INT(calls, 0, 1000000),
	FAULT_INT(ms, 1, 600000),
	{ "name", SIM_KEY_TEXT, offsetof(struct sim_fault, name), 0, sizeof(((struct sim_fault *)0)->name), 0 },
};

int sim_fault_gpu(const struct sim_config *c, const json_t *v, int *out, const char *key, const char *where,
	struct sim_error *e)
{
	*out = SIM_ANY;
	if (!v)
		return 1;
	if (!json_is_string(v))
		return sim_fail(e, where, "%s must be a PCI address or \"*\"", key);
	if (!strcmp(json_string_value(v), "*"))
		return 1;
	*out = sim_config_gpu(c, json_string_value(v));
	if (*out < 0)
		return sim_fail(e, where, "%s %s is not in gpus", key, json_string_value(v));
	return 1;
}

static int find_word(const struct word *words, size_t count, const json_t *v, uint32_t *out, const char *key, const char *where,
                     struct sim_error *e)
{
	const char *s = json_string_value(v);
	size_t i;

	if (!s)
		return sim_fail(e, where, "%s must be a string", key);
	for (i = 0; i < count; i++) {
		if (!strcmp(words[i].name, s)) {
			*out |= words[i].value;
			return 1;
		}
	}
	return sim_fail(e, where, "%s %s is unknown", key, s);
}

static int find_words(const struct word *words, size_t count, const json_t *v, uint32_t *out, const char *key,
	const char *where, struct sim_error *e)
{
	size_t i;

	if (!json_is_array(v))
		return find_word(words, count, v, out, key, where, e);
	if (!json_array_size(v))
		return sim_fail(e, where, "%s is empty", key);
	for (i = 0; i < json_array_size(v); i++)
		if (!find_word(words, count, json_array_get(v, i), out, key, where, e))
			return 0;
	return 1;
}

static int read_bits(const json_t *v, uint64_t *out, const char *where, struct sim_error *e)
{
	char *end;

	if (json_is_integer(v) && json_integer_value(v) > 0) {
		*out = (uint64_t)json_integer_value(v);
		return 1;
	}
	if (!json_is_string(v) || strncmp(json_string_value(v), "0x", 2) != 0)
		return sim_fail(e, where, "bits must be a positive integer or a 0x string");
	errno = 0;
	*out = strtoull(json_string_value(v), &end, 16);
	if (errno || *end || !*out)
		return sim_fail(e, where, "bits must be a positive integer or a 0x string");
	return 1;
}

/* Keys that belong to one effect or op: there they must be, elsewhere they must not. */
static int check_extra(const struct sim_fault *f, const char *where, struct sim_error *e)
{
	int timed = f->effect == SIM_SLOW || f->effect == SIM_FAST;

	if ((f->effect == SIM_ALIAS) != (f->bit != 0))
		return sim_fail(e, where, "bit belongs to alias");
	if (timed != (f->factor != 0))
		return sim_fail(e, where, "factor belongs to slow and fast");
	if (timed && ((f->ops & ~(uint32_t)TIMED) || f->after || f->count || f->every > 1))
		return sim_fail(e, where, "slow and fast belong to copies, stores and loads, and to all of them");
	if ((f->effect == SIM_BLOCK) != (f->ms != 0))
		return sim_fail(e, where, "ms belongs to block");
	if (f->effect == SIM_BLOCK && (f->ops & ~(uint32_t)CALLS || f->ops & SIM_OP_LAUNCH))
		return sim_fail(e, where, "block belongs to enable, open, export, call and fence");
	if (f->calls && f->effect != SIM_LATE_ERROR)
		return sim_fail(e, where, "calls belongs to late_error");
	if ((f->ops == SIM_OP_CALL) != (f->name[0] != 0) || (f->ops & SIM_OP_CALL && f->ops != SIM_OP_CALL))
		return sim_fail(e, where, "op call stands alone and needs a name");
	return 1;
}

/* A plan that could never do what it says is refused: it would pass as a healthy host. */
static int check_fault(const struct sim_fault *f, const char *where, struct sim_error *e)
{
	int aimed = f->effect == SIM_MISDIRECT || f->effect == SIM_DUPLICATE;

	if ((f->effect == SIM_LOG || f->kmsg_delay_ms) && !f->kmsg[0])
		return sim_fail(e, where, "effect log and kmsg_delay_ms need kmsg");
	if (aimed && f->target == SIM_ANY)
		return sim_fail(e, where, "misdirect or duplicate needs a target");
	if (aimed && f->target == f->dst && !f->shift)
		return sim_fail(e, where, "misdirect or duplicate to the same place of the same GPU");
	if (f->effect == SIM_DUPLICATE && (f->ops & ~(uint32_t)(SIM_OP_CE_WRITE | SIM_OP_SM_STORE)))
		return sim_fail(e, where, "duplicate is for ce_write and sm_store");
	if (f->effect == SIM_SHIFT && !f->shift)
		return sim_fail(e, where, "effect shift needs shift");
	if (f->shift % 8)
		return sim_fail(e, where, "shift must be a multiple of 8");
	if (!aimed && f->target != SIM_ANY)
		return sim_fail(e, where, "target belongs to misdirect and duplicate");
	if (f->to && f->to <= f->from)
		return sim_fail(e, where, "to must be above from");
	if (f->max_bytes && f->max_bytes < f->min_bytes)
		return sim_fail(e, where, "max_bytes is below min_bytes");
	if ((f->ops & CALLS) && !(CALL_EFFECTS & BIT(f->effect)) && !(f->ops == SIM_OP_CALL && f->effect == SIM_DROP))
		return sim_fail(e, where, "what moves no bytes can only fail, crash, block or lose its GPU");
	if (f->effect == SIM_TORN && !(f->ops & (SIM_OP_CE_WRITE | SIM_OP_CE_READ | SIM_OP_SM_STORE | SIM_OP_SM_LOAD)))
		return sim_fail(e, where, "torn belongs to copies, stores and loads");
	if (f->effect == SIM_REORDER && f->ops != SIM_OP_FLAG)
		return sim_fail(e, where, "reorder belongs to op flag");
	return check_extra(f, where, e);
}

static int read_fault(struct sim_config *c, const json_t *o, struct sim_error *e)
{
	struct sim_fault *f = &c->faults[c->fault_count];
	uint32_t effect = 0;
	char where[32];
	const json_t *mapping = json_object_get(o, "mapping"), *bits = json_object_get(o, "bits");

	snprintf(where, sizeof(where), "faults[%d]", c->fault_count);
	*f = (struct sim_fault){ .rate = 1000000, .error = 999, .every = 1, .bits = 1 };
	if (!sim_keys_read(o, fault_keys, COUNT(fault_keys), f, where, e) ||
	    !sim_fault_gpu(c, json_object_get(o, "src"), &f->src, "src", where, e) ||
	    !sim_fault_gpu(c, json_object_get(o, "dst"), &f->dst, "dst", where, e) ||
	    !sim_fault_gpu(c, json_object_get(o, "target"), &f->target, "target", where, e) ||
	    !find_words(op_words, COUNT(op_words), json_object_get(o, "op"), &f->ops, "op", where, e) ||
	    !find_word(effect_words, COUNT(effect_words), json_object_get(o, "effect"), &effect, "effect", where, e))
		return 0;
	f->effect = (int)effect;
	f->mappings = mapping ? 0 : SIM_MAP_ALL;
	if (mapping && !find_words(mapping_words, COUNT(mapping_words), mapping, &f->mappings, "mapping", where, e))
		return 0;
	if (bits && !read_bits(bits, &f->bits, where, e))
		return 0;
	if (!check_fault(f, where, e))
		return 0;
	c->has_stale |= f->effect == SIM_STALE;
	c->has_mirror |= f->effect == SIM_MIRROR;
	c->has_calls |= f->ops == SIM_OP_CALL;
	c->fault_count++;
	return 1;
}

int sim_faults_read(struct sim_config *c, const json_t *faults, struct sim_error *e)
{
	size_t i;

	if (!faults)
		return 1;
	if (!json_is_array(faults) || json_array_size(faults) > SIM_MAX_FAULTS)
		return sim_fail(e, "faults", "must be an array of at most %d", SIM_MAX_FAULTS);
	for (i = 0; i < json_array_size(faults); i++)
		if (!read_fault(c, json_array_get(faults, i), e))
			return 0;
	return 1;
}
