/* Drives a fuzz target without libFuzzer: every file of the folders named, as it is and damaged a little in many places. The damage is
 * the same in every run. "-N" before a folder: so many damaged variants of each file. Exits 1 when there was no file: nothing was
 * proven then. */
#define _GNU_SOURCE
#include "fuzz.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#define INPUT_MAX (1 << 20)
#define DAMAGED 200 /* variants of each file, unless told otherwise */

static uint64_t state;

/* splitmix64 */
static uint64_t next(void)
{
	uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* An allocation of exactly the size, so that a sanitizer sees each byte beyond. */
static void feed(const unsigned char *bytes, size_t size)
{
	unsigned char *copy = malloc(size > 0 ? size : 1);

	if (copy == NULL)
		abort();
	memcpy(copy, bytes, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
}

static void damage(unsigned char *bytes, size_t *size)
{
	static const char special[] = "\n \t\\;,:=[](){}*0123456789abcdefxX\xff";

	for (uint64_t n = 1 + next() % 4; n > 0 && *size > 0; n--) {
		size_t at = (size_t)(next() % *size);
		size_t len = 1 + (size_t)(next() % 64);

		if (len > *size - at)
			len = *size - at;
		switch (next() % 5) {
		case 0:
			bytes[at] = (unsigned char)next();
			break;
		case 1:
			bytes[at] = (unsigned char)special[next() % (sizeof special - 1)];
			break;
		case 2: /* something is missing */
			memmove(bytes + at, bytes + at + len, *size - at - len);
			*size -= len;
			break;
		case 3: /* something comes twice */
			if (*size + len <= INPUT_MAX) {
				memmove(bytes + at + len, bytes + at, *size - at);
				*size += len;
			}
			break;
		default: /* cut off */
			*size = next() % 8 == 0 ? at : *size;
			break;
		}
	}
}

static size_t run_file(const char *path, int damaged)
{
	static unsigned char whole[INPUT_MAX];
	static unsigned char part[INPUT_MAX];
	FILE *f = fopen(path, "rb");
	size_t size;

	if (f == NULL)
		return 0;
	size = fread(whole, 1, sizeof whole, f);
	fclose(f);
	feed(whole, size);
	state = size;
	for (int i = 0; i < damaged; i++) {
		size_t n = size;

		memcpy(part, whole, size);
		damage(part, &n);
		feed(part, n);
	}
	return 1;
}

int main(int argc, char **argv)
{
	size_t files = 0;
	int damaged = DAMAGED;

	for (int i = 1; i < argc; i++) {
		DIR *d;
		struct dirent *e;

		if (argv[i][0] == '-') {
			damaged = atoi(argv[i] + 1);
			continue;
		}
		d = opendir(argv[i]);

		while (d != NULL && (e = readdir(d)) != NULL) {
			char path[4096];

			snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name);
			if (e->d_name[0] != '.')
				files += run_file(path, damaged);
		}
		if (d != NULL)
			closedir(d);
	}
	printf("%zu files, %d variants of each\n", files, damaged);
	return files == 0;
}
