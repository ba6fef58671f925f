"""A program that decodes e2m1 over JSON lines and fails in the way that its argument names; needs nothing but Python."""

import base64
import json
import struct
import sys
import time

FAULT = sys.argv[1]
VALUES = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
DESCRIPTION = {
    "mxspec": 1, "name": "faulty", "version": "1",
    "capabilities": {"functions": {"decode": []}, "elements": ["e2m1"]},
}  # fmt: skip


def say(text):
    sys.stdout.write(text)
    sys.stdout.flush()


def decode(request):
    array = request["arguments"]["codes"]
    codes = bytes.fromhex(array["hex"]) if "hex" in array else base64.b64decode(array["base64"])
    values = [-VALUES[c & 7] if c & 8 else VALUES[c & 7] for c in codes]
    data = base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()
    return {"id": request["id"], "outputs": {"values": {"dtype": "float32", "shape": array["shape"], "base64": data}}}


def answer(request):
    reply = decode(request)
    line = json.dumps(reply) + "\n"
    if FAULT == "garbage":
        say("decoding...\n" + line)
    elif FAULT == "half-line":
        say(line[:30] + "\n")
    elif FAULT == "half-exit":
        say(line[:30])
        sys.exit()
    elif FAULT == "half-hang":
        say(line[:30])
        time.sleep(60)
    elif FAULT == "hang":
        time.sleep(60)
    elif FAULT == "exit":
        print("out of memory: buy more", file=sys.stderr, flush=True)
        sys.exit(3)
    elif FAULT == "flood":
        while True:
            say("x" * 65536)
    elif FAULT == "many-lines":
        while True:
            say("{}\n" * 1000)
    elif FAULT == "nan":
        say(json.dumps({"id": request["id"], "outputs": float("nan")}) + "\n")
    elif FAULT == "twice":
        say(json.dumps(reply)[:-1] + ', "outputs": {}}\n')
    elif FAULT == "wrong-id":
        say(json.dumps({**reply, "id": "0" * 16}) + "\n")
    elif FAULT == "other-outputs":
        say(json.dumps({**reply, "outputs": {"codes": reply["outputs"]["values"]}}) + "\n")
    elif FAULT == "short-bytes":
        reply["outputs"]["values"]["shape"] = [1 << 20]
        say(json.dumps(reply) + "\n")
    elif FAULT == "error":
        say(json.dumps({"id": request["id"], "error": {"message": "CUDA error 700", "detail": "line 3"}}) + "\n")
    elif FAULT == "skipped":
        skipped = {"reason": "no decode on this chip", "link": "https://example.org/1"}
        say(json.dumps({"id": request["id"], "skipped": skipped}) + "\n")
    elif FAULT == "stderr":
        sys.stderr.write("note\n" * 100_000)
        say(line)
    else:
        say(line)


for text in sys.stdin:
    message = json.loads(text)
    if message["cmd"] == "start":
        if FAULT == "banner":
            say("Welcome!\n")
        if FAULT == "mute":
            sys.exit("no licence")
        if FAULT == "unknown-format":
            DESCRIPTION["capabilities"] = {"functions": {"quantize": []}, "formats": ["mxfp5"]}
        if FAULT == "unknown-function":
            DESCRIPTION["capabilities"] = {"functions": {"quantise": []}}
        if FAULT == "hex":
            DESCRIPTION["encoding"] = "hex"
        say(json.dumps(DESCRIPTION) + "\n")
    elif message["cmd"] == "stop":
        if FAULT == "never-stops":
            time.sleep(60)
        break
    else:
        answer(message)
