"""The image under test: one static binary, small, and nobody special."""

import gzip
import json
import os
import pathlib
import struct
import tarfile

import pytest

# As it is shipped (IMAGE_PROFILE=dist), and as it is built for tests, without optimisation across crates.
BYTES_MAX = {"dist": 15_000_000, "release": 20_000_000}
# The segment that names the loader of a program with libraries.
PT_INTERP = 3


@pytest.fixture(scope="module")
def tar():
    path = pathlib.Path(os.environ.get("TAFFRAIL_IMAGE_TAR", ""))
    if not path.is_file():
        pytest.fail("no TAFFRAIL_IMAGE_TAR: start the tests with `make e2e-kubernetes`")
    with tarfile.open(path) as opened:
        yield opened


@pytest.fixture(scope="module")
def config(tar):
    return json.load(tar.extractfile("config.json"))["config"]


def segment_types(program):
    """Types of the segments of a 64-bit ELF file."""
    assert program[:5] == b"\x7fELF\x02"
    (at,) = struct.unpack_from("<Q", program, 32)
    size, count = struct.unpack_from("<HH", program, 54)
    return [struct.unpack_from("<I", program, at + size * index)[0] for index in range(count)]


def layer(tar):
    return tarfile.open(fileobj=tar.extractfile("layer.tar"))


def test_it_holds_one_static_program_and_nothing_else(tar):
    with layer(tar) as files:
        names = [member.name for member in files if member.isfile()]
        assert names == ["./taffrail"]
        program = files.extractfile("./taffrail").read()
    assert PT_INTERP not in segment_types(program), "it needs a loader, and with it libraries"


def test_it_is_small_compressed(tar):
    limit = BYTES_MAX[os.environ.get("TAFFRAIL_IMAGE_PROFILE", "release")]
    assert len(gzip.compress(tar.extractfile("layer.tar").read(), 6)) <= limit


def test_it_runs_as_a_user_by_number_who_is_not_root(config):
    user, group = config["User"].split(":")
    assert int(user) > 0 and int(group) > 0


def test_it_says_what_it_is(config):
    labels = config["Labels"]
    assert config["Entrypoint"] == ["/taffrail"]
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert labels["org.opencontainers.image.version"] and labels["org.opencontainers.image.revision"]
