# As the kernel started: no driver claims the GPUs.
look unbound
