"""A browser for tests: Debian's chromium, without a window, driven by chromium-driver over the WebDriver protocol
(https://www.w3.org/TR/webdriver2/). It needs nothing but Python's standard library.

    with webdriver.Browser() as browser:
        browser.view(width=400, height=800, dark=True)
        browser.open(pathlib.Path("page.html"))
        browser.find("#next").click()
        browser.press("Tab", "ArrowRight", "a")
        assert browser.find("#where").text() == "round 2"
        browser.screenshot(pathlib.Path("page.png"))
        assert browser.complaints() == [] and browser.requests() == [pathlib.Path("page.html").resolve().as_uri()]

Whatever goes wrong is a WebDriverError, and the browser ends with the `with` in any case. One thread.
"""

import base64
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

BROWSERS = ["chromium", "chromium-browser", "google-chrome"]
DRIVER = "chromedriver"
PATIENCE_S = 60  # for one command, on a busy machine

# The protocol writes keys without a character as characters of their own.
KEYS = {"Backspace": "\ue003", "Tab": "\ue004", "Enter": "\ue007", "Shift": "\ue008", "Control": "\ue009", "Alt": "\ue00a",
        "Escape": "\ue00c", "Space": " ", "PageUp": "\ue00e", "PageDown": "\ue00f", "End": "\ue010", "Home": "\ue011",
        "ArrowLeft": "\ue012", "ArrowUp": "\ue013", "ArrowRight": "\ue014", "ArrowDown": "\ue015", "Delete": "\ue017"}

# Under this name the protocol writes an element, in arguments and in results.
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"

# Nothing but the pages that are asked for: no updates, no pages of the browser's own, no other machine. The pages are the
# tests' own, so there is no sandbox, which a container may not have.
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-dev-shm-usage", "--no-first-run", "--no-default-browser-check",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
             "--disable-gpu", "--hide-scrollbars", "--force-color-profile=srgb",
             "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"]


class WebDriverError(Exception):
    """The browser or its driver refuses a command, ends, or does not answer."""


def missing():
    """Why there is no browser here, or None."""
    if not any(map(shutil.which, BROWSERS)):
        return "chromium is not here (Debian: chromium)"
    if not shutil.which(DRIVER):
        return "chromedriver is not here (Debian: chromium-driver)"
    return None


class Element:
    """What find() has found. It is gone when the page changes it for another one."""

    def __init__(self, browser, name):
        self._browser, self.name = browser, name

    def _ask(self, what, body=None):
        return self._browser.command("GET" if body is None else "POST", f"element/{self.name}/{what}", body)

    def click(self):
        """Clicks its middle, which must be in view and not covered."""
        self._ask("click", {})

    def type(self, text):
        self._ask("value", {"text": text})

    def text(self):
        """The text that a reader sees."""
        return self._ask("text")

    def attribute(self, name):
        return self._ask(f"attribute/{name}")

    def property(self, name):
        return self._ask(f"property/{name}")

    def style(self, name):
        """The computed value of a property of CSS."""
        return self._ask(f"css/{name}")

    def role(self):
        """What assistive technology is told that it is, such as "button"."""
        return self._ask("computedrole")

    def label(self):
        """What assistive technology calls it."""
        return self._ask("computedlabel")

    def box(self):
        """Its place in the window, in pixels: x, y, width, height."""
        return self._browser.run("const box = arguments[0].getBoundingClientRect();"
                                 "return [box.x, box.y, box.width, box.height]", self)

    def is_shown(self):
        return self._ask("displayed")

    def find_all(self, selector):
        found = self._ask("elements", {"using": "css selector", "value": selector})
        return [Element(self._browser, element[ELEMENT]) for element in found]


class Browser:
    def __init__(self):
        reason = missing()
        if reason:
            raise WebDriverError(reason)
        self._folder = tempfile.TemporaryDirectory(prefix="tutti-browser-", ignore_cleanup_errors=True)
        self._driver = self._session = None
        try:
            self._port = self._start_driver()
            self._session = self._start_session()
            self._developer("Network.enable", {})
            self.open("about:blank")
            self.requests()  # of the browser's own first page
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends the browser and its driver, in any case; a second call does nothing."""
        if self._session:
            try:
                self.command("DELETE", "")
            except WebDriverError:
                pass  # it goes the hard way
            self._session = None
        if self._driver:
            try:
                os.killpg(self._driver.pid, signal.SIGKILL)  # a group of its own: the driver, the browser, all its helpers
            except ProcessLookupError:
                pass
            self._driver.wait()
            self._driver = None
        self._folder.cleanup()

    # ---------------------------------------------------------------------------------------------- the page

    def open(self, page):
        """Opens a path or an address; comes back when the page has loaded."""
        address = page.resolve().as_uri() if isinstance(page, pathlib.Path) else page
        self.command("POST", "url", {"url": address})

    def find(self, selector):
        """The first element that a selector of CSS matches; there must be one."""
        return Element(self, self.command("POST", "element", {"using": "css selector", "value": selector})[ELEMENT])

    def find_all(self, selector):
        found = self.command("POST", "elements", {"using": "css selector", "value": selector})
        return [Element(self, element[ELEMENT]) for element in found]

    def focused(self):
        """The element that keys go to."""
        return Element(self, self.command("GET", "element/active")[ELEMENT])

    def press(self, *keys):
        """Presses and releases one key after the other: names as in KEYS, or single characters. "Shift+Tab" holds the first."""
        strokes = []
        for key in keys:
            held = [KEYS.get(name, name) for name in re.split(r"(?<=.)\+(?=.)", key)]
            strokes += [{"type": "keyDown", "value": name} for name in held]
            strokes += [{"type": "keyUp", "value": name} for name in reversed(held)]
        self.command("POST", "actions", {"actions": [{"type": "key", "id": "keys", "actions": strokes}]})

    def run(self, script, *arguments):
        """Runs the body of a function in the page, and returns what that returns. Elements may be arguments."""
        plain = [{ELEMENT: argument.name} if isinstance(argument, Element) else argument for argument in arguments]
        return self.command("POST", "execute/sync", {"script": script, "args": plain})

    def wait(self, script, *arguments, seconds=10):
        """Runs a script again and again until it returns something true; returns that."""
        deadline = time.monotonic() + seconds
        while True:
            result = self.run(script, *arguments)
            if result:
                return result
            if time.monotonic() > deadline:
                raise WebDriverError(f"still not so after {seconds} s: {script}")
            time.sleep(0.02)

    # ---------------------------------------------------------------------------------- how the page is seen

    def view(self, width=1280, height=800, dark=False, reduced_motion=False, print_media=False, scale=1):
        """The size of the window in pixels, and what its reader prefers. The page stays, and is told."""
        self._developer("Emulation.setDeviceMetricsOverride",
                        {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False})
        self._developer("Emulation.setEmulatedMedia", {
            "media": "print" if print_media else "screen",
            "features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                         {"name": "prefers-reduced-motion", "value": "reduce" if reduced_motion else "no-preference"}]})

    def screenshot(self, path, whole=False):
        """Writes a PNG of the window, or of the whole page."""
        picture = self._developer("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": whole,
                                                             **({"clip": self._page_clip()} if whole else {})})
        path.write_bytes(base64.b64decode(picture["data"]))

    def _page_clip(self):
        width, height = self.run("const page = document.documentElement; return [page.scrollWidth, page.scrollHeight]")
        return {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}

    # -------------------------------------------------------------------------------- what the page has done

    def complaints(self):
        """What the console has got since the last call: errors, exceptions, warnings, and what scripts have logged."""
        return [entry["message"] for entry in self.command("POST", "se/log", {"type": "browser"})]

    def requests(self):
        """The addresses that pages have asked for since the last call, their own included, but not those that begin with data:."""
        messages = [json.loads(entry["message"])["message"]
                    for entry in self.command("POST", "se/log", {"type": "performance"})]
        addresses = [message["params"]["request"]["url"] for message in messages
                     if message["method"] == "Network.requestWillBeSent"]
        return [address for address in addresses if not address.startswith("data:")]

    # ---------------------------------------------------------------------------------------- the protocol

    def command(self, method, path, body=None):
        """One command of the protocol, within the session; returns its value."""
        return self._exchange(method, f"/session/{self._session}" + (f"/{path}" if path else ""), body)

    def _developer(self, method, parameters):
        """A command that the protocol does not have, of the browser's tools for developers."""
        return self.command("POST", "goog/cdp/execute", {"cmd": method, "params": parameters})

    def _exchange(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)
        try:
            text = json.dumps({} if body is None and method == "POST" else body) if method == "POST" else None
            connection.request(method, path, text, {"Content-Type": "application/json; charset=utf-8"} if text else {})
            value = json.loads(connection.getresponse().read())["value"]
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            raise WebDriverError(f"{method} {path}: {error!r}; the driver says: {self._said()}") from error
        finally:
            connection.close()
        if isinstance(value, dict) and "error" in value:
            raise WebDriverError(f"{method} {path}: {value['error']}: {value.get('message', '')}")
        return value

    def _said(self):
        return (pathlib.Path(self._folder.name) / "driver.log").read_text(errors="replace")[-2000:]

    def _start_driver(self):
        """Returns the port on which it listens."""
        folder = pathlib.Path(self._folder.name)
        with open(folder / "driver.log", "wb") as log:
            self._driver = subprocess.Popen([shutil.which(DRIVER), "--port=0"], stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=subprocess.STDOUT, start_new_session=True, cwd=folder,
                                            env={**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config"),
                                                 "XDG_CACHE_HOME": str(folder / "cache")})
        deadline = time.monotonic() + PATIENCE_S
        while True:
            said = re.search(r"started successfully on port (\d+)", self._said())
            if said:
                return int(said.group(1))
            if self._driver.poll() is not None or time.monotonic() > deadline:
                raise WebDriverError(f"{DRIVER} does not start: {self._said()}")
            time.sleep(0.02)

    def _start_session(self):
        profile = pathlib.Path(self._folder.name) / "profile"
        value = self._exchange("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"binary": next(filter(None, map(shutil.which, BROWSERS))),
                                   "args": [*ARGUMENTS, f"--user-data-dir={profile}"]},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}}})
        return value["sessionId"]
