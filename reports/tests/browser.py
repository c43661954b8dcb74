"""Opens report pages in headless Chromium and says what is wrong with them. Exit 77 (skipped)
without Chromium.

usage: browser.py [--shots DIR] PAGE... | --self-test

Checked at 1280 and 400 pixels, light, dark and printed: no message on the console, no request for
anything but the page itself, every svg visible with a size, no text or figure beyond the right edge
(what scrolls inside its own box is fine), no duplicate id, text with enough contrast against its
background.
"""

import base64
import contextlib
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import time

WIDTHS = (1280, 400)
SKIPPED = 77
TIME_LIMIT = 60

# Runs in the page; returns a list of complaints.
PROBE = r"""
(() => {
  const found = [];
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width)
    found.push(`the page is ${document.documentElement.scrollWidth} px wide, the window ${width}`);
  const scrolls = e => { for (; e && e !== document.body; e = e.parentElement)
    if (['auto', 'scroll'].includes(getComputedStyle(e).overflowX)) return true; return false; };
  const closed = e => { const d = e.closest('details'); return d && !d.open && !e.closest('summary'); };
  const name = e => `<${e.tagName.toLowerCase()}> "${(e.textContent || '').trim().slice(0, 40)}"`;
  document.querySelectorAll('body *').forEach(e => {
    if (closed(e) || scrolls(e) || e.closest('svg') && e.tagName !== 'svg') return;
    const box = e.getBoundingClientRect();
    if (box.width > 0 && box.right > width + 1) found.push(`${name(e)} ends at ${box.right} of ${width}`);
  });
  document.querySelectorAll('svg').forEach(e => {
    if (closed(e)) return;
    const box = e.getBoundingClientRect();
    if (!(box.width > 50 && box.height > 50)) found.push(`an svg is ${box.width} by ${box.height} px`);
    if (e.querySelectorAll('path, polygon, image, use, circle').length < 2) found.push('an svg is empty');
    // Text of a figure must lie inside its picture and not run into other text of it.
    const texts = [...e.querySelectorAll('text')].filter(t => t.textContent.trim());
    const boxes = texts.map(t => t.getBoundingClientRect());
    boxes.forEach((b, i) => {
      if (b.left < box.left - 2 || b.right > box.right + 2 || b.top < box.top - 2 || b.bottom > box.bottom + 2)
        found.push(`text "${texts[i].textContent}" leaves its figure`);
      for (let j = 0; j < i; ++j) { const o = boxes[j];
        const w = Math.min(b.right, o.right) - Math.max(b.left, o.left);
        const h = Math.min(b.bottom, o.bottom) - Math.max(b.top, o.top);
        if (w > 2 && h > 4) found.push(`texts "${texts[j].textContent}" and "${texts[i].textContent}" overlap`);
      }
    });
  });
  const seen = new Set();
  document.querySelectorAll('[id]').forEach(e => {
    if (seen.has(e.id)) found.push(`id ${e.id} is there twice`); seen.add(e.id); });
  const parse = c => (c.match(/[\d.]+/g) || []).map(Number);
  const light = c => { const [r, g, b] = parse(c).map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126*r + 0.7152*g + 0.0722*b; };
  const back = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
    const p = parse(c); if (p.length < 4 || p[3] > 0.5) if (c !== 'transparent') return c; } return 'rgb(255,255,255)'; };
  document.querySelectorAll('h1, h2, h3, p, li, td, th, dt, dd, figcaption, caption, summary, strong, pre, svg text')
    .forEach(e => {
      if (closed(e) || !e.textContent.trim()) return;
      const style = getComputedStyle(e);
      const a = light(e.closest('svg') ? style.fill : style.color), b = light(back(e.closest('svg') || e));
      const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      if (!(contrast >= 4.5)) found.push(`${name(e)} has contrast ${contrast.toFixed(1)}`);
    });
  return found;
})()
"""


def find_browser():
    for name in ("chromium", "chromium-browser", "google-chrome", "chrome"):
        if path := shutil.which(name):
            return path
    return None


class Browser:
    """Chromium, spoken to over the DevTools protocol on a pair of pipes."""

    def __init__(self, path, profile):
        to_read, self.write_end = os.pipe()
        self.read_end, to_write = os.pipe()
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--remote-debugging-pipe", "--no-first-run", "--disable-background-networking",
                 "--disable-component-update", "--disable-sync", "--hide-scrollbars",
                 "--disable-extensions", f"--user-data-dir={profile}", "about:blank"]

        def wire():
            # Out of the way first: 3 or 4 may be one of ours.
            reader, writer = os.dup(to_read), os.dup(to_write)
            while reader < 5 or writer < 5:
                reader, writer = os.dup(reader), os.dup(writer)
            os.dup2(reader, 3)
            os.dup2(writer, 4)

        self.process = subprocess.Popen([path, *flags], close_fds=False, preexec_fn=wire,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(to_read)
        os.close(to_write)
        self.buffer, self.number, self.events = b"", 0, []
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        self.session = None
        self.session = self.call("Target.attachToTarget",
                                 {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def message(self, deadline):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read_end], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError("Chromium does not answer")
            piece = os.read(self.read_end, 1 << 20)
            if not piece:
                raise EOFError("Chromium has gone")
            self.buffer += piece
        line, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(line)

    def call(self, method, parameters=None):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters or {}}
        if getattr(self, "session", None):
            request["sessionId"] = self.session
        os.write(self.write_end, json.dumps(request).encode() + b"\0")
        deadline = time.monotonic() + TIME_LIMIT
        while True:
            message = self.message(deadline)
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def load(self, url):
        self.events.clear()
        self.call("Page.navigate", {"url": url})
        deadline = time.monotonic() + TIME_LIMIT
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self.message(deadline))
        self.evaluate("new Promise(r => setTimeout(r, 50))")  # late requests and messages

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", {"expression": expression, "returnByValue": True,
                                                "awaitPromise": True})
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"])
        return result["result"].get("value")

    def screenshot(self, path):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 12000), "scale": 1}
        shot = self.call("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))

    def close(self):
        with contextlib.suppress(Exception):
            os.write(self.write_end, b'{"id":999999,"method":"Browser.close"}\0')
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        if self.process.poll() is None:
            os.killpg(self.process.pid, 9)
            self.process.wait()
        os.close(self.read_end)
        os.close(self.write_end)


@contextlib.contextmanager
def browser():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        one = Browser(find_browser(), profile)
        try:
            yield one
        finally:
            one.close()


def from_events(events, url):
    for event in events:
        method, what = event.get("method", ""), event.get("params", {})
        if method == "Network.requestWillBeSent":
            target = what["request"]["url"]
            if target != url and not target.startswith("data:"):
                yield f"asks for {target}"
        elif method == "Runtime.consoleAPICalled":
            yield f"writes to the console: {[a.get('value') for a in what['args']]}"
        elif method == "Runtime.exceptionThrown":
            yield f"throws: {what['exceptionDetails'].get('text')}"
        elif method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
            yield f"{what['entry']['level']}: {what['entry']['text']}"


def problems(one, path, shots=None):
    path = pathlib.Path(path).resolve()
    url = path.as_uri()
    found = []
    for width in WIDTHS:
        for look in ("light", "dark", "print"):
            if look == "print" and width != WIDTHS[0]:
                continue
            one.call("Emulation.setDeviceMetricsOverride",
                     {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
            one.call("Emulation.setEmulatedMedia", {
                "media": "print" if look == "print" else "screen",
                "features": [{"name": "prefers-color-scheme",
                              "value": "dark" if look == "dark" else "light"}]})
            one.load(url)
            where = f"{path.name} ({width} px, {look}): "
            found += [where + text for text in from_events(one.events, url)]
            found += [where + text for text in one.evaluate(PROBE)]
            dark = one.evaluate(
                "(getComputedStyle(document.body).backgroundColor.match(/\\d+/g) || [255]).slice(0, 3)"
                ".every(v => +v < 80)")
            if dark != (look == "dark"):
                found.append(where + f"the background is {'dark' if dark else 'light'}")
            if shots:
                one.screenshot(pathlib.Path(shots) / f"{path.stem}-{width}-{look}.png")
    return found


GOOD = """<!DOCTYPE html><meta charset="utf-8"><link rel="icon" href="data:,">
<style>body{background:#fff;color:#000}@media(prefers-color-scheme:dark){body{background:#111;color:#eee}}
@media print{body{background:#fff;color:#000}}svg{color:inherit;max-width:100%}</style>
"""
SVG = """<svg width="200" height="100" viewBox="0 0 200 100"><path stroke="currentColor" d="M0 0L9 9"/>
<path stroke="currentColor" d="M0 9L9 0"/><text x="20" y="20" fill="currentColor">a</text></svg>"""
PLANTED = {
    "good": (SVG, None),
    "wide": ('<div style="width:3000px">x</div>', "px wide"),
    "scrolls": ('<div style="overflow-x:auto"><div style="width:3000px">x</div></div>', None),
    "request": ('<img src="http://127.0.0.1:9/x.png">', "asks for"),
    "console": ("<script>console.error('x')</script>", "console"),
    "throws": ("<script>throw 1</script>", "throws"),
    "no_size": (SVG.replace('width="200" height="100"', 'width="0" height="0"'), "an svg is"),
    "no_contents": ('<svg width="200" height="100"></svg>', "an svg is empty"),
    "ids": ('<p id="a">x</p><p id="a">y</p>', "twice"),
    "pale": ('<p style="color:#bbb">x</p>', "contrast"),
    "black_in_dark": (SVG.replace('fill="currentColor"', 'fill="black"'), "contrast"),
    "no_dark": ("<style>body{background:#fff !important;color:#000 !important}</style>", "background is light"),
    "leaves": (SVG.replace('x="20"', 'x="190"').replace(">a<", ">abcdef<"), "leaves its figure"),
    "overlap": (SVG.replace("</svg>", '<text x="22" y="21" fill="currentColor">b</text></svg>'), "overlap"),
}


def self_test():
    failures = 0
    with tempfile.TemporaryDirectory() as folder, browser() as one:
        for name, (body, expected) in PLANTED.items():
            page = pathlib.Path(folder) / f"{name}.html"
            page.write_text(GOOD + body)
            found = problems(one, page)
            right = not found if expected is None else any(expected in text for text in found)
            if not right:
                print(f"self-test: {name}: expected {expected!r}, got {found}")
                failures += 1
    print(f"browser self-test: {len(PLANTED)} planted pages, {failures} judged wrongly")
    return failures != 0


def main(arguments):
    if not arguments:
        sys.exit(__doc__)
    if find_browser() is None:
        print("skipped: no Chromium (Debian: chromium)")
        return SKIPPED
    if arguments == ["--self-test"]:
        return self_test()
    shots = None
    if arguments[0] == "--shots":
        shots, arguments = arguments[1], arguments[2:]
        os.makedirs(shots, exist_ok=True)
    found = []
    with browser() as one:
        for page in arguments:
            found += problems(one, page, shots)
    for text in found:
        print(text)
    print(f"browser: {len(arguments)} pages, {len(found)} problems")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
