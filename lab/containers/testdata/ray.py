#!/usr/bin/python3
"""Stands in for Ray: ray start --head, ray start --address=HEAD:PORT, and ray health-check --address HEAD:PORT.

A worker tells the head its name, and the head prints it. Each answers the probes at the port of Ray's agent.
"""
import http.server
import socket
import sys
import threading
import urllib.request


class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path.startswith("/join/"):
            print(self.path.removeprefix("/join/"), "joined", flush=True)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"success")

    def log_message(self, *_):
        pass


def serve(port):
    http.server.ThreadingHTTPServer(("", port), Answers).serve_forever()


words = " ".join(sys.argv[1:]).replace("=", " ").split()
if "--head" in words:
    threading.Thread(target=serve, args=[6379], daemon=True).start()
else:
    head = "http://" + words[words.index("--address") + 1]
    urllib.request.urlopen(head + "/" + ("health" if words[0] == "health-check" else "join/" + socket.gethostname()))
if words[0] == "start":
    serve(52365)
