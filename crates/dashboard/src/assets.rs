//! Files that the pages load, embedded in the binary under names with their hash: a browser may keep them for ever.

use std::io::Write as _;
use std::sync::LazyLock;

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

/// Small picture in the browser's tab, as a URL that loads nothing.
pub(crate) const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath \
    fill='none' stroke='%230072B2' stroke-width='2' d='M1 4h14M2 8q2-2 4 0t4 0 4 0M2 12q2-2 4 0t4 0 4 0'/%3E%3C/svg%3E";

/// File of the dashboard.
pub(crate) struct Asset {
    extension: &'static str,
    made: LazyLock<Made, fn() -> Made>,
}

/// Content of an asset.
struct Made {
    name: String,
    etag: String,
    plain: Vec<u8>,
    /// The content compressed by gzip; empty if that failed.
    gzip: Vec<u8>,
}

/// Style sheet, with that of the charts.
pub(crate) static STYLE: Asset = Asset {
    extension: "css",
    made: LazyLock::new(|| make("style", "css", STYLE_PARTS)),
};
/// Script of pages without charts.
pub(crate) static SCRIPT: Asset = Asset {
    extension: "js",
    made: LazyLock::new(|| make("page", "js", SCRIPT_PARTS)),
};
/// Script of pages with charts, with the library that draws them: one request instead of two.
pub(crate) static CHARTS: Asset = Asset {
    extension: "js",
    made: LazyLock::new(|| make("charts", "js", CHARTS_PARTS)),
};

const STYLE_PARTS: &[&str] = &[
    include_str!("../vendor/uplot/uPlot.min.css"),
    include_str!("../assets/style.css"),
];
const SCRIPT_PARTS: &[&str] = &[include_str!("../assets/page.js")];
const CHARTS_PARTS: &[&str] = &[
    include_str!("../vendor/uplot/uPlot.iife.min.js"),
    include_str!("../assets/charts.js"),
    include_str!("../assets/page.js"),
];

fn make(stem: &str, extension: &str, parts: &[&str]) -> Made {
    let plain = parts.join("\n").into_bytes();
    let hash = Sha256::digest(&plain);
    let hex: String = hash
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let gzip = encoder.write_all(&plain).and_then(|()| encoder.finish());
    Made {
        name: format!("{stem}-{hex}.{extension}"),
        etag: format!("\"{hex}\""),
        gzip: gzip.unwrap_or_default(),
        plain,
    }
}

/// Returns the asset of this name.
pub(crate) fn find(name: &str) -> Option<&'static Asset> {
    [&STYLE, &SCRIPT, &CHARTS]
        .into_iter()
        .find(|asset| asset.name() == name)
}

impl Asset {
    /// Name with the hash of the content.
    pub(crate) fn name(&self) -> &str {
        &self.made.name
    }

    pub(crate) fn etag(&self) -> &str {
        &self.made.etag
    }

    pub(crate) fn content_type(&self) -> &'static str {
        match self.extension {
            "css" => "text/css; charset=utf-8",
            _ => "text/javascript; charset=utf-8",
        }
    }

    /// Returns the content, and true if it is compressed.
    pub(crate) fn content(&'static self, takes_gzip: bool) -> (&'static [u8], bool) {
        match takes_gzip && !self.made.gzip.is_empty() {
            true => (&self.made.gzip, true),
            false => (&self.made.plain, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the vendored files with the sums that were taken of npm's package.
    #[test]
    fn vendored_files_are_those_of_the_package() {
        let files: [(&str, &[u8]); 3] = [
            ("LICENSE", include_bytes!("../vendor/uplot/LICENSE")),
            (
                "uPlot.iife.min.js",
                include_bytes!("../vendor/uplot/uPlot.iife.min.js"),
            ),
            (
                "uPlot.min.css",
                include_bytes!("../vendor/uplot/uPlot.min.css"),
            ),
        ];
        let sums = include_str!("../vendor/uplot/SHA256SUMS");
        assert_eq!(sums.lines().count(), files.len());
        for (name, content) in files {
            let hash = Sha256::digest(content);
            let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(sums.contains(&format!("{hex}  {name}\n")), "{name}");
        }
    }

    #[test]
    fn a_page_without_charts_is_small_and_loads_nothing_from_elsewhere() {
        let size = |asset: &'static Asset| asset.content(true).0.len();
        assert!(size(&STYLE) + size(&SCRIPT) < 20 * 1024);
        assert!(size(&CHARTS) < 40 * 1024);
        let own = [STYLE_PARTS[1], SCRIPT_PARTS[0], CHARTS_PARTS[1]];
        for text in own {
            assert!(!text.contains("http:") && !text.contains("https:"));
            assert!(!text.contains("innerHTML") && !text.contains("eval("));
        }
    }

    #[test]
    fn names_have_the_hash_of_the_content() {
        assert!(find(STYLE.name()).is_some());
        assert!(find("style.css").is_none());
        assert!(STYLE.name().contains(STYLE.etag().trim_matches('"')));
    }
}
