"""Prepares an Azure Blob server for the interoperation tests with Azure's own SDK.

Usage: azure_client.py ENDPOINT CONTAINER FILE...

Makes the container and uploads each file under its name, with the MD5 of its content stored as
Azure's tools do with `--put-md5`. The account and its key come from the environment.
"""

import hashlib
import os
import sys

from azure.storage.blob import BlobServiceClient, ContentSettings


def main(endpoint, container, *paths):
    account = {
        "account_name": os.environ["AZURE_STORAGE_ACCOUNT_NAME"],
        "account_key": os.environ["AZURE_STORAGE_ACCOUNT_KEY"],
    }
    service = BlobServiceClient(endpoint, credential=account)
    service.create_container(container)
    for path in paths:
        with open(path, "rb") as source:
            md5 = hashlib.file_digest(source, "md5").digest()
            source.seek(0)
            service.get_blob_client(container, os.path.basename(path)).upload_blob(
                source, content_settings=ContentSettings(content_md5=bytearray(md5))
            )


main(*sys.argv[1:])
