//! Listening: binds, refuses what would be unsafe, and yields connections that know their peer.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::Sleep;
use tokio_stream::Stream;
use tonic::transport::server::Connected;

use super::Address;

/// Mode of a unix socket: its user and group. Its directory decides who gets that far.
const SOCKET_MODE: u32 = 0o660;

/// Longest path of a unix socket, in bytes; the kernel's `sun_path` less its closing zero.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Pause after the system refused a connection for want of something (file descriptors, memory): without it the
/// loop would spin until somebody lets go.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// Why a server cannot listen where it was told to.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Other machines could reach the port, and nothing protects it.
    #[error(
        "will not listen on \"{address}\": other machines can reach it and the traffic is neither encrypted nor \
         authenticated; use a loopback address or a unix socket, or allow it with --insecure-listen"
    )]
    NotLoopback {
        /// As asked for.
        address: Address,
    },
    /// Somebody answers on the socket.
    #[error(
        "will not listen on \"unix:{path}\": another process already serves there; stop it or choose another path"
    )]
    SocketInUse {
        /// The socket.
        path: String,
    },
    /// The path leads to something that is no socket.
    #[error(
        "will not listen on \"unix:{path}\": a file that is no socket is there; remove it or choose another path"
    )]
    NotASocket {
        /// The file.
        path: String,
    },
    /// The path is too long for the kernel.
    #[error(
        "cannot listen on \"unix:{path}\": the path has {bytes} bytes and the kernel allows {SOCKET_PATH_BYTES_MAX}; \
         choose a shorter one"
    )]
    PathTooLong {
        /// The path.
        path: String,
        /// Its length.
        bytes: usize,
    },
    /// The system refuses.
    #[error("cannot listen on \"{address}\": {why}; {fix}")]
    System {
        /// As asked for.
        address: Address,
        /// What the system says.
        why: String,
        /// What to do about it.
        fix: &'static str,
    },
}

impl ListenError {
    fn system(address: &Address, error: &io::Error) -> Self {
        let fix = match error.kind() {
            io::ErrorKind::AddrInUse => "stop the process that has it or choose another port",
            io::ErrorKind::PermissionDenied => {
                "choose a place that this user may write to, or a port above 1023"
            }
            io::ErrorKind::NotFound => "create the directory first",
            io::ErrorKind::AddrNotAvailable => "choose an address of this machine",
            _ => "choose another address",
        };
        Self::System { address: address.clone(), why: error.kind().to_string(), fix }
    }
}

/// Binds `address`. A stale unix socket is replaced if nobody answers on it.
///
/// With `insecure` false only loopback addresses and unix sockets are allowed.
///
/// # Errors
/// See [`ListenError`].
pub async fn listen(address: &Address, insecure: bool) -> Result<Listener, ListenError> {
    match address {
        Address::Tcp { host, port } => listen_tcp(address, host, *port, insecure).await,
        Address::Unix(path) => listen_unix(address, path).await,
    }
}

async fn listen_tcp(
    address: &Address,
    host: &str,
    port: u16,
    insecure: bool,
) -> Result<Listener, ListenError> {
    let system = |e: io::Error| ListenError::system(address, &e);
    let found: Vec<SocketAddr> =
        tokio::net::lookup_host((host, port)).await.map_err(system)?.collect();
    if !insecure && found.iter().any(|a| !is_loopback(a.ip())) {
        return Err(ListenError::NotLoopback { address: address.clone() });
    }
    let listener = TcpListener::bind(&*found).await.map_err(system)?;
    let local = listener.local_addr().map_err(system)?;
    Ok(Listener {
        address: Address::Tcp { host: local.ip().to_string(), port: local.port() },
        socket: Socket::Tcp(listener),
        pause: None,
        _file: None,
    })
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

async fn listen_unix(address: &Address, path: &Path) -> Result<Listener, ListenError> {
    let system = |e: io::Error| ListenError::system(address, &e);
    let bytes = path.as_os_str().len();
    if bytes > SOCKET_PATH_BYTES_MAX {
        return Err(ListenError::PathTooLong { path: path.display().to_string(), bytes });
    }
    remove_stale(address, path).await?;
    let listener = UnixListener::bind(path).map_err(system)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(SOCKET_MODE)).map_err(system)?;
    let file = SocketFile::of(path).map_err(system)?;
    Ok(Listener {
        address: address.clone(),
        socket: Socket::Unix(listener),
        pause: None,
        _file: Some(file),
    })
}

async fn remove_stale(address: &Address, path: &Path) -> Result<(), ListenError> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return Ok(()); // Nothing there, or nothing we may see: binding tells.
    };
    if !metadata.file_type().is_socket() {
        return Err(ListenError::NotASocket { path: path.display().to_string() });
    }
    match UnixStream::connect(path).await {
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|e| ListenError::system(address, &e))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(ListenError::system(address, &e)),
        Ok(_) => Err(ListenError::SocketInUse { path: path.display().to_string() }),
    }
}

/// Removes the socket when the listener is dropped, unless another process has put its own in the place.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    inode: (u64, u64),
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), inode: inode(path)? })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if inode(&self.path).is_ok_and(|now| now == self.inode) {
            // Nothing is lost if this fails: the next start replaces a socket on which nobody answers.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn inode(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = std::fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A bound socket. Serve it with [`Listener::incoming`] (gRPC) or hand it to `axum::serve` (HTTP).
#[derive(Debug)]
pub struct Listener {
    address: Address,
    socket: Socket,
    pause: Option<Pin<Box<Sleep>>>,
    _file: Option<SocketFile>,
}

impl Listener {
    /// Where it listens, with the port that the system chose.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The connections, as tonic's `serve_with_incoming` wants them. It never ends and never fails.
    #[must_use]
    pub fn incoming(self) -> Incoming {
        Incoming(self)
    }

    fn poll_accept(&mut self, context: &mut Context<'_>) -> Poll<Connection> {
        loop {
            if let Some(pause) = &mut self.pause {
                std::task::ready!(pause.as_mut().poll(context));
                self.pause = None;
            }
            let accepted = match &self.socket {
                Socket::Tcp(l) => l.poll_accept(context).map_ok(|(s, _)| Connection::tcp(s)),
                Socket::Unix(l) => l.poll_accept(context).map_ok(|(s, _)| Connection::Unix(s)),
            };
            match std::task::ready!(accepted) {
                Ok(connection) => return Poll::Ready(connection),
                Err(error) if is_of_one_peer(&error) => {}
                Err(error) => {
                    tracing::warn!(address = %self.address, %error, "could not accept a connection; trying again");
                    self.pause = Some(Box::pin(tokio::time::sleep(ACCEPT_PAUSE)));
                }
            }
        }
    }
}

/// The peer gave up before it was accepted; the listener itself is well.
fn is_of_one_peer(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(error.kind(), K::ConnectionRefused | K::ConnectionAborted | K::ConnectionReset)
}

impl axum::serve::Listener for Listener {
    type Io = Connection;
    type Addr = Address;

    async fn accept(&mut self) -> (Connection, Address) {
        let connection = std::future::poll_fn(|context| self.poll_accept(context)).await;
        (connection, self.address.clone())
    }

    fn local_addr(&self) -> io::Result<Address> {
        Ok(self.address.clone())
    }
}

/// Connections as a stream.
#[derive(Debug)]
pub struct Incoming(Listener);

impl Stream for Incoming {
    type Item = Result<Connection, io::Error>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Connection, io::Error>>> {
        self.0.poll_accept(context).map(|connection| Some(Ok(connection)))
    }
}

/// One accepted connection.
#[derive(Debug)]
pub enum Connection {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a unix socket.
    Unix(UnixStream),
}

impl Connection {
    fn tcp(stream: TcpStream) -> Self {
        // Without it small messages wait for the peer's delayed acknowledgement. It cannot fail on a live socket.
        let _ = stream.set_nodelay(true);
        Self::Tcp(stream)
    }
}

/// Who is at the other end; found in the extensions of each gRPC request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// A process on some machine. `None` if it has already gone.
    Tcp(Option<SocketAddr>),
    /// A process on this machine, as the kernel vouches for it (`SO_PEERCRED`).
    Unix {
        /// Its user.
        uid: u32,
        /// Its process id in our namespace. `None` where it cannot be told.
        pid: Option<u32>,
    },
    /// A unix socket whose peer could not be asked for.
    Nameless,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(Some(address)) => write!(f, "{address}"),
            Self::Unix { uid, pid: Some(pid) } => write!(f, "process {pid} of user {uid}"),
            Self::Unix { uid, pid: None } => write!(f, "a process of user {uid}"),
            Self::Tcp(None) | Self::Nameless => f.write_str("an unknown peer"),
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        match self {
            Self::Tcp(stream) => Peer::Tcp(stream.peer_addr().ok()),
            Self::Unix(stream) => stream.peer_cred().map_or(Peer::Nameless, |cred| Peer::Unix {
                uid: cred.uid(),
                pid: cred.pid().and_then(|pid| u32::try_from(pid).ok()),
            }),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Self::Unix(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
