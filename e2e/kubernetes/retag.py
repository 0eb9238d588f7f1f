"""retag.py IMAGE.tar NAME:TAG OUT.tar: the same image (a docker archive) under another name."""

import io
import json
import sys
import tarfile


def main(source, name, target):
    with tarfile.open(source) as old, tarfile.open(target, "w") as new:
        for member in old.getmembers():
            content = old.extractfile(member) if member.isfile() else None
            if member.name == "manifest.json":
                manifest = [{**image, "RepoTags": [name]} for image in json.load(content)]
                data = json.dumps(manifest).encode()
                member.size, content = len(data), io.BytesIO(data)
            new.addfile(member, content)


if __name__ == "__main__":
    main(*sys.argv[1:])
