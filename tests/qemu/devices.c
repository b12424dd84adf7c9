/* More PCI devices for an unmodified qemu-system-x86_64, as a library for LD_PRELOAD. Debian builds QEMU with loadable modules,
 * so the program exports its object model, and a few types can be derived from stock ones without QEMU's headers; offsets in
 * its structures are found at run time. Works with QEMU 7.2; 10.0 was seen to work with the Intel IOMMU.
 *
 *   fakegpu   from edu (keeps its DMA engine in BAR0): PCIe endpoint 10de:2330, class 0302, BAR1 of 64-bit prefetchable memory
 *   fakerp    from pcie-root-port: 1022:1483
 *   fakeswup  from x3130-upstream: 10b5:8747
 *   fakeswdn  from xio3130-downstream: 10b5:8747, with the ACS capability that the stock device lacks
 *
 * Environment: LAB_SWITCH_ACS=0 leaves the capability out. LAB_LINKS=width:speed,... gives the GPUs' links in their order
 * (speed 1..4 as in the Link Status register; the last one repeats; default 16:4). */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define WEAK __attribute__((weak))
#define KINDS 4
#define MODULE_INIT_QOM 3     /* QEMU module.h, enum module_init_type */
#define CAP_PRESENT_MULTIFUNCTION 8u
#define CAP_PRESENT_EXPRESS 4u
#define EDU_SEEN 2560         /* bytes of an edu object that are surely there: it embeds a buffer of 4 KiB */
#define CLASS_FIRST 0x60      /* PCIDeviceClass: the ids lie somewhere in these bytes */
#define CLASS_LAST 0x200
#define REALIZE_BEFORE_IDS 0x20
#define CONFIG_READ_BEFORE_IDS 0x10
#define CAP_EXPRESS 0x10
#define CAP_SECURE_DEVICE 0x0f /* PCI capability of the AMD IOMMU */
#define NPCACHE_BYTE 3         /* bit 26 of its header */
#define NPCACHE_BIT 0x04u
#define GPU_BAR1_BYTES (UINT64_C(64) << 20)
#define GPU_SUBSYSTEM_VENDOR 0x10de
#define GPU_SUBSYSTEM 0x16c1
#define EXPRESS_OFFSET 0x80
#define ACS_OFFSET 0x148

struct interface {
	const char *type;
};

struct type_info { /* QEMU object.h, TypeInfo */
	const char *name;
	const char *parent;
	size_t instance_size;
	size_t instance_align;
	void (*instance_init)(void *);
	void (*instance_post_init)(void *);
	void (*instance_finalize)(void *);
	bool is_abstract;
	size_t class_size;
	void (*class_init)(void *, void *);
	void (*class_base_init)(void *, void *);
	void *class_data;
	struct interface *interfaces;
};

typedef void (*realize_fn)(void *device, void *error);
typedef uint32_t (*config_read_fn)(void *device, uint32_t address, int length);

/* QEMU's own functions; absent when the library is loaded into another program. */
WEAK void *type_register_static(const struct type_info *info);
WEAK void register_module_init(void (*function)(void), int kind);
WEAK bool object_property_set_bool(void *object, const char *name, bool value, void *error);
WEAK void *object_class_by_name(const char *name);
WEAK int pcie_endpoint_cap_init(void *device, uint8_t offset);
WEAK void pcie_acs_init(void *device, uint16_t offset);
WEAK uint8_t pci_find_capability(void *device, uint8_t id);
WEAK uint32_t pci_default_read_config(void *device, uint32_t address, int length);
WEAK void memory_region_init_ram(void *region, void *owner, const char *name, uint64_t size, void *error);
WEAK void pci_register_bar(void *device, int bar, uint8_t type, void *region);

enum kind { GPU, ROOT_PORT, SWITCH_UP, SWITCH_DOWN };

static struct fake {
	const char *name;
	const char *parent;
	uint16_t parent_vendor;
	uint16_t parent_device;
	uint16_t vendor;
	uint16_t device;
	uint16_t class_id; /* 0: as the parent */
	uint8_t revision;  /* 0: as the parent */
	realize_fn parent_realize;
} fakes[KINDS] = {
	[GPU] = {"fakegpu", "edu", 0x1234, 0x11e8, 0x10de, 0x2330, 0x0302, 0xa1, NULL},
	[ROOT_PORT] = {"fakerp", "pcie-root-port", 0x1b36, 0x000c, 0x1022, 0x1483, 0, 0, NULL},
	[SWITCH_UP] = {"fakeswup", "x3130-upstream", 0x104c, 0x8232, 0x10b5, 0x8747, 0, 0xca, NULL},
	[SWITCH_DOWN] = {"fakeswdn", "xio3130-downstream", 0x104c, 0x8233, 0x10b5, 0x8747, 0, 0xca, NULL},
};

static ptrdiff_t cap_present = -1; /* offset of PCIDevice.cap_present in an edu object */

static void die(const char *what, const char *name)
{
	fprintf(stderr, "devices: %s (%s)\n", what, name);
	exit(1);
}

/* Reads memory that may not be there. */
static bool peek(const void *from, void *to, size_t n)
{
	struct iovec mine = {to, n};
	struct iovec theirs = {(void *)(uintptr_t)from, n};

	return process_vm_readv(getpid(), &mine, 1, &theirs, 1, 0) == (ssize_t)n;
}

/* PCIDevice.cap_present is the word in which the property "multifunction" sets bit 3. */
static void find_cap_present(void *object)
{
	static char before[EDU_SEEN];

	memcpy(before, object, sizeof before);
	object_property_set_bool(object, "multifunction", true, NULL);
	for (size_t i = 0; i + 4 <= sizeof before && cap_present < 0; i += 4) {
		uint32_t a, b;

		memcpy(&a, before + i, 4);
		memcpy(&b, (char *)object + i, 4);
		if ((a ^ b) == CAP_PRESENT_MULTIFUNCTION && (b & CAP_PRESENT_MULTIFUNCTION))
			cap_present = (ptrdiff_t)i;
	}
	object_property_set_bool(object, "multifunction", false, NULL);
	if (cap_present < 0)
		die("cap_present not found", "edu");
}

static void gpu_init(void *object)
{
	uint32_t word;

	if (cap_present < 0)
		find_cap_present(object);
	memcpy(&word, (char *)object + cap_present, 4);
	word |= CAP_PRESENT_EXPRESS;
	memcpy((char *)object + cap_present, &word, 4);
}

/* The device's configuration space: a pointer in its object to bytes that begin with its ids. */
static uint8_t *config_of(void *device, const struct fake *f)
{
	uint32_t want = f->vendor | (uint32_t)f->device << 16;

	for (size_t i = 0x40; i < 4096; i += sizeof(void *)) {
		uint8_t *p;
		uint32_t got;

		memcpy(&p, (char *)device + i, sizeof p);
		if ((uintptr_t)p > 4096 && ((uintptr_t)p & 7) == 0 && peek(p, &got, 4) && got == want)
			return p;
	}
	die("configuration space not found", f->name);
	return NULL;
}

/* The n-th entry of LAB_LINKS. */
static void gpu_link(int n, unsigned *width, unsigned *speed)
{
	const char *at = getenv("LAB_LINKS");

	*width = 16;
	*speed = 4;
	if (at == NULL || *at == '\0')
		return;
	for (const char *comma; n > 0 && (comma = strchr(at, ',')) != NULL; n--)
		at = comma + 1;
	if (sscanf(at, "%u:%u", width, speed) != 2)
		die("LAB_LINKS", at);
}

/* Link Capabilities, Link Status and Link Capabilities 2 of the Express capability at offset cap. */
static void set_link(uint8_t *config, int cap, unsigned width, unsigned speed)
{
	uint32_t capabilities;
	uint32_t speeds = (2u << speed) - 2;
	uint16_t status;

	memcpy(&capabilities, config + cap + 0x0c, 4);
	capabilities = (capabilities & ~0x3ffu) | speed | width << 4;
	memcpy(config + cap + 0x0c, &capabilities, 4);
	memcpy(&status, config + cap + 0x12, 2);
	status = (uint16_t)((status & ~0x3ffu) | speed | width << 4);
	memcpy(config + cap + 0x12, &status, 2);
	memcpy(config + cap + 0x2c, &speeds, 4);
}

static void realize_gpu(void *device, uint8_t *config, void *error)
{
	static int count;
	uint16_t ids[2] = {GPU_SUBSYSTEM_VENDOR, GPU_SUBSYSTEM};
	unsigned width, speed;
	char name[32];
	void *region = calloc(1, 8192); /* more than a MemoryRegion; lives as long as the device */
	int cap;

	if (region == NULL)
		die("out of memory", "fakegpu");
	memcpy(config + 0x2c, ids, sizeof ids);
	gpu_link(count, &width, &speed);
	snprintf(name, sizeof name, "fakegpu-memory%d", count++);
	memory_region_init_ram(region, device, name, GPU_BAR1_BYTES, error);
	pci_register_bar(device, 1, 0x0c, region); /* 64 bits, prefetchable */
	cap = pcie_endpoint_cap_init(device, EXPRESS_OFFSET);
	if (cap < 0)
		die("no Express capability", "fakegpu");
	set_link(config, cap, width, speed);
}

static void realize(enum kind kind, void *device, void *error)
{
	struct fake *f = &fakes[kind];
	const char *acs = getenv("LAB_SWITCH_ACS");
	uint8_t *config;

	f->parent_realize(device, error);
	if (error != NULL && *(void **)error != NULL)
		return;
	config = config_of(device, f);
	if (kind == GPU)
		realize_gpu(device, config, error);
	else if (kind != ROOT_PORT)
		set_link(config, pci_find_capability(device, CAP_EXPRESS), 16, 4);
	if (kind == SWITCH_DOWN && (acs == NULL || strcmp(acs, "0") != 0))
		pcie_acs_init(device, ACS_OFFSET);
}

static void realize_gpu_type(void *device, void *error)
{
	realize(GPU, device, error);
}

static void realize_root_port(void *device, void *error)
{
	realize(ROOT_PORT, device, error);
}

static void realize_switch_up(void *device, void *error)
{
	realize(SWITCH_UP, device, error);
}

static void realize_switch_down(void *device, void *error)
{
	realize(SWITCH_DOWN, device, error);
}

static const realize_fn realizers[KINDS] = {realize_gpu_type, realize_root_port, realize_switch_up, realize_switch_down};

/* With the NpCache bit of its IOMMU Linux says "Using strict mode due to virtualization" and uses DMA instead of DMA-FQ, which
 * a real machine would not: the bit reads as 0. */
static uint32_t read_amd_iommu_config(void *device, uint32_t address, int length)
{
	uint32_t value = pci_default_read_config(device, address, length);
	uint32_t byte = pci_find_capability(device, CAP_SECURE_DEVICE) + (uint32_t)NPCACHE_BYTE;

	if (byte > NPCACHE_BYTE && address <= byte && address + (uint32_t)length > byte)
		value &= ~(NPCACHE_BIT << (8 * (byte - address)));
	return value;
}

static void hide_npcache(ptrdiff_t ids)
{
	config_read_fn function = read_amd_iommu_config;
	char *class = object_class_by_name("AMDVI-PCI");

	if (class != NULL)
		memcpy(class + ids - CONFIG_READ_BEFORE_IDS, &function, sizeof function);
}

/* A derived class starts as a copy of its parent's: find the ids in it, put others there and take over realize. */
static void class_init(void *class, void *data)
{
	struct fake *f = data;
	char *bytes = class;

	for (ptrdiff_t i = CLASS_FIRST; i < CLASS_LAST; i += 2) {
		uint16_t ids[2];

		memcpy(ids, bytes + i, sizeof ids);
		if (ids[0] != f->parent_vendor || ids[1] != f->parent_device)
			continue;
		memcpy(bytes + i, &f->vendor, 2);
		memcpy(bytes + i + 2, &f->device, 2);
		if (f->revision != 0)
			memcpy(bytes + i + 4, &f->revision, 1);
		if (f->class_id != 0)
			memcpy(bytes + i + 6, &f->class_id, 2);
		memcpy(&f->parent_realize, bytes + i - REALIZE_BEFORE_IDS, sizeof f->parent_realize);
		memcpy(bytes + i - REALIZE_BEFORE_IDS, &realizers[f - fakes], sizeof realizers[0]);
		if (f == &fakes[GPU])
			hide_npcache(i);
		return;
	}
	die("PCIDeviceClass is not as expected", f->name);
}

static void register_types(void)
{
	static struct interface express[] = {{"pci-express-device"}, {NULL}};
	static struct type_info types[KINDS];

	for (size_t i = 0; i < KINDS; i++) {
		types[i].name = fakes[i].name;
		types[i].parent = fakes[i].parent;
		types[i].class_init = class_init;
		types[i].class_data = &fakes[i];
	}
	types[GPU].instance_init = gpu_init;
	types[GPU].interfaces = express;
	for (size_t i = 0; i < KINDS; i++)
		type_register_static(&types[i]);
}

__attribute__((constructor)) static void at_load(void)
{
	if (register_module_init != NULL && type_register_static != NULL)
		register_module_init(register_types, MODULE_INIT_QOM);
}
