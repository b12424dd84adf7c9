/* A kept record and the full report beside it, damaged in any way, through the library's own readers: the folder of records, the trust
 * in files, the key, the decision, and the evidence when somebody asks for it. The input changes a healthy pair of files; its first byte
 * says whether somebody then put the sums right again. What is allowed must stand in the record letter by letter, and where the
 * evidence is shown it must prove it; a record whose sum is wrong is never used. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <unistd.h>

#include "api/answer.h"
#include "api/hit.h"
#include "emit/emit.h"
#include "folder.h"
#include "fuzz.h"
#include "getters.h"
#include "kept/compact.h"
#include "kept/place.h"
#include "kept/store.h"
#include "second.h"
#include "tree.h"

#define RECORD "kept/1.json"
#define SEAL ",\"sum\":\"0x"
#define SEAL_LENGTH (sizeof SEAL - 1 + 18)
#define FILE_MAX_ 65536

static char *healthy[2]; /* record, full report */
static char full_name[80];

/* A machine like the tree, proven whole, as a test would keep it. */
static void make_healthy(void)
{
	struct p2s_session s;
	struct p2psafe_options o;
	struct p2s_model m;
	struct p2s_record r;
	enum p2s_group group;
	int dir;
	size_t len;

	p2psafe_options_init(&o, sizeof o);
	o.host_dir = tree_host();
	FUZZ_ASSERT(p2s_session_open(&s, &o, NULL) == 0);
	p2s_model_init(&m);
	FUZZ_ASSERT(p2s_answer_look(&s, &m, P2S_SCOPE_ALL) == 0);
	for (size_t i = 0; i < m.gpu_count; i++)
		m.gpus[i].minor = (int32_t)i;
	FUZZ_ASSERT(p2s_answer_group(&s, &m, 0, &group) == 0 && group == P2S_GROUP_TESTABLE && p2s_model_make_pairs(&m) == 1);
	for (size_t i = 0; i < m.pair_count; i++) {
		m.pairs[i].path = m.pairs[i].nccl_path = P2PSAFE_PATH_PHB;
		for (int32_t map = P2PSAFE_MAPPING_PEER; map <= P2PSAFE_MAPPING_CUMEM; map++)
			for (int32_t leg = 1; leg <= P2PSAFE_LEG_STALE; leg++) {
				struct p2s_leg *l = p2s_model_leg(&m.pairs[i], leg, map);

				FUZZ_ASSERT(l != NULL);
				l->verdict = P2PSAFE_VERDICT_OK;
				l->bytes = 4096;
				l->rounds = 3;
			}
	}
	m.staged[0].verdict = P2PSAFE_VERDICT_OK;
	m.level = P2PSAFE_LEVEL_STANDARD;
	m.created_unix = 1700000000;
	FUZZ_ASSERT(p2s_answer_finish(&s, &m, NULL) == 0 && p2s_record_from_model(&r, &m, &s.host, NULL) == 1);
	healthy[1] = p2s_emit_full(&m);
	folder_write("kept/empty", "", 0);
	folder_remove("kept/empty");
	{
		char path[300];

		snprintf(path, sizeof path, "%s/kept", folder_path());
		dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	FUZZ_ASSERT(dir >= 0 && p2s_store_publish(dir, &r, 1, healthy[1]) == 1);
	close(dir);
	snprintf(full_name, sizeof full_name, "kept/%s", r.full_name);
	healthy[0] = folder_read(RECORD, &len);
	FUZZ_ASSERT(healthy[0] != NULL && m.consumers[P2PSAFE_CONSUMER_NCCL_P2P].allowed == 1);
	p2s_record_free(&r);
	p2s_model_free(&m);
	p2s_session_close(&s);
}

/* Cuts `cut` bytes out at `at` and puts others there. */
static void change(char *text, size_t *len, size_t at, size_t cut, const uint8_t *put, size_t n)
{
	if (at > *len)
		at = *len;
	if (cut > *len - at)
		cut = *len - at;
	if (*len - cut + n > FILE_MAX_)
		return;
	memmove(text + at + n, text + at + cut, *len - at - cut);
	if (n > 0)
		memcpy(text + at, put, n);
	*len = *len - cut + n;
}

static size_t seal(char *text, size_t len)
{
	if (len >= SEAL_LENGTH && memcmp(text + len - SEAL_LENGTH, SEAL, sizeof SEAL - 1) == 0)
		len -= SEAL_LENGTH;
	return len + (size_t)sprintf(text + len, SEAL "%016" PRIx64 "\"}", p2s_record_hash(text, len));
}

/* The record names its full report by the hash of it. */
static void rename_hash(char *text, size_t len, const char *full, size_t full_len)
{
	static const char key[] = "\"full_hash\":\"0x";
	char *at = memmem(text, len, key, sizeof key - 1);
	char hash[24];

	if (at == NULL || (size_t)(text + len - at) < sizeof key - 1 + 16)
		return;
	snprintf(hash, sizeof hash, "%016" PRIx64, p2s_record_hash(full, full_len));
	memcpy(at + sizeof key - 1, hash, 16);
}

/* Are both directions of these two GPUs 'O' in that row list of the record, read on its own? */
static int letters_say_ok(const json_t *top, const char *which)
{
	const json_t *gpus = json_object_get(top, "gpus");
	const json_t *list = json_object_get(json_object_get(top, "verdicts"), which);
	size_t n = json_array_size(gpus);
	size_t at[2] = {n, n};
	char rows[2][P2S_MAX_GPUS];

	for (size_t i = 0; i < n; i++) {
		const char *bdf = json_string_value(json_object_get(json_array_get(gpus, i), "bdf"));

		for (int k = 0; bdf != NULL && k < 2; k++)
			if (strcmp(bdf, k == 0 ? "0000:01:00.0" : "0000:41:00.0") == 0)
				at[k] = i;
	}
	if (at[0] >= n || at[1] >= n)
		return 0;
	for (size_t a = 0, next = 0, again = 0; a < n; a++) {
		static char line[P2S_MAX_GPUS];
		const char *text = again == 0 ? json_string_value(json_array_get(list, next++)) : NULL;

		if (again > 0)
			again--;
		else if (a > 0 && p2s_compact_again(text, n - a, &again))
			again--;
		else if (text == NULL || !p2s_compact_expand(text, line, n))
			return 0;
		for (int k = 0; k < 2; k++)
			if (a == at[k])
				memcpy(rows[k], line, n);
	}
	return rows[0][at[1]] == 'O' && rows[1][at[0]] == 'O';
}

static void check(const p2psafe_report *report, const char *text, size_t len)
{
	const struct p2s_model *m = &report->decision.m;
	json_t *top = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);

	FUZZ_ASSERT(m->gpu_count == 2 && m->pair_count == 2 && m->simulated && m->kept_hit);
	for (int32_t c = 1; c < P2S_CONSUMERS; c++)
		if (m->consumers[c].allowed == 1)
			FUZZ_ASSERT(letters_say_ok(top, p2psafe_consumer_name(c)) &&
			            json_is_false(json_object_get(top, "nothing_tested")));
	if (m->transport == P2PSAFE_TRANSPORT_NVLINK || m->transport == P2PSAFE_TRANSPORT_PCIE)
		FUZZ_ASSERT(letters_say_ok(top, "pair"));
	json_decref(top);
}

static void look(const char *record, size_t len, int whole, int all)
{
	struct p2s_session s;
	struct p2psafe_options o;
	struct p2s_places places;
	p2psafe_report *report = p2s_report_new(0);
	char why[300] = "";
	char dir[300];
	int32_t hit = 0;

	snprintf(dir, sizeof dir, "%s/kept", folder_path());
	p2psafe_options_init(&o, sizeof o);
	o.host_dir = tree_host();
	o.cache_dir = dir;
	FUZZ_ASSERT(report != NULL && p2s_session_open(&s, &o, NULL) == 0);
	p2s_places_open(&places, &s.request, 0);
	FUZZ_ASSERT(p2s_hit_try(&s, &places, NULL, report, &hit, why, sizeof why) == 0);
	FUZZ_ASSERT(hit || why[0] != '\0');
	if (hit) {
		FUZZ_ASSERT(whole);
		check(report, record, len);
		FUZZ_ASSERT(p2s_view_index(&report->decision) == 1);
		if (all)
			getters_all(report);
		if (p2s_report_evidence(report) != &report->decision)
			second_opinion(&p2s_report_evidence(report)->m);
	}
	p2s_places_close(&places);
	p2s_session_close(&s);
	p2psafe_report_free(report);
}

/* How: bit 0: sums are put right; bit 1: the raw rest is the record; bit 2: every getter is called. Then changes: file and place (3 bytes), bytes to cut, bytes to put. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static char text[2][FILE_MAX_ + 128];
	size_t len[2];
	struct fuzz_in in = {bytes, size};
	uint32_t how = fuzz_number(&in, 1);

	if (healthy[0] == NULL)
		make_healthy();
	for (int f = 0; f < 2; f++) {
		len[f] = strlen(healthy[f]);
		memcpy(text[f], healthy[f], len[f]);
	}
	if (how & 2) {
		len[0] = 0;
		change(text[0], &len[0], 0, 0, in.at, in.left < 30000 ? in.left : 30000);
		in.left = 0;
	}
	while (in.left > 0) {
		uint32_t where = fuzz_number(&in, 2);
		size_t cut = fuzz_number(&in, 1);
		size_t n = fuzz_number(&in, 1);
		const uint8_t *put = fuzz_bytes(&in, n, &n);

		change(text[where >> 15], &len[where >> 15], (where & 0x7fff) % (len[where >> 15] + 1), cut, put, n);
	}
	if (how & 1) {
		rename_hash(text[0], len[0], text[1], len[1]);
		len[0] = seal(text[0], len[0]);
	}
	folder_write(RECORD, text[0], len[0]);
	folder_write(full_name, text[1], len[1]);
	look(text[0], len[0], how & 3 || (len[0] >= strlen(healthy[0]) && memcmp(text[0], healthy[0], strlen(healthy[0])) == 0),
	     how & 4);
	return 0;
}
