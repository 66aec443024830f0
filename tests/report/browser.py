"""A page in headless Chromium, by its DevTools protocol over two pipes: Python's own library is enough."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Of a machine that is busy with other tests as well.
PATIENCE_S = 120


def find():
    """The path of Chromium, or None."""
    return os.environ.get("HENRY_CHROMIUM") or next((path for path in map(shutil.which, PROGRAMS) if path), None)


class Fault(Exception):
    pass


class Browser:
    """`messages`: what the console was told, uncaught errors, and what the browser refused. `requests`: addresses that were asked for."""

    def __init__(self, width=1400, height=1000):
        self.profile = tempfile.mkdtemp(prefix="henry-chromium-")
        self.number, self.buffer, self.answers = 0, b"", {}
        self.messages, self.requests = [], []
        ours, theirs = os.pipe(), os.pipe()
        arguments = [find(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions", "--disable-background-networking",
                     "--disable-component-update", "--disable-background-timer-throttling", "--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows", "--remote-debugging-pipe", f"--user-data-dir={self.profile}", f"--window-size={width},{height}", "about:blank"]

        def place():  # the browser reads from 3 and writes to 4
            reads, writes = os.dup(ours[0]), os.dup(theirs[1])
            os.dup2(reads, 3), os.dup2(writes, 4)

        with open(os.path.join(self.profile, "log"), "wb") as log:
            self.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=place, close_fds=False)
        os.close(ours[0]), os.close(theirs[1])
        self.out, self.into = ours[1], theirs[0]
        self.session = None
        target = next(one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    # --- the wire: JSON, each message with a zero byte behind it ---

    def read(self, until):
        while b"\0" not in self.buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.into], [], [], left)[0]:
                raise Fault("the browser does not answer")
            more = os.read(self.into, 1 << 20)
            if not more:
                raise Fault("the browser has ended")
            self.buffer += more
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def note(self, message):
        method, what = message.get("method"), message.get("params", {})
        if method == "Runtime.consoleAPICalled":
            self.messages.append(what["type"] + ": " + " ".join(str(one.get("value", one.get("description"))) for one in what["args"]))
        elif method == "Runtime.exceptionThrown":
            details = what["exceptionDetails"]
            self.messages.append("uncaught: " + details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded":
            self.messages.append(f"{what['entry']['level']}: {what['entry']['text']}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(what["request"]["url"])

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        text = json.dumps(message).encode() + b"\0"
        while text:
            text = text[os.write(self.out, text):]
        until = time.monotonic() + PATIENCE_S
        while True:
            answer = self.read(until)
            if answer.get("id") != self.number:
                self.note(answer)
            elif "error" in answer:
                raise Fault(f"{method}: {answer['error']['message']}")
            else:
                return answer["result"]

    # --- the page ---

    def evaluate(self, text):
        """The value of a JavaScript expression; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=text, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise Fault(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def wait(self, text):
        """Until the value of an expression, of JSON's kinds, is true; returns it."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            try:
                value = self.evaluate(text)
            except Fault:  # a page that goes while it is asked
                value = None
            if value:
                return value
            time.sleep(.02)
        raise Fault(f"waited in vain for: {text}; messages: {self.messages}")

    def open(self, path):
        """Opens a report; returns the milliseconds from the begin of loading until all of it was there."""
        self.messages, self.requests = [], []
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        return int(self.wait("document.documentElement.dataset.ready"))

    def theme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def press(self, key, **more):
        """A key, by the name that JavaScript has for it."""
        code = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}.get(key, ord(key[0]))
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, text=text if kind == "keyDown" else "", **more)

    def click(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def write(self, text):
        self.call("Input.insertText", text=text)

    def screenshot(self, path, whole=False):
        more = {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            more = {"captureBeyondViewport": True, "clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png", **more)["data"]))

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except (Fault, OSError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.out), os.close(self.into)
        shutil.rmtree(self.profile, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
