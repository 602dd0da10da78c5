//! Figures from outside: the three files say the same, and what reads them finds what it needs.

#![allow(clippy::unwrap_used)]

use byway_figure::{
    Axis, Bars, Dots, Figure, FigureError, GroupSeries, LinePanels, Lines, Page, Panel, Paper, Plot,
    Quantity, Role, Series, Source, Stacks, Value,
};

fn source() -> Source {
    Source::new("byway perf <embedded-ram:64M>").with_seed(7).with_paper(Paper::BYTE_EXPRESS)
}

fn lines() -> Figure {
    let x = Axis::log2(Quantity::new("value size", "bytes"));
    let plot = Lines::new(x, Axis::log10(Quantity::new("latency", "µs")))
        .with(Series::measured("prp", [(32.0, Value::spread(8.0, 7.5, 9.1)), (4096.0, Value::from(9.5))]))
        .with(Series::measured("sgl", [(32.0, 8.0), (4096.0, 9.5)]))
        .with(Series::measured("inline", [(32.0, 5.0), (4096.0, 60.0)]))
        .with(Series::new("target", Role::Target, [(32.0, 4.0), (4096.0, 4.0)]));
    Figure::new("latency", "Latency & size", plot, source()).with_caption("Both axes are logarithmic.")
}

fn panels() -> Figure {
    let (x, y) = (Quantity::new("value size", "bytes"), Quantity::new("time", "µs"));
    let series = |us: f64| {
        [("prp", us), ("sgl", us), ("inline", us / 2.0)]
            .map(|(name, us)| Series::measured(name, [(32.0, us), (4096.0, us * 3.0)]))
    };
    let plot = LinePanels::new(Axis::log2(x), Axis::log10(y));
    let plot = plot.with("Gen1", series(8.0)).with("Gen2", series(6.0)).with("Gen3", series(5.0));
    Figure::new("panels", "Generations", plot, source())
}

fn dots() -> Figure {
    let plot = Dots::new(["B", "C"], Axis::log10(Quantity::new("puts", "1/s")))
        .with(GroupSeries::measured("byway", [Some(Value::spread(1e6, 9e5, 1.1e6)), Some(3e5.into())]))
        .with(GroupSeries::measured("lmdb", [None, Some(2e4.into())]))
        .with(GroupSeries::new("target", Role::Target, [Some(2e6.into()), None]));
    Figure::new("dots", "Puts", plot, source())
}

fn bars() -> Figure {
    let plot = Bars::new(["get", "put"], Quantity::new("two threads against one", ""))
        .with(GroupSeries::measured("byway", [Some(1.9.into()), Some(1.3.into())]));
    Figure::new("bars", "Threads", plot, source())
}

fn stacks() -> Figure {
    let panel = |title: &str| Panel {
        title: title.to_owned(),
        bars: vec!["prp".to_owned(), "inline".to_owned()],
        layers: vec![vec![1.0, 2.0], vec![3.0, 4.0]],
    };
    let plot =
        Stacks::new(["host", "wire"], Quantity::new("time", "ns")).with(panel("Gen2")).with(panel("Gen5"));
    Figure::new("stacks", "Parts", plot, source())
}

#[test]
fn an_svg_has_its_text_as_text_and_says_what_it_shows() {
    let svg = lines().svg().unwrap();
    assert!(svg.contains("<title id=\"latency-title\">Latency &amp; size</title>"), "{svg}");
    assert!(
        svg.contains("aria-labelledby=\"latency-title latency-desc\"")
            && svg.contains("Shows prp, sgl, inline, target.")
    );
    assert!(
        svg.contains(">value size, bytes</text>")
            && svg.contains(">latency, µs</text>")
            && svg.contains("&lt;embedded-ram")
    );
    for fetched in ["href", "url(", "@import", "<script"] {
        assert!(!svg.contains(fetched), "{fetched}");
    }
}

#[test]
fn every_kind_of_plot_is_drawn_with_finite_places() {
    for figure in [lines(), panels(), dots(), bars(), stacks()] {
        let svg = figure.svg().unwrap();
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf\""), "{svg}");
        for name in figure.plot().names() {
            assert!(svg.contains(&format!("<title>{name}</title>")), "{}: {name}", figure.id());
        }
    }
}

#[test]
fn lines_that_coincide_are_named_and_distinguished() {
    let svg = lines().svg().unwrap();
    assert!(svg.contains(">sgl (on prp)</text>"), "{svg}");
    // What lies below is wider than what lies on it.
    assert!(svg.contains("stroke=\"#333333\" stroke-width=\"4.4\""), "{svg}");
}

#[test]
fn panels_share_axes_titles_and_legend() {
    let svg = panels().svg().unwrap();
    for once in ["value size, bytes", "time, µs", "Gen1", "Gen2", "Gen3", "sgl (on prp)"] {
        assert_eq!(svg.matches(&format!(">{once}</text>")).count(), 1, "{once}: {svg}");
    }
    // Below the lowest panel of each column, and left of the first.
    assert_eq!(svg.matches(">32</text>").count(), 2, "{svg}");
    assert_eq!(svg.matches(">10</text>").count(), 2, "{svg}");
}

#[test]
fn a_table_has_a_row_for_each_value_behind_its_origin() {
    let csv = lines().csv();
    assert!(
        csv.starts_with(
            "# figure: Latency & size\n# caption: Both axes are logarithmic.\n# command: byway perf"
        ),
        "{csv}"
    );
    assert!(csv.contains("# seed: 7\n") && csv.contains("https://doi.org/10.1145/3736548.3737837"));
    let rows: Vec<&str> = csv.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(rows[0], "series,role,value size [bytes],latency [µs],low latency [µs],high latency [µs]");
    assert_eq!(rows[1], "prp,measured,32,8,7.5,9.1");
    assert_eq!((rows[7], rows.len()), ("target,target,32,4,,", 9));
    let csv = panels().csv();
    assert!(
        csv.contains("\npanel,series,role,value size [bytes],time [µs],low time [µs],high time [µs]\n"),
        "{csv}"
    );
    assert!(csv.contains("\nGen2,inline,measured,4096,9,,\n"), "{csv}");
    assert!(dots().csv().contains("\nbyway,measured,B,1000000,900000,1100000\n"));
    assert!(stacks().csv().ends_with("Gen5,inline,wire,4\n"));
}

#[test]
fn names_with_commas_and_quotes_are_quoted() {
    let plot = Bars::new(["a, \"b\""], Quantity::new("ratio", ""))
        .with(GroupSeries::measured("#1", [Some(1.0.into())]));
    let csv = Figure::new("quoted", "t", plot, Source::new("two\nlines")).csv();
    assert!(
        csv.contains("\n\"#1\",measured,\"a, \"\"b\"\"\",1,,\n") && csv.contains("# command: two lines\n"),
        "{csv}"
    );
}

#[test]
fn a_pdf_has_its_font_within_and_names_it() {
    for figure in [lines(), panels(), dots(), bars(), stacks()] {
        let pdf = figure.pdf().unwrap();
        let has = |word: &str| pdf.windows(word.len()).any(|bytes| bytes == word.as_bytes());
        assert!(pdf.starts_with(b"%PDF-1.7") && has("/FontFile2") && has("/ToUnicode") && has("+Arimo"));
        assert!(!has("/Image"), "pictures of dots are no vectors");
        assert!(pdf.len() < 60_000, "{} bytes", pdf.len());
    }
}

#[test]
fn a_figure_is_the_same_each_time() {
    assert_eq!(dots().files().unwrap(), dots().files().unwrap());
}

#[test]
fn a_figure_without_a_value_that_can_be_shown_is_refused() {
    let axis = || Axis::log10(Quantity::new("puts", "1/s"));
    let empty = |plot: Plot| Figure::new("none", "t", plot, source()).svg();
    let refused = Err(FigureError::Empty("none".to_owned()));
    assert_eq!(empty(Lines::new(axis(), axis()).into()), refused);
    let zero = GroupSeries::measured("byway", [Some(0.0.into())]);
    assert_eq!(empty(Dots::new(["a"], axis()).with(zero).into()), refused);
    assert_eq!(empty(Stacks::new(["a"], Quantity::new("time", "ns")).into()), refused);
}

#[test]
fn an_image_for_dark_pages_exchanges_its_colours() {
    let svg = lines().with_dark_colours().svg().unwrap();
    assert!(
        svg.contains("prefers-color-scheme:dark") && svg.contains("[stroke=\"#333333\"]{stroke:#dddddd}"),
        "{svg}"
    );
    assert!(!lines().svg().unwrap().contains("<style"), "it would apply to the page around it");
}

#[test]
fn a_page_fetches_nothing_and_links_its_downloads() {
    let mut page = Page::new("A <page>");
    page.figures(&[lines(), dots()]).unwrap();
    let (html, files) = page.finish();
    for fetched in ["src=", "@import", "url(", "<script"] {
        assert!(!html.contains(fetched), "{fetched}");
    }
    assert!(
        html.contains("<h1>A &lt;page&gt;</h1>")
            && html.contains("<a href=\"https://doi.org/10.1145/3736548.3737837\"")
    );
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names[..3], ["figures/latency.svg", "figures/latency.csv", "figures/latency.pdf"]);
    for name in names {
        assert!(html.contains(&format!("<a href=\"{name}\" download>")), "{name}");
    }
}

#[test]
fn columns_of_words_in_tables_are_marked_and_those_of_numbers_are_not() {
    let mut page = Page::new("A page");
    page.table(&["text", "change", "words"], &[["Q1", "−1.5 %", "SELECT 1"].map(str::to_owned).to_vec()]);
    let html = page.finish().0;
    assert!(html.contains("<td>Q1</td><td>−1.5 %</td><td class=\"words\">SELECT 1</td>"), "{html}");
    assert!(html.contains("<th class=\"words\">words</th>"), "{html}");
}
