//! Asking a server for its figures over HTTP.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};

/// How long a server may take to be reached, and to say the next of its answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Most bytes of an answer.
const ANSWER_MAX_BYTES: u64 = 16 << 20;

/// Most header lines of an answer.
const HEADERS_MAX: usize = 64;

/// Address of a Prometheus endpoint; port 80 and `/metrics` where it names none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Host and port.
    authority: String,
    path: String,
}

impl Url {
    /// Parses `http://HOST[:PORT][/PATH]`, or `HOST:PORT` where no file has that name; `None` where `text` is no such address.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = match text.strip_prefix("http://") {
            Some(rest) => rest,
            None if is_bare(text) && !Path::new(text).exists() => text,
            None => return None,
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let authority = if has_port { authority.to_owned() } else { format!("{authority}:80") };
        let path = if path.is_empty() { "/metrics".to_owned() } else { format!("/{path}") };
        Some(Self { authority, path })
    }

    /// Requests the page.
    ///
    /// # Errors
    /// The server cannot be reached, or answers with something else.
    pub fn fetch(&self) -> Result<String> {
        let mut stream = self.connect()?;
        let Self { authority, path } = self;
        let request = format!("GET {path} HTTP/1.0\r\nHost: {authority}\r\nAccept: text/plain\r\n\r\n");
        // As a text: a broken pipe is the server's here, and not that of standard output, which ends a command quietly.
        stream.write_all(request.as_bytes()).map_err(|error| anyhow!("send to {authority}: {error}"))?;
        let mut answer = Vec::new();
        let mut bounded = stream.take(ANSWER_MAX_BYTES);
        bounded.read_to_end(&mut answer).with_context(|| format!("{authority} does not answer"))?;
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut head = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(head_bytes) = head.parse(&answer).context("the answer is not HTTP")?
        else {
            bail!("the answer of {authority} ends in its head")
        };
        let (code, reason) = (head.code.unwrap_or_default(), head.reason.unwrap_or_default());
        ensure!(code == 200, "http://{authority}{path}: {code} {reason}");
        String::from_utf8(answer.split_off(head_bytes)).context("the answer is not text")
    }

    fn connect(&self) -> Result<TcpStream> {
        let doing = || format!("connect to {}", self.authority);
        let mut last = None;
        for address in self.authority.to_socket_addrs().with_context(doing)? {
            match TcpStream::connect_timeout(&address, TIMEOUT) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(TIMEOUT))?;
                    stream.set_write_timeout(Some(TIMEOUT))?;
                    return Ok(stream);
                }
                Err(error) => last = Some(error),
            }
        }
        match last {
            Some(error) => {
                Err(error).with_context(|| format!("{}: is `byway serve --metrics` running there?", doing()))
            }
            None => bail!("{} has no address", self.authority),
        }
    }
}

/// Whether a text is `HOST:PORT`, of an address or a name with a domain: no scheme of a URI has a dot.
fn is_bare(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_v6 = host.starts_with('[') && host.ends_with(']');
    let is_name = host.chars().all(|letter| letter.is_ascii_alphanumeric() || ".-".contains(letter));
    port.parse::<u16>().is_ok() && (is_v6 || is_name && (host.contains('.') || host == "localhost"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_port_and_a_path_whether_or_not_they_are_given() {
        let url = |text: &str| Url::parse(text).map(|url| (url.authority, url.path));
        let wanted = |authority: &str, path: &str| Some((authority.to_owned(), path.to_owned()));
        assert_eq!(url("http://a:1/b/c"), wanted("a:1", "/b/c"));
        assert_eq!(url("http://a"), wanted("a:80", "/metrics"));
        assert_eq!(url("http://[::1]:9/"), wanted("[::1]:9", "/metrics"));
        assert_eq!(url("127.0.0.1:9899"), wanted("127.0.0.1:9899", "/metrics"));
        assert_eq!(url("localhost:1"), wanted("localhost:1", "/metrics"));
        assert_eq!(url("[::1]:9"), wanted("[::1]:9", "/metrics"));
        for other in
            ["tcp://a:1", "ramdisk:1", "disk.img", "/dev/nvme0n1", "embedded:a.img:1", "pci:0000:01:00.0"]
        {
            assert_eq!(url(other), None, "{other}");
        }
    }
}
