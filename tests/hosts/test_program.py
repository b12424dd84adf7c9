#!/usr/bin/env python3
"""The program as people and scripts meet it: wrong options, readable output, terminals, `env`, `run` and `cache`.

usage: test_program.py PATH_OF_P2PSAFE
"""

import json
import os
import pathlib
import pty
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""
HOSTS = pathlib.Path(__file__).resolve().parent
FOUNDING = str(HOSTS / "s01-founding-host")
HEALTHY = str(HOSTS / "ok-2xh200-nvlink")
COMMANDS = ("probe", "test", "decide", "explain", "gather", "env", "run", "groups", "merge", "cache", "help")


class Program(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.cache = pathlib.Path(scratch.name) / "cache"
        self.cache.mkdir(mode=0o700)

    def environment(self, extra):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("P2PSAFE_", "CUDA_", "NCCL_", "XDG_", "COLUMNS", "NO_COLOR"))}
        env.update({"P2PSAFE_CACHE": str(self.cache), "HOME": str(self.cache.parent), "TERM": "xterm"})
        env.update(extra)
        return env

    def run_program(self, *words, **extra):
        done = subprocess.run([PROGRAM, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              env=self.environment(extra), timeout=120)
        return done.returncode, done.stdout, done.stderr


class Limits(Program):
    def test_few_descriptors_of_the_caller_are_not_the_helpers(self):
        """A shell's soft limit is often low; the hard one is what counts for the helper."""
        command = [PROGRAM, "test", "--level", "quick", "--no-measure", "--host", HEALTHY]
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120,
                              env=self.environment({}), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (20, hard)))
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)


class Usage(Program):
    def refused(self, words, *expected):
        code, out, err = self.run_program(*words)
        self.assertEqual(code, 2, (words, out, err))
        self.assertEqual(out, "")
        self.assertEqual(len(err.splitlines()), 1, err)
        for text in expected:
            self.assertIn(text, err)

    def test_the_option_and_what_was_expected_are_named(self):
        self.refused(["tset"], "'tset'", "help")
        self.refused(["test", "--jsn"], "'--jsn'", "--json")
        self.refused(["--jsn", "test"], "'--jsn'")
        self.refused(["test", "--gpus"], "--gpus", "LIST")
        self.refused(["test", "--gpus="], "--gpus", "LIST")
        self.refused(["test", "--gpus", "--json"], "--gpus", "LIST")
        self.refused(["test", "--gpus", "0", "--gpus", "1"], "--gpus", "twice")
        self.refused(["test", "--json=1"], "--json", "no value")
        self.refused(["test", "--level", "fast"], "--level", "quick|standard|thorough", "'fast'")
        self.refused(["test", "extra"], "'extra'")
        self.refused(["env", "--format", "yaml"], "--format", "kubernetes", "'yaml'")
        self.refused(["env", "--soak", "3"], "--soak", "p2psafe env")
        self.refused(["decide", "--keep-going"], "--keep-going", "p2psafe decide")
        self.refused(["test", "--soak", "3"], "--soak", "thorough")
        self.refused(["test", "--", "x"], "'--'")
        self.refused(["run"], "needs a command")
        self.refused(["run", "--"], "needs a command")
        self.refused(["cache"], "show, clear, path")
        self.refused(["cache", "foo"], "'foo'")
        self.refused(["help", "foo"], "'foo'")

    def test_seconds(self):
        for bad in ("0", "-1", "x", "1x", "", ".", "1.", "1.2.3", "1.2345", "86401", "86400.001", "604800", "99999999999999999999", "1e3",
                    "0.000"):
            self.refused(["test", "--deadline=" + bad], "--deadline", "at most 86400" if bad else "SECONDS")
        # as much as the library takes, not more
        code, _, err = self.run_program("--host", HEALTHY, "probe", "--deadline", "86400.000")
        self.assertEqual((code, err), (1, ""))

    def test_no_command(self):
        code, out, err = self.run_program()
        self.assertEqual((code, out), (2, ""))
        self.assertIn("usage: p2psafe COMMAND", err)

    def test_help_and_version(self):
        code, out, err = self.run_program("--version")
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"^p2psafe \d+\.\d+\.\d+\n$")
        code, out, err = self.run_program("help")
        self.assertEqual((code, err), (0, ""))
        for command in COMMANDS:
            self.assertRegex(out, rf"(?m)^  {command}\b")
            for words in (["help", command], [command, "--help"], ["-h", command]):
                code, text, err = self.run_program(*words)
                self.assertEqual((code, err), (0, ""), words)
                self.assertIn("--help", text)

    def test_the_manual_page_is_complete(self):
        manual = (HOSTS.parents[1] / "docs/man/p2psafe.1").read_text(encoding="utf-8").replace("\\-", "-")
        _, out, _ = self.run_program("help")
        options = re.findall(r"(?m)^  (--[a-z-]+)", out)
        self.assertGreater(len(options), 15)
        for word in (*options, *COMMANDS):
            self.assertIn(word, manual)
        for word in re.findall(r"--[a-z]+(?:-[a-z]+)*", manual):
            self.assertIn(word, options + ["--tensor-parallel-size", "--env-file"])

    def test_what_does_not_fit_the_machine(self):
        self.refused(["test", "--host", "/nonexistent"], "/nonexistent")
        self.refused(["test", "--host", FOUNDING, "--gpus", "0000:ff:00.0"], "0000:ff:00.0")
        self.refused(["test", "--host", FOUNDING, "--gpus", "0000:01:00.0,0000:01:00.0"], "0000:01:00.0")


class Readable(Program):
    def test_founding_host(self):
        code, out, err = self.run_program("--host", FOUNDING, "test", "--no-measure")
        self.assertEqual((code, err), (1, ""))
        self.assertIn("SIMULATED", out.splitlines()[0])
        self.assertNotIn("\033", out)
        self.assertIn("590.48.01", out)
        self.assertRegex(out, r"(?m)^IOMMU +translated")
        self.assertRegex(out, r"(?m)^ +src\\dst +0 +1 +2 +3$")
        self.assertRegex(out, r"(?m)^ +0 +- +CORRUPT +CORRUPT +CORRUPT$")
        self.assertRegex(out, r"(?m)^ +3 +CORRUPT +CORRUPT +CORRUPT +-$")
        self.assertRegex(out, r"(?m)^ +\d +0000:f1:00\.0 .*not_ours")
        self.assertIn("dropped", out)
        self.assertRegex(out, r"(?m)^  transport +HOST_STAGED$")
        self.assertIn("NCCL_P2P_DISABLE=1", out)
        self.assertIn("--disable-custom-all-reduce", out)
        self.assertIn("NOT PROVEN SAFE", out.splitlines()[-2] + out.splitlines()[-1])
        self.assertIn("SIMULATED", out.splitlines()[-2] + out.splitlines()[-1])

    def test_the_readme_shows_real_output(self):
        root = HOSTS.parents[1]
        readme = (root / "README.md").read_text(encoding="utf-8")
        command, block = re.search(r"`./build/bin/p2psafe (--host .*?)`:\n\n```\n(.*?)```", readme, re.S).groups()
        words = [str(root / word) if word.startswith("tests/") else word for word in command.split()]
        _, out, _ = self.run_program(*words)
        out = out.replace(str(root) + "/", "").splitlines()
        for line in block.splitlines():
            if "0x" not in line and line != "..." and not line.startswith("Kept"):
                self.assertIn(line, out)

    def test_ok_says_what_it_rests_on(self):
        code, out, err = self.run_program("--host", HEALTHY, "test", "--level", "quick")
        self.assertEqual((code, err), (0, ""))
        text = " ".join(out.split())
        self.assertRegex(text, r"2 of 2 directions are OK at level quick: each moved at least \S+ \S+ in [1-9]\d* rounds")
        self.assertRegex(text, r"touched \S+ \S+ of its owner's [1-9]")
        self.assertRegex(text, r"not tested: .*load, sweep.*multicast")
        self.assertRegex(out, r"(?m)^  nccl_p2p +allowed +OK$")
        self.assertRegex(out, r"(?m)^  multicast +left as is")
        self.assertIn("SAFE: every pair was proven", text)

    def test_probe_promises_nothing(self):
        _, out, err = self.run_program("--host", HEALTHY, "probe")
        self.assertEqual(err, "")
        self.assertIn("nothing is transferred", out)
        self.assertRegex(out, r"(?m)^ +0 +- +UNTESTED$")
        self.assertNotIn("What OK rests on", out)

    def test_narrow_matrix(self):
        _, out, _ = self.run_program("--host", str(HOSTS / "ok-8xpcie"), "probe", COLUMNS="40")
        matrix = out[out.index("src\\dst"):out.index("only OK is a pass")].splitlines()
        self.assertLessEqual(max(map(len, matrix)), 40)
        self.assertEqual(sum("src\\dst" in line for line in matrix), 2)
        self.assertEqual(len(re.findall(r" unt\b", "\n".join(matrix))), 8 * 7 + 1)

    def test_nothing_to_test(self):
        for host, code, sentence in (("no-gpu", 3, "no NVIDIA GPU"), ("no-driver", 3, "driver"), ("one-gpu", 0, "one GPU"),
                                     ("driver-too-old", 3, "driver")):
            found, out, err = self.run_program("--host", str(HOSTS / host), "test")
            self.assertEqual((found, err), (code, ""), host)
            self.assertIn(sentence, out[out.rindex("SIMULATED"):], host)

    def test_no_helper(self):
        code, out, err = self.run_program("--host", HEALTHY, "--helper", "/nonexistent/p2psafe-helper", "test")
        self.assertEqual((code, err), (3, ""))
        self.assertIn("HELPER_MISSING", out)
        self.assertIn("p2psafe-helper is missing", out)

    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            for words in (["--host", FOUNDING, "probe"], ["--host", FOUNDING, "probe", "--json"], ["help"], ["--version"]):
                done = subprocess.run([PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False,
                                      env=self.environment({}))
                self.assertEqual(done.returncode, 4, words)
                self.assertIn("No space left", done.stderr)


    def test_closed_descriptors(self):
        """Nothing of ours may end up in a file that took the place of a closed descriptor."""
        for redirection, expected in ((">&-", 4), ("2>&-", 1), ("<&-", 1), ("<&- >&- 2>&-", 4)):
            script = f'"$0" --host "$1" test --json {redirection}'
            done = subprocess.run(["/bin/sh", "-c", script, PROGRAM, FOUNDING], capture_output=True, check=False,
                                  env=self.environment({"P2PSAFE_LOG": "debug"}), timeout=120)
            self.assertEqual(done.returncode, expected, redirection)
        code, out, _ = self.run_program("--host", FOUNDING, "decide", "--json")
        self.assertEqual(code, 1)
        self.assertTrue(json.loads(out)["kept"]["hit"])
        script = '"$0" --host "$1" run -- readlink /proc/self/fd/0 <&-'
        done = subprocess.run(["/bin/sh", "-c", script, PROGRAM, HEALTHY], capture_output=True, text=True, check=False,
                              env=self.environment({}), timeout=120)
        self.assertEqual((done.returncode, done.stdout), (1, ""))


class Terminal(Program):
    def on_terminal(self, *words, **extra):
        """What a terminal sees: standard output and error together."""
        try:
            pid, master = pty.fork()
        except OSError as error:
            self.skipTest(f"no pseudo-terminal here: {error}")
        if pid == 0:
            os.execve(PROGRAM, [PROGRAM, *words], self.environment(extra))
        seen = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:
                break
            if not piece:
                break
            seen += piece
        os.close(master)
        os.waitpid(pid, 0)
        return seen.decode("utf-8", "replace")

    def test_colour_and_progress(self):
        text = self.on_terminal("--host", FOUNDING, "test", "--no-measure")
        self.assertIn("\033[1;31mCORRUPT\033[0m", text)
        self.assertRegex(text, r"\r\033\[K\w")
        self.assertNotRegex(text[text.index("SIMULATED"):], r"\r\033\[K")

    def test_no_colour(self):
        for extra in ({"NO_COLOR": "1"}, {"NO_COLOR": ""}, {"TERM": "dumb"}):
            text = self.on_terminal("--host", FOUNDING, "probe", **extra)
            self.assertIsNone(re.search(r"\033\[[0-9;]*m", text), extra)


class Settings(Program):
    def test_env_formats(self):
        for name in ("shell", "docker", "systemd", "systemd-unit", "kubernetes", "nccl-conf", "json"):
            code, out, err = self.run_program("--host", FOUNDING, "env", "--format", name)
            self.assertEqual(code, 0, name)
            self.assertIn("NCCL_P2P_DISABLE", out, name)
            self.assertEqual(len(err.splitlines()), 1, err)
            self.assertIn("SIMULATED", err)
            self.assertNotIn("GGML_CUDA_P2P=", out, name)
        self.assertTrue(all("name" in entry for entry in json.loads(self.run_program("--host", FOUNDING, "env", "--format", "json")[1])))

    def test_shell_evaluates(self):
        _, out, _ = self.run_program("--host", FOUNDING, "env")
        done = subprocess.run(["/bin/sh", "-euc", f"GGML_CUDA_P2P=1; {out}\necho $NCCL_P2P_DISABLE ${{GGML_CUDA_P2P-unset}}"],
                              capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "1 unset\n")

    def kept_whole(self, *words):
        """Keeps a test that had all the time it needs on a busy machine: what a deadline cut has other settings."""
        code, out, err = self.run_program(*words, "test", "--level", "quick", "--no-measure", "--deadline", "100", "--json")
        self.assertIn(code, (0, 1), err)
        self.assertFalse(json.loads(out)["deadline_hit"])

    def evaluated(self, *words, **mine):
        """What a shell with these variables has after eval "$(p2psafe env ...)", and the text itself."""
        code, out, err = self.run_program(*words, **mine)
        self.assertEqual(code, 0, err)
        done = subprocess.run(["/bin/sh", "-euc", 'eval "$TEXT"; unset TEXT; exec env -0'], env={"PATH": os.environ["PATH"], "TEXT": out, **mine},
                              capture_output=True, text=True, check=True)
        return dict(line.split("=", 1) for line in done.stdout.split("\0") if line), out

    def test_the_shell_form_takes_nothing_back_that_the_user_took_away(self):
        host = ["--host", HOSTS / "x-far-pairs"]
        self.kept_whole(*host, "--keep-going")
        words = [*host, "env", "--level", "quick"]
        plain = self.run_program(*words)[1]
        self.assertIn("\nexport NCCL_P2P_LEVEL='PXB'\n", "\n" + plain)
        for user, left in (("LOC", "LOC"), ("NVL", "NVL"), ("PHB", "PXB"), ("", "PXB"), ("PXB", "PXB"), ("NVL'\necho broken", "PXB")):
            with self.subTest(user=user):
                after, out = self.evaluated(*words, NCCL_P2P_LEVEL=user)
                self.assertEqual(after["NCCL_P2P_LEVEL"], left)
                self.assertEqual(out == plain, left == "PXB")
                stays = [line for line in out.splitlines() if line.startswith("# NCCL_P2P_LEVEL: ")]
                self.assertEqual(len(stays), left != "PXB", out)
                # Whoever reads the text where the user's variable is not set has the stricter one, too.
                elsewhere = subprocess.run(["/bin/sh", "-euc", out + "printf %s \"$NCCL_P2P_LEVEL\""], env={}, capture_output=True, text=True,
                                           check=True)
                self.assertEqual(elsewhere.stdout, left)
        self.assertEqual(self.evaluated(*words, NCCL_P2P_DISABLE="0", NCCL_P2P_LEVEL="PHB", NCCL_WIN_ENABLE="1")[1], plain)
        docker = [*words, "--format", "docker"]
        self.assertEqual(self.run_program(*docker, NCCL_P2P_LEVEL="LOC"), self.run_program(*docker))
        self.kept_whole("--host", HOSTS / "x-torn-lines")
        words = ["--host", HOSTS / "x-torn-lines", "env", "--level", "quick"]
        for user, left in (("Simple", "Simple"), ("LL,Simple", "LL,Simple"), ("^LL128", "^LL128"), ("LL,LL128", "^LL128"),
                           ("broadcast:LL", "^LL128")):
            self.assertEqual(self.evaluated(*words, NCCL_PROTO=user)[0]["NCCL_PROTO"], left)
        code, out, _ = self.run_program("--host", "/nonexistent", "env", NCCL_P2P_DISABLE="0", NCCL_PROTO="Simple")
        self.assertEqual((code, out), (2, self.run_program("--host", "/nonexistent", "env")[1]))

    def test_without_a_report_everything_is_vetoed(self):
        code, out, err = self.run_program("--host", "/nonexistent", "env")
        self.assertEqual(code, 2)
        self.assertIn("NCCL_P2P_DISABLE", out)
        self.assertIn("full veto", err)
        code, out, err = self.run_program("--host", "/nonexistent", "run", "--", "/usr/bin/env")
        self.assertEqual(code, 0)
        self.assertIn("NCCL_P2P_DISABLE=1\n", out)
        self.assertIn("NCCL_WIN_ENABLE=0\n", out)
        self.assertIn("every veto is set", err)

    def test_a_reader_of_messages_who_is_gone_costs_no_veto(self):
        """A pipe that nobody reads any more ends a program by a signal: then the evaluated output would be empty."""
        for words in (("env",), ("run", "/usr/bin/env")):
            for host in ("/nonexistent", FOUNDING):
                gone, stderr = os.pipe()
                os.close(gone)
                done = subprocess.run([PROGRAM, "--host", host, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr,
                                      text=True, check=False, env=self.environment({}), timeout=120)
                os.close(stderr)
                self.assertEqual(done.returncode, 2 if (host, words) == ("/nonexistent", ("env",)) else 0)
                self.assertRegex(done.stdout, r"\b(export )?NCCL_P2P_DISABLE='?1'?\n")
        gone, stdout = os.pipe()
        os.close(gone)
        for words in (("env",), ("run", "sh", "-c", "kill -PIPE $$")):  # what is no message of ours ends as ever
            done = subprocess.run([PROGRAM, "--host", FOUNDING, *words], stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE,
                                  text=True, check=False, env=self.environment({}), timeout=120)
            self.assertEqual(done.returncode, -13, done.stderr)
        os.close(stdout)

    def test_run_is_a_shell_to_its_command(self):
        host = ["--host", HEALTHY, "run"]
        self.assertEqual(self.run_program(*host, "sh", "-c", "exit 7")[0], 7)
        self.assertEqual(self.run_program(*host, "--", "sh", "-c", "exit 7")[0], 7)
        self.assertEqual(self.run_program(*host, "sh", "-c", "kill -9 $$")[0], -9)
        self.assertEqual(self.run_program(*host, "--", "/nonexistent")[0], 127)
        self.assertEqual(self.run_program(*host, "--", "/")[0], 126)
        self.assertEqual(self.run_program(*host, "printf", "%s|", "--json", "--", "-h", "a b")[1], "--json|--|-h|a b|")

    def test_the_user_keeps_his_own_settings_without_a_veto(self):
        mine = {"NCCL_P2P_DISABLE": "1", "NCCL_P2P_LEVEL": "PIX", "GGML_CUDA_P2P": "1"}
        _, out, _ = self.run_program("--host", HEALTHY, "run", "/usr/bin/env", **mine)
        for name, value in mine.items():
            self.assertIn(f"{name}={value}\n", out)

    def test_what_is_slow_stays_slow_in_the_record(self):
        """Where peer access is refused as well, the pair itself says UNSUPPORTED; NCCL is denied for its speed alone."""
        host = self.cache.parent / "host"
        shutil.copytree(HOSTS / "x-slower-than-staging", host, symlinks=True)
        cuda = json.loads((host / "cuda.json").read_text(encoding="utf-8"))
        cuda["faults"] = [{"op": "enable", "effect": "error", "error": 217}]
        (host / "cuda.json").write_text(json.dumps(cuda), encoding="utf-8")
        for command, hit in (("test", False), ("decide", True)):
            _, out, err = self.run_program("--host", host, command, "--level", "quick", "--json")
            report = json.loads(out)
            consumer = report["decision"]["consumers"]["nccl_p2p"]
            self.assertEqual((report["kept"]["hit"], consumer["allowed"], consumer["verdict"]), (hit, False, "DEGRADED"), err)
            self.assertIn("NCCL_P2P_DISABLE", [setting["name"] for setting in report["decision"]["settings"]])

    def test_who_hands_nccl_a_topology(self):
        """A level is for NCCL's own view of the machine. Each file of the user that some release of NCCL reads may replace that."""
        host = self.cache.parent / "host"
        shutil.copytree(HOSTS / "x-far-pairs", host, symlinks=True)
        self.assertEqual(self.run_program("--host", host, "test", "--keep-going", "--level", "quick", "--no-measure")[0], 1)
        etc = host / "root" / "etc"
        for folder in ("account", "home", "conf"):
            (host / "root" / folder).mkdir()
        etc.mkdir()
        mine = "somebody:x:%d:100:A comment, x:/account:/bin/sh\n" % os.getuid()
        others = "root:x:%d:0::/elsewhere:/bin/sh\n# no line\n:::\nfew:x:%d\n" % (os.getuid() + 1, os.getuid())
        own, none = "NCCL_P2P_LEVEL=PXB\n", "NCCL_P2P_DISABLE=1\n"

        def said(passwd, where=None, home="/home", conf=None):
            noisy = host / "root" / where if where is not None else None
            if noisy is not None:
                noisy.write_text("NCCL_DEBUG=WARN\nNCCL_TOPO_FILE=/t.xml\n", encoding="utf-8")
            if passwd is None:
                shutil.rmtree(etc)
            else:
                (etc / "passwd").write_text(passwd, encoding="utf-8")
            more = {"HOME": home, "NCCL_CONF_FILE": conf}
            _, out, _ = self.run_program("--host", host, "run", "--level", "quick", "env", **{k: v for k, v in more.items() if v is not None})
            if noisy is not None:
                noisy.unlink()
            return [line for line in (own, none) if line in out]

        for passwd in (mine, others + mine, others + mine.rstrip("\n")):
            self.assertEqual(said(passwd), [own])
            self.assertEqual(said(passwd, "account/.nccl.conf"), [none])
            self.assertEqual(said(passwd, "home/.nccl.conf"), [none])
            self.assertEqual(said(passwd, "home/.nccl.conf", home="/account"), [own])
            self.assertEqual(said(passwd, "etc/nccl.conf"), [none])
            self.assertEqual(said(passwd, "conf/c", conf="/conf/c"), [none])
            self.assertEqual(said(passwd, "account/.nccl.conf", conf="/conf/silent"), [none])
            self.assertEqual(said(passwd, "home/.nccl.conf", conf="/conf/silent"), [none])
            self.assertEqual(said(passwd, conf="/conf/silent"), [own])
        self.assertEqual(said(others), [none])  # an account that only a directory service knows
        self.assertEqual(said(mine.replace("/account", "account")), [none])
        self.assertEqual(said(None), [own])

    def test_what_the_user_took_away_stays(self):
        host = HOSTS / "x-far-pairs"
        self.kept_whole("--host", host, "--keep-going")
        for user, left in (("LOC", "LOC"), ("NVL", "NVL"), ("1", "1"), ("PHB", "PXB"), ("9", "PXB"), ("nvl", "PXB"), ("C2C", "PXB"),
                           ("", "PXB")):
            _, out, _ = self.run_program("--host", host, "run", "--level", "quick", "env", NCCL_P2P_LEVEL=user)
            self.assertIn(f"NCCL_P2P_LEVEL={left}\n", out)
            self.assertNotIn("NCCL_P2P_DISABLE", out)
        _, out, _ = self.run_program("--host", host, "run", "--level", "quick", "env", NCCL_P2P_DISABLE="1")
        self.assertIn("NCCL_P2P_DISABLE=1\n", out)
        for other in ({"NCCL_TOPO_FILE": "/t.xml"}, {"NCCL_TOPO_FILE": ""}, {"NCCL_CONF_FILE": "conf"}):
            _, out, _ = self.run_program("--host", host, "run", "--level", "quick", "env", **other)
            self.assertIn("NCCL_P2P_DISABLE=1\n", out, other)
            self.assertNotIn("NCCL_P2P_LEVEL", out, other)
        host = HOSTS / "x-torn-lines"
        self.kept_whole("--host", host)
        for user, left in (("Simple", "Simple"), ("^LL128", "^LL128"), ("LL,LL128", "^LL128"), ("broadcast:LL", "^LL128")):
            _, out, _ = self.run_program("--host", host, "run", "--level", "quick", "env", NCCL_PROTO=user)
            self.assertIn(f"NCCL_PROTO={left}\n", out)

    def test_require_enforced(self):
        words = ["--host", FOUNDING, "run", "--require-enforced", "--", "echo", "started"]
        code, out, err = self.run_program(*words)
        self.assertEqual((code, out), (1, ""))
        self.assertIn("veto of custom_all_reduce", err)
        self.assertIn("is not executed", err)
        code, out, err = self.run_program(*words, "--disable-custom-all-reduce")
        self.assertNotIn("veto of custom_all_reduce: nothing", err)
        self.assertNotIn("fuse", err)  # not on these GPUs
        code, out, _ = self.run_program("--host", HEALTHY, "run", "--require-enforced", "--", "echo", "started")
        self.assertEqual((code, out), (0, "started\n"))


    def test_a_fused_all_reduce_has_a_switch_of_its_own(self):
        """On Hopper and data-centre Blackwell one argument is not enough, and which one more depends on the program."""
        host = self.cache.parent / "host"
        shutil.copytree(HEALTHY, host, symlinks=True)
        cuda = json.loads((host / "cuda.json").read_text(encoding="utf-8"))
        ends = [gpu["bdf"] for gpu in cuda["gpus"]]
        cuda["faults"] = [{"src": ends[0], "dst": ends[1], "op": "sm_store", "effect": "drop"}]
        (host / "cuda.json").write_text(json.dumps(cuda), encoding="utf-8")
        plain, vllm = "--disable-custom-all-reduce", "--compilation-config.pass_config.fuse_allreduce_rms"
        sglang = "--enforce-disable-flashinfer-allreduce-fusion"
        nothing = "veto of custom_all_reduce: nothing"
        told = {}
        for arguments in ([], [plain], [vllm + "=false"], [plain, vllm], [plain, vllm + "=true"], [plain, vllm, "true"], [plain, vllm + "=false"],
                          [plain, vllm, "False"], [plain, sglang]):
            code, out, err = self.run_program("--host", host, "run", "--level", "quick", "--", "echo", "started", *arguments)
            self.assertEqual((code, out.split()[0]), (0, "started"))
            told[" ".join(arguments)] = err
        enforced = {arguments for arguments, err in told.items() if nothing not in err}
        self.assertEqual(enforced, {f"{plain} {vllm}=false", f"{plain} {vllm} False", f"{plain} {sglang}"})
        for arguments in enforced:
            self.assertNotIn("veto of custom_all_reduce: to be done by you: argument", told[arguments])
        for name in (vllm, sglang):
            self.assertIn("to be done by you: argument " + name, told[plain])


class Cache(Program):
    def test_path_show_clear(self):
        code, out, err = self.run_program("--host", HEALTHY, "cache", "path")
        self.assertEqual((code, out.strip(), err), (0, str(self.cache), ""))
        code, out, err = self.run_program("--host", HEALTHY, "cache", "show")
        self.assertEqual((code, out), (0, ""))
        self.assertIn("nothing is kept", err)
        self.assertEqual(self.run_program("--host", HEALTHY, "test", "--level", "quick")[0], 0)
        code, out, err = self.run_program("--host", HEALTHY, "cache", "show")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("valid", json.loads(out))
        code, out, _ = self.run_program("--host", HEALTHY, "cache", "clear")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"^[1-9]\d* files? removed\n$")
        self.assertIn("nothing is kept", self.run_program("--host", HEALTHY, "cache", "show")[2])

    def test_a_folder_whose_name_is_no_utf8(self):
        place = os.path.join(os.fsencode(self.cache.parent), b"k\xc3pt \xff")
        os.mkdir(place, 0o700)
        self.cache = pathlib.Path(os.fsdecode(place))
        code, out, err = self.run_program("--host", HEALTHY, "decide", "--level", "quick", "--json", "--deadline", "100")
        self.assertEqual((code, err), (0, ""))
        self.assertTrue(os.path.exists(os.path.join(place, b"1.json")))
        code, out, err = self.run_program("--host", HEALTHY, "cache", "show", "--json")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(os.path.basename(json.loads(out)["place"]), "k?pt ?")

    def test_recheck_says_what_it_compared(self):
        words = ["--host", HEALTHY, "decide", "--level", "quick", "--json"]
        kept = []
        for more in ([], [], ["--recheck"]):
            code, out, err = self.run_program(*words, *more)
            self.assertEqual(code, 0, err)
            kept.append(json.loads(out)["kept"])
        self.assertEqual([k["hit"] for k in kept], [False, True, True])
        self.assertTrue(kept[1]["reason"].endswith(" not rechecked"), kept[1])
        self.assertNotIn("not rechecked", kept[2]["reason"])
        self.assertIn("rechecked", kept[2]["reason"])

    def test_log_level_is_checked(self):
        code, _, err = self.run_program("--host", HEALTHY, "probe", P2PSAFE_LOG="loud")
        self.assertNotEqual(code, 2)
        self.assertIn("'loud'", err)


if __name__ == "__main__":
    PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
