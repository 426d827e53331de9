"""Takes pictures of pages in Chromium without a window, for docs/images/make:

    browser.py page URL WIDTH HEIGHT PICTURE
    browser.py devtools SNAPSHOT PICTURE
    browser.py perfetto ADDRESS TIMELINE PICTURE
    browser.py speedscope URL PROFILE PICTURE

Chromium is driven over a pipe by the DevTools protocol: JSON messages that end with a zero byte.
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
import time

# The elements of a page, also those in shadow trees.
ELEMENTS = """
    const elements = (from) => [...from.children].flatMap((child) =>
        [child, ...(child.shadowRoot ? elements(child.shadowRoot) : []), ...elements(child)]);
    const find = (test) => elements(document).find(test);
"""


class Browser:
    """A browser with one page."""

    def __init__(self, width, height):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        commands, self.commands = os.pipe()
        answers, to_us = os.pipe()
        self.answers = os.fdopen(answers, "rb")
        # The browser reads from descriptor 3 and writes to 4.
        script = f'exec chromium "$@" 3<&{commands} 4>&{to_us}'
        options = ["--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
                   "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic",
                   f"--window-size={width},{height}", f"--user-data-dir={self.profile.name}"]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(["bash", "-c", script, "bash", *options], pass_fds=(commands, to_us), **quiet)
        os.close(commands)
        os.close(to_us)
        self.last, self.session, self.unread = 0, None, b""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.commands)  # the browser ends when its input ends
        self.process.wait(20)
        self.profile.cleanup()

    def call(self, method, **parameters):
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.unread:
                more = self.answers.read1(65536)
                if not more:
                    sys.exit("chromium has ended")
                self.unread += more
            text, self.unread = self.unread.split(b"\0", 1)
            answer = json.loads(text)
            if answer.get("id") == self.last:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def evaluate(self, expression, **options):
        expression = f"(() => {{ {ELEMENTS} return {expression}; }})()"
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, **options)
        if "exceptionDetails" in answer:
            sys.exit(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"]

    def until(self, expression, limit=60):
        """Waits until an expression is true in the page."""
        end = time.monotonic() + limit
        while not self.evaluate(f"Boolean({expression})")["value"]:
            if time.monotonic() > end:
                sys.exit(f"the page has no {expression}")
            time.sleep(0.2)

    def visit(self, url):
        self.call("Page.navigate", url=url)
        self.until("document.readyState == 'complete'")

    def load(self, file):
        """Selects a file in the page's field for files."""
        field = "find((element) => element.type == 'file')"
        self.until(field)
        self.call("DOM.setFileInputFiles", objectId=self.evaluate(field)["objectId"], files=[os.path.abspath(file)])

    def click(self, test):
        """Clicks at the first element for which the test is true, once there is one."""
        self.until(f"find((element) => {test})")
        box = f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])(find((element) => {test}).getBoundingClientRect())"
        x, y = self.evaluate(box, returnByValue=True)["value"]
        for kind in ["mousePressed", "mouseReleased"]:
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        time.sleep(1)

    def key(self, key):
        for kind in ["rawKeyDown", "keyUp"]:
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode={"ArrowRight": 39, "ArrowDown": 40}[key])
        time.sleep(0.5)

    def picture(self, file):
        with open(file, "wb") as picture:
            picture.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


def page(url, width, height, picture):
    """The top of a page, after some seconds."""
    with Browser(int(width), int(height)) as browser:
        browser.visit(url)
        time.sleep(5)
        browser.picture(picture)


def devtools(snapshot, picture):
    """A heap snapshot in the Memory panel."""
    with Browser(1240, 620) as browser:
        browser.visit("devtools://devtools/bundled/devtools_app.html?panel=heap-profiler")
        browser.load(snapshot)
        name = os.path.basename(snapshot).split(".")[0]
        browser.click(f"element.tagName == 'LI' && /^{name}.*B\\)/s.test(element.innerText)")
        # The class that retains most, its largest object, and the objects that refer to that.
        browser.click("element.tagName == 'TR' && element.innerText.includes('×')")
        browser.key("ArrowRight")
        browser.key("ArrowDown")
        browser.key("ArrowRight")
        time.sleep(3)
        browser.picture(picture)


def perfetto(address, timeline, picture):
    """Some collections of a timeline, which Perfetto's server also has."""
    with open(timeline) as file:
        begins = [event["ts"] for event in json.load(file) if event.get("name", "").startswith("collection ")]
    first, last = begins[4], begins[7]
    margin = (last - first) / 20
    start, end = (int(1000 * time) for time in [first - margin, last + margin])
    with Browser(1240, 640) as browser:
        name = os.path.basename(timeline)
        browser.visit(f"{address}/#!/?url={address}/{name}&visStart={start}&visEnd={end}&hideSidebar=true")
        browser.click("element.tagName == 'BUTTON' && element.innerText == 'OK'")  # cookies
        browser.until("find((element) => element.innerText?.startsWith('heap'))")
        browser.until("find((element) => element.placeholder?.startsWith('Search'))")
        time.sleep(5)
        browser.picture(picture)


def speedscope(url, profile, picture):
    """A profile, with the functions that allocate most on the left."""
    with Browser(1240, 520) as browser:
        browser.visit(url)
        browser.click("element.innerText == 'Browse'")
        browser.load(profile)
        browser.click("/Left Heavy$/.test(element.innerText) && element.children.length <= 1")
        time.sleep(2)
        browser.picture(picture)


if __name__ == "__main__":
    commands = {"page": page, "devtools": devtools, "perfetto": perfetto, "speedscope": speedscope}
    commands[sys.argv[1]](*sys.argv[2:])
