"""Prepares an S3 server for the interoperation tests with the AWS SDK.

Usage: s3_client.py ENDPOINT put BUCKET KEY FILE
       s3_client.py ENDPOINT put-parts BUCKET KEY FILE PART_BYTES
       s3_client.py ENDPOINT put-composite BUCKET KEY FILE ALGORITHM [PART_BYTES...]
       s3_client.py ENDPOINT show BUCKET KEY
       s3_client.py ENDPOINT make-public BUCKET
       s3_client.py ENDPOINT make BUCKET
       s3_client.py ENDPOINT upload BUCKET KEY FILE
       s3_client.py ENDPOINT get BUCKET KEY FILE
       s3_client.py ENDPOINT uploads BUCKET PREFIX
       s3_client.py ENDPOINT names BUCKET
       s3_client.py ENDPOINT parts BUCKET PREFIX
       s3_client.py ENDPOINT follow BUCKET

`put-composite` stores a composite checksum. Without sizes of parts it is the upload of boto3 with
its own defaults.

`make` makes a bucket. `upload` stores a file without a checksum. `get` reads an object, and verifies its checksum as the SDK does. `names` prints the keys
of all objects, `uploads` those of the unfinished uploads, and `parts` the bytes of their parts. `follow` takes requests from standard input: see follow.py.

`put` and `put-parts` store a CRC64-NVME over the full object, as today's SDKs do by
default; `put-parts` is a multipart upload. They and `show` print the ETag, the type of the
checksum and the checksum that the server holds.
"""

import json
import sys

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from follow import follow


def connect(endpoint):
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}),
    )


def put(s3, bucket, key, path):
    with open(path, "rb") as body:
        s3.put_object(Bucket=bucket, Key=key, Body=body, ChecksumAlgorithm="CRC64NVME")


def put_parts(s3, bucket, key, path, part_bytes):
    whole = {"Bucket": bucket, "Key": key}
    upload = s3.create_multipart_upload(
        **whole, ChecksumAlgorithm="CRC64NVME", ChecksumType="FULL_OBJECT"
    )["UploadId"]
    parts = []
    with open(path, "rb") as source:
        while body := source.read(int(part_bytes)):
            number = len(parts) + 1
            answer = s3.upload_part(
                **whole,
                UploadId=upload,
                PartNumber=number,
                Body=body,
                ChecksumAlgorithm="CRC64NVME",
            )
            parts.append(
                {
                    "PartNumber": number,
                    "ETag": answer["ETag"],
                    "ChecksumCRC64NVME": answer["ChecksumCRC64NVME"],
                }
            )
    s3.complete_multipart_upload(
        **whole,
        UploadId=upload,
        ChecksumType="FULL_OBJECT",
        MultipartUpload={"Parts": parts},
    )


def put_composite(s3, bucket, key, path, algorithm, *sizes):
    if not sizes:
        s3.upload_file(path, bucket, key)
        return
    whole = {"Bucket": bucket, "Key": key}
    checksum, kind = {"ChecksumAlgorithm": algorithm}, {"ChecksumType": "COMPOSITE"}
    upload = s3.create_multipart_upload(**whole, **checksum, **kind)["UploadId"]
    parts = []
    with open(path, "rb") as source:
        while body := source.read(int(sizes[min(len(parts), len(sizes) - 1)])):
            number = len(parts) + 1
            answer = s3.upload_part(
                **whole, UploadId=upload, PartNumber=number, Body=body, **checksum
            )
            value = {f"Checksum{algorithm}": answer[f"Checksum{algorithm}"]}
            parts.append({"PartNumber": number, "ETag": answer["ETag"], **value})
    s3.complete_multipart_upload(
        **whole, UploadId=upload, MultipartUpload={"Parts": parts}, **kind
    )


def make_public(s3, bucket):
    allow_reads = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": "*",
                "Action": ["s3:GetObject"],
                "Resource": [f"arn:aws:s3:::{bucket}/*"],
            }
        ],
    }
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps(allow_reads))


def get(s3, bucket, key, path):
    try:
        s3.download_file(bucket, key, path)
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
            return False
        raise
    return True


def unfinished(s3, bucket, prefix):
    return s3.list_multipart_uploads(Bucket=bucket, Prefix=prefix).get("Uploads", [])


def uploads(s3, bucket, prefix=""):
    return [upload["Key"] for upload in unfinished(s3, bucket, prefix)]


def names(s3, bucket):
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return [found["Key"] for page in pages for found in page.get("Contents", [])]


def parts(s3, bucket, prefix):
    total = 0
    for upload in unfinished(s3, bucket, prefix):
        pages = s3.get_paginator("list_parts")
        whole = {"Bucket": bucket, "Key": upload["Key"], "UploadId": upload["UploadId"]}
        for page in pages.paginate(**whole):
            total += sum(part["Size"] for part in page.get("Parts", []))
    return total


def follow_requests(s3, bucket):
    follow(
        lambda name, path: put(s3, bucket, name, path),
        lambda name, path: get(s3, bucket, name, path),
        lambda: uploads(s3, bucket),
    )


def show(s3, bucket, key):
    head = s3.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
    print(head["ETag"], head.get("ChecksumType"), head.get("ChecksumCRC64NVME"))
    if head.get("ChecksumType") != "FULL_OBJECT":
        sys.exit("the server did not store a full-object checksum")


def main(endpoint, action, bucket, *arguments):
    s3 = connect(endpoint)
    if action == "make-public":
        make_public(s3, bucket)
        return
    if action == "put-composite":
        put_composite(s3, bucket, *arguments)
        return
    if action == "make":
        s3.create_bucket(Bucket=bucket)
        return
    if action == "upload":
        key, path = arguments
        with open(path, "rb") as body:
            s3.put_object(Bucket=bucket, Key=key, Body=body)
        return
    if action == "get":
        sys.exit(None if get(s3, bucket, *arguments) else "there is no such object")
    if action == "uploads":
        print(*uploads(s3, bucket, *arguments), sep="\n")
        return
    if action == "names":
        print(*names(s3, bucket), sep="\n")
        return
    if action == "parts":
        print(parts(s3, bucket, *arguments))
        return
    if action == "follow":
        follow_requests(s3, bucket)
        return
    if action != "show":
        {"put": put, "put-parts": put_parts}[action](s3, bucket, *arguments)
    show(s3, bucket, arguments[0])


main(*sys.argv[1:])
