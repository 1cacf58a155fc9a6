//! A headless Chromium, driven by the DevTools protocol over a pipe instead of a port.
//!
//! Messages are JSON, each terminated by a zero byte; the browser reads them from descriptor 3 and
//! writes to descriptor 4. A shell sets these up, for which Rust alone would need `unsafe`.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Time limit for an answer, even on a slow and busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// Names of the program in distributions.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A running browser, killed on drop.
pub(crate) struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    folder: tempfile::TempDir,
    last_id: u64,
    events: Vec<Value>,
}

pub(crate) struct Page {
    session: String,
}

impl Browser {
    /// A browser with its own profile, or the reason why there is none.
    pub(crate) fn start() -> Result<Browser, String> {
        let program = installed().ok_or("chromium is not installed")?;
        let folder = tempfile::tempdir().unwrap();
        let profile = folder.path().join("profile");
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null", "sh"])
            .arg(program)
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--disable-extensions",
                "--disable-background-networking",
                "--disable-component-update",
                "--hide-scrollbars",
                "--remote-debugging-pipe",
            ])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg("about:blank")
            .env("HOME", folder.path())
            .env("XDG_CONFIG_HOME", folder.path())
            .env("XDG_CACHE_HOME", folder.path())
            // A killed browser leaves its temporary folders behind.
            .env("TMPDIR", folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // So that its helpers can be killed with it.
            .process_group(0)
            .spawn()
            .map_err(|error| format!("chromium cannot be started: {error}"))?;
        let (to, out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (tell, from) = channel();
        std::thread::spawn(move || {
            let mut out = BufReader::new(out);
            let mut message = Vec::new();
            while out.read_until(0, &mut message).is_ok_and(|read| read > 0) {
                message.pop();
                let Ok(value) = serde_json::from_slice(&message) else { break };
                if tell.send(value).is_err() {
                    break;
                }
                message.clear();
            }
        });
        let mut browser = Browser { child, to, from, folder, last_id: 0, events: Vec::new() };
        match browser.try_call(None, "Browser.getVersion", json!({})) {
            Ok(_) => Ok(browser),
            Err(error) => Err(format!("chromium is installed but does not run here: {error}")),
        }
    }

    /// A folder for files, removed with the browser.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// An empty page that reports its events.
    pub(crate) fn open(&mut self) -> Page {
        let made = self.call(None, "Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": made["targetId"], "flatten": true });
        let attached = self.call(None, "Target.attachToTarget", attach);
        let page = Page { session: attached["sessionId"].as_str().unwrap().to_owned() };
        for domain in ["Page", "Runtime", "Log", "Network", "Audits"] {
            page.call(self, &format!("{domain}.enable"), json!({}));
        }
        page
    }

    /// Errors, warnings and policy violations that pages reported on their console.
    pub(crate) fn complaints(&mut self) -> Vec<String> {
        let reported = self.events.iter().filter_map(|event| {
            let of = &event["params"];
            match event["method"].as_str()? {
                "Runtime.exceptionThrown" => {
                    Some(of["exceptionDetails"]["exception"]["description"].to_string())
                }
                "Runtime.consoleAPICalled" => Some(of["args"].to_string()),
                "Log.entryAdded" => Some(of["entry"]["text"].to_string()),
                "Audits.issueAdded" => Some(of["issue"].to_string()),
                _ => None,
            }
        });
        reported.collect()
    }

    /// Addresses of all network requests.
    pub(crate) fn requests(&mut self) -> Vec<String> {
        let requested =
            self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        requested
            .filter_map(|event| Some(event["params"]["request"]["url"].as_str()?.into()))
            .collect()
    }

    fn call(&mut self, session: Option<&str>, method: &str, params: Value) -> Value {
        self.try_call(session, method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn try_call(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: Value,
    ) -> Result<Value, String> {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let text = format!("{message}\0");
        self.to.write_all(text.as_bytes()).map_err(|error| error.to_string())?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let value = self.from.recv_timeout(left).map_err(|error| error.to_string())?;
            if value["id"] != json!(self.last_id) {
                self.events.push(value);
            } else if value["error"].is_null() {
                return Ok(value["result"].clone());
            } else {
                return Err(value["error"].to_string());
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Ok(id) = i32::try_from(self.child.id())
            && let Some(group) = rustix::process::Pid::from_raw(id)
        {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

impl Page {
    fn call(&self, browser: &mut Browser, method: &str, params: Value) -> Value {
        browser.call(Some(&self.session), method, params)
    }

    /// Sets the size of the window; a narrow one emulates a telephone.
    pub(crate) fn size(&self, browser: &mut Browser, width: u32, height: u32) {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500,
        });
        self.call(browser, "Emulation.setDeviceMetricsOverride", size);
    }

    /// Sets the preferred colour scheme, `dark` or `light`.
    pub(crate) fn colors(&self, browser: &mut Browser, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call(browser, "Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Emulates print.
    pub(crate) fn paper(&self, browser: &mut Browser) {
        self.call(browser, "Emulation.setEmulatedMedia", json!({ "media": "print" }));
    }

    /// Loads a page completely.
    pub(crate) fn go(&mut self, browser: &mut Browser, url: &str) {
        browser.events.clear();
        self.call(browser, "Page.navigate", json!({ "url": url }));
        // The address is checked too, because the empty page may only now finish loading.
        let loaded = "document.readyState === 'complete' && location.href";
        self.until(browser, loaded, |found| found == url);
    }

    /// Evaluates an expression.
    pub(crate) fn value(&self, browser: &mut Browser, expression: &str) -> Value {
        let requested = json!({
            "expression": expression, "returnByValue": true, "awaitPromise": true,
        });
        let answer = self.call(browser, "Runtime.evaluate", requested);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Evaluates an expression until its value is as wanted.
    #[track_caller]
    pub(crate) fn until(
        &self,
        browser: &mut Browser,
        expression: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let value = self.value(browser, expression);
            if wanted(&value) {
                return value;
            }
            assert!(Instant::now() < deadline, "{expression}: still {value}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Moves the pointer.
    pub(crate) fn pointer(&self, browser: &mut Browser, x: f64, y: f64) {
        let moved = json!({ "type": "mouseMoved", "x": x, "y": y });
        self.call(browser, "Input.dispatchMouseEvent", moved);
    }

    /// Presses and releases a key.
    pub(crate) fn key(&self, browser: &mut Browser, key: &str) {
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            _ => 0,
        };
        let mut press = json!({ "type": "keyDown", "key": key, "windowsVirtualKeyCode": code });
        if code == 0 {
            press["text"] = key.into();
        }
        self.call(browser, "Input.dispatchKeyEvent", press);
        let release = json!({ "type": "keyUp", "key": key, "windowsVirtualKeyCode": code });
        self.call(browser, "Input.dispatchKeyEvent", release);
    }

    /// The page as PDF.
    pub(crate) fn pdf(&self, browser: &mut Browser) -> Vec<u8> {
        let answer = self.call(browser, "Page.printToPDF", json!({ "printBackground": true }));
        STANDARD.decode(answer["data"].as_str().unwrap()).unwrap()
    }

    /// A screenshot of the whole page or of the window, as PNG.
    pub(crate) fn picture(&self, browser: &mut Browser, whole: bool) -> Vec<u8> {
        let requested = json!({ "format": "png", "captureBeyondViewport": whole });
        let answer = self.call(browser, "Page.captureScreenshot", requested);
        STANDARD.decode(answer["data"].as_str().unwrap()).unwrap()
    }
}

fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let all = NAMES.iter().flat_map(|name| places.iter().map(move |place| place.join(name)));
    all.into_iter().find(|program| program.is_file())
}
