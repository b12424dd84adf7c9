#define _GNU_SOURCE
#include "inventory/host_json.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOST_JSON_MAX 65536

/* The whole file as text, NULL with *e set. */
static char *slurp(int dir, const char *name, int *e)
{
	struct stat st;
	char *text = NULL;
	size_t n = 0;
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	*e = 0;
	if (fd < 0) {
		*e = errno;
		return NULL;
	}
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > HOST_JSON_MAX)
		*e = EFBIG;
	else
		text = malloc(HOST_JSON_MAX + 1);
	if (text == NULL && *e == 0)
		*e = ENOMEM;
	while (text != NULL && n < HOST_JSON_MAX) {
		ssize_t r = read(fd, text + n, HOST_JSON_MAX - n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			break;
		n += (size_t)r;
	}
	close(fd);
	if (text != NULL)
		text[n] = '\0';
	return text;
}

static int32_t bad(struct p2s_fault *fault, const char *dir, const char *key, const char *expected)
{
	return p2s_fault_set(fault, P2PSAFE_E_CONFIG, 0, "%.120s/host.json: key \"%.40s\": expected %s", dir, key, expected);
}

static int32_t read_access(const json_t *map, struct p2s_seam *seam, const char *dir, struct p2s_fault *fault)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)map, key, value) {
		char *end;
		unsigned long minor = strtoul(key, &end, 10);
		const char *word = json_string_value(value);

		if (*key < '0' || *key > '9' || *end != '\0' || minor >= P2S_MINORS)
			return bad(fault, dir, "device_access", "minor numbers below 256 as keys");
		if (word == NULL || (strcmp(word, "rw") != 0 && strcmp(word, "none") != 0))
			return bad(fault, dir, "device_access", "\"rw\" or \"none\" as values");
		seam->access[minor] = word[0] == 'r';
	}
	return 0;
}

static int32_t read_key(const char *key, const json_t *v, struct p2s_seam *seam, const char *dir, struct p2s_fault *fault)
{
	if (strcmp(key, "description") == 0 || strcmp(key, "source") == 0)
		return json_is_string(v) ? 0 : bad(fault, dir, key, "a string");
	if (strcmp(key, "privileged") == 0) {
		if (!json_is_boolean(v))
			return bad(fault, dir, key, "true or false");
		seam->privileged = json_is_true(v);
		return 0;
	}
	if (strcmp(key, "kmsg") == 0) {
		const char *word = json_string_value(v);

		if (word == NULL || (strcmp(word, "readable") != 0 && strcmp(word, "denied") != 0 && strcmp(word, "absent") != 0))
			return bad(fault, dir, key, "readable, denied or absent");
		memcpy(seam->log_state, word, strlen(word) + 1);
		return 0;
	}
	if (strcmp(key, "cpuid_signature") == 0) {
		const char *word = json_string_value(v);

		if (word == NULL || strlen(word) >= sizeof seam->cpuid_signature)
			return bad(fault, dir, key, "a string of at most twelve characters");
		memcpy(seam->cpuid_signature, word, strlen(word) + 1);
		return 0;
	}
	if (strcmp(key, "shm_bytes") == 0 || strcmp(key, "ignore_sigkill_ms") == 0) {
		if (!json_is_integer(v) || json_integer_value(v) < 0)
			return bad(fault, dir, key, "a whole number, not negative");
		if (key[0] == 's')
			seam->shm_bytes = (uint64_t)json_integer_value(v);
		else
			seam->ignore_sigkill_ms = (uint64_t)json_integer_value(v);
		return 0;
	}
	if (strcmp(key, "device_access") == 0)
		return json_is_object(v) ? read_access(v, seam, dir, fault) : bad(fault, dir, key, "an object");
	return p2s_fault_set(fault, P2PSAFE_E_CONFIG, 0, "%.120s/host.json: key \"%.40s\" is not known", dir, key);
}

static int32_t parse(const char *text, struct p2s_seam *seam, const char *dir, struct p2s_fault *fault)
{
	json_error_t je;
	json_t *top = json_loads(text, JSON_REJECT_DUPLICATES, &je);
	const char *key;
	json_t *value;
	int32_t rc = 0;

	if (!json_is_object(top)) {
		json_decref(top);
		return p2s_fault_set(fault, P2PSAFE_E_CONFIG, 0, "%.120s/host.json: line %d: not a JSON object: %.80s", dir, je.line,
		                     top == NULL ? je.text : "other type");
	}
	json_object_foreach(top, key, value) {
		rc = read_key(key, value, seam, dir, fault);
		if (rc != 0)
			break;
	}
	if (rc == 0 && (json_object_get(top, "description") == NULL || json_object_get(top, "source") == NULL))
		rc = bad(fault, dir, "description, source", "both");
	json_decref(top);
	return rc;
}

int32_t p2s_host_json_read(const char *host_dir, struct p2s_seam *seam, struct p2s_fault *fault)
{
	char *text;
	int32_t rc = 0;
	int dir;
	int e;

	memset(seam, 0, sizeof *seam);
	memset(seam->access, -1, sizeof seam->access);
	if (host_dir == NULL)
		return 0;
	seam->simulated = 1;
	seam->privileged = 1;
	seam->shm_bytes = UINT64_C(1) << 30;
	dir = open(host_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return p2s_fault_set(fault, P2PSAFE_E_CONFIG, errno, "host folder %.180s: cannot be opened (errno %d)", host_dir, errno);
	text = slurp(dir, "host.json", &e);
	if (text != NULL) {
		rc = parse(text, seam, host_dir, fault);
		free(text);
	} else if (e == ENOMEM) {
		rc = p2s_fault_set(fault, P2PSAFE_E_NOMEM, e, "out of memory");
	} else if (e != ENOENT || faccessat(dir, "sys", F_OK, 0) != 0) {
		rc = p2s_fault_set(fault, P2PSAFE_E_CONFIG, e, "%.160s/host.json: cannot be read (errno %d); expected a host folder",
		                   host_dir, e);
	}
	if (rc == 0 && seam->log_state[0] == '\0') {
		int log = faccessat(dir, "kmsg", F_OK, 0) == 0 || faccessat(dir, "dmesg.txt", F_OK, 0) == 0;

		memcpy(seam->log_state, log ? "readable" : "absent", log ? 9 : 7);
	}
	close(dir);
	return rc;
}
