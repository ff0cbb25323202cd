"""`rayfed run` as a user types it: settings, the script's own world, and how a run ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e import command

from fed.cli import exits

#: A round of five clients: 13 numbers, 6 parties, the sum of 0..4 and five times the seed value.
ROUND = """
    import fed

    @fed.remote
    class Client:
        def __init__(self, own):
            self.own = own

        def add(self, value):
            return self.own + value

    @fed.remote
    def total(*values):
        return sum(values)

    fed.init()
    clients = [Client.party(f"client-{i}").remote(i) for i in range(5)]
    start = fed.put(1.0, party="server")
    print(fed.get(total.party("server").remote(*[c.add.remote(start) for c in clients])))
"""

#: One call that fails; what comes of it is up to what the test adds.
FAILING = """
    import sys

    import fed

    @fed.remote
    def fails(value):
        raise ValueError("of the patient")

    fed.init()
    failed = fails.party("ALICE").remote(1)
"""


@pytest.fixture
def folder(tmp_path: Path) -> command.Folder:
    return command.Folder(tmp_path)


def test_a_script_with_no_arguments_runs_and_is_reported(folder: command.Folder) -> None:
    ended = folder.run(ROUND, "--json")
    assert ended.code == exits.DONE
    assert ended.stdout.splitlines()[0] == "15.0"
    session = ended.session
    assert session["mode"] == "simulation"
    assert session["parties"] == 6
    assert session["calls"] == 13
    # The start value to each of five clients, and their answers to the server.
    assert session["crossed_values"] == 10
    assert session["crossed_bytes"] > 0
    assert session["got_values"] == 1
    assert session["unread_count"] == 0
    assert re.fullmatch("[0-9a-f]{64}", session["program_digest"])
    assert re.fullmatch("[0-9a-f]{64}", session["values_digest"])
    report = ended.report
    assert report["exit_code"] == 0
    assert report["ended"] == ""
    assert report["error"] is None
    assert Path(report["script"]) == folder.path / "script.py"
    assert report["peak_memory_bytes"] > 2**20


def test_the_text_report_says_the_same(folder: command.Folder) -> None:
    ended = folder.run(ROUND, "--json")
    lines = dict(re.findall(r"^  (\S[^:\n]*?)  +(.*)$", ended.stderr, re.MULTILINE))
    assert lines["mode"] == "simulation"
    assert lines["parties"] == "6"
    assert lines["calls"].startswith("13 ")
    assert lines["passed on"].startswith("10 values, ")
    assert lines["program digest"] == ended.session["program_digest"]
    assert lines["values digest"] == ended.session["values_digest"]
    assert "exit code" not in lines
    assert "\x1b" not in ended.stderr


def test_the_same_script_runs_without_the_command(folder: command.Folder) -> None:
    folder.write(ROUND)
    ended = folder.python("script.py")
    assert (ended.code, ended.stdout, ended.stderr) == (0, "15.0\n", "")


def test_errors_nobody_read_are_told_without_the_command_too(folder: command.Folder) -> None:
    folder.write(FAILING)
    ended = folder.python("script.py")
    assert ended.code == 0
    assert "1 error(s) that nobody read" in ended.stderr
    assert "party 'ALICE': fails raised ValueError (call 1" in ended.stderr


def test_digests_do_not_depend_on_the_hash_seed(folder: command.Folder) -> None:
    text = """
        import fed

        @fed.remote
        def words(place):
            return {"set": {f"word-{n}" for n in range(40)}, "noise": fed.rng().random(5)}

        fed.init()
        for value in fed.get([words.party(f"p{n}").remote(n) for n in range(3)]):
            pass
    """
    folder.write(text)
    found = [
        folder.rayfed("run", "--json", "--seed", "7", "script.py", PYTHONHASHSEED=seed).session
        for seed in ("0", "1", "2")
    ]
    assert found[0]["values_digest"] == found[1]["values_digest"] == found[2]["values_digest"]
    assert found[0]["program_digest"] == found[1]["program_digest"] == found[2]["program_digest"]
    other = folder.rayfed("run", "--json", "--seed", "8", "script.py").session
    assert other["values_digest"] != found[0]["values_digest"]
    assert other["program_digest"] == found[0]["program_digest"]


def test_the_values_digest_is_a_default_and_no_order(folder: command.Folder) -> None:
    text = "import fed\nfed.init(values_digest=False)\nprint(fed.get(fed.put(1, party='A')))\n"
    ended = folder.run(text, "--json")
    assert ended.session["values_digest"] is None
    ended = folder.run(text, "--json", "--set", "values_digest=true")
    assert len(ended.session["values_digest"]) == 64


# What the script sees of the command.


def test_what_stands_after_the_script_is_the_scripts(folder: command.Folder) -> None:
    folder.write("import json, sys\nprint(json.dumps(sys.argv))\n")
    ended = folder.rayfed("run", "script.py", "--help", "--seed", "x", "--", "-5")
    assert ended.code == 0
    assert json.loads(ended.stdout) == ["script.py", "--help", "--seed", "x", "--", "-5"]


def test_the_script_is_main_and_finds_its_neighbours(folder: command.Folder) -> None:
    (folder.path / "jobs").mkdir()
    folder.write("NAME = 'neighbour'\n", "jobs/neighbour.py")
    folder.write(
        """
        import inspect, json, pickle, sys
        import neighbour
        import __main__

        class Mine:
            pass

        print(json.dumps({
            "name": __name__,
            "file": __file__,
            "main_file": __main__.__file__,
            "path": sys.path[0],
            "neighbour": neighbour.NAME,
            "pickled": type(pickle.loads(pickle.dumps(Mine()))) is Mine,
            "source": inspect.getsource(Mine).split()[0],
            "annotations": __annotations__,
        }))
        """,
        "jobs/script.py",
    )
    ended = folder.rayfed("run", "jobs/script.py")
    assert ended.code == 0, ended.stderr
    path = str(folder.path / "jobs" / "script.py")
    assert json.loads(ended.stdout) == {
        "name": "__main__",
        "file": path,
        "main_file": path,
        "path": os.path.realpath(folder.path / "jobs"),
        "neighbour": "neighbour",
        "pickled": True,
        "source": "class",
        "annotations": {},
    }


def test_a_class_of_the_script_crosses(folder: command.Folder) -> None:
    ended = folder.run(
        """
        import dataclasses
        import fed

        @dataclasses.dataclass
        class Update:
            weight: float

        @fed.remote
        def make():
            return Update(0.5)

        @fed.remote
        def read(update):
            return type(update) is Update and update.weight

        fed.init()
        print(fed.get(read.party("B").remote(make.party("A").remote())))
        """
    )
    assert (ended.code, ended.stdout) == (0, "0.5\n")


def test_what_runs_at_exit_still_finds_the_script(folder: command.Folder) -> None:
    ended = folder.run(
        """
        import atexit, pickle

        class Mine:
            pass

        atexit.register(lambda: print(type(pickle.loads(pickle.dumps(Mine()))).__name__))
        """
    )
    assert (ended.code, ended.stdout) == (0, "Mine\n")


def test_processes_that_the_script_starts_find_its_functions(folder: command.Folder) -> None:
    ended = folder.run(
        """
        import multiprocessing

        def double(value):
            return 2 * value

        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(double, [1, 2]))
        """
    )
    assert (ended.code, ended.stdout) == (0, "[2, 4]\n"), ended.stderr


# Settings.


def test_federation_yaml_beside_the_script_is_found(folder: command.Folder) -> None:
    folder.write("parties: {server: 1, client: 3}\nseed: 5\n", "federation.yaml")
    ended = folder.run("import fed\nfed.init()\nprint(*fed.parties())\n", "--json")
    assert ended.stdout.splitlines()[0] == "server client-0 client-1 client-2"


def test_an_option_stands_above_the_script_and_says_so(folder: command.Folder) -> None:
    ended = folder.run(
        "import fed\nfed.init(parties=['X'], seed=1)\nprint(*fed.parties())\n",
        "--parties", "server=1,client=2",
    )  # fmt: skip
    assert ended.stdout == "server client-0 client-1\n"
    assert "of the script: parties: 3 parties instead of 1 parties" in ended.stderr
    assert re.search(r"^\d{4}-\d\d-\d\dT\S+Z INFO ", ended.stderr, re.MULTILINE)


def test_set_gives_any_setting(folder: command.Folder) -> None:
    text = """
        import numpy
        import fed
        fed.init()
        @fed.remote
        def big():
            return numpy.zeros(250)
        fed.get(big.party("A").remote())
    """
    assert folder.run(text, "--set", "max_value_bytes=10 kB").code == exits.DONE
    ended = folder.run(text, "--set", "max-value-bytes=1 kB")
    assert ended.code == 14
    assert "max_value_bytes = 1,000" in ended.stderr


def test_log_lines_and_the_report_can_be_json(folder: command.Folder) -> None:
    ended = folder.run("import fed\nfed.init(seed=1)\n", "--log-json", "--seed", "2")
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    assert "replaces settings of the script: seed: 2 instead of 1" in lines[0]["message"]
    assert lines[0]["level"] == "info"
    assert lines[0]["logger"] == "fed"
    assert lines[-1]["report"]["sessions"][0]["mode"] == "simulation"


def test_the_scripts_own_logging_gets_each_line_once(folder: command.Folder) -> None:
    ended = folder.run(
        """
        import logging
        logging.basicConfig(level=logging.INFO, format="MINE %(message)s")
        import fed
        fed.init(seed=1)
        """,
        "--seed", "2",
    )  # fmt: skip
    assert ended.stderr.count("rayfed run replaces settings") == 1
    assert "MINE rayfed run replaces settings" in ended.stderr


# The report file.


def test_the_report_is_written_to_the_file(folder: command.Folder) -> None:
    ended = folder.run(ROUND, "--json", "--report", "out.json")
    assert json.loads((folder.path / "out.json").read_text()) == ended.report
    assert sorted(path.name for path in folder.path.iterdir()) == ["out.json", "script.py"]


def test_the_report_of_a_failed_run_names_the_error(folder: command.Folder) -> None:
    ended = folder.run(FAILING + "    fed.get(failed)\n", "--report", "out.json")
    report = json.loads((folder.path / "out.json").read_text())
    assert report["exit_code"] == ended.code == 13
    assert report["error_type"] == "FedRemoteError"
    assert report["error"].startswith("party 'ALICE': fails raised ValueError (call 1, called at ")
    # The message is the patient's; error_detail is `type`.
    assert "of the patient" not in (folder.path / "out.json").read_text()


def test_a_script_that_moves_does_not_move_its_report(folder: command.Folder) -> None:
    folder.run("import os\nos.chdir('/')\n", "--report", "out.json")
    assert (folder.path / "out.json").is_file()


@pytest.mark.parametrize(
    ("path", "said"),
    [("none/out.json", "there is no folder"), (".", "is a folder")],
)
def test_a_report_that_cannot_be_written_is_refused_before_the_run(
    folder: command.Folder, path: str, said: str
) -> None:
    ended = folder.run("print('ran')\n", "--report", path)
    assert ended.code == exits.BAD_COMMAND
    assert said in ended.stderr
    assert "--report" in ended.stderr
    assert ended.stdout == ""


def test_a_report_that_is_lost_in_the_end_has_its_code(folder: command.Folder) -> None:
    (folder.path / "sub").mkdir()
    ended = folder.run(
        "import shutil\nshutil.rmtree('sub')\n", "--json", "--report", "sub/out.json"
    )
    assert ended.code == ended.report["exit_code"] == exits.REPORT_LOST
    assert "was not written" in ended.stderr


def test_json_stands_on_a_line_of_its_own(folder: command.Folder) -> None:
    ended = folder.run("print('half a line', end='')\n", "--json")
    assert ended.stdout.splitlines()[0] == "half a line"
    assert ended.report["sessions"] == []


# How a run ends.


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("sys.exit()", 0),
        ("sys.exit(0)", 0),
        ("sys.exit(7)", 7),
        ("sys.exit(-1)", 255),
        ("sys.exit('bye')", 1),
        ("raise KeyError('mine')", 1),
        ("raise KeyboardInterrupt", 130),
        ("raise ExceptionGroup('several', [ValueError(), KeyError()])", 1),
    ],
)
def test_the_scripts_own_ending_is_kept(folder: command.Folder, ending: str, code: int) -> None:
    ended = folder.run(f"import sys\n{ending}\n", "--json")
    assert ended.code == ended.report["exit_code"] == code
    assert ("Traceback" in ended.stderr) is (code == 1 and "bye" not in ending)
    assert "fed/cli" not in ended.stderr
    if "bye" in ending:
        assert "bye\n" in ended.stderr


def test_a_traceback_begins_in_the_script(folder: command.Folder) -> None:
    ended = folder.run("def mine():\n    return 1 / 0\n\nmine()\n")
    path = folder.path / "script.py"
    frames = re.findall(r'^  File "(.*)", line (\d+), in (.*)$', ended.stderr, re.MULTILINE)
    assert frames == [(str(path), "4", "<module>"), (str(path), "2", "mine")]
    assert "ZeroDivisionError: division by zero\n" in ended.stderr


def test_a_syntax_error_is_shown_as_python_does(folder: command.Folder) -> None:
    ended = folder.run("x = (1,\ny = 2\n")
    assert ended.code == exits.FAILED
    assert f'  File "{folder.path / "script.py"}", line 1' in ended.stderr
    assert "SyntaxError: " in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_bodys_own_line_is_in_the_traceback(folder: command.Folder) -> None:
    ended = folder.run(FAILING + "    fed.get(failed)\n")
    assert ended.code == 13
    assert 'raise ValueError("of the patient")' in ended.stderr
    assert "direct cause" in ended.stderr
    assert ", in <module>\n    fed.get(failed)\n" in ended.stderr
    files = set(re.findall(r'^  File "(.*?)"', ended.stderr, re.MULTILINE))
    assert files == {str(folder.path / "script.py")}


def test_a_hook_of_the_script_shows_its_errors(folder: command.Folder) -> None:
    ended = folder.run(
        "import sys\nsys.excepthook = lambda kind, error, tb: print('HOOK', kind.__name__)\n1 / 0\n"
    )
    assert (ended.code, ended.stdout) == (1, "HOOK ZeroDivisionError\n")


def test_unread_errors_have_a_code_of_their_own(folder: command.Folder) -> None:
    ended = folder.run(FAILING, "--json")
    assert ended.code == ended.report["exit_code"] == exits.UNREAD_ERRORS
    assert ended.session["unread_count"] == 1
    ((object_id, text),) = ended.session["unread"].items()
    assert object_id == "1#0"
    assert text.startswith("party 'ALICE': fails raised ValueError")
    assert ended.stderr.count("fails raised ValueError") == 1


@pytest.mark.parametrize(("ending", "code"), [("sys.exit(0)", 3), ("sys.exit(6)", 6)])
def test_unread_errors_count_unless_the_script_failed_itself(
    folder: command.Folder, ending: str, code: int
) -> None:
    assert folder.run(f"{FAILING}    {ending}\n").code == code


@pytest.mark.parametrize(
    ("ending", "told"), [("", "woke\n"), ("sys.exit(0)", "woke\n"), ("sys.exit(4)", "")]
)
def test_suspended_coroutines_end_where_the_script_ends_well(
    folder: command.Folder, ending: str, told: str
) -> None:
    ended = folder.run(
        f"""
        import asyncio, sys
        import fed

        @fed.remote
        class Sleeper:
            async def sleep(self):
                await asyncio.sleep(3600)
                print("woke")

        fed.init()
        result = Sleeper.party("A").remote().sleep.remote()
        {ending}
        """
    )
    assert ended.stdout == told


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("text", ["print('x')", "import fed\nfed.init()\nprint('x')"])
def test_a_stdout_that_is_full_is_said_once(folder: command.Folder, text: str) -> None:
    folder.write(text)
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "fed.cli", "run", "script.py"],
            cwd=folder.path,
            env=command.environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=command.LIMIT_S,
        )
    assert ended.returncode == exits.FAILED
    assert ended.stderr.count("No space left on device") == 1
    assert "exit code       1: stdout could not be written" in ended.stderr


def test_an_error_that_was_read_does_not_count(folder: command.Folder) -> None:
    ended = folder.run(
        f"""{FAILING}
    try:
        fed.get(failed)
    except fed.FedRemoteError as error:
        print(error.party, error.type_name)
    """
    )
    assert (ended.code, ended.stdout) == (0, "ALICE ValueError\n")


def test_fail_fast_raises_at_the_call(folder: command.Folder) -> None:
    ended = folder.run(
        FAILING + "    print('never here')\n", "--fail-fast", "--error-detail", "message"
    )
    assert (ended.code, ended.stdout) == (13, "")
    assert ', in <module>\n    failed = fails.party("ALICE").remote(1)\n' in ended.stderr
    assert "): of the patient" in ended.stderr


def test_ctrl_c_ends_with_the_report(folder: command.Folder) -> None:
    folder.write(
        """
        import fed

        @fed.remote
        def body(value):
            print("here", flush=True)
            while True:
                pass

        fed.init()
        body.party("A").remote(1)
        """
    )
    with subprocess.Popen(
        [sys.executable, "-m", "fed.cli", "run", "--report", "out.json", "script.py"],
        cwd=folder.path,
        env=command.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=command.LIMIT_S)
    assert process.returncode == exits.INTERRUPTED
    assert re.search(r"^interrupted at .*script\.py:\d+, in body$", told, re.MULTILINE)
    assert "Traceback" not in told
    report = json.loads((folder.path / "out.json").read_text())
    assert (report["exit_code"], report["ended"]) == (130, "interrupted")
    assert report["sessions"][0]["calls"] == 1


def test_each_session_has_its_part_of_the_report(folder: command.Folder) -> None:
    ended = folder.run(
        """
        import fed
        for n in range(2):
            fed.init()
            for k in range(n + 1):
                fed.put(k, party="A")
            fed.shutdown()
        """,
        "--json",
    )
    assert [session["calls"] for session in ended.report["sessions"]] == [1, 2]
    assert "session 2       of 2" in ended.stderr


def test_a_session_of_another_thread_is_given_up_and_reported(folder: command.Folder) -> None:
    ended = folder.run(
        """
        import threading
        import fed

        def work():
            fed.init()
            fed.put(1, party="A")

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        """,
        "--json",
    )
    assert ended.session["calls"] == 1
    assert "the session was given up: fed.shutdown in another thread" in ended.stderr
