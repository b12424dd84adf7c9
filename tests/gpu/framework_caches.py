"""The frameworks' own checkers read the files that p2psafe writes for them.

usage: framework_caches.py P2PSAFE [--vllm FILE] [--sglang FILE]
    FILE: a published all_reduce_utils.py of vLLM, custom_all_reduce_utils.py of SGLang; what they import is then played by
    stand-ins.
Without FILE the installed framework is imported. Exits 77 when there is neither. Needs no GPU: the file must keep the checker
from testing, so a checker that tries to start a test fails.
"""

import importlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import types
import typing
from pathlib import Path

HOSTS = Path(__file__).resolve().parents[1] / "hosts"
MODULES = {
    "vllm": "vllm.distributed.device_communicators.all_reduce_utils",
    "sglang": "sglang.srt.distributed.device_communicators.custom_all_reduce_utils",
}
DEVICES = 4


class Anything(types.ModuleType):
    """A module in which every name is something that can be called, subscripted and asked for more."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self if name[:1].islower() else type(name, (), {"__class_getitem__": classmethod(lambda cls, item: cls)})

    def __call__(self, *args, **kwargs):
        return self

    def __getitem__(self, item):
        return self

    def __mro_entries__(self, bases):
        return ()


def play(name, **members):
    module = Anything(name)
    module.__dict__.update(members, __path__=[])
    sys.modules[name] = module
    return module


def stand_ins(framework):
    """What the two published files import. Only what the check itself asks for answers sensibly."""
    play("torch.distributed", is_initialized=lambda: False)
    play("torch.multiprocessing")
    play("torch.cuda", device_count=lambda: DEVICES)
    torch = play("torch")
    for name in ("distributed", "multiprocessing", "cuda"):
        setattr(torch, name, sys.modules["torch." + name])
    play("pynvml")
    play("typing_extensions", ParamSpec=typing.ParamSpec)
    if framework == "vllm":
        root = os.path.expanduser(os.getenv("VLLM_CACHE_ROOT", os.path.join(
            os.getenv("XDG_CACHE_HOME", os.path.join(os.path.expanduser("~"), ".cache")), "vllm")))
        envs = play("vllm.envs", VLLM_CACHE_ROOT=root, CUDA_VISIBLE_DEVICES=os.environ.get("CUDA_VISIBLE_DEVICES"))
        play("vllm").envs = envs
        play("vllm.platforms").current_platform = types.SimpleNamespace(device_count=lambda: DEVICES)
        play("vllm.platforms.interface", get_assigned_physical_gpu_ids=lambda: None)
        names = ("vllm.distributed", "vllm.distributed.device_communicators",
                 "vllm.distributed.device_communicators.cuda_wrapper", "vllm.distributed.parallel_state", "vllm.logger",
                 "vllm.utils", "vllm.utils.system_utils")
    else:
        play("sglang.srt.utils", is_cuda=lambda: True, is_hip=lambda: False, is_musa=lambda: False)
        folder = types.SimpleNamespace(get=lambda: os.getenv("SGLANG_CACHE_DIR", os.path.expanduser("~/.cache/sglang")))
        play("sglang.srt.environ", envs=types.SimpleNamespace(SGLANG_CACHE_DIR=folder))
        play("sglang.srt.utils.cuda_vmm_utils")
        names = ("sglang", "sglang.srt", "sglang.srt.distributed", "sglang.srt.distributed.device_communicators",
                 "sglang.srt.distributed.device_communicators.cuda_wrapper", "sglang.srt.distributed.parallel_state")
    for name in names:
        play(name)


def checker_of(framework, file):
    if file is None:
        return importlib.import_module(MODULES[framework])
    stand_ins(framework)
    spec = importlib.util.spec_from_file_location("published_" + framework, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def no_test(*args, **kwargs):
    raise SystemExit("the checker wants to test by itself: it did not believe the file")


def ask(framework, file):
    """In a process of its own: the checker keeps what it read for the process's life."""
    try:
        checker = checker_of(framework, file)
    except ImportError as exc:
        print("skipped: %s" % exc)
        return 77
    subprocess.run = no_test
    count = int(os.environ["P2PSAFE_TEST_DEVICES"])
    answers = [checker.gpu_p2p_access_check(i, j) for i in range(count) for j in range(count) if i != j]
    print("%s %s: %s" % (framework, getattr(checker, "__file__", "?"), answers))
    return 0 if answers and all(a is False for a in answers) else 1


def main():
    program = sys.argv[1]
    files = {name: sys.argv[sys.argv.index("--" + name) + 1] if "--" + name in sys.argv else None for name in MODULES}
    ran = failed = 0
    for framework, file in files.items():
        for mask in ("4,6", "2,1,0", None):
            with tempfile.TemporaryDirectory() as home:
                ours = ("VLLM_", "SGLANG_", "XDG_", "CUDA_", "P2PSAFE_")
                environment = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
                environment["HOME"] = home
                if mask is not None:
                    environment["CUDA_VISIBLE_DEVICES"] = mask
                write = [program, "env", "--no-cache", "--host", HOSTS / "s01-founding-host", "--write-caches", "--home", home]
                subprocess.run(write, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               timeout=120)
                environment["P2PSAFE_TEST_DEVICES"] = str(mask.count(",") + 1 if mask is not None else DEVICES)
                asked = [sys.executable, __file__, "--ask", framework, *([file] if file else [])]
                done = subprocess.run(asked, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      encoding="utf-8", timeout=300)
            print("mask %s: %s" % (mask, done.stdout.strip()[-600:]))
            ran += done.returncode != 77
            failed += done.returncode not in (0, 77)
    print("%d asked, %d failed" % (ran, failed))
    return 77 if ran == 0 else 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--ask":
        sys.exit(ask(sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None))
    sys.exit(main())
