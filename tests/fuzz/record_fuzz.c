/* Any bytes as the decision part of a kept record. First byte: 1 puts the right sum behind the rest, which then reads as somebody wrote
 * it who could; 0 leaves the bytes as they are. A whole record has no value out of range, is judged as its letters say, and says the
 * same when it is written and read again. */
#include <inttypes.h>

#include "core/names.h"
#include "fuzz.h"
#include "kept/record.h"

static void check(const struct p2s_record *r)
{
	size_t cells = r->gpu_count * r->gpu_count;
	int all_ok = !r->nothing_tested;
	size_t pairs = 0;

	FUZZ_ASSERT(r->gpu_count > 0 && r->gpu_count <= P2S_MAX_GPUS && r->level > 0 && r->level <= P2PSAFE_LEVEL_THOROUGH);
	FUZZ_ASSERT(r->nccl_level >= 0 && r->nccl_level <= P2PSAFE_PATH_SYS && strchr(r->full_name, '/') == NULL);
	for (size_t i = 0; i < cells * P2S_CONSUMERS; i++)
		FUZZ_ASSERT(r->verdict[i] >= P2PSAFE_VERDICT_OK && r->verdict[i] <= P2PSAFE_VERDICT_UNTESTED);
	for (size_t i = 0; i < cells; i++)
		FUZZ_ASSERT(r->path[i] <= P2PSAFE_PATH_SYS && r->staged[i] >= P2PSAFE_VERDICT_OK &&
		            r->staged[i] <= P2PSAFE_VERDICT_UNTESTED);
	for (size_t a = 0; a < r->gpu_count; a++) {
		FUZZ_ASSERT(r->gpus[a].address[0] != '\0' && p2s_record_gpu(r, r->gpus[a].address) == (int32_t)a);
		FUZZ_ASSERT(r->gpus[a].minor >= -1 && r->gpus[a].minor < 256);
		for (size_t b = 0; b < r->gpu_count; b++) {
			if (a == b || !r->gpus[a].tested || !r->gpus[b].tested)
				continue;
			pairs++;
			all_ok &= r->verdict[(a * r->gpu_count + b) * P2S_CONSUMERS] == P2PSAFE_VERDICT_OK;
			FUZZ_ASSERT(r->verdict[(a * r->gpu_count + b) * P2S_CONSUMERS + P2PSAFE_CONSUMER_MULTICAST] ==
			            P2PSAFE_VERDICT_UNTESTED);
		}
	}
	if (p2s_record_worst(r) == P2PSAFE_VERDICT_OK)
		FUZZ_ASSERT(all_ok && pairs > 0);
}

/* No verdict is OK but by the letter O, where the record has a letter for each pair (not runs of them). */
static void check_letters(const struct p2s_record *r, const char *text, size_t len)
{
	json_t *top = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	size_t n = r->gpu_count;

	for (int32_t c = 0; c < P2S_CONSUMERS; c++) {
		const char *which = c == 0 ? "pair" : p2s_word_name(P2S_GROUP_CONSUMER, c);
		const json_t *rows = json_object_get(json_object_get(top, "verdicts"), which);

		for (size_t a = 0; a < n && json_array_size(rows) == n; a++) {
			const char *row = json_string_value(json_array_get(rows, a));

			for (size_t b = 0; b < n && row != NULL && strlen(row) == n && strpbrk(row, "=,*") == NULL; b++)
				if (a != b && r->verdict[(a * n + b) * P2S_CONSUMERS + (size_t)c] == P2PSAFE_VERDICT_OK)
					FUZZ_ASSERT(row[b] == 'O');
		}
	}
	json_decref(top);
}

/* The diagonal has no meaning and no letter of its own. */
static int same_matrix(const unsigned char *a, const unsigned char *b, size_t n, size_t step)
{
	for (size_t i = 0; i < n * n; i++)
		if (i % n != i / n && memcmp(a + i * step, b + i * step, step) != 0)
			return 0;
	return 1;
}

static void check_again(const struct p2s_record *r)
{
	char *text = p2s_record_write(r);
	struct p2s_record again;

	if (text == NULL)
		return; /* too long */
	FUZZ_ASSERT(strlen(text) <= P2S_RECORD_MAX && p2s_record_parse(&again, text, strlen(text)) == 1);
	check(&again);
	FUZZ_ASSERT(again.gpu_count == r->gpu_count && again.level == r->level && again.simulated == r->simulated &&
	            again.nothing_tested == r->nothing_tested && again.fabric == r->fabric && again.torn_lines == r->torn_lines &&
	            again.nccl_level == r->nccl_level && again.full_hash == r->full_hash && again.measured == r->measured);
	FUZZ_ASSERT(same_matrix(again.verdict, r->verdict, r->gpu_count, P2S_CONSUMERS) &&
	            same_matrix(again.path, r->path, r->gpu_count, 1) && same_matrix(again.staged, r->staged, r->gpu_count, 1));
	FUZZ_ASSERT(strcmp(again.boot_id, r->boot_id) == 0 && strcmp(again.cmdline, r->cmdline) == 0 &&
	            strcmp(again.driver_parameters, r->driver_parameters) == 0);
	p2s_record_free(&again);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct fuzz_in in = {bytes, size};
	uint32_t how = fuzz_number(&in, 1);
	struct p2s_record r;
	size_t len = in.left;
	char *text = malloc(len + 64);

	FUZZ_ASSERT(text != NULL);
	if (len > 0)
		memcpy(text, in.at, len);
	text[len] = '\0';
	if (how & 1) {
		while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '}'))
			len--;
		len += (size_t)sprintf(text + len, ",\"sum\":\"0x%016" PRIx64 "\"}", p2s_record_hash(text, len));
	}
	if (p2s_record_parse(&r, text, len)) {
		check(&r);
		check_letters(&r, text, len);
		check_again(&r);
	}
	p2s_record_free(&r);
	free(text);
	return 0;
}
