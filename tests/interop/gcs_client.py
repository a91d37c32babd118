"""Stores and reads objects of Google Cloud Storage by its JSON interface, with Python's own HTTP.

Usage: gcs_client.py ENDPOINT BUCKET

Requests come from standard input: see follow.py. Google has no list of unfinished sessions.
"""

import shutil
import sys
import urllib.error
import urllib.parse
import urllib.request

from follow import follow


def main(endpoint, bucket):
    def put(name, path):
        query = urllib.parse.urlencode({"uploadType": "media", "name": name})
        with open(path, "rb") as body:
            data = body.read()
        kind = {"Content-Type": "application/octet-stream"}
        url = f"{endpoint}/upload/storage/v1/b/{bucket}/o?{query}"
        urllib.request.urlopen(urllib.request.Request(url, data, kind, method="POST")).close()

    def get(name, path):
        url = f"{endpoint}/storage/v1/b/{bucket}/o/{urllib.parse.quote(name, safe='')}?alt=media"
        try:
            with urllib.request.urlopen(url) as response, open(path, "wb") as target:
                shutil.copyfileobj(response, target)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return False
            raise
        return True

    follow(put, get, lambda: [])


main(*sys.argv[1:])
