#include "tree.h"

#include "folder.h"
#include "fuzz.h"

#define HOST "host/"
#define A "root/sys/devices/pci0000:00/0000:00:01.1/0000:01:00.0/"
#define B "root/sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0/"
#define PA "root/sys/devices/pci0000:00/0000:00:01.1/"
#define PB "root/sys/devices/pci0000:40/0000:40:01.1/"
#define NOTHING "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"

#define FILE_(name, text) {name, text, NULL}
#define LINK_(name, to) {name, NULL, to}
#define GPU(at, bus, group, resource)                                                                                       \
	FILE_(at "vendor", "0x10de\n"), FILE_(at "device", "0x2bb5\n"), FILE_(at "subsystem_vendor", "0x10de\n"),               \
		FILE_(at "subsystem_device", "0x204e\n"), FILE_(at "class", "0x030200\n"), FILE_(at "numa_node", "0\n"),            \
		FILE_(at "current_link_speed", "32.0 GT/s PCIe\n"), FILE_(at "max_link_speed", "32.0 GT/s PCIe\n"),                 \
		FILE_(at "current_link_width", "16\n"), FILE_(at "max_link_width", "16\n"), FILE_(at "dma_mask_bits", "52\n"),      \
		FILE_(at "power_state", "D0\n"), FILE_(at "boot_vga", "0\n"), FILE_(at "resource", resource),                       \
		LINK_(at "driver", "../../../../bus/pci/drivers/nvidia"),                                                           \
		LINK_(at "iommu_group", "../../../../kernel/iommu_groups/" group),                                                  \
		FILE_("root/sys/kernel/iommu_groups/" group "/type", "identity\n")
#define PORT(at, secondary)                                                                                                 \
	FILE_(at "vendor", "0x1022\n"), FILE_(at "device", "0x14ab\n"), FILE_(at "class", "0x060400\n"),                        \
		FILE_(at "secondary_bus_number", secondary), FILE_(at "current_link_speed", "32.0 GT/s PCIe\n"),                    \
		FILE_(at "max_link_speed", "32.0 GT/s PCIe\n"), FILE_(at "current_link_width", "16\n"),                             \
		FILE_(at "max_link_width", "16\n"), LINK_(at "driver", "../../../bus/pci/drivers/pcieport"),                        \
		FILE_(at "resource", NOTHING NOTHING NOTHING NOTHING NOTHING NOTHING NOTHING                                        \
		      "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"                                                  \
		      "0x00000000a6000000 0x00000000a7ffffff 0x0000000000000200\n"                                                  \
		      "0x0000050000000000 0x0000057fffffffff 0x0000000000102201\n")

/* A GPU whose windows begin at so many hexadecimal digits. */
#define WINDOWS(low, high)                                                                                                  \
	"0x00000000" low "000000 0x00000000" low "ffffff 0x0000000000040200\n"                                                  \
	"0x00000" high "00000000 0x00000" high "ffffffff 0x000000000014220c\n" NOTHING                                          \
	"0x00000" high "00000000 0x00000" high "01ffffff 0x000000000014220c\n" NOTHING NOTHING NOTHING

const struct tree_file tree_files[] = {
	FILE_("host.json", "{\"description\": \"two GPUs\", \"source\": \"invented\"}\n"),
	FILE_("kmsg", "6,100,1000000,-;iommu: Default domain type: Passthrough\n"),
	FILE_("root/proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz root=/dev/sda1 ro quiet iommu=pt\n"),
	FILE_("root/proc/version", "Linux version 6.14.11 (builder@) (gcc 12.2.0) #1 SMP\n"),
	FILE_("root/proc/sys/kernel/osrelease", "6.14.11\n"),
	FILE_("root/proc/sys/kernel/random/boot_id", "7c0d3a52-8f4e-4b7e-9a51-3f2d6f0c1b9e\n"),
	FILE_("root/proc/sys/kernel/dmesg_restrict", "0\n"),
	FILE_("root/proc/cpuinfo", "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu sme sev hypervisor\n\n"),
	FILE_("root/proc/meminfo", "MemTotal:       805306368 kB\n"),
	FILE_("root/proc/1/cgroup", "0::/init.scope\n"),
	FILE_("root/proc/driver/nvidia/version",
	      "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  590.48.01  Release Build  (builder@)\n"),
	FILE_("root/proc/driver/nvidia/params", "EnableMSI: 1\nRegistryDwords: \"\"\nDmaRemapPeerMmio: 1\nEnableResizableBar: 0\n"),
	FILE_("root/sys/module/nvidia/srcversion", "5A7D0C7C6A0B1E6F3C2D4E1\n"),
	FILE_("root/sys/module/nvidia/version", "590.48.01\n"),
	FILE_("root/sys/module/kvm_amd/parameters/sev_snp", "N\n"),
	FILE_("root/sys/class/dmi/id/bios_version", "1.0\n"),
	FILE_("root/sys/class/dmi/id/sys_vendor", "Example\n"),
	FILE_("root/sys/class/dmi/id/product_name", "Server\n"),
	FILE_("root/sys/class/iommu/ivhd0/unused", ""),
	FILE_("root/sys/kernel/uevent_seqnum", "4711\n"),
	FILE_("root/sys/devices/system/node/online", "0-1\n"),
	FILE_("root/sys/devices/system/node/node0/distance", "10 32\n"),
	FILE_("root/sys/devices/system/node/node0/cpulist", "0-31,64-95\n"),
	FILE_("root/sys/devices/system/node/node1/distance", "32 10\n"),
	FILE_("root/sys/devices/system/node/node1/cpulist", "32-63\n"),
	FILE_("root/dev/nvidiactl", ""),
	FILE_("root/dev/nvidia0", ""),
	FILE_("root/dev/nvidia1", ""),
	FILE_("root/dev/nvidia-uvm", ""),
	FILE_("root/etc/nccl.conf", "NCCL_DEBUG=WARN\n"),
	LINK_("root/sys/bus/pci/devices/0000:00:01.1", "../../../devices/pci0000:00/0000:00:01.1"),
	LINK_("root/sys/bus/pci/devices/0000:01:00.0", "../../../devices/pci0000:00/0000:00:01.1/0000:01:00.0"),
	LINK_("root/sys/bus/pci/devices/0000:40:01.1", "../../../devices/pci0000:40/0000:40:01.1"),
	LINK_("root/sys/bus/pci/devices/0000:41:00.0", "../../../devices/pci0000:40/0000:40:01.1/0000:41:00.0"),
	LINK_("root/sys/bus/pci/drivers/nvidia/0000:01:00.0", "../../../../devices/pci0000:00/0000:00:01.1/0000:01:00.0"),
	LINK_("root/sys/bus/pci/drivers/nvidia/0000:41:00.0", "../../../../devices/pci0000:40/0000:40:01.1/0000:41:00.0"),
	GPU(A, "01", "30", WINDOWS("a6", "500")),
	GPU(B, "41", "31", WINDOWS("a7", "540")),
	PORT(PA, "1\n"),
	PORT(PB, "65\n"),
};
const size_t tree_count = sizeof tree_files / sizeof tree_files[0];

void tree_restore(size_t i)
{
	const struct tree_file *f = &tree_files[i];
	char name[256];

	snprintf(name, sizeof name, HOST "%s", f->name);
	if (f->text != NULL)
		folder_write(name, f->text, strlen(f->text));
	else
		folder_link(name, f->link);
}

const char *tree_host(void)
{
	static char path[300];

	if (path[0] == '\0') {
		for (size_t i = 0; i < tree_count; i++)
			tree_restore(i);
		snprintf(path, sizeof path, "%s/host", folder_path());
	}
	return path;
}
