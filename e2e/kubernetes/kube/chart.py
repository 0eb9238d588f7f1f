"""The chart, as helm renders it: no cluster is asked."""

import pathlib
import subprocess

import yaml

CHART = pathlib.Path(__file__).resolve().parent.parent.parent.parent / "charts" / "taffrail"


def helm(*arguments, timeout_s=60):
    """The finished process, whatever came of it."""
    return subprocess.run(["helm", *map(str, arguments)], capture_output=True, text=True, timeout=timeout_s)


def template(*arguments, release="log", namespace="streams"):
    """The text that `helm template` prints."""
    done = helm("template", release, CHART, "--namespace", namespace, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects_of(*settings, arguments=(), **options):
    """The objects that these settings (`image.tag=1`) make."""
    sets = [word for setting in settings for word in ("--set", setting)]
    return [one for one in yaml.safe_load_all(template(*sets, *arguments, **options)) if one]


def rendered(*settings, **options):
    """The same by (kind, name)."""
    return {(one["kind"], one["metadata"]["name"]): one for one in objects_of(*settings, **options)}


def refusal(*settings):
    """What helm says to values that the schema refuses."""
    sets = [word for setting in settings for word in ("--set", setting)]
    done = helm("template", "log", CHART, *sets)
    assert done.returncode != 0, "nothing was refused"
    return done.stderr
