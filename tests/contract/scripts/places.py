"""Who is where: `parties`, `current_party`, names."""

import fed
from fed.testing.engines import fails

PARTIES = ["server", "client-2", "client-1", "Zoe"]


@fed.remote
def here():
    return fed.current_party()


@fed.remote
class Who:
    def __init__(self):
        self.made_at = fed.current_party()

    def now(self):
        return [self.made_at, fed.current_party(), helper()]


def helper():
    return fed.current_party()


@fed.remote
def names():
    return fed.parties("client-*")


def program(note):
    note("declaration order", lambda: fed.parties())
    note("pattern", lambda: fed.parties("client-*"))
    note("none", lambda: fed.parties("x*"))
    note("classes of letters", lambda: fed.parties("client-[1-9]"))
    note("case counts", lambda: fed.parties("zoe"))
    note("in bodies", lambda: fed.get([here.party(p).remote() for p in PARTIES]))
    note("in actors", lambda: fed.get(Who.party("Zoe").remote().now.remote()))
    note("names in a body", lambda: fed.get(names.party("server").remote()))
    note("other case", lambda: here.party("zoe").remote())
    note("near", lambda: here.party("client-3").remote())
    note("not a name", lambda: here.party("a b").remote())
    note("not a text", lambda: here.party(3).remote())


EXPECTED = {
    "declaration order": ["server", "client-2", "client-1", "Zoe"],
    "pattern": ["client-2", "client-1"],
    "none": fails("UnknownPartyError", party="x*"),
    "classes of letters": ["client-2", "client-1"],
    "case counts": fails("UnknownPartyError", party="zoe"),
    "in bodies": ["server", "client-2", "client-1", "Zoe"],
    "in actors": ["Zoe", "Zoe", "Zoe"],
    "names in a body": ["client-2", "client-1"],
    "other case": fails("UnknownPartyError", party="zoe", text="Zoe"),
    "near": fails("UnknownPartyError", party="client-3", text="client-2"),
    "not a name": fails("UnknownPartyError", party="a b", text="letters, digits"),
    "not a text": fails("UsageError", text="string"),
}

RECORDS = [
    "call 1: function here at 'server'()",
    "call 2: function here at 'client-2'()",
    "call 3: function here at 'client-1'()",
    "call 4: function here at 'Zoe'()",
    "call 5: get at '*'(0=1#0, 1=2#0, 2=3#0, 3=4#0)",
    "call 6: create Who at 'Zoe'()",
    "call 7: method Who.now of actor 0 at 'Zoe'()",
    "call 8: get at '*'(0=7#0)",
    "call 9: function names at 'server'()",
    "call 10: get at '*'(0=9#0)",
]
