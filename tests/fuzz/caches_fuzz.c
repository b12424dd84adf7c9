/* Any bytes as the peer-access file that a framework left in its folder. First byte: the answer, force, the mask. Afterwards the
 * framework hears the answer, or we say that it does not; a file of somebody else is never touched without leave. */
#include <jansson.h>

#include "folder.h"
#include "frameworks/caches.h"
#include "fuzz.h"

static const char *const masks[] = {NULL, "0,1", "1,0", "GPU-5d3c0000,GPU-5d3c1111"};

/* Does the file say this to every pair of two devices? */
static int says(const char *text, size_t len, int value)
{
	json_t *top = text != NULL ? json_loadb(text, len, 0, NULL) : NULL;
	const json_t *there = json_object_get(top, "0->1");
	const json_t *back = json_object_get(top, "1->0");
	int yes = value ? json_is_true(there) && json_is_true(back) : json_is_false(there) && json_is_false(back);

	json_decref(top);
	return yes;
}

static int ours(const char *text, size_t len)
{
	json_t *top = json_loadb(text, len, 0, NULL);
	int yes = json_object_get(top, "p2psafe") != NULL;

	json_decref(top);
	return yes;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct fuzz_in in = {bytes, size};
	uint32_t how = fuzz_number(&in, 1);
	enum p2s_cache_answer answer = (enum p2s_cache_answer)(how % 3);
	int force = how / 3 % 2;
	const char *mask = masks[how / 6 % 4];
	struct p2s_cache_environment env = {.visible = mask};
	struct p2s_cache_result r;
	char name[200];
	size_t len = 0;
	char *now;
	int was_ours = ours((const char *)in.at, in.left);
	int untouched;

	for (size_t i = 0; i < P2S_FRAMEWORKS; i++)
		env.root[i] = folder_path();
	env.home = folder_path();
	snprintf(name, sizeof name, "gpu_p2p_access_cache_for_%s.json", mask != NULL ? mask : "0,1");
	folder_write(name, in.at, in.left);
	p2s_cache_put((enum p2s_framework)0, &env, 2, answer, force, &r);
	FUZZ_ASSERT(strstr(r.path, name) != NULL && r.why[0] != '\0');
	now = folder_read(name, &len);
	untouched = now != NULL && len == in.left && memcmp(now, in.at, len) == 0;
	switch (r.state) {
	case P2S_CACHE_WRITTEN:
		FUZZ_ASSERT(answer != P2S_CACHE_ABSENT && (was_ours || force) && says(now, len, answer == P2S_CACHE_TRUE) && ours(now, len));
		break;
	case P2S_CACHE_SAME:
		FUZZ_ASSERT(untouched && says(now, len, answer == P2S_CACHE_TRUE));
		break;
	case P2S_CACHE_REMOVED:
		FUZZ_ASSERT(answer == P2S_CACHE_ABSENT && was_ours && now == NULL);
		break;
	case P2S_CACHE_NOTHING:
		FUZZ_ASSERT(answer == P2S_CACHE_ABSENT && untouched && !was_ours);
		break;
	case P2S_CACHE_FOREIGN:
		FUZZ_ASSERT(untouched && !was_ours && !force && p2s_cache_unheard(r.state));
		break;
	default:
		abort(); /* nothing else can be */
	}
	free(now);
	folder_remove(name);
	return 0;
}
