#!/usr/bin/env python3
"""Runs the p2psafe program on a simulated host and compares what it says with the host's expect.json.

usage: run.py --program PATH HOST_DIR

Expectations are written by hand and never made from the program's output. docs/HOSTS.md describes them.
"""

import argparse
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import beside
import match

STEP_KEYS = {
    "why": str,
    "command": list,
    "env": dict,
    "host": str,
    "exit": int,
    "report": dict,
    "output": list,
    "forbid": list,
    "stderr": list,
    "max_seconds": (int, float),
    "must_fail": bool,
    "remedy_order": list,
    "cut_cache": bool,
    "stopped_holder": dict,
}
HOLDER_KEYS = ("command", "exit", "report")
REPORT_COMMANDS = ("probe", "test", "decide")
HARD_LIMIT_SECONDS = 150
GRACE_SECONDS = 3.0  # how long a child of the run may need to see that its run is over
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
SLOW = float(os.environ.get("P2PSAFE_TEST_SLOW", "1"))  # factor on max_seconds, for sanitized builds


class Wrong(Exception):
    """An expectation that cannot be used."""


def load_steps(folder):
    path = folder / "expect.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Wrong(f"{path}: {error}") from error
    steps = data if isinstance(data, list) else [data]
    if not steps:
        raise Wrong(f"{path}: no step")
    for number, step in enumerate(steps, 1):
        check_step(path, number, step)
    return steps


def check_step(path, number, step):
    if not isinstance(step, dict):
        raise Wrong(f"{path}: step {number} is not an object")
    for key, value in step.items():
        if key not in STEP_KEYS:
            raise Wrong(f"{path}: step {number}: unknown key '{key}', expected one of {', '.join(STEP_KEYS)}")
        if not isinstance(value, STEP_KEYS[key]) or (isinstance(value, bool) and STEP_KEYS[key] is not bool):
            raise Wrong(f"{path}: step {number}: key '{key}' has the wrong type")
    if not step.get("command") or not all(isinstance(word, str) for word in step["command"]):
        raise Wrong(f"{path}: step {number}: 'command' must name the arguments of p2psafe")
    for key in step.get("stopped_holder", {}):
        if key not in HOLDER_KEYS:
            raise Wrong(f"{path}: step {number}: stopped_holder: unknown key '{key}', expected one of {', '.join(HOLDER_KEYS)}")
    if "exit" not in step and "report" not in step:
        raise Wrong(f"{path}: step {number} expects nothing: give 'exit' or 'report'")


def become_subreaper():
    """Orphans of the run become our children, so that none can hide from left_behind()."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def living_children():
    """{pid: command line} of our children that are not zombies; zombies are reaped on the way."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return {}
        if pid == 0:
            break
    children = {}
    for task in pathlib.Path("/proc/self/task").iterdir():
        try:
            pids = (task / "children").read_text(encoding="ascii").split()
        except OSError:
            continue
        for pid in pids:
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                children[int(pid)] = b" ".join(words).decode("utf-8", "replace").strip() or "?"
            except OSError:
                continue
    return children


def left_behind(grace):
    """Children that outlive the run by more than grace seconds; they are killed."""
    end = time.monotonic() + grace
    children = living_children()
    while children and time.monotonic() < end:
        time.sleep(0.02)
        children = living_children()
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + 5
    while living_children() and time.monotonic() < end:
        time.sleep(0.02)
    return children


def environment(step, cache):
    """What the program sees: nothing of the caller's that could change an answer."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("P2PSAFE_", "CUDA_", "NCCL_", "XDG_"))}
    env["P2PSAFE_CACHE"] = str(cache)
    env["HOME"] = str(cache.parent)
    env.update(step.get("env", {}))
    return env


def host_of(folder, step):
    return folder.parent / step["host"] if "host" in step else folder


def unkillable_ms(host):
    try:
        return json.loads((host / "host.json").read_text(encoding="utf-8")).get("ignore_sigkill_ms", 0)
    except (OSError, ValueError):
        return 0


def command_line(program, host, words):
    if SLOW > 1 and words[0] in ("test", "decide") and "--deadline" not in words:
        words = words + ["--deadline", "120"]  # the default is for programs at full speed
    return [str(program), "--host", str(host)] + (["--json"] if words[0] in REPORT_COMMANDS else []) + words


def run_step(program, folder, step, cache):
    """Runs one step and what happens around it; returns the list of its differences."""
    lines = []
    holder = None
    if step.get("cut_cache", False) and beside.cut_records(cache) == 0:
        lines.append("cut_cache: there is no record to cut")
    if "stopped_holder" in step:
        command = command_line(program, host_of(folder, step), step["stopped_holder"]["command"])
        holder = beside.StoppedHolder(command, environment(step, cache), cache)
        if not holder.stopped:
            lines.append("stopped_holder: it ended before it could be stopped with the lock in its hands")
    try:
        lines += run_program(program, folder, step, cache)
        if holder is not None and holder.stopped:
            lines += judge_holder(holder, step["stopped_holder"])
    finally:
        if holder is not None:
            holder.end()
    for pid, words in left_behind(GRACE_SECONDS * SLOW).items():
        if unkillable_ms(host_of(folder, step)) == 0:
            lines.append(f"children: process {pid} outlives the run: {words}")
    return lines


def judge_holder(holder, expected):
    """The stopped process goes on and must adopt what the others were told."""
    code, out = holder.go_on(HARD_LIMIT_SECONDS)
    try:
        report = json.loads(out)
    except ValueError:
        return [f"stopped_holder: its output is not JSON: {match.shown(out)}"]
    return ["stopped_holder: " + line for line in judge_answer(expected, code, report)]


def run_program(program, folder, step, cache):
    """Runs the program of one step; returns the list of its differences."""
    host = host_of(folder, step)
    command = command_line(program, host, step["command"])
    wants_json = step["command"][0] in REPORT_COMMANDS
    start = time.monotonic()
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=environment(step, cache),
                              timeout=HARD_LIMIT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return [f"did not end within {HARD_LIMIT_SECONDS} s"]
    seconds = time.monotonic() - start
    out = done.stdout.decode("utf-8", "replace")
    err = done.stderr.decode("utf-8", "replace")
    lines = judge_run(step, out, err, seconds)
    report = None
    if wants_json or "report" in step:
        try:
            report = json.loads(out)
        except ValueError as error:
            lines.append(f"report: standard output is not JSON ({error}): {match.shown(out)}")
    if wants_json and report is not None and report.get("simulated") is not True:
        lines.append("report.simulated: expected true on a simulated host")
    answer = judge_answer(step, done.returncode, report)
    if step.get("must_fail", False):
        return lines + ([] if answer else ["the answer matches and must not: the fault is not noticed"])
    return lines + answer


def judge_answer(step, code, report):
    """The differences between the expected answer and the one that came."""
    lines = []
    if "exit" in step and code != step["exit"]:
        lines.append(f"exit: expected {step['exit']}, found {code}")
    if "report" in step and report is not None:
        lines += match.differences(step["report"], report)
    if "remedy_order" in step and report is not None:
        codes = [r.get("code") for r in report.get("remedies", [])]
        found = [code for code in codes if code in step["remedy_order"]]
        if found != step["remedy_order"]:
            lines.append(f"remedy_order: expected {' '.join(step['remedy_order'])}, found {' '.join(codes) or 'nothing'}")
    return lines


def judge_run(step, out, err, seconds):
    """What must hold whatever the answer is."""
    lines = []
    for text in step.get("output", []):
        if text not in out:
            lines.append(f"output: '{text}' does not occur")
    for text in step.get("forbid", []):
        if text in out or text in err:
            lines.append(f"forbid: '{text}' occurs")
    lines += judge_stderr(step.get("stderr", []), err)
    if "max_seconds" in step and seconds > step["max_seconds"] * SLOW:
        lines.append(f"max_seconds: expected at most {step['max_seconds'] * SLOW:g}, took {seconds:.2f}")
    return lines


def judge_stderr(expected, err):
    """Every line of stderr must be expected, and every expectation must occur."""
    lines = []
    for line in err.splitlines():
        if not any(text in line for text in expected):
            lines.append(f"stderr: unexpected line: {line}")
    for text in expected:
        if text not in err:
            lines.append(f"stderr: '{text}' does not occur")
    return lines


def run_host(program, folder):
    failures = 0
    with tempfile.TemporaryDirectory(prefix="p2psafe-host-") as scratch:
        os.chmod(scratch, 0o700)
        cache = pathlib.Path(scratch) / "cache"
        cache.mkdir(mode=0o700)
        for number, step in enumerate(load_steps(folder), 1):
            lines = run_step(program, folder, step, cache)
            note = " (must not match)" if step.get("must_fail", False) else ""
            print(f"{'FAIL' if lines else 'ok  '} step {number}{note}: p2psafe {' '.join(step['command'])}")
            for line in lines:
                print(f"     {line}")
            failures += bool(lines)
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True, type=pathlib.Path, help="the p2psafe program")
    parser.add_argument("host", type=pathlib.Path, help="folder with expect.json")
    args = parser.parse_args()
    if shutil.which(str(args.program)) is None:
        print(f"no program at {args.program}")
        return 2
    become_subreaper()
    try:
        return 1 if run_host(args.program.resolve(), args.host.resolve()) else 0
    except Wrong as error:
        print(error)
        return 2


if __name__ == "__main__":
    sys.exit(main())
