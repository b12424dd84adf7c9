/* What fails.c does not call: reports joined, caches of frameworks, groups, the topology file, and the record as a person sees
 * it. Every allocation and file call fails once, at each place in turn: no crash, nothing lost, no permission that the
 * reports do not give, and a file that is old, new or absent. */
#define _GNU_SOURCE
#include "kept.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "failing.h"

#define GPUS 2
#define TEXT_MAX 20000
#define FILES 3
#define TOPOLOGY 2 /* the last of them */

static struct kept *kept;
static p2psafe_context *context;
static p2psafe_report *good, *bad;
static char *good_text, *bad_text;

/* The files of an operation: what each holds when all goes well. */
static char paths[FILES][256];
static char whole[FILES][TEXT_MAX];

static int files_before; /* in the folder of the record */
static int was_met;

/* The library was asked: what we look at ourselves does not fail. */
static void asked(void)
{
	was_met |= failing_met();
	failing_set(FAILING_OFF, 0, 0);
}

static int read_text(const char *path, char *text)
{
	FILE *f = fopen(path, "r");

	text[0] = '\0';
	if (f == NULL)
		return 0;
	text[fread(text, 1, TEXT_MAX - 1, f)] = '\0';
	fclose(f);
	return 1;
}

/* 1 if the file is whole, 0 if it is absent; anything else is wrong. Of a topology file, which leaves out what it cannot read,
 * only the end is the same. */
static int is_whole(int i, const char **wrong)
{
	static char text[TEXT_MAX];
	const char *same = text;
	const char *as = whole[i];

	if (!read_text(paths[i], text))
		return 0;
	if (i == TOPOLOGY && strlen(text) > 24 && strlen(as) > 24) {
		same += strlen(text) - 24;
		as += strlen(as) - 24;
	}
	if (strcmp(same, as) != 0)
		*wrong = "half a file, or another one";
	return 1;
}

static void refused(int32_t rc, const void *out, const struct p2psafe_error *err, const char **wrong)
{
	if (rc < 0 && (out != NULL || err->text[0] == '\0' || err->code != rc))
		*wrong = "an error with a result, or without a text";
}

static void join(const char **wrong)
{
	const char *const texts[] = {good_text, bad_text};
	struct p2psafe_error err = {.size = sizeof err};
	p2psafe_report *report = NULL;
	int32_t codes[2] = {0, 0};
	int32_t rc = p2psafe_merge(texts, 2, codes, &report, &err);

	refused(rc, report, &err, wrong);
	if (rc == 0 && report == NULL)
		*wrong = "no report";
	for (int32_t c = P2PSAFE_CONSUMER_NCCL_P2P; c <= P2PSAFE_CONSUMER_PEER_COPIES; c++)
		if (p2psafe_report_allows(report, c))
			*wrong = "the join allows what one of them does not";
	if (p2psafe_report_exit_code(report) == 0 || (rc == 0 && codes[1] == 0))
		*wrong = "the exit code says something else";
	p2psafe_report_free(report);
}

/* The caches of both frameworks say what the report says, or the call says that they do not. */
static void write_caches(const p2psafe_report *report, int there, const char **wrong)
{
	struct p2psafe_error err = {.size = sizeof err};
	struct p2psafe_caches at = {.size = sizeof at, .visible = "0,1"};
	char home[128];
	char *done = NULL;
	int32_t rc;

	snprintf(home, sizeof home, "%s/home", kept->base);
	at.home = home;
	rc = p2psafe_report_write_caches(report, &at, &done, &err);
	asked();
	refused(rc, done, &err, wrong);
	for (int i = 0; i < 2; i++)
		if (is_whole(i, wrong) != there && rc == 0)
			*wrong = "a framework does not hear the answer, and nobody says so";
	p2psafe_string_free(done);
}

static void veto_in_caches(const char **wrong)
{
	write_caches(bad, 1, wrong);
}

static void veto_without_a_report(const char **wrong)
{
	write_caches(NULL, 1, wrong);
}

static void veto_taken_back(const char **wrong)
{
	write_caches(good, 0, wrong);
}

static void groups(const char **wrong)
{
	static const int32_t both[GPUS] = {0, 1};
	struct p2psafe_group group = {.size = sizeof group};
	int32_t gpus[GPUS] = {-1, -1};
	int32_t rc = p2psafe_report_best_group(good, P2PSAFE_CONSUMER_NCCL_P2P, GPUS, gpus, &group);

	if (rc == 0 && (gpus[0] != 0 || gpus[1] != 1 || group.verdict != P2PSAFE_VERDICT_OK))
		*wrong = "half a group";
	if (p2psafe_report_best_group(bad, P2PSAFE_CONSUMER_NCCL_P2P, GPUS, gpus, &group) == 0 ||
	    p2psafe_report_group_allows(bad, both, GPUS, P2PSAFE_CONSUMER_NCCL_P2P) || p2psafe_report_island(bad, 0, gpus, GPUS) > 1 ||
	    p2psafe_report_order(bad, GPUS, gpus, GPUS) > 0)
		*wrong = "a group of a bad machine";
	if (p2psafe_report_group(bad, both, GPUS, &group) == 0 && group.verdict == P2PSAFE_VERDICT_OK)
		*wrong = "a bad group is OK";
	if (p2psafe_report_partition(bad, gpus, GPUS) == 1 && gpus[0] == gpus[1])
		*wrong = "an island of a bad machine";
}

static void topology(const char **wrong)
{
	struct p2psafe_error err = {.size = sizeof err};
	struct p2psafe_options o;
	p2psafe_report *report = NULL;
	char placement[128];
	int named = 0;
	int32_t rc;

	snprintf(placement, sizeof placement, "%s/placement", kept->base);
	kept_options(kept, &o);
	o.helper_path = "/nonexistent/helper";
	o.placement_file = placement;
	o.topology_file = paths[TOPOLOGY];
	rc = p2psafe_decide(context, &o, &report, &err);
	asked();
	refused(rc, report, &err, wrong);
	for (int32_t i = 0; i < p2psafe_report_setting_count(report); i++) {
		struct p2psafe_setting s = {.size = sizeof s};

		if (p2psafe_report_setting(report, i, &s) == 0 && strcmp(s.name, "NCCL_TOPO_FILE") == 0 && s.kind == P2PSAFE_SETTING_ENV)
			named = 1;
	}
	if (!is_whole(TOPOLOGY, wrong) && named)
		*wrong = "a file is named that is not there";
	p2psafe_report_free(report);
}

static void show(const char **wrong)
{
	struct p2psafe_error err = {.size = sizeof err};
	struct p2psafe_options o;
	char *text = NULL;
	int32_t rc;

	kept_options(kept, &o);
	rc = p2psafe_cache_show(context, &o, &text, &err);
	refused(rc, text, &err, wrong);
	if (rc == 0 && text[0] != '\0' && (text[0] != '{' || text[strlen(text) - 1] != '}' || strstr(text, "\"valid\": ") == NULL))
		*wrong = "half a record is shown";
	p2psafe_string_free(text);
	text = NULL;
	rc = p2psafe_cache_path(context, &o, &text, &err);
	refused(rc, text, &err, wrong);
	if (rc == 0 && text[0] != '\0' && strcmp(text, kept->cache) != 0)
		*wrong = "another place";
	p2psafe_string_free(text);
}

/* Says that it removed what it removed. */
static void clear(const char **wrong)
{
	struct p2psafe_error err = {.size = sizeof err};
	struct p2psafe_options o;
	int32_t rc;

	kept_options(kept, &o);
	rc = p2psafe_cache_clear(context, &o, &err);
	asked();
	refused(rc, NULL, &err, wrong);
	if (rc >= 0 && rc != files_before - kept_files(kept, ""))
		*wrong = "another number of files";
	if (rc >= 0 && (kept_files(kept, ".json") > 0 || kept_files(kept, ".full") > 0))
		*wrong = "a record is left, and nobody says so";
}

/* ---- What is there before each ---- */

static void record_of(const char *words)
{
	struct p2psafe_options o;

	kept_options(kept, &o);
	kept_script(kept, words);
	assert_int_equal(kept_ask(p2psafe_test, &o).rc, 0);
}

static void a_record(void)
{
	tmp_remove(kept->cache);
	record_of("");
	files_before = kept_files(kept, "");
}

static void nothing(void)
{
	for (int i = 0; i < FILES; i++)
		unlink(paths[i]);
}

static void no_home(void)
{
	char home[128];

	snprintf(home, sizeof home, "%s/home", kept->base);
	tmp_remove(home);
	assert_int_equal(mkdir(home, 0700), 0);
}

static void an_earlier_veto(void)
{
	const char *wrong = NULL;

	no_home();
	veto_in_caches(&wrong);
	assert_null(wrong);
}

static const struct operation {
	const char *name;
	void (*prepare)(void);
	void (*run)(const char **wrong);
	int parser; /* jansson's parser may lack memory, too: all that it reads is short */
} all[] = {
	{"join of a good and a bad report", nothing, join, 0},
	{"a veto in caches", no_home, veto_in_caches, 0},
	{"a veto without a report", no_home, veto_without_a_report, 0},
	{"a veto taken back", an_earlier_veto, veto_taken_back, 1},
	{"groups", nothing, groups, 0},
	{"a topology file", nothing, topology, 0},
	{"a record shown", nothing, show, 0},
	{"records cleared", a_record, clear, 0},
};

/* ---- One place after the other ---- */

static struct {
	int places;
	int met;
	int jansson; /* places in its parser */
	int place;
	char name[32];
	char what[96];
} *seen;

/* A place below 0: it only learns. Noinline: the way to a place is the same for both. */
static __attribute__((noinline)) void at_place(const struct operation *op, int kinds, int place)
{
	const char *wrong = NULL;
	long live;
	int fds;

	op->prepare();
	seen->place = place;
	snprintf(seen->name, sizeof seen->name, "%s", failing_name(place));
	live = failing_live();
	fds = kept_descriptors();
	failing_set(place < 0 ? FAILING_LEARN : FAILING_ONCE, kinds, place);
	was_met = 0;
	op->run(&wrong);
	asked();
	seen->met += was_met;
	if (failing_live() != live)
		wrong = "memory is lost";
	if (kept_descriptors() != fds)
		wrong = "a descriptor is lost";
	if (wrong != NULL) {
		snprintf(seen->what, sizeof seen->what, "%s", wrong);
		_exit(1);
	}
}

/* In a child. What jansson 2.14 does when its parser has no memory for a long word is undefined (SECURITY.md): nothing fails
 * there. */
static void all_places(const struct operation *op, int kinds)
{
	const char *wrong = NULL;

	for (int warm = 0; warm < 2; warm++) {
		op->prepare();
		op->run(&wrong);
	}
	at_place(op, kinds, -1);
	seen->places = failing_places();
	seen->met = 0;
	for (int i = 0; i < seen->places; i++) {
		if (failing_in_parser(i) && !op->parser)
			seen->jansson++;
		else
			at_place(op, kinds, i);
	}
	_exit(0);
}

static void run_all(int kinds)
{
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		int status;
		pid_t pid;

		memset(seen, 0, sizeof *seen);
		failing_forget();
		pid = fork();
		if (pid == 0) {
			signal(SIGSEGV, SIG_DFL); /* cmocka has its own */
			signal(SIGBUS, SIG_DFL);
			signal(SIGABRT, SIG_DFL);
			all_places(&all[i], kinds);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (status != 0)
			fail_msg("%s: place %d of %d (%s): %s (status %x)", all[i].name, seen->place, seen->places, seen->name,
			         seen->what[0] != '\0' ? seen->what : "crashed", (unsigned)status);
		print_message("%s: %d places, %d failed, %d in jansson's parser\n", all[i].name, seen->places, seen->met, seen->jansson);
		assert_true(seen->met + seen->jansson >= seen->places * 9 / 10);
	}
}

static void memory(void **state)
{
	(void)state;
#ifdef __SANITIZE_ADDRESS__
	skip(); /* the sanitizer has these functions itself */
#endif
	run_all(FAILING_MEMORY);
}

static void files(void **state)
{
	(void)state;
	run_all(FAILING_FILES);
}

/* A report and its JSON of a machine as the script has it. */
static p2psafe_report *report_of(const char *words, int allowed, char **text)
{
	p2psafe_report *report = NULL;
	struct p2psafe_options o;

	kept_options(kept, &o);
	kept_script(kept, words);
	tmp_remove(kept->cache);
	assert_int_equal(p2psafe_test(context, &o, &report, NULL), 0);
	assert_int_equal(p2psafe_report_allows(report, P2PSAFE_CONSUMER_NCCL_P2P), allowed);
	assert_int_equal(p2psafe_report_json(report, text, NULL), 0);
	return report;
}

static int setup(void **state)
{
	static const char *const folders[] = {".cache/vllm", ".cache/sglang"};
	const char *wrong = NULL;

	kept_setup(state);
	kept = *state;
	tmp_remove(kept->host);
	mkdir(kept->host, 0755);
	tmp_host(kept->host, GPUS);
	seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(seen != MAP_FAILED);
	assert_int_equal(p2psafe_context_new(&context, NULL, NULL, NULL), 0);
	bad = report_of("bad 0 1", 0, &bad_text);
	good = report_of("", 1, &good_text);
	for (int i = 0; i < 2; i++)
		snprintf(paths[i], sizeof paths[i], "%s/home/%s/gpu_p2p_access_cache_for_0,1.json", kept->base, folders[i]);
	snprintf(paths[TOPOLOGY], sizeof paths[TOPOLOGY], "%s/topology.xml", kept->base);
	tmp_write(kept->base, "placement", "0000:01:00.0 0\n0000:02:00.0 0\n");
	no_home();
	veto_in_caches(&wrong);
	topology(&wrong);
	for (int i = 0; i < FILES; i++)
		if (!read_text(paths[i], whole[i]))
			fail_msg("%s: not there%s%s", paths[i], wrong != NULL ? ", " : "", wrong != NULL ? wrong : "");
	return 0;
}

static int teardown(void **state)
{
	p2psafe_report_free(good);
	p2psafe_report_free(bad);
	p2psafe_string_free(good_text);
	p2psafe_string_free(bad_text);
	p2psafe_context_free(context);
	munmap(seen, sizeof *seen);
	return kept_teardown(state);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {T(memory), T(files)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
