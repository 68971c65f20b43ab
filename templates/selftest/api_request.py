#!/usr/bin/env python3
"""One HTTPS request to the API server, for hosts without curl. Prints the status code, 000 where none came.

Usage: api_request.py METHOD URL BODY RESPONSE CA CERTIFICATE KEY TOKEN, all but the first two being paths
of files, empty where there is none. A secret is thus never an argument.
"""

import ssl
import sys
import urllib.error
import urllib.request


def main(method, url, body, response, ca, certificate, key, token):
    context = ssl.create_default_context(cafile=ca or None)
    if certificate:
        context.load_cert_chain(certificate, key or None)
    headers = {"Accept": "application/json"}
    content = None
    if body:
        headers["Content-Type"] = "application/merge-patch+json"
        with open(body, "rb") as source:
            content = source.read()
    if token:
        with open(token) as source:
            headers["Authorization"] = "Bearer " + source.read().strip()
    request = urllib.request.Request(url, data=content, headers=headers, method=method)
    # kubelet itself talks to the API server without a proxy.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(request, timeout=20) as answer:
            status, text = answer.status, answer.read()
    except urllib.error.HTTPError as answer:
        status, text = answer.code, answer.read()
    with open(response, "wb") as target:
        target.write(text)
    print(status)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (OSError, ValueError) as problem:
        print("000")
        print(f"{type(problem).__name__}: {problem}", file=sys.stderr)
