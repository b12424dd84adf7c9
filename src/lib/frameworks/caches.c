#define _GNU_SOURCE
#include "frameworks/caches.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/buf.h"
#include "kept/trust.h"

#define DEVICES_MAX 64            /* as many GPUs as a machine of ours has */
#define FILE_MAX (256 * 1024)     /* 64 times 64 entries of at most 20 bytes, with room */
#define MARK "p2psafe"            /* a key that no framework asks for: who wrote the file */

static const struct {
	const char *name, *variable, *below_cache, *below_home;
} frameworks[] = {
#define P2S_FRAMEWORK(id, name, variable, below_cache, below_home) {name, variable, below_cache, below_home},
#include "frameworks/frameworks.def"
#undef P2S_FRAMEWORK
};

static const char *const states[] = {"written", "same", "removed", "nothing", "foreign", "failed"};

const char *p2s_framework_name(enum p2s_framework f)
{
	return frameworks[f].name;
}

const char *p2s_framework_variable(enum p2s_framework f)
{
	return frameworks[f].variable;
}

const char *p2s_cache_state_name(enum p2s_cache_state state)
{
	return states[state];
}

int32_t p2s_cache_unheard(enum p2s_cache_state state)
{
	return state == P2S_CACHE_FOREIGN || state == P2S_CACHE_FAILED;
}

size_t p2s_cache_mask_entries(const char *visible)
{
	size_t n = 0;

	/* CUDA stops at the first entry that names nothing; an empty one, or a number below zero, never names anything. */
	for (const char *at = visible; *at != '\0' && *at != ',' && *at != '-'; n++) {
		at += strcspn(at, ",");
		if (*at == ',')
			at++;
	}
	return n;
}

static int32_t say(struct p2s_cache_result *out, enum p2s_cache_state state, const char *why)
{
	out->state = state;
	snprintf(out->why, sizeof out->why, "%s", why);
	return 0;
}

static int32_t failed(struct p2s_cache_result *out, const char *what)
{
	int e = errno;

	out->state = P2S_CACHE_FAILED;
	snprintf(out->why, sizeof out->why, "%s (errno %d)", what, e);
	return 0;
}

/* "~" and "~/..." are HOME, as in the frameworks. Returns 1, or 0 with the reason told. */
static int32_t expand(char *dir, size_t cap, const char *text, const char *home, struct p2s_cache_result *out)
{
	int32_t tilde = text[0] == '~' && (text[1] == '/' || text[1] == '\0');

	if (tilde && (home == NULL || home[0] != '/'))
		return say(out, P2S_CACHE_FAILED, "HOME is not set: the framework's folder is not known");
	if (!tilde && text[0] != '/')
		return say(out, P2S_CACHE_FAILED, "the framework's folder is not absolute: it depends on where the server starts");
	if ((size_t)snprintf(dir, cap, "%s%s", tilde ? home : "", tilde ? text + 1 : text) >= cap)
		return say(out, P2S_CACHE_FAILED, "the framework's folder has too long a name");
	return 1;
}

static int32_t find_dir(enum p2s_framework f, const struct p2s_cache_environment *env, char *dir, size_t cap,
                        struct p2s_cache_result *out)
{
	char text[1024];

	if (env->root[f] != NULL)
		return expand(dir, cap, env->root[f], env->home, out);
	if (frameworks[f].below_cache != NULL && env->xdg_cache_home != NULL)
		snprintf(text, sizeof text, "%.1000s%s", env->xdg_cache_home,
		         frameworks[f].below_cache + (env->xdg_cache_home[0] == '\0')); /* empty is set: the folder is then relative */
	else
		snprintf(text, sizeof text, "~%s", frameworks[f].below_home);
	return expand(dir, cap, text, env->home, out);
}

/* The name of the file, and how many devices it is about. */
static int32_t find_name(const struct p2s_cache_environment *env, size_t gpus, char *name, size_t cap, size_t *devices,
                         struct p2s_cache_result *out)
{
	char key[200] = "";

	*devices = env->visible != NULL ? p2s_cache_mask_entries(env->visible) : gpus;
	if (env->visible == NULL && gpus == 0)
		return say(out, P2S_CACHE_FAILED, "nobody knows how many GPUs a program sees here, and the file's name says it");
	if (*devices < 2)
		return say(out, P2S_CACHE_NOTHING, env->visible != NULL ? "CUDA_VISIBLE_DEVICES names fewer than two GPUs"
		                                                        : "a program sees fewer than two GPUs");
	if (*devices > DEVICES_MAX)
		return say(out, P2S_CACHE_FAILED, "more than 64 devices");
	if (env->visible != NULL && (strchr(env->visible, '/') != NULL || strlen(env->visible) >= sizeof key))
		return say(out, P2S_CACHE_FAILED, "CUDA_VISIBLE_DEVICES cannot be part of a file's name");
	for (size_t i = 0; i < *devices && env->visible == NULL; i++)
		snprintf(key + strlen(key), sizeof key - strlen(key), "%s%zu", i > 0 ? "," : "", i);
	snprintf(name, cap, "gpu_p2p_access_cache_for_%s.json", env->visible != NULL ? env->visible : key);
	return 1;
}

static void make_dirs(const char *path)
{
	char part[1100];

	snprintf(part, sizeof part, "%s", path);
	for (char *slash = part + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
		*slash = '\0';
		mkdir(part, 0777);
		*slash = '/';
	}
	mkdir(part, 0777);
}

/* As the frameworks write it: one flat object, "i->j" of local ordinals, the diagonal too. */
static char *compose(size_t devices, int32_t value)
{
	struct p2s_buf b = {0};

	p2s_buf_str(&b, "{\n");
	for (size_t i = 0; i < devices; i++)
		for (size_t j = 0; j < devices; j++)
			p2s_buf_printf(&b, "    \"%zu->%zu\": %s,\n", i, j, value ? "true" : "false");
	p2s_buf_printf(&b, "    \"" MARK "\": %s\n}\n", value ? "true" : "false");
	return p2s_buf_take(&b);
}

struct found {
	int32_t there;
	int32_t ours;
	int32_t unread; /* it may be ours, and could not be read now */
	int32_t says; /* 1: every pair that we would write has this value there */
};

/* Does the file say the answer to every pair of two devices? What the framework cannot read says nothing. */
static int32_t says(const json_t *top, size_t devices, int32_t value)
{
	char key[48];

	for (size_t i = 0; i < devices; i++)
		for (size_t j = 0; j < devices; j++) {
			const json_t *v;

			snprintf(key, sizeof key, "%zu->%zu", i, j);
			v = json_object_get(top, key);
			if (i != j && !(value ? json_is_true(v) : json_is_false(v)))
				return 0;
		}
	return 1;
}

/* Of a text that could not be parsed: is it, letter for letter, what we write? 1 also if that cannot be told. */
static int32_t is_text_of_ours(const char *text, size_t len, size_t devices)
{
	int32_t yes = 0;

	for (int32_t value = 0; value <= 1; value++) {
		char *own = compose(devices, value);

		yes |= own == NULL || (strlen(own) == len && memcmp(own, text, len) == 0);
		free(own);
	}
	return yes;
}

static struct found look(int dir, const char *name, size_t devices, int32_t value)
{
	struct found found = {0};
	struct stat st;
	const char *why;
	size_t len = 0;
	char *text;
	json_t *top;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
		found.there = found.unread = errno != ENOENT;
		return found;
	}
	found.there = 1;
	text = p2s_trust_read(dir, name, FILE_MAX, 0, &len, &why);
	top = text != NULL ? json_loadb(text, len, 0, NULL) : NULL;
	found.ours = json_object_get(top, MARK) != NULL;
	/* No memory, an error of the disk: a file of ours would be taken for another's. */
	if (text == NULL)
		found.unread = S_ISREG(st.st_mode) && st.st_size <= FILE_MAX;
	else if (top == NULL)
		found.unread = is_text_of_ours(text, len, devices);
	found.says = top != NULL && says(top, devices, value);
	json_decref(top);
	free(text);
	return found;
}

static int32_t write_all(int fd, const char *text)
{
	size_t len = strlen(text);

	if (!p2s_trust_may_grow(len)) {
		errno = EFBIG;
		return 0;
	}
	for (size_t n = 0; n < len;) {
		ssize_t r = write(fd, text + n, len - n);

		if (r < 0 && errno != EINTR)
			return 0;
		n += r > 0 ? (size_t)r : 0;
	}
	return fsync(fd) == 0;
}

/* Gives the file its name if nobody has it. */
static int32_t appear(int dir, const char *part, const char *name)
{
	if (linkat(dir, part, dir, name, 0) == 0)
		return 1;
	if (errno == EEXIST)
		return 0;
	return renameat2(dir, part, dir, name, RENAME_NOREPLACE) == 0; /* a file system without links */
}

/* A whole file under a name of its own, then at once under the right one. replace 0: only if nobody was first. Returns 1, or 0
 * with errno. */
static int32_t publish(int dir, const char *name, const char *text, int32_t replace)
{
	char part[64];
	struct timespec now;
	int32_t done;
	int saved;
	int fd;

	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(part, sizeof part, ".p2psafe-%ld-%ld.tmp", (long)getpid(), (long)now.tv_nsec);
	fd = openat(dir, part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return 0;
	done = write_all(fd, text);
	saved = errno;
	close(fd);
	errno = saved;
	if (done)
		done = replace ? renameat(dir, part, dir, name) == 0 : appear(dir, part, name);
	saved = errno;
	if (!done || !replace)
		unlinkat(dir, part, 0);
	errno = saved;
	return done;
}

static void take_back(int dir, const char *name, const struct found *found, struct p2s_cache_result *out)
{
	if (!found->there)
		say(out, P2S_CACHE_NOTHING, "nothing is vetoed: the framework tests for itself");
	else if (found->unread)
		say(out, P2S_CACHE_FAILED, "nothing is vetoed, and the file there cannot be read: it may be an earlier veto of ours");
	else if (!found->ours)
		say(out, P2S_CACHE_NOTHING, "nothing is vetoed, and the file there is the framework's own");
	else if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		say(out, P2S_CACHE_REMOVED, "an earlier veto of ours no longer holds");
	else
		failed(out, "an earlier veto of ours cannot be removed");
}

static void put(int dir, const char *name, size_t devices, int32_t value, int32_t force, struct p2s_cache_result *out)
{
	struct found found = look(dir, name, devices, value);
	char *text;
	int32_t done;

	if (found.says) {
		say(out, P2S_CACHE_SAME, found.ours ? "it is ours" : "it is not ours");
		return;
	}
	if (found.there && !found.ours && !force) {
		say(out, P2S_CACHE_FOREIGN, "a file that we did not write says otherwise; remove it, or give leave to replace it");
		return;
	}
	text = compose(devices, value);
	if (text == NULL) {
		say(out, P2S_CACHE_FAILED, "out of memory");
		return;
	}
	done = publish(dir, name, text, found.there);
	/* The framework was first: what it wrote is not ours. */
	if (!done && errno == EEXIST && force)
		done = publish(dir, name, text, 1);
	if (done)
		say(out, P2S_CACHE_WRITTEN, value ? "every pair of the group was proven" : "a pair of the group is vetoed");
	else if (errno == EEXIST)
		say(out, P2S_CACHE_FOREIGN, "a file appeared there meanwhile");
	else
		failed(out, "it cannot be written");
	free(text);
}

void p2s_cache_put(enum p2s_framework f, const struct p2s_cache_environment *env, size_t gpus, enum p2s_cache_answer answer,
                   int32_t force, struct p2s_cache_result *out)
{
	char folder[900];
	char name[256];
	size_t devices;
	int dir;

	out->path[0] = '\0';
	if (!find_dir(f, env, folder, sizeof folder, out) || !find_name(env, gpus, name, sizeof name, &devices, out))
		return;
	snprintf(out->path, sizeof out->path, "%s/%s", folder, name);
	if (answer != P2S_CACHE_ABSENT)
		make_dirs(folder);
	dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 && answer == P2S_CACHE_ABSENT && errno == ENOENT) {
		say(out, P2S_CACHE_NOTHING, "nothing is vetoed: the framework tests for itself");
	} else if (dir < 0) {
		failed(out, "its folder cannot be opened");
	} else if (answer == P2S_CACHE_ABSENT) {
		struct found found = look(dir, name, devices, 0);

		take_back(dir, name, &found, out);
	} else {
		put(dir, name, devices, answer == P2S_CACHE_TRUE, force, out);
	}
	if (dir >= 0)
		close(dir);
}
