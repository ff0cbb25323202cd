"""FIELD_CASES C08: tasks, actors with state, `num_returns`, nested values, a party that raises."""

import fed
from fed.testing.engines import fails

PARTIES = ["ALICE", "BOB", "CAROL"]


@fed.remote
class Trainer:
    def __init__(self, start):
        self.w = start
        self.rounds = 0

    def train(self, w, rate=0.5):
        self.rounds += 1
        self.w = self.w + rate * (w - self.w)
        return self.w

    def state(self):
        return {"rounds": self.rounds, "w": self.w}


@fed.remote
def mean(*updates):
    return sum(updates) / len(updates)


@fed.remote(num_returns=2)
def split(x):
    return x, -x


@fed.remote
def nested(tree):
    return [tree["a"][0] + tree["b"][1], sorted(tree)]


@fed.remote
def audit(x):
    raise PermissionError(f"not at {fed.current_party()}")


def program(note):
    trainers = [Trainer.party(p).remote(float(n)) for n, p in enumerate(fed.parties())]
    w = fed.put(8.0, party="ALICE")
    history = []
    for _ in range(5):
        w = mean.party("ALICE").remote(*[t.train.remote(w, rate=0.25) for t in trainers])
        history.append(w)
    plus, minus = split.party("BOB").remote(w)
    both = nested.party("CAROL").remote({"a": [plus, 1], "b": (0, minus, {"deep": [w]})})
    secret = audit.party("CAROL").remote(w)
    lost = mean.party("BOB").remote(w, secret)
    note("history", lambda: fed.get(history))
    note("several", lambda: fed.get([w, {"both": both}, (plus, minus)]))
    note("states", lambda: fed.get([t.state.remote() for t in trainers]))
    note("raised", lambda: fed.get(secret))
    note("through BOB", lambda: fed.get([w, lost]))


def _history():
    ws, w, found = [0.0, 1.0, 2.0], 8.0, []
    for _ in range(5):
        ws = [x + 0.25 * (w - x) for x in ws]
        w = sum(ws) / 3
        found.append(w)
    return found, ws


_W, _STATES = _history()

EXPECTED = {
    "history": _W,
    "several": [_W[-1], {"both": [0.0, ["a", "b"]]}, (_W[-1], -_W[-1])],
    "states": [{"rounds": 5, "w": w} for w in _STATES],
    "raised": fails("FedRemoteError", party="CAROL", name="audit", type_name="PermissionError"),
    "through BOB": fails("FedRemoteError", same_as="raised"),
}
