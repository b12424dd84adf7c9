# The GPUs bound to a driver of the right name. It is the kernel's own pci-stub, which claims devices and does nothing more.
insmod /lab/nvidia.ko ids=10de:2330
look bound
