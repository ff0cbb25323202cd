"""Classes of one qualified name, as a factory makes them: their actors are told apart."""

import fed

PARTIES = ["ALICE", "BOB"]


def make():
    @fed.remote
    class Twin:
        def draw(self):
            return int(fed.rng().integers(1 << 62))

        def broken(self):
            raise ValueError

    return Twin


def ordinal(obj):
    try:
        fed.get(obj)
    except fed.FedRemoteError as error:
        return error.actor


def program(note):
    first, second = make(), make()
    actors = [cls.party("ALICE").remote() for cls in (first, second, first, second)]
    actors.append(second.party("BOB").remote())
    note("ordinals", lambda: [ordinal(actor.broken.remote()) for actor in actors])
    note("streams", lambda: len({fed.get(actor.draw.remote()) for actor in actors}))
    fed.kill(actors[1])
    note("the others live", lambda: len(fed.get([actors[n].draw.remote() for n in (0, 2, 3)])))
    obj = actors[1].draw.remote()

    def after_kill():
        try:
            fed.get(obj)
        except fed.ActorKilledError as error:
            return error.actor

    note("the killed one", after_kill)


EXPECTED = {
    "ordinals": [0, 1, 2, 3, 0],
    "streams": 5,
    "the others live": 3,
    "the killed one": 1,
}
