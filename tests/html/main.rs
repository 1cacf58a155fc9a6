//! The page that `report::html` writes, in a real browser: no error, no network, values under the
//! pointer, zoom by keys, a narrow window, print.
#![allow(clippy::unwrap_used, reason = "tests")]

mod browser;
#[path = "../../crates/iosonde-report/src/sample.rs"]
mod sample;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use browser::{Browser, Page};
use iosonde_report::report::{Block, Report};
// `sample` takes its types from the crate root, as within iosonde-report.
use iosonde_report::{chart, html, report};
use iosonde_rig::{skip, skip_part};
use serde_json::json;

/// The sample report in a browser; `None` without a browser.
fn opened(width: u32) -> Option<(Browser, Page)> {
    shown(&sample::report(), width)
}

/// A report in a browser; `None` without a browser.
fn shown(report: &Report, width: u32) -> Option<(Browser, Page)> {
    let mut browser = match Browser::start() {
        Ok(browser) => browser,
        Err(reason) => {
            skip(reason);
            return None;
        }
    };
    let path = browser.folder().join("report.html");
    fs::write(&path, html(report).unwrap()).unwrap();
    let mut page = browser.open();
    page.size(&mut browser, width, 800);
    page.go(&mut browser, &format!("file://{}", path.display()));
    Some((browser, page))
}

#[test]
fn a_page_loads_whole_without_a_complaint_or_the_network() {
    let Some((mut browser, page)) = opened(1200) else { return };
    let heading = page.value(&mut browser, "document.querySelector('h1').textContent");
    assert_eq!(heading, json!(sample::report().title));
    let figures = page.value(&mut browser, "document.querySelectorAll('figure svg').length");
    assert_eq!(figures, json!(sample::report().pictures().count()));
    // The script ran, and the policy permitted the style.
    let display = "getComputedStyle(document.querySelector('.picture svg')).display";
    assert_eq!(page.value(&mut browser, display), json!("block"));
    assert_eq!(page.value(&mut browser, "document.documentElement.className"), json!("js"));
    // The policy works: a foreign script does not run, and nothing is loaded.
    let tried = "(async () => { const made = document.createElement('script'); \
                 made.textContent = 'window.hit = 1'; document.body.append(made); \
                 const got = await fetch('data:,x').then(() => 'loaded', () => 'refused'); \
                 return [typeof window.hit, got]; })()";
    let complaints = browser.complaints();
    assert_eq!(complaints, Vec::<String>::new());
    assert_eq!(page.value(&mut browser, tried), json!(["undefined", "refused"]));
    let outside: Vec<String> = browser
        .requests()
        .into_iter()
        .filter(|url| !["file:", "data:", "blob:"].iter().any(|kind| url.starts_with(kind)))
        .collect();
    assert_eq!(outside, Vec::<String>::new());
}

#[test]
fn a_hostile_name_does_nothing_but_stand_there() {
    let name = "\"'><script>window.hit = 1</script><img src=x onerror='window.hit = 1'>\
                <style>body { display: none }</style><!--";
    let mut report = sample::report();
    report.title = name.into();
    report.environment = vec![(name.into(), name.into())];
    report.data[0].name = name.into();
    report.data[0].rows[0][0] = name.into();
    for block in report.sections.iter_mut().flat_map(|section| &mut section.blocks) {
        match block {
            Block::Words(words) => *words = name.into(),
            Block::List(items) => items.push(name.into()),
            Block::Text(text) => *text = name.into(),
            Block::Table(table) => {
                table.columns[1].title = name.into();
                table.rows[0][0].text = name.into();
                table.rows[0][0].more = name.into();
            }
            Block::Picture(picture) => {
                picture.name.push_str(name);
                picture.caption = name.into();
                picture.figure.title = name.into();
            }
        }
    }
    let Some((mut browser, page)) = shown(&report, 1200) else { return };
    // The buttons make the script show, sort and save the elements that contain the name.
    let acted = "(() => { for (const each of document.querySelectorAll('button')) each.click(); \
                 document.getElementById('zoom').close(); })()";
    let seen = "[document.title, document.querySelector('h1').textContent, typeof window.hit, \
                document.querySelectorAll('script').length, document.images.length, \
                document.querySelectorAll('style').length]";
    let expected = json!([name, name, "undefined", 2, 0, 1]);
    assert_eq!(page.value(&mut browser, seen), expected);
    page.value(&mut browser, acted);
    assert_eq!(page.value(&mut browser, seen), expected);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_point_says_its_value_under_the_pointer_and_by_keys() {
    let Some((mut browser, page)) = opened(1200) else { return };
    let place = page.value(
        &mut browser,
        "(async () => { const figure = document.getElementById('figure-queue-depth-rate'); \
         figure.scrollIntoView({ block: 'center', behavior: 'instant' }); \
         await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))); \
         const dot = [...figure.querySelectorAll('title')] \
           .find((title) => title.textContent.startsWith('depth 8:')).parentElement; \
         const box = dot.getBoundingClientRect(); \
         return [box.x + box.width / 2, box.y + box.height / 2]; })()",
    );
    let hint = "document.getElementById('hint').hidden ? '' \
                : document.getElementById('hint').textContent";
    assert_eq!(page.value(&mut browser, hint), json!(""));
    let (x, y) = (place[0].as_f64().unwrap(), place[1].as_f64().unwrap());
    // The pointer need only be near the point.
    page.pointer(&mut browser, x + 3.0, y - 4.0);
    let reported = page.until(&mut browser, hint, |value| value != &json!(""));
    assert!(reported.as_str().unwrap().starts_with("depth 8: 58,4"), "{reported}");
    page.pointer(&mut browser, 2.0, 2.0);
    page.until(&mut browser, hint, |value| value == &json!(""));

    page.value(&mut browser, "document.querySelector('.picture').focus()");
    page.key(&mut browser, "ArrowRight");
    page.key(&mut browser, "ArrowRight");
    let reported = page.until(&mut browser, hint, |value| value != &json!(""));
    assert!(reported.as_str().unwrap().starts_with("depth 2:"), "{reported}");
    page.key(&mut browser, "Escape");
    page.until(&mut browser, hint, |value| value == &json!(""));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn keys_enlarge_a_figure_and_put_it_back() {
    let Some((mut browser, page)) = opened(1200) else { return };
    let is_open = "document.getElementById('zoom').open";
    let view = "document.querySelector('#zoom svg').getAttribute('viewBox')";
    page.value(&mut browser, "document.querySelector('.picture').focus()");
    assert_eq!(page.value(&mut browser, is_open), json!(false));
    page.key(&mut browser, "Enter");
    page.until(&mut browser, is_open, |value| value == &json!(true));
    let whole = page.value(&mut browser, view);
    page.key(&mut browser, "+");
    let near = page.until(&mut browser, view, |value| value != &whole);
    page.key(&mut browser, "ArrowRight");
    page.until(&mut browser, view, |value| value != &near);
    page.key(&mut browser, "0");
    page.until(&mut browser, view, |value| value == &whole);
    page.key(&mut browser, "Escape");
    page.until(&mut browser, is_open, |value| value == &json!(false));
    let back = "[document.querySelectorAll('.picture svg').length, \
                document.activeElement.className, document.querySelectorAll('#zoom svg').length]";
    let figures = sample::report().pictures().count();
    page.until(&mut browser, back, |value| value == &json!([figures, "picture", 0]));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_table_is_ordered_by_its_numbers_with_their_units() {
    let Some((mut browser, page)) = opened(1200) else { return };
    let order = |browser: &mut Browser, title: &str| {
        page.value(
            browser,
            &format!(
                "(() => {{ const heads = [...document.querySelectorAll('thead th')]; \
                 const at = heads.findIndex((head) => head.textContent === '{title}'); \
                 heads[at].querySelector('button').click(); \
                 const rows = [...document.querySelector('.table tbody').rows]; \
                 return [heads[at].ariaSort, rows.map((row) => row.cells[0].textContent)]; }})()"
            ),
        )
    };
    let depths = ["1", "2", "4", "8", "16", "32", "64", "128", "256"];
    // The latency goes from µs to ms; the row without a number is always last.
    assert_eq!(order(&mut browser, "mean latency"), json!(["ascending", depths]));
    let falling = ["128", "64", "32", "16", "8", "4", "2", "1", "256"];
    assert_eq!(order(&mut browser, "mean latency"), json!(["descending", falling]));
}

#[test]
fn the_data_can_be_saved() {
    let Some((mut browser, page)) = opened(1200) else { return };
    let saved = page.value(
        &mut browser,
        "(async () => { const kept = []; const texts = []; \
         URL.createObjectURL = (blob) => { kept.push(blob); return 'blob:none'; }; \
         HTMLAnchorElement.prototype.click = function () { texts.push(this.download); }; \
         for (const each of document.querySelectorAll('#data button')) each.click(); \
         return [texts, await Promise.all(kept.map((blob) => blob.text()))]; })()",
    );
    let names = ["trials.csv", "points.csv", "course.csv", "report.json"];
    assert_eq!(saved[0], json!(names));
    for (at, data) in sample::report().data.iter().enumerate() {
        assert_eq!(saved[1][at], json!(iosonde_report::csv(data)), "as the program writes it");
    }
    let document: serde_json::Value = serde_json::from_str(saved[1][3].as_str().unwrap()).unwrap();
    assert_eq!(document, iosonde_report::report_json(&sample::report()));
}

#[test]
fn a_narrow_window_need_not_be_scrolled_sideways() {
    let Some((mut browser, page)) = opened(375) else { return };
    let widths = page.value(
        &mut browser,
        "[document.documentElement.scrollWidth, document.documentElement.clientWidth]",
    );
    assert_eq!(widths, json!([375, 375]));
    let size = "parseFloat(getComputedStyle(document.querySelector('main p')).fontSize)";
    assert!(page.value(&mut browser, size).as_f64().unwrap() >= 14.0);
}

/// The pages in a folder and its subfolders.
fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) = entries.partition(|path| path.is_dir());
    let pages = files.into_iter().filter(|path| path.extension().is_some_and(|end| end == "html"));
    pages.chain(folders.iter().flat_map(|inner| below(inner))).collect()
}

/// A page of every kind that the program writes, with its name.
fn pages(folder: &Path) -> Vec<(&'static str, PathBuf)> {
    let iosonde = |words: &str| {
        let ended = Command::new(iosonde_fixtures::program!().path())
            .args(words.split_whitespace())
            .current_dir(folder)
            .env("HOME", folder)
            .env_remove("XDG_STATE_HOME")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(matches!(ended.status.code(), Some(0 | 3 | 7)), "{words}: {said}");
    };
    let sim = "--ioengine sim --path servers=8,read=exp:90us,write=exp:120us --eta-interval 0";
    let small = "name = \"small\"\nquestion = \"Where is the knee?\"\n[[stage]]\nname = \
                 \"depth\"\nseconds = 0.5\nrepeats = 3\nset = { rw = \"randread\" }\n\
                 [[stage.axis]]\nname = \"iodepth\"\nvalues = [1, 4, 16, 64]\n";
    fs::write(folder.join("small.toml"), small).unwrap();
    iosonde(&format!("run {sim} --rw randrw --iodepth 16 --runtime 5 --randseed 7 --results run"));
    iosonde(&format!("verify soak {sim} --size 1m --ops 2000 --seed 7 --results verify"));
    let target = sim.split(' ').nth(3).unwrap();
    iosonde(&format!(
        "experiment run small.toml {target} --ioengine sim --eta-interval 0 --results experiment"
    ));
    iosonde("check . 256M --seconds 0.3 --threads 2 --eta-interval 0 --results check");
    for (side, service) in [("a", 90), ("b", 110)] {
        for seed in 1..=5 {
            iosonde(&format!(
                "run --ioengine sim --path servers=8,read=exp:{service}us --rw randread --iodepth \
                 16 --runtime 1 --randseed {seed} --eta-interval 0 --results {side}"
            ));
        }
    }
    iosonde("compare a b --allow target --page compare.html");
    let mut pages = vec![("compare", folder.join("compare.html"))];
    for verb in ["run", "verify", "experiment", "check"] {
        let kept = fs::read_dir(folder.join(verb)).unwrap().next().unwrap().unwrap().path();
        let page = format!("{verb}.html");
        iosonde(&format!(
            "report {} --output-format html --output {page}",
            kept.strip_prefix(folder).unwrap().display()
        ));
        pages.push((verb, folder.join(page)));
    }
    // A record without the folder and the manifest of its run.
    let kept = fs::read_dir(folder.join("run")).unwrap().next().unwrap().unwrap().path();
    fs::copy(kept.join("01-run.json"), folder.join("lone.json")).unwrap();
    iosonde("report lone.json --output-format html --output lone.html");
    pages.push(("lone record", folder.join("lone.html")));
    iosonde(&format!(
        "run {sim} --rw randread --runtime 1 --hosts a,b --launch local --agent {} --results hosts",
        iosonde_fixtures::program!()
    ));
    let kept = fs::read_dir(folder.join("hosts")).unwrap().next().unwrap().unwrap().path();
    let kept = kept.strip_prefix(folder).unwrap().display().to_string();
    iosonde(&format!("report {kept} --output-format html --output hosts.html"));
    pages.push(("hosts", folder.join("hosts.html")));
    let fleet = format!(
        "name = \"fleet\"\n[[device]]\nname = \"s\"\nioengine = \"sim\"\npath = \
         \"{target},size=64M\"\n[[experiment]]\nname = \"small.toml\"\nrandseed = 7\n"
    );
    fs::write(folder.join("fleet.toml"), fleet).unwrap();
    iosonde("campaign run fleet.toml --output campaign");
    pages.extend(below(&folder.join("campaign")).into_iter().map(|page| ("campaign", page)));
    assert!(pages.iter().any(|(name, _)| *name == "campaign"), "a campaign has no page");
    let write = ["dd", "if=/dev/zero", "of=written", "bs=64k", "count=8", "conv=fsync"];
    let words = ["profile", "--"].into_iter().chain(write);
    let profiled = Command::new(iosonde_fixtures::program!().path())
        .args(words)
        .current_dir(folder)
        .env("HOME", folder)
        .output()
        .unwrap();
    match profiled.status.success() {
        true => {
            iosonde("report last --output-format html --output profile.html");
            pages.push(("profile", folder.join("profile.html")));
        }
        false => skip_part("the page of a profile", "nothing can be profiled here"),
    }
    pages
}

#[test]
fn every_kind_of_page_fits_a_window_and_a_telephone_without_a_complaint() {
    let mut browser = match Browser::start() {
        Ok(browser) => browser,
        Err(reason) => return skip(reason),
    };
    let mut page = browser.open();
    let folder = tempfile::tempdir().unwrap();
    let pictures = std::env::var_os("IOSONDE_SCREENSHOTS").map(PathBuf::from);
    for (name, path) in pages(folder.path()) {
        for (width, colors) in [(1280, "light"), (1280, "dark"), (375, "light"), (375, "dark")] {
            page.size(&mut browser, width, 800);
            page.colors(&mut browser, colors);
            page.go(&mut browser, &format!("file://{}", path.display()));
            let overflow = "document.documentElement.scrollWidth";
            assert_eq!(page.value(&mut browser, overflow), json!(width), "{name} at {width}");
            // Content wider than the window must scroll within itself or be clipped.
            let clipped = "[...document.querySelectorAll('table, pre')].filter(each => { \
                           const room = each.closest('.scroll, .table, figure, div, details') \
                           || document.body; return each.scrollWidth > room.clientWidth + 1 && \
                           getComputedStyle(room).overflowX === 'hidden'; }).length";
            assert_eq!(page.value(&mut browser, clipped), json!(0), "{name} at {width}");
            let tables = page.value(&mut browser, "document.querySelectorAll('.table').length");
            assert!(tables.as_u64() > Some(0), "{name} has no table");
            if width == 375 {
                let beyond = "[...document.querySelectorAll('.table td, .table th, caption')] \
                              .filter(each => each.getBoundingClientRect().right > innerWidth) \
                              .map(each => each.textContent)";
                assert_eq!(page.value(&mut browser, beyond), json!([]), "{name} at {width}");
            }
            assert_eq!(browser.complaints(), Vec::<String>::new(), "{name} at {width}");
            if let Some(pictures) = &pictures {
                let file = pictures.join(format!("{name}-{width}-{colors}.png"));
                fs::write(file, page.picture(&mut browser, true)).unwrap();
            }
        }
    }
}

#[test]
fn a_page_can_be_printed() {
    let Some((mut browser, page)) = opened(1200) else { return };
    let pdf = page.pdf(&mut browser);
    assert!(pdf.starts_with(b"%PDF-"), "{:?}", &pdf[..pdf.len().min(16)]);
    assert!(pdf.len() > 20_000, "{} bytes", pdf.len());
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Writes screenshots on request: `IOSONDE_SCREENSHOTS=FOLDER cargo test --test html`.
#[test]
fn pictures_of_the_page_are_made_on_request() {
    let Some(folder) = std::env::var_os("IOSONDE_SCREENSHOTS").map(PathBuf::from) else {
        return skip("IOSONDE_SCREENSHOTS names no folder to write pictures to");
    };
    let views = [("light", 1200, false), ("dark", 1200, true), ("narrow", 375, false)];
    for (name, width, dark) in views {
        let Some((mut browser, page)) = opened(width) else { return };
        if dark {
            page.colors(&mut browser, "dark");
        }
        fs::write(folder.join(format!("{name}.png")), page.picture(&mut browser, true)).unwrap();
        page.value(&mut browser, "document.querySelector('.picture').focus()");
        (0..4).for_each(|_| page.key(&mut browser, "ArrowRight"));
        fs::write(folder.join(format!("{name}-hint.png")), page.picture(&mut browser, false))
            .unwrap();
        page.key(&mut browser, "Enter");
        page.key(&mut browser, "+");
        page.key(&mut browser, "ArrowDown");
        fs::write(folder.join(format!("{name}-zoom.png")), page.picture(&mut browser, false))
            .unwrap();
        page.key(&mut browser, "Escape");
        page.paper(&mut browser);
        fs::write(folder.join(format!("{name}-paper.png")), page.picture(&mut browser, true))
            .unwrap();
    }
}
