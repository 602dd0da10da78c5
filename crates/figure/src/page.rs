//! A page of figures: one file that fetches nothing, with a folder of downloads beside it.

use std::fmt::Write;

use crate::figure::{Figure, FigureError, FigureFile};

/// The style of every page of figures.
pub const STYLE: &str = include_str!("style.css");
/// The folder of downloads, beside the page.
const FOLDER: &str = "figures";

/// A page in HTML, built from top to bottom, with the files that it links to.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    style: String,
    body: String,
    files: Vec<FigureFile>,
}

impl Page {
    /// A page with its heading.
    pub fn new(title: impl Into<String>) -> Self {
        let title = title.into();
        let body = format!("<h1>{}</h1>\n", escape(&title));
        Self { title, style: STYLE.to_owned(), body, files: Vec::new() }
    }

    /// Adds rules to the style.
    pub fn with_style(mut self, rules: &str) -> Self {
        self.style.push_str(rules);
        self
    }

    /// Adds HTML as it stands: the caller has escaped what others said.
    pub fn html(&mut self, html: &str) {
        self.body.push_str(html);
    }

    /// Adds a heading.
    pub fn heading(&mut self, heading: &str) {
        let _ = writeln!(self.body, "<h2>{}</h2>", escape(heading));
    }

    /// Adds plain text.
    pub fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.body, "<p>{}</p>", escape(text));
    }

    /// Adds words and what they mean.
    pub fn terms(&mut self, terms: &[(&str, &str)]) {
        self.body.push_str("<dl>\n");
        for (term, meaning) in terms {
            let _ = writeln!(self.body, "<dt>{}</dt><dd>{}</dd>", escape(term), escape(meaning));
        }
        self.body.push_str("</dl>\n");
    }

    /// Adds a table. Columns after the first stand to the right, but for those of words.
    pub fn table<'a>(
        &mut self,
        headings: &[impl AsRef<str>],
        rows: impl IntoIterator<Item = &'a Vec<String>>,
    ) {
        let rows: Vec<&Vec<String>> = rows.into_iter().collect();
        let class = |column| if is_of_words(&rows, column) { " class=\"words\"" } else { "" };
        let classes: Vec<&str> = (0..headings.len()).map(class).collect();
        self.body.push_str("<div class=\"scroll\"><table class=\"figures-table\">\n");
        self.row("th", headings.iter().map(AsRef::as_ref), &classes);
        for row in rows {
            self.row("td", row.iter().map(String::as_str), &classes);
        }
        self.body.push_str("</table></div>\n");
    }

    fn row<'a>(&mut self, tag: &str, cells: impl Iterator<Item = &'a str>, classes: &[&str]) {
        self.body.push_str("<tr>");
        for (place, cell) in cells.enumerate() {
            let class = classes.get(place).copied().unwrap_or_default();
            let _ = write!(self.body, "<{tag}{class}>{}</{tag}>", escape(cell));
        }
        self.body.push_str("</tr>\n");
    }

    /// Adds figures beside one another where the page is wide enough.
    ///
    /// # Errors
    /// If one has nothing to show.
    pub fn figures<'a>(&mut self, figures: impl IntoIterator<Item = &'a Figure>) -> Result<(), FigureError> {
        self.body.push_str("<div class=\"figures\">\n");
        figures.into_iter().try_for_each(|figure| self.figure(figure))?;
        self.body.push_str("</div>\n");
        Ok(())
    }

    /// Adds a figure with caption, origin and downloads.
    fn figure(&mut self, figure: &Figure) -> Result<(), FigureError> {
        let id = escape(figure.id());
        let _ =
            write!(self.body, "<figure id=\"{id}\">\n<h3>{}</h3>\n{}", escape(figure.title()), figure.svg()?);
        self.body.push_str("<figcaption>\n");
        if !figure.caption().is_empty() {
            self.paragraph(figure.caption());
        }
        let _ = writeln!(self.body, "<p class=\"origin\">{}</p>", escape(&figure.source().line()));
        self.papers(figure);
        self.body.push_str("<p class=\"downloads\">Download: ");
        for mut file in figure.files()? {
            file.name = format!("{FOLDER}/{}", file.name);
            let kind = file.name.rsplit('.').next().unwrap_or_default().to_uppercase();
            let _ = write!(self.body, "<a href=\"{}\" download>{kind}</a> ", escape(&file.name));
            self.files.push(file);
        }
        self.body.push_str("</p>\n</figcaption>\n</figure>\n");
        Ok(())
    }

    fn papers(&mut self, figure: &Figure) {
        let links: Vec<String> = figure.source().papers.iter().map(paper_link).collect();
        if !links.is_empty() {
            let _ = writeln!(self.body, "<p class=\"origin\">Beside: {}</p>", links.join(", "));
        }
    }

    /// The page, and the files that go beside it, by names relative to it: a folder `figures`.
    pub fn finish(self) -> (String, Vec<FigureFile>) {
        // An empty icon: browsers ask for one otherwise.
        let page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n{}</main>\n\
             </body>\n</html>\n",
            escape(&self.title),
            self.style,
            self.body,
        );
        (page, self.files)
    }
}

/// Whether no cell of a column is a number, perhaps with a sign and a unit.
fn is_of_words(rows: &[&Vec<String>], column: usize) -> bool {
    let is_number = |cell: &String| {
        let digits = cell.trim_start_matches(['+', '-', '−']);
        digits.starts_with(|letter: char| letter.is_ascii_digit())
    };
    let mut cells = rows.iter().filter_map(|row| row.get(column)).peekable();
    column > 0 && cells.peek().is_some() && !cells.any(is_number)
}

fn paper_link(paper: &crate::Paper) -> String {
    format!("<a href=\"{}\" title=\"{}\">{}</a>", paper.url(), escape(paper.reference), escape(paper.name))
}

/// Text as HTML and XML have it. Control characters, which XML cannot have, are shown as U+FFFD.
pub fn escape(text: &str) -> String {
    let is_no_xml = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    let text = text.replace(is_no_xml, "\u{fffd}");
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
