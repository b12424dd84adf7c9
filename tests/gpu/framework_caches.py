"""The frameworks' own checkers read the files that p2psafe writes for them.

usage: framework_caches.py P2PSAFE [--vllm FILE] [--sglang FILE]
    FILE: a published all_reduce_utils.py of vLLM, custom_all_reduce_utils.py of SGLang, or P2PSAFE_VLLM_FILE and
    P2PSAFE_SGLANG_FILE in the environment; what they import is then played by stand-ins.
Without FILE the installed framework is imported. Exits 77 when there is neither. Needs no GPU: the file must keep the checker
from testing, so a checker that tries to start a test fails. One without a file of ours must want to.
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
    if os.environ.get("P2PSAFE_TEST_NOTHING_WRITTEN"):
        try:
            checker.gpu_p2p_access_check(0, 1)
        except SystemExit as wants:
            print(wants)
            return 0
        return 1
    count = int(os.environ["P2PSAFE_TEST_DEVICES"])
    answers = [checker.gpu_p2p_access_check(i, j) for i in range(count) for j in range(count) if i != j]
    print("%s %s: %s" % (framework, getattr(checker, "__file__", "?"), answers))
    return 0 if answers and all(a is False for a in answers) else 1


def named(framework):
    """The published file of a framework that somebody named, None: the installed one is meant."""
    if "--" + framework in sys.argv:
        return sys.argv[sys.argv.index("--" + framework) + 1]
    return os.environ.get("P2PSAFE_%s_FILE" % framework.upper())


def environment_of(home, mask):
    ours = ("VLLM_", "SGLANG_", "XDG_", "CUDA_", "P2PSAFE_")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    environment.update(HOME=home, P2PSAFE_TEST_DEVICES=str(mask.count(",") + 1 if mask is not None else DEVICES))
    if mask is not None:
        environment["CUDA_VISIBLE_DEVICES"] = mask
    return environment


def asked(framework, file, environment):
    done = subprocess.run([sys.executable, __file__, "--ask", framework, *([file] if file else [])], env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", timeout=300)
    return done.returncode, done.stdout.strip()[-600:]


def main():
    program = sys.argv[1]
    ran = failed = 0
    for framework in MODULES:
        file = named(framework)
        if file is None and importlib.util.find_spec(framework) is None:
            print("skipped: %s is not installed, and no published file of it is named" % framework)
            continue
        for mask in ("4,6", "2,1,0", None):
            with tempfile.TemporaryDirectory() as home:
                environment = environment_of(home, mask)
                before = asked(framework, file, dict(environment, P2PSAFE_TEST_NOTHING_WRITTEN="1"))
                write = [program, "env", "--no-cache", "--host", HOSTS / "s01-founding-host", "--write-caches", "--home", home]
                subprocess.run(write, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               timeout=120)
                after = asked(framework, file, environment)
            for what, (code, text) in (("nothing written", before), ("written", after)):
                print("mask %s, %s: %s" % (mask, what, text))
                ran += code != 77
                failed += code not in (0, 77)
    print("%d asked, %d failed" % (ran, failed))
    return 77 if ran == 0 else 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--ask":
        sys.exit(ask(sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None))
    sys.exit(main())
