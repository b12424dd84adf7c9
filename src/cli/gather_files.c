/* The files of gather.def, each through what removes names. */
#include <stdio.h>
#include <string.h>

#include "evidence/log.h"
#include "gather.h"

#define FILE_CAP 65536
/* Every host gathered has this boot id: two of them are never taken for two boots of one machine by their names alone. */
#define BOOT_ID_TEXT "00000000-0000-4000-8000-000000000000\n"

struct text {
	char at[FILE_CAP];
	size_t len;
};

typedef void (*clean_fn)(const struct text *in, struct text *out);

static void put(struct text *out, const char *s, size_t n)
{
	if (n > FILE_CAP - 1 - out->len)
		n = FILE_CAP - 1 - out->len;
	memcpy(out->at + out->len, s, n);
	out->len += n;
	out->at[out->len] = '\0';
}

static int starts(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

/* One line of a file that may name things it should not: UUIDs, serial numbers, (user@host). */
static void put_line(struct text *out, const char *line, size_t n)
{
	char one[4096], clean[4096];
	snprintf(one, sizeof(one), "%.*s", (int)n, line);
	p2s_log_redact(one, clean, sizeof(clean));
	put(out, clean, strlen(clean));
	put(out, "\n", 1);
}

static void clean_copy(const struct text *in, struct text *out)
{
	for (const char *line = in->at; *line != '\0';) {
		size_t n = strcspn(line, "\n");
		put_line(out, line, n);
		line += n + (line[n] == '\n');
	}
}

static void clean_mark(const struct text *in, struct text *out)
{
	(void)in;
	put(out, "", 0);
}

static void clean_boot_id(const struct text *in, struct text *out)
{
	(void)in;
	put(out, BOOT_ID_TEXT, strlen(BOOT_ID_TEXT));
}

/* A word of the command line. One that is longer than the kernel's own limit (x86: 2048) is none. */
static void put_word(struct text *out, const char *word, size_t n)
{
	char one[4096], clean[4096];
	if (n >= sizeof(one))
		return;
	snprintf(one, sizeof(one), "%.*s", (int)n, word);
	p2s_log_redact(one, clean, sizeof(clean));
	if (out->len > 0)
		put(out, " ", 1);
	put(out, clean, strlen(clean));
}

/* Words that matter, in their order. A word with a path in it names a file of this machine; one may name GPUs. */
static void clean_cmdline(const struct text *in, struct text *out)
{
	static const char *const wanted[] = {
#define P2S_GATHER_FILE(path, how)
#define P2S_GATHER_ATTRIBUTE(name)
#define P2S_GATHER_WORD(start) start,
#include "gather.def"
#undef P2S_GATHER_WORD
#undef P2S_GATHER_ATTRIBUTE
#undef P2S_GATHER_FILE
	};
	for (const char *word = in->at; *word != '\0';) {
		size_t n = strcspn(word, " \t\n");
		for (size_t i = 0; n > 0 && i < sizeof(wanted) / sizeof(wanted[0]); i++) {
			const char *plain = word[0] == '"' ? word + 1 : word; /* quotes may stand before the name or after it */
			if (!starts(plain, wanted[i]) || memchr(word, '/', n) != NULL)
				continue;
			put_word(out, word, n);
			break;
		}
		word += n;
		word += strspn(word, " \t\n");
	}
	put(out, "\n", 1);
}

/* The first processor: who made it, which it is, its flags. */
static void clean_cpu(const struct text *in, struct text *out)
{
	static const char *const wanted[] = {"vendor_id", "cpu family",      "model",   "stepping",
										 "flags",     "CPU implementer", "Features"};
	for (const char *line = in->at; *line != '\0' && *line != '\n';) {
		size_t n = strcspn(line, "\n");
		for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
			if (!starts(line, wanted[i]))
				continue;
			put(out, line, n);
			put(out, "\n", 1);
			break;
		}
		line += n + (line[n] == '\n');
	}
}

/* "... Release Build  (user@host)  date": nobody's business. */
static void clean_version(const struct text *in, struct text *out)
{
	char line[1024];
	snprintf(line, sizeof(line), "%.*s", (int)strcspn(in->at, "\n"), in->at);
	char *who = strchr(line, '(');
	if (who != NULL)
		*who = '\0';
	put_line(out, line, strlen(line));
}

static void clean_params(const struct text *in, struct text *out)
{
	for (const char *line = in->at; *line != '\0';) {
		size_t n = strcspn(line, "\n");
		if (!starts(line, "TemporaryFilePath") && memchr(line, '/', n) == NULL)
			put_line(out, line, n);
		line += n + (line[n] == '\n');
	}
}

static void clean_environ(const struct text *in, struct text *out)
{
	for (size_t i = 0; i < in->len; i += strlen(in->at + i) + 1) {
		if (!starts(in->at + i, "container="))
			continue;
		put(out, in->at + i, strlen(in->at + i));
		put(out, "\0", 1);
		return;
	}
}

#define COPY clean_copy
#define MARK clean_mark
#define CMDLINE clean_cmdline
#define CPU clean_cpu
#define ENVIRON clean_environ
#define VERSION clean_version
#define PARAMS clean_params
#define BOOT_ID clean_boot_id

static const struct {
	const char *path;
	clean_fn clean;
} files[] = {
#define P2S_GATHER_FILE(path, how) {path, how},
#define P2S_GATHER_ATTRIBUTE(name)
#define P2S_GATHER_WORD(start)
#include "gather.def"
#undef P2S_GATHER_WORD
#undef P2S_GATHER_ATTRIBUTE
#undef P2S_GATHER_FILE
};

void gather_files(struct gather *g)
{
	static struct text in, out;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char to[300];
		in.len = out.len = 0;
		in.at[0] = out.at[0] = '\0';
		if (files[i].clean == clean_mark) {
			if (!p2s_fsroot_exists(&g->from, files[i].path))
				continue;
		} else if (files[i].clean == clean_cpu) { /* hundreds of processors: the first is enough */
			if (p2s_fsroot_head(&g->from, files[i].path, in.at, 16384) != P2S_READ_OK)
				continue;
		} else if (p2s_fsroot_read(&g->from, files[i].path, in.at, sizeof(in.at), &in.len, NULL) != P2S_READ_OK) {
			continue;
		}
		files[i].clean(&in, &out);
		if (out.len == 0 && files[i].clean == clean_environ)
			continue; /* no container=: the file stays away, which is "not known" */
		snprintf(to, sizeof(to), "root%s", files[i].path);
		gather_write(g, to, out.at, out.len);
	}
}
