"""Sends the requests on standard input with http.client, on one connection except with
HTTP/1.0, and writes the responses (see exchange and answer in clientprograms_test.go)."""

import base64
import gzip
import http.client
import json
import ssl
import sys
import urllib.parse


def connect(url, ca, version):
    address = urllib.parse.urlsplit(url)
    if address.scheme == "https":
        conn = http.client.HTTPSConnection(address.netloc, timeout=60, context=ssl.create_default_context(cafile=ca))
    else:
        conn = http.client.HTTPConnection(address.netloc, timeout=60)
    if version == "1.0":
        conn._http_vsn, conn._http_vsn_str = 10, "HTTP/1.0"
    conn.connect()
    conn.auto_open = 0  # a request on a closed connection fails
    return conn


def read_continue(sock):
    """Reads an interim response, and returns whether it is 100 (Continue)."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = sock.recv(1)
        if not byte:
            raise EOFError(f"the connection ended after {head!r}")
        head += byte
    return head.startswith(b"HTTP/1.1 100 ")


def send(conn, version, request):
    header, body = request["header"] or {}, base64.b64decode(request["body"] or "")
    conn.putrequest(request["method"], request["path"], skip_host=True, skip_accept_encoding=True)
    conn.putheader("Host", f"{conn.host}:{conn.port}")  # http.client has none with HTTP/1.0
    for name, value in header.items():
        conn.putheader(name, value)
    if body:
        conn.putheader("Content-Length", str(len(body)))
    conn.endheaders()
    continued = "Expect" in header and version != "1.0" and read_continue(conn.sock)
    if body:
        conn.send(body)
    response = conn.getresponse()
    content = response.read()
    if response.getheader("Content-Encoding") == "gzip":
        content = gzip.decompress(content)
    return {
        "version": {10: "1.0", 11: "1.1"}[response.version],
        "status": response.status,
        "header": {name.lower(): value for name, value in response.getheaders()},
        "body": base64.b64encode(content).decode(),
        "continued": continued,
    }


def main():
    job = json.load(sys.stdin)
    version, answers, conn = job["version"], [], None
    for request in job["requests"]:
        if conn is None or version == "1.0":
            conn = connect(job["url"], job["ca"], version)
        answers.append(send(conn, version, request))
        if version == "1.0":
            conn.close()
    json.dump(answers, sys.stdout)


main()
