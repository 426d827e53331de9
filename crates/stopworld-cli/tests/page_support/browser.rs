//! Chromium without a window, driven over a pipe by the DevTools protocol: JSON messages that end with a zero byte.

use super::LIMIT;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A browser with one page.
pub struct Browser {
    child: Child,
    to: Option<ChildStdin>,
    from: Receiver<Value>,
    last: u64,
    session: Option<String>,
    has_scripts: bool,
    /// Messages that are not answers.
    events: Vec<Value>,
    folder: tempfile::TempDir,
}

impl Browser {
    /// Starts a browser, or returns `None` if the machine has none.
    pub fn start() -> Option<Browser> {
        let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
        let name = names.iter().find(|name| Command::new(name).arg("--version").output().is_ok())?;
        let folder = tempfile::tempdir().expect("a folder");
        // The browser reads its commands from descriptor 3 and writes to 4.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null", name]);
        command.args(["--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run"]);
        command.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
        command.arg(format!("--user-data-dir={}", folder.path().join("profile").display()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("sh starts");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, from) = channel();
        thread::spawn(move || {
            for message in output.split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).expect("the browser writes JSON");
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let to = child.stdin.take();
        let mut browser =
            Browser { child, to, from, last: 0, session: None, has_scripts: true, events: Vec::new(), folder };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.window(1400, 1000, 1);
        Some(browser)
    }

    /// Opens a page that consists of this text, and waits until it is loaded.
    pub fn open(&mut self, page: &str) {
        let file = self.folder.path().join("page.html");
        std::fs::write(&file, page).expect("the file can be written");
        self.visit(&address(&file));
    }

    /// Opens the page at this address, and waits until it is loaded.
    pub fn visit(&mut self, address: &str) {
        self.events.clear();
        self.call("Page.navigate", json!({"url": address}));
        let deadline = Instant::now() + LIMIT;
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.receive(deadline);
            self.events.push(event);
        }
        self.settle();
    }

    /// Checks that the page reported no error, and that nothing but the page itself was requested.
    pub fn has_no_complaint(&self) {
        let complaints =
            ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Page.javascriptDialogOpening"];
        let own = address(&self.folder.path().join("page.html"));
        for event in &self.events {
            assert!(!complaints.iter().any(|method| event["method"] == *method), "{event}");
            if event["method"] == "Network.requestWillBeSent" {
                assert_eq!(event["params"]["request"]["url"], own);
            }
        }
    }

    /// Sets the size of the window, in CSS pixels, and the number of screen pixels for each.
    pub fn window(&mut self, width: u32, height: u32, density: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": density, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
        self.settle();
    }

    pub fn prefer(&mut self, colours: &str) {
        let feature = json!({"name": "prefers-color-scheme", "value": colours});
        self.call("Emulation.setEmulatedMedia", json!({"features": [feature]}));
        self.settle();
    }

    /// Disables the scripts of pages that are opened from now on.
    pub fn disable_scripts(&mut self) {
        self.call("Emulation.setScriptExecutionDisabled", json!({"value": true}));
        self.has_scripts = false;
    }

    /// Waits until an expression is true in the page.
    pub fn until(&mut self, expression: &str) {
        let deadline = Instant::now() + LIMIT;
        while self.eval(expression) != true {
            assert!(
                Instant::now() < deadline,
                "waited in vain until {expression}: {}",
                self.eval("document.body.innerText")
            );
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns the errors that the page reported: exceptions, and refusals by its policy.
    pub fn complaints(&self) -> Vec<&Value> {
        let methods = ["Runtime.exceptionThrown", "Log.entryAdded"];
        self.events.iter().filter(|event| methods.iter().any(|method| event["method"] == *method)).collect()
    }

    /// Evaluates an expression in the page.
    pub fn eval(&mut self, expression: &str) -> Value {
        let request = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", request);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// Returns the picture of the window as PNG, in base64.
    pub fn picture(&mut self) -> String {
        let picture = self.call("Page.captureScreenshot", json!({"format": "png"}));
        picture["data"].as_str().expect("a picture").to_owned()
    }

    /// Moves the mouse; `buttons` is 1 while the left button is pressed.
    pub fn mouse_moves(&mut self, (x, y): (f64, f64), buttons: u32) {
        self.mouse("mouseMoved", (x, y), json!({"buttons": buttons}));
    }

    /// Drags with the left button.
    pub fn drag(&mut self, (x, y): (f64, f64), to: (f64, f64)) {
        self.mouse_moves((x, y), 0);
        self.mouse("mousePressed", (x, y), json!({"button": "left", "buttons": 1, "clickCount": 1}));
        self.mouse_moves(((x + to.0) / 2.0, (y + to.1) / 2.0), 1);
        self.mouse_moves(to, 1);
        self.mouse("mouseReleased", to, json!({"button": "left", "buttons": 0, "clickCount": 1}));
        self.settle();
    }

    pub fn double_click(&mut self, at: (f64, f64)) {
        for count in [1, 2] {
            for kind in ["mousePressed", "mouseReleased"] {
                self.mouse(kind, at, json!({"button": "left", "clickCount": count}));
            }
        }
        self.settle();
    }

    /// Presses a key that writes this text, or none.
    pub fn key(&mut self, key: &str, text: Option<&str>) {
        self.call("Input.dispatchKeyEvent", json!({"type": "keyDown", "key": key, "text": text.unwrap_or("")}));
        self.call("Input.dispatchKeyEvent", json!({"type": "keyUp", "key": key}));
        self.settle();
    }

    fn mouse(&mut self, kind: &str, (x, y): (f64, f64), mut event: Value) {
        event["type"] = kind.into();
        event["x"] = x.into();
        event["y"] = y.into();
        self.call("Input.dispatchMouseEvent", event);
    }

    /// Waits until the page has been painted twice, because observers of sizes run between the two.
    fn settle(&mut self) {
        if !self.has_scripts {
            return;
        }
        self.call("Runtime.evaluate", json!({"expression": "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))", "awaitPromise": true}));
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut message = json!({"id": self.last, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let to = self.to.as_mut().expect("the browser runs");
        write!(to, "{message}\0").expect("the browser reads");
        let deadline = Instant::now() + LIMIT;
        loop {
            let answer = self.receive(deadline);
            if answer["id"] != self.last {
                self.events.push(answer);
                continue;
            }
            assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
            return answer["result"].clone();
        }
    }

    fn receive(&self, deadline: Instant) -> Value {
        let left = deadline.saturating_duration_since(Instant::now());
        self.from.recv_timeout(left).expect("the browser answers in time")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends when its input ends.
        self.to = None;
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn address(file: &Path) -> String {
    format!("file://{}", file.display())
}
