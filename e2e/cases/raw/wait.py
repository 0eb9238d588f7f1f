"""Bounded waits on a level: ask until the answer is right, fail with the last answer once the time is up."""

import time

POLL_S = 0.02
DEFAULT_TIMEOUT_S = 15


def eventually(ask, wanted=bool, timeout_s=DEFAULT_TIMEOUT_S, poll_s=POLL_S, what=None):
    """Calls `ask` until `wanted(answer)` holds and returns that answer; fails after `timeout_s`.

    An `AssertionError` inside `ask` counts as "not yet", so that a whole check can be waited for.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            answer = ask()
            if wanted(answer):
                return answer
        except AssertionError as error:
            answer = error
        if time.monotonic() > deadline:
            raise AssertionError(f"{what or 'the level'} was not reached within {timeout_s} s; last: {answer!r}")
        time.sleep(poll_s)
