//! Addresses, dialling and listening: TCP and unix sockets behind one pair of types.
//!
//! Everything that dials uses [`connect`], everything that serves uses [`listen`], so that timeouts, keep-alive and
//! the rule "no unprotected port to other machines unless asked for" are in one place.

mod listen;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use tonic::transport::{Channel, Endpoint};

pub use listen::{Connection, Incoming, ListenError, Listener, Peer, listen};

/// Where the arbiter is found if nobody says.
pub const ARBITER_DEFAULT: &str = "127.0.0.1:7600";

/// Longest wait for a connection. Within one machine it takes microseconds and across a region milliseconds; a
/// longer wait would only delay the next try.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// HTTP/2 pings on an otherwise idle connection. Load balancers and other gRPC servers on the way end connections
/// that are pinged more often than about once a minute.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(60);

/// Silence after a ping that ends the connection.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Where a server listens: `host:port`, `[v6]:port` or `unix:/path`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// A TCP port.
    Tcp {
        /// A name or an IP address, without brackets.
        host: String,
        /// The port; 0 lets the system choose when listening.
        port: u16,
    },
    /// A unix socket.
    Unix(PathBuf),
}

impl Address {
    /// The socket's path, if it is a unix socket.
    #[must_use]
    pub fn unix_path(&self) -> Option<&Path> {
        match self {
            Self::Tcp { .. } => None,
            Self::Unix(path) => Some(path),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A text that is no address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressError {
    text: String,
    why: &'static str,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, why } = self;
        write!(
            f,
            "address {text:?} {why}; write host:port, [v6 address]:port or unix:/path, such as \"{ARBITER_DEFAULT}\""
        )
    }
}

impl Error for AddressError {}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let error = |why| AddressError { text: text.to_owned(), why };
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            let absolute = path.starts_with('/') && !path.contains('\0');
            return if absolute {
                Ok(Self::Unix(path.into()))
            } else {
                Err(error("names no absolute path"))
            };
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(|| error("has no port"))?;
        let port = port.parse().map_err(|_| error("has no port between 0 and 65535"))?;
        Ok(Self::Tcp { host: parse_host(host).map_err(error)?, port })
    }
}

fn parse_host(host: &str) -> Result<String, &'static str> {
    if let Some(inner) = host.strip_prefix('[') {
        let v6 = inner.strip_suffix(']').ok_or("has an unclosed bracket")?;
        let parsed: std::net::Ipv6Addr =
            v6.parse().map_err(|_| "has no IPv6 address in brackets")?;
        return Ok(parsed.to_string());
    }
    if host.contains("://") {
        return Err("begins like a URL");
    }
    if host.contains(':') {
        return Err("has an IPv6 address without brackets");
    }
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    match host {
        "" => Err("has no host"),
        _ if host.bytes().all(allowed) => Ok(host.to_owned()),
        _ => Err("has a host with characters that no host name has"),
    }
}

/// A server that could not be reached.
#[derive(Debug, thiserror::Error)]
#[error("could not connect to \"{address}\": {why}; check that it runs and listens there")]
pub struct ConnectError {
    address: Address,
    why: String,
}

/// Connects to the gRPC server at `address`, waiting at most [`CONNECT_TIMEOUT`].
///
/// The channel dials again by itself when the connection breaks.
///
/// # Errors
/// Nobody answers there, or the address cannot be used.
pub async fn connect(address: &Address) -> Result<Channel, ConnectError> {
    let error = |why: String| ConnectError { address: address.clone(), why };
    let endpoint = endpoint(address).map_err(|e| error(root_cause(&e)))?;
    // The endpoint's own timeout does not cover looking up the name.
    match tokio::time::timeout(CONNECT_TIMEOUT, endpoint.connect()).await {
        Ok(Ok(channel)) => Ok(channel),
        Ok(Err(e)) => Err(error(root_cause(&e))),
        Err(_) => Err(error(format!("no answer within {} s", CONNECT_TIMEOUT.as_secs()))),
    }
}

fn endpoint(address: &Address) -> Result<Endpoint, tonic::transport::Error> {
    let uri = match address {
        Address::Tcp { .. } => format!("http://{address}"),
        // A path that is not UTF-8 is shown with replacements and then not found: no worse than any wrong path.
        Address::Unix(path) => format!("unix://{}", path.display()),
    };
    Ok(Endpoint::from_shared(uri)?
        .user_agent(concat!("sluice/", env!("CARGO_PKG_VERSION")))?
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .tcp_keepalive(Some(KEEP_ALIVE_INTERVAL)))
}

/// The innermost error: what happened, without the layers that passed it on.
fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut innermost: &(dyn Error + 'static) = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    // An I/O error prints as "Connection refused (os error 111)": the kind alone is what people read.
    innermost.downcast_ref::<io::Error>().map_or_else(
        || innermost.to_string().to_lowercase(),
        |e| if e.raw_os_error().is_some() { e.kind().to_string() } else { e.to_string() },
    )
}
