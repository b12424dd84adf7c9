/* Runs in the guest, as root: lets the DMA engine of an emulated GPU read and write a bus address, as a peer transfer would.
 *
 * usage: dma ADDRESS read|write BUS_ADDRESS    moves 64 bytes; says "done" or "timeout"
 *        dma ADDRESS copy PEER                 peer BAR1 -> engine -> peer BAR1 + 4096; says "arrived" or "lost"
 *
 * The engine is the one of QEMU's device "edu" (its specification: docs/specs/edu in QEMU's sources). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define REG_SOURCE 0x80
#define REG_TARGET 0x88
#define REG_COUNT 0x90
#define REG_COMMAND 0x98
#define COMMAND_START 1u
#define COMMAND_TO_MEMORY 2u
#define ENGINE_BUFFER 0x40000u /* the device's own address of its buffer */
#define WORDS 16u
#define BYTES (WORDS * 4u)
#define SECOND_PLACE 4096u
#define POLLS 300

static void fail(const char *what, const char *which)
{
	printf("%s: %s\n", what, which);
	exit(2);
}

static void *map_bar(const char *address, int bar)
{
	char path[128];
	struct stat st;
	void *m;
	int fd;

	snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/resource%d", address, bar);
	fd = open(path, O_RDWR | O_SYNC | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0)
		fail("cannot open", path);
	m = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (m == MAP_FAILED)
		fail("cannot map", path);
	close(fd);
	return m;
}

static uint64_t bar_address(const char *address, int bar)
{
	char path[128];
	unsigned long long start = 0;
	FILE *f;

	snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/resource", address);
	f = fopen(path, "re");
	if (f == NULL)
		fail("cannot open", path);
	for (int i = 0; i <= bar; i++)
		if (fscanf(f, "%llx %*x %*x", &start) != 1)
			fail("cannot read", path);
	fclose(f);
	return start;
}

static void set(volatile char *engine, unsigned reg, uint64_t value)
{
	*(volatile uint64_t *)(engine + reg) = value;
}

/* 1 when the engine says that it is done, whatever became of the bytes. */
static int transfer(volatile char *engine, int to_memory, uint64_t bus)
{
	struct timespec nap = {.tv_nsec = 10000000};

	set(engine, REG_SOURCE, to_memory ? ENGINE_BUFFER : bus);
	set(engine, REG_TARGET, to_memory ? bus : ENGINE_BUFFER);
	set(engine, REG_COUNT, BYTES);
	set(engine, REG_COMMAND, COMMAND_START | (to_memory ? COMMAND_TO_MEMORY : 0));
	for (int i = 0; i < POLLS; i++) {
		if (!(*(volatile uint64_t *)(engine + REG_COMMAND) & COMMAND_START))
			return 1;
		nanosleep(&nap, NULL);
	}
	return 0;
}

static int copy(volatile char *engine, const char *peer)
{
	volatile uint32_t *memory = map_bar(peer, 1);
	uint64_t bus = bar_address(peer, 1);
	uint32_t wrong = 0;

	for (uint32_t i = 0; i < WORDS; i++) {
		memory[i] = 0xbeef0000u + i;
		memory[SECOND_PLACE / 4 + i] = 0;
	}
	if (!transfer(engine, 0, bus) || !transfer(engine, 1, bus + SECOND_PLACE))
		return 0;
	for (uint32_t i = 0; i < WORDS; i++)
		wrong += memory[SECOND_PLACE / 4 + i] != 0xbeef0000u + i;
	return wrong == 0;
}

int main(int argc, char **argv)
{
	volatile char *engine;

	if (argc != 4)
		fail("usage", "dma ADDRESS read|write BUS_ADDRESS, dma ADDRESS copy PEER");
	engine = map_bar(argv[1], 0);
	if (strcmp(argv[2], "copy") == 0)
		puts(copy(engine, argv[3]) ? "arrived" : "lost");
	else if (strcmp(argv[2], "read") == 0 || strcmp(argv[2], "write") == 0)
		puts(transfer(engine, argv[2][0] == 'w', strtoull(argv[3], NULL, 0)) ? "done" : "timeout");
	else
		fail("unknown word", argv[2]);
	return 0;
}
