"""Prepares an Azure Blob server for the interoperation tests with Azure's own SDK.

Usage: azure_client.py ENDPOINT CONTAINER FILE...
       azure_client.py ENDPOINT CONTAINER --follow

With `--follow` it takes requests from standard input: see follow.py. Otherwise it
makes the container and uploads each file under its name, with the MD5 of its content stored as
Azure's tools do with `--put-md5`. The account and its key come from the environment.
"""

import hashlib
import os
import sys

from azure.core.exceptions import ResourceNotFoundError
from azure.storage.blob import BlobServiceClient, ContentSettings

from follow import follow


def follow_requests(container):
    def put(name, path):
        with open(path, "rb") as source:
            container.get_blob_client(name).upload_blob(source, overwrite=True)

    def get(name, path):
        try:
            with open(path, "wb") as target:
                container.get_blob_client(name).download_blob().readinto(target)
        except ResourceNotFoundError:
            return False
        return True

    # Azure keeps uncommitted blocks for a week, whatever a client asks for.
    follow(put, get, lambda: [])


def main(endpoint, container, *paths):
    account = {
        "account_name": os.environ["AZURE_STORAGE_ACCOUNT_NAME"],
        "account_key": os.environ["AZURE_STORAGE_ACCOUNT_KEY"],
    }
    service = BlobServiceClient(endpoint, credential=account)
    service.create_container(container)
    if paths == ("--follow",):
        follow_requests(service.get_container_client(container))
        return
    for path in paths:
        with open(path, "rb") as source:
            md5 = hashlib.file_digest(source, "md5").digest()
            source.seek(0)
            service.get_blob_client(container, os.path.basename(path)).upload_blob(
                source, content_settings=ContentSettings(content_md5=bytearray(md5))
            )


main(*sys.argv[1:])
