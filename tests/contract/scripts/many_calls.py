"""More calls than a block of records, between many parties: order, values, counts."""

import fed

PARTIES = [f"p{n}" for n in range(40)]


@fed.remote
class Cell:
    def __init__(self, n):
        self.n = n

    def step(self, left, right):
        self.n = (self.n * 31 + left * 7 + right) % 1_000_003
        return self.n


def program(note):
    cells = [Cell.party(p).remote(n) for n, p in enumerate(PARTIES)]
    values = [fed.put(n, party=p) for n, p in enumerate(PARTIES)]
    for _ in range(60):
        values = [
            cell.step.remote(values[n - 1], values[(n + 1) % len(values)])
            for n, cell in enumerate(cells)
        ]
    note("ring", lambda: fed.get(values))


def _ring():
    count = len(PARTIES)
    state, values = list(range(count)), list(range(count))
    for _ in range(60):
        state = [
            (state[n] * 31 + values[n - 1] * 7 + values[(n + 1) % count]) % 1_000_003
            for n in range(count)
        ]
        values = list(state)
    return values


EXPECTED = {"ring": _ring()}
