//! Requests and responses of HTTP, by `httparse`. No socket.

use prometheus_client::encoding::prometheus_text::CONTENT_TYPE;

use super::page::PAGE;

/// Where the figures are.
pub(super) const PATH: &str = "/metrics";

/// Longest head of a request. What a browser or a scraper sends is a tenth of it.
pub(super) const HEAD_MAX_BYTES: usize = 8 << 10;

/// Most header lines of a request.
const HEADERS_MAX: usize = 64;

/// Outcome of parsing a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// The head has not all come.
    Part,
    /// The figures; without them, only what would be said of them.
    Figures { head_only: bool },
    /// `GET /`: the live view.
    Root { head_only: bool },
    /// Something else.
    Refused { why: Refusal, head_only: bool },
}

/// Why there is no answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    BadRequest,
    NotFound,
    MethodNotAllowed,
    HeadTooLarge,
    Unavailable,
}

impl Refusal {
    const fn line(self) -> &'static str {
        match self {
            Self::BadRequest => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::HeadTooLarge => "431 Request Header Fields Too Large",
            Self::Unavailable => "503 Service Unavailable",
        }
    }

    /// The answer; without its text where the request was for the head alone.
    pub fn answer(self, head_only: bool) -> Vec<u8> {
        let allow = if self == Self::MethodNotAllowed { "Allow: GET, HEAD\r\n" } else { "" };
        answer(self.line(), "text/plain; charset=utf-8", allow, &format!("{}\n", self.line()), head_only)
    }
}

/// What `received` asks for.
pub(super) fn parse(received: &[u8]) -> Asked {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let why = match request.parse(received) {
        Ok(httparse::Status::Complete(_)) => return of_head(&request),
        Ok(httparse::Status::Partial) if received.len() < HEAD_MAX_BYTES => return Asked::Part,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => Refusal::HeadTooLarge,
        Err(_) => Refusal::BadRequest,
    };
    Asked::Refused { why, head_only: request.method == Some("HEAD") }
}

fn of_head(request: &httparse::Request<'_, '_>) -> Asked {
    let head_only = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Asked::Refused { why: Refusal::MethodNotAllowed, head_only: false },
    };
    match request.path.and_then(|target| target.split('?').next()) {
        Some(PATH) => Asked::Figures { head_only },
        Some("/") => Asked::Root { head_only },
        _ => Asked::Refused { why: Refusal::NotFound, head_only },
    }
}

/// The answer with the figures.
pub(super) fn figures(text: &str, head_only: bool) -> Vec<u8> {
    answer("200 OK", CONTENT_TYPE, "Cache-Control: no-store\r\n", text, head_only)
}

/// The answer to a request for `/`: the live view.
pub(super) fn root(head_only: bool) -> Vec<u8> {
    answer("200 OK", "text/html; charset=utf-8", &PAGE.headers, &PAGE.html, head_only)
}

fn answer(status: &str, content_type: &str, headers: &str, body: &str, head_only: bool) -> Vec<u8> {
    let len = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len}\r\n{headers}Connection: close\r\n\r\n"
    );
    let body = if head_only { "" } else { body };
    [head.as_bytes(), body.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn refused(why: Refusal) -> Asked {
        Asked::Refused { why, head_only: false }
    }

    /// Text of a request: whole pieces of some, and any bytes.
    fn piece() -> impl Strategy<Value = Vec<u8>> {
        let pieces = [
            "GET ",
            "HEAD ",
            "POST ",
            "/metrics",
            "/",
            "?a=b",
            " HTTP/1.1",
            " HTTP/1.0",
            "\r\n",
            "\n",
            "\r\n\r\n",
            "Host: a",
            ": ",
            "\0",
            "\u{e9}",
        ];
        let known = prop::sample::select(pieces.to_vec()).prop_map(|text| text.as_bytes().to_vec());
        prop_oneof![8 => known, 1 => prop::collection::vec(any::<u8>(), 0..40)]
    }

    proptest! {
        /// Whatever else comes behind the bytes by which a request was decided changes nothing.
        #[test]
        fn request_of_any_bytes_is_answered_alike_in_any_pieces(pieces in prop::collection::vec(piece(), 0..30)) {
            let received = pieces.concat();
            let decided = (0..=received.len()).map(|end| parse(&received[..end])).find(|asked| *asked != Asked::Part);
            prop_assert_eq!(decided.unwrap_or(Asked::Part), parse(&received));
        }
    }

    #[test]
    fn request_is_parsed_by_its_first_line_once_its_head_is_complete() {
        for (request, asked) in [
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", Asked::Figures { head_only: false }),
            ("HEAD /metrics?x=1 HTTP/1.0\n\n", Asked::Figures { head_only: true }),
            ("GET / HTTP/1.1\r\n\r\n", Asked::Root { head_only: false }),
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n", Asked::Part),
            ("", Asked::Part),
            ("GET", Asked::Part),
            ("GET /metric HTTP/1.1\r\n\r\n", refused(Refusal::NotFound)),
            ("POST /metrics HTTP/1.1\r\n\r\n", refused(Refusal::MethodNotAllowed)),
            ("GET /metrics HTTP/2\r\n\r\n", refused(Refusal::BadRequest)),
            ("GET /metrics\r\n\r\n", refused(Refusal::BadRequest)),
            ("\u{16}\u{3}\u{1}", refused(Refusal::BadRequest)),
        ] {
            assert_eq!(parse(request.as_bytes()), asked, "{request:?}");
        }
        assert_eq!(parse(&vec![b'A'; HEAD_MAX_BYTES]), refused(Refusal::HeadTooLarge));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(HEADERS_MAX + 1));
        assert_eq!(parse(many.as_bytes()), refused(Refusal::HeadTooLarge));
        let head = Asked::Refused { why: Refusal::HeadTooLarge, head_only: true };
        assert_eq!(parse(many.replace("GET", "HEAD").as_bytes()), head);
    }

    #[test]
    fn an_answer_to_head_has_the_length_and_no_body() {
        let (whole, head) = (figures("a 1\n", false), figures("a 1\n", true));
        assert!(whole.starts_with(&head) && whole.ends_with(b"\r\n\r\na 1\n"));
        let missing = parse(b"HEAD /a HTTP/1.1\r\n\r\n");
        assert_eq!(missing, Asked::Refused { why: Refusal::NotFound, head_only: true });
        assert!(Refusal::NotFound.answer(true).ends_with(b"Connection: close\r\n\r\n"));
        let said = String::from_utf8_lossy(&head);
        assert!(said.contains("Content-Length: 4\r\n") && said.contains("version=0.0.4"), "{said}");
    }
}
