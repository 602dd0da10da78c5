//! The report in a browser: no console error, every plot drawn.
use std::path::Path;
use std::process::{Command, Output};

use crate::common::{json_lines, said};
use byway_conformance::skips::chromium;

/// Reads the content of each figure from the page once it is laid out.
const PROBE: &str = r#"<script>
addEventListener('load', () => {
  const figures = [...document.querySelectorAll('figure')].map((figure) => {
    const svg = figure.querySelector('svg');
    const box = svg ? svg.getBoundingClientRect() : {width: 0, height: 0};
    const ink = svg ? svg.getBBox() : {width: 0, height: 0};
    const shapes = svg ? [...svg.querySelectorAll('circle, rect, polyline, path, line, polygon')] : [];
    const seen = shapes.filter((shape) => { const b = shape.getBBox(); return b.width > 0 || b.height > 0; });
    return {id: figure.id, width: box.width, height: box.height, ink: ink.width * ink.height,
            shapes: seen.length, words: svg ? svg.querySelectorAll('text').length : 0};
  });
  const claims = document.querySelectorAll('.claims article').length;
  const wide = document.documentElement.scrollWidth > innerWidth;
  const probe = document.createElement('pre');
  probe.id = 'probe';
  probe.textContent = JSON.stringify({figures, claims, wide});
  document.body.append(probe);
});
</script>"#;

fn open(browser: &str, page: &Path, profile: &Path) -> Output {
    Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--enable-logging=stderr",
            "--window-size=1400,1000",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap()
}

/// Messages of the page's console, of any level.
fn console(output: &Output) -> Vec<String> {
    let log = String::from_utf8_lossy(&output.stderr);
    log.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect()
}

#[test]
fn every_plot_is_drawn_and_the_console_is_silent() {
    let Some(browser) = chromium("every_plot_is_drawn_and_the_console_is_silent") else { return };
    let dir = tempfile::tempdir().unwrap();
    let records = dir.path().join("UnicodeData.txt");
    std::fs::write(&records, "0041;LATIN CAPITAL LETTER A;Lu\n1F600;GRINNING FACE;So\n").unwrap();
    let (out, records) = (dir.path().to_str().unwrap(), records.to_str().unwrap());
    let printed = said(&["report", out, "--count", "400", "--records", records]);
    assert!(printed.contains("2 Unicode records") && printed.contains("the same: all"), "{printed}");
    let page = std::fs::read_to_string(dir.path().join("report.html")).unwrap();
    let probed = dir.path().join("probed.html");
    std::fs::write(&probed, page.replace("</head>", &format!("{PROBE}</head>"))).unwrap();

    let output = open(browser, &probed, &dir.path().join("browser"));
    assert_eq!(console(&output), Vec::<String>::new());
    let dom = String::from_utf8_lossy(&output.stdout);
    let probe = dom.split("<pre id=\"probe\">").nth(1).and_then(|rest| rest.split("</pre>").next()).unwrap();
    let probe = json_lines(probe).remove(0);
    let figures = probe["figures"].as_array().unwrap();
    assert_eq!(figures.len(), page.matches("<figure").count());
    assert!(figures.len() >= 16, "{}", figures.len());
    for figure in figures {
        let number = |field: &str| figure[field].as_f64().unwrap();
        assert!(number("width") > 300.0 && number("height") > 150.0, "{figure}");
        assert!(number("ink") > 50_000.0 && number("shapes") >= 8.0 && number("words") >= 6.0, "{figure}");
    }
    assert!(probe["claims"].as_u64().unwrap() >= 25);
    assert_eq!(probe["wide"], false, "the page is wider than its window");
}

#[test]
fn a_console_error_would_be_seen() {
    let Some(browser) = chromium("a_console_error_would_be_seen") else { return };
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("bad.html");
    std::fs::write(&page, "<script>console.error('seen')</script><script>nothing()</script>").unwrap();
    let messages = console(&open(browser, &page, &dir.path().join("browser")));
    assert!(messages.len() >= 2 && messages[0].contains("seen"), "{messages:?}");
}
