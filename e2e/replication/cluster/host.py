"""Where a node runs, and under what name the others know it."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Host:
    """`address`: where it listens, and where tests dial it. `name`: what the others are told, if not the address. `command`: what
    comes before the command of the node, which stays the same process."""

    address: str
    name: str | None = None
    command: tuple[str, ...] = ()


LOOPBACK = Host("127.0.0.1")
