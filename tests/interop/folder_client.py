"""Stores and reads blobs as files, in the folder that a web server serves.

Usage: folder_client.py FOLDER

Requests come from standard input: see follow.py. Hidden files are leftovers.
"""

import pathlib
import shutil
import sys

from follow import follow


def main(folder):
    root = pathlib.Path(folder)

    def put(name, path):
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)

    def get(name, path):
        source = root / name
        # Not `exists`: what lies below a file is an error of its own.
        if not source.is_file():
            return False
        shutil.copyfile(source, path)
        return True

    follow(put, get, lambda: [str(path) for path in root.rglob(".*")])


main(*sys.argv[1:])
