"""Everything a user can get wrong: each with its class, its exit code, and a text that helps."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e import command

from fed.cli import exits


@pytest.fixture
def folder(tmp_path: Path) -> command.Folder:
    return command.Folder(tmp_path)


#: What stands at the top of each script below.
HEAD = """
    import fed

    @fed.remote
    def same(value):
        return value

    @fed.remote
    class Actor:
        def same(self, value):
            return value
"""

SCRIPTS = {
    "unknown keyword": (
        "fed.init(sede=1)",
        "ConfigError", 12,
        "fed.init: sede: there is no argument 'sede'; did you mean 'seed'?",
    ),
    "wrong value": (
        "fed.init(mode='simulate')",
        "ConfigError", 12,
        "is not one of simulation, single-controller, multi-controller",
    ),
    "setting of another mode": (
        "fed.init(mode='multi-controller', isolation='off', party='A', addresses={'A': 'h:1'})",
        "ConfigError", 12,
        "isolation applies in simulation, and the mode is multi-controller",
    ),
    "wrong party name": (
        "fed.init(parties=['ALICE', 'BOB'])\nsame.party('ALCIE').remote(1)",
        "UnknownPartyError", 22,
        "The nearest declared name is 'ALICE'",
    ),
    "name that breaks the rule": (
        "fed.init()\nsame.party('-x').remote(1)",
        "UnknownPartyError", 22,
        "'-x'",
    ),
    "no party": (
        "fed.init()\nsame.remote(1)",
        "MissingPartyError", 23,
        "Write same.party('NAME').remote(...)",
    ),
    "no party of an actor": (
        "fed.init()\nActor.remote()",
        "MissingPartyError", 23,
        "Write Actor.party('NAME').remote(...)",
    ),
    "object of an earlier session": (
        "fed.init()\nold = fed.put(1, party='A')\nfed.shutdown()\nfed.init()\nfed.get(old)",
        "SessionError", 21,
        "belongs to another session",
    ),
    "actor of an earlier session": (
        "fed.init()\na = Actor.party('A').remote()\nfed.shutdown()\nfed.init()\na.same.remote(1)",
        "SessionError", 21,
        "Call fed.init again",
    ),
    "use before init": (
        "same.party('A').remote(1)",
        "SessionError", 21,
        "there is no session yet. Call fed.init() before making calls",
    ),
    "use after shutdown": (
        "fed.init()\nfed.shutdown()\nfed.put(1, party='A')",
        "SessionError", 21,
        "the session has ended by fed.shutdown",
    ),
    "init twice": (
        "fed.init()\nfed.init()",
        "SessionError", 21,
        "there is a session already",
    ),
    "call in another thread": (
        """
        import concurrent.futures
        fed.init()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            pool.submit(same.party('A').remote, 1).result()
        """,
        "UsageError", 11,
        "Make calls in that thread alone",
    ),
    "value that cannot cross": (
        "fed.init()\nfed.get(same.party('A').remote({'model': [1, open('/dev/null')]}))",
        "ValueRefusedError", 14,
        '["model"][1]',
    ),
    "lambda that cannot cross": (
        "fed.init()\na = fed.put({'f': lambda: 0}, party='A')\nfed.get(same.party('B').remote(a))",
        "ValueRefusedError", 14,
        'result["f"] of party \'A\' (made by call 1) is a function',
    ),
    "num_returns that does not match": (
        "fed.init()\nfed.get(same.party('A').options(num_returns=2).remote((1, 2, 3)))",
        "ReturnCountError", 20,
        "returned 3 values, and num_returns is 2",
    ),
    "num_returns that is none": (
        "fed.init()\nsame.party('A').options(num_returns=0).remote(1)",
        "UsageError", 11,
        "num_returns",
    ),
    "streaming": (
        "fed.init()\nsame.party('A').options(num_returns='streaming').remote(1)",
        "UsageError", 11,
        "streaming",
    ),
    "unknown option of a call": (
        "fed.init()\nsame.party('A').options(num_retruns=2)",
        "UsageError", 11,
        "num_returns",
    ),
    "unknown method": (
        "fed.init()\nActor.party('A').remote().smae.remote(1)",
        "UnknownMethodError", 11,
        "same",
    ),
    "a killed actor": (
        "fed.init()\na = Actor.party('A').remote()\nfed.kill(a)\nfed.get(a.same.remote(1))",
        "ActorKilledError", 16,
        "was killed by fed.kill",
    ),
    "a coroutine that nothing wakes": (
        """
        import asyncio

        @fed.remote
        class Waits:
            async def ever(self):
                await asyncio.get_running_loop().create_future()

        fed.init()
        fed.get(Waits.party('A').remote().ever.remote())
        """,
        "DeadlockError", 15,
        "Waits.ever",
    ),
    "raw messages": (
        "fed.init()\nfed.send('A', 1)",
        "UsageError", 11,
        "fed.send is not offered",
    ),
}  # fmt: skip


def _indented(text: str) -> str:
    import textwrap

    return HEAD + textwrap.indent(textwrap.dedent(text), "    ") + "\n"


@pytest.mark.parametrize("name", list(SCRIPTS))
def test_a_wrong_script_ends_with_its_class_and_code(folder: command.Folder, name: str) -> None:
    text, cls, code, said = SCRIPTS[name]
    ended = folder.run(_indented(text), "--json")
    assert ended.report["error_type"] == cls, ended.stderr
    assert ended.code == ended.report["exit_code"] == code
    assert said in ended.report["error"]
    assert f"fed.errors.{cls}: " in ended.stderr
    # The last frame shown before the text is the user's own line.
    files = [line for line in ended.stderr.splitlines() if line.startswith('  File "')]
    assert files, ended.stderr
    assert all("/fed/" not in line for line in files)


def test_a_call_in_a_body_is_the_bodys_error(folder: command.Folder) -> None:
    ended = folder.run(
        _indented(
            """
            @fed.remote
            def calls():
                return same.party('B').remote(1)

            fed.init()
            fed.get(calls.party('A').remote())
            """
        ),
        "--json", "--error-detail", "message",
    )  # fmt: skip
    assert ended.code == 13
    assert ended.report["error"].endswith(
        "Only the script makes calls; pass values in and return them"
    )
    assert (
        "fed.errors.UsageError: same.remote inside the body of calls of party 'A'" in ended.stderr
    )


# federation.yaml


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "seed: 1\n\nsede: 2\n",
            "federation.yaml:3: sede: there is no such key; did you mean 'seed'?",
        ),
        ("codec:\n  moduls: [a]\n", "federation.yaml:2: codec.moduls: there is no such key"),
        ("seed: 1\nseed: 2\n", "federation.yaml:2: seed: it is there twice"),
        ("parties: [A, a]\n", "federation.yaml:1: parties"),
        ("seed: [1\n", "federation.yaml:2: it is not YAML"),
        ("isolation: none\n", "federation.yaml:1: isolation: 'none' is not one of"),
    ],
)
def test_a_wrong_federation_yaml_is_an_error_with_file_and_line(
    folder: command.Folder, text: str, said: str
) -> None:
    folder.write(text, "federation.yaml")
    ended = folder.run("import fed\nfed.init()\n", "--json")
    assert (ended.code, ended.report["error_type"]) == (12, "ConfigError")
    assert ended.report["error"].startswith(str(folder.path / said.split(":")[0]))
    assert said in ended.report["error"]
    assert ended.report["sessions"] == []


def test_an_unknown_variable_is_an_error(folder: command.Folder) -> None:
    ended = folder.run("import fed\nfed.init()\n", FED_SEDE="1")
    assert ended.code == 12
    assert "FED_SEDE: there is no such setting; did you mean 'FED_SEED'?" in ended.stderr


# The command line: exit code 2, and the script does not run.


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rnu"], "there is no command 'rnu'; did you mean 'run'?"),
        (["script.py"], "to run a script: rayfed run script.py"),
        (["--jsn"], "--jsn"),
        (["run"], "SCRIPT"),
        (["run", "--sede", "1", "script.py"], "--seed"),
        (["run", "--seed"], "--seed"),
        (["run", "--seed", "x", "script.py"], "--seed: 'x' is not a whole number"),
        (["run", "--seed", "-1", "script.py"], "--seed: -1 is not a whole number, 0 or more"),
        (["run", "--mode", "simulatoin", "script.py"], "did you mean 'simulation'?"),
        (["run", "--isolation", "of", "script.py"], "did you mean 'off'?"),
        (["run", "--error-detail", "all", "script.py"], "type, message, traceback"),
        (["run", "--parties", "A,,B", "script.py"], "--parties: "),
        (["run", "--parties", "A,A", "script.py"], "--parties: "),
        (["run", "--set", "peer_timeout=3", "script.py"], "did you mean 'peer_timeout_s'?"),
        (["run", "--set", "codec.modlues=a", "script.py"], "did you mean 'codec.modules'?"),
        (["run", "--set", "seed", "script.py"], "write --set seed=VALUE"),
        (["run", "--set", "seed=1", "--seed", "2", "script.py"], "seed is given twice"),
        (
            ["run", "--set", "strict=maybe", "script.py"],
            "--set strict: 'maybe' is not true or false",
        ),
        (["run", "scirpt.py"], "there is no file 'scirpt.py'; did you mean 'script.py'?"),
        (["run", "none/script.py"], "there is no file 'none/script.py'"),
        (["run", "."], "'.' is a folder; give a script in it, such as ./script.py"),
        (["completion", "tcsh"], "tcsh"),
        (["version", "--yaml"], "--yaml"),
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_says_what_is_near(
    folder: command.Folder, arguments: list[str], said: str
) -> None:
    folder.write("print('ran')\n")
    ended = folder.rayfed(*arguments)
    assert ended.code == exits.BAD_COMMAND
    assert said in ended.stderr
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr


def test_a_script_that_may_not_be_read_is_refused(folder: command.Folder) -> None:
    (folder.path / "pipe.py").symlink_to(folder.path / "pipe.py")  # a loop: open fails as root too
    ended = folder.rayfed("run", "pipe.py")
    assert ended.code == exits.BAD_COMMAND
    assert "'pipe.py' can't be read: Too many levels of symbolic links" in ended.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--mode", "multi-controller"], "multi-controller needs the addresses of the parties"),
        (
            ["--mode", "multiple_controller", "--isolation", "off"],
            "isolation applies in simulation",
        ),
        (["--mode", "single-controller"], "single-controller"),
        (["--set", "peer_timeout_s=5"], "peer_timeout_s applies in multi-controller"),
    ],
    ids=" ".join,
)
def test_a_mode_that_contradicts_is_an_error_at_init(
    folder: command.Folder, options: list[str], said: str
) -> None:
    ended = folder.run("import fed\nfed.init()\n", *options)
    assert ended.code == 12
    assert said in ended.stderr
    assert ", in <module>\n    fed.init()\n" in ended.stderr
