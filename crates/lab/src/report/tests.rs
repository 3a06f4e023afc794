//! Reports of made-up runs: golden files, and what must hold for every report.

use super::*;

#[test]
fn render_for_eyes() {
    if let Ok(dir) = std::env::var("WEIR_REPORT_DIR") {
        for (name, results) in [
            ("full", fixture::results()),
            ("smoke", fixture::smoke()),
            ("interrupted", fixture::interrupted()),
        ] {
            let rendered = Rendered::new(&results);
            fs::write(format!("{dir}/{name}.html"), &rendered.html).unwrap();
            fs::write(format!("{dir}/{name}.md"), &rendered.markdown).unwrap();
            fs::write(format!("{dir}/{name}.txt"), &rendered.text).unwrap();
        }
    }
}
