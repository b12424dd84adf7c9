"""How vLLM and SGLang find and read the cache of their own peer test, written anew from their published behaviour.

Both build the name from CUDA_VISIBLE_DEVICES as it stands (or from the number of devices), believe the file if it exists, and
index it with "i->j" of local ordinals. tests/gpu/framework_caches.py runs the frameworks' own code where they are installed.
"""

import json
import os


class Tested(Exception):
    """There is no file: the framework would now test by itself."""


class Checker:
    def __init__(self, root, environment, devices):
        mask = environment.get("CUDA_VISIBLE_DEVICES")
        if mask is None:
            mask = ",".join(str(i) for i in range(devices))
        self.path = os.path.join(root, "gpu_p2p_access_cache_for_%s.json" % mask)

    def access(self, source, target):
        if not os.path.exists(self.path):
            raise Tested(self.path)
        with open(self.path, encoding="utf-8") as stream:
            return json.load(stream)["%d->%d" % (source, target)]

    def may_use_custom_all_reduce(self, rank, world_size):
        return all(self.access(rank, peer) for peer in range(world_size) if peer != rank)


def expand(environment, path):
    return environment["HOME"] + path[1:] if path.startswith("~") else path


def vllm(environment, devices):
    cache = environment.get("XDG_CACHE_HOME", expand(environment, "~/.cache"))
    return Checker(expand(environment, environment.get("VLLM_CACHE_ROOT", os.path.join(cache, "vllm"))), environment, devices)


def sglang(environment, devices):
    return Checker(expand(environment, environment.get("SGLANG_CACHE_DIR", "~/.cache/sglang")), environment, devices)


BOTH = {"vllm": vllm, "sglang": sglang}
