"""Stores and reads blobs by another program's requests, one JSON object a line.

`tidegate-conformance write` sends the requests; the docs of its module `other_client` describe them.
"""

import json
import sys


def follow(put, get, leftovers):
    """Answers until standard input ends.

    `put(name, path)` stores a file. `get(name, path)` writes a blob to a file and says whether there
    is one. `leftovers()` names the unfinished uploads.
    """
    for line in sys.stdin:
        request = json.loads(line)
        if "put" in request:
            put(request["put"], request["file"])
            response = {}
        elif "get" in request:
            response = {"found": get(request["get"], request["file"])}
        else:
            response = {"leftovers": leftovers()}
        print(json.dumps(response), flush=True)
