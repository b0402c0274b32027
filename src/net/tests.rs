//! Tests of addresses and of listening.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tokio_stream::StreamExt;
use tonic::transport::server::Connected;

use super::{Address, ListenError, Peer, connect, listen};

fn tcp(host: &str, port: u16) -> Address {
    Address::Tcp { host: host.to_owned(), port }
}

fn check_error(text: &str, why: &str) {
    let error = text.parse::<Address>().unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "address {text:?} {why}; write host:port, [v6 address]:port or unix:/path, such as \"127.0.0.1:7600\""
        )
    );
}

#[test]
fn addresses_print_as_they_are_parsed() {
    let cases = [
        ("127.0.0.1:7600", tcp("127.0.0.1", 7600)),
        ("sluice-arbiter.sluice:0", tcp("sluice-arbiter.sluice", 0)),
        ("[::1]:7600", tcp("::1", 7600)),
        ("unix:/run/a b.sock", Address::Unix("/run/a b.sock".into())),
    ];
    for (text, address) in cases {
        assert_eq!(text.parse(), Ok(address.clone()));
        assert_eq!(address.to_string(), text);
    }
    assert_eq!("unix:///run/x".parse(), Ok(Address::Unix("/run/x".into())));
}

#[test]
fn a_text_that_is_no_address_is_told_what_is_wrong_with_it() {
    check_error("localhost", "has no port");
    check_error("localhost:http", "has no port between 0 and 65535");
    check_error(":7600", "has no host");
    check_error("::1:7600", "has an IPv6 address without brackets");
    check_error("[::1:7600", "has an unclosed bracket");
    check_error("http://x:7600", "begins like a URL");
    check_error("a b:1", "has a host with characters that no host name has");
    check_error("unix:here", "names no absolute path");
}

#[tokio::test]
async fn a_port_for_other_machines_is_refused_unless_asked_for() {
    let address = tcp("0.0.0.0", 0);
    let refused = listen(&address, false).await.unwrap_err();
    assert!(matches!(refused, ListenError::NotLoopback { .. }), "{refused}");
    let listener = listen(&tcp("127.0.0.1", 0), false).await.unwrap();
    let again = listen(listener.address(), false).await.unwrap_err();
    assert!(again.to_string().contains("stop the process that has it"), "{again}");
}

fn socket(dir: &Path) -> Address {
    Address::Unix(dir.join("a.sock"))
}

#[tokio::test]
async fn a_socket_in_use_is_refused_and_a_stale_one_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let address = socket(dir.path());
    let path = dir.path().join("a.sock");
    let first = listen(&address, false).await.unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o660);
    let refused = listen(&address, false).await.unwrap_err();
    assert!(matches!(refused, ListenError::SocketInUse { .. }), "{refused}");
    drop(first);
    assert!(!path.exists(), "a listener removes its socket");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "the standard library leaves its socket");
    listen(&address, false).await.unwrap();
}

#[tokio::test]
async fn a_file_in_the_place_of_a_socket_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.sock"), "precious").unwrap();
    let refused = listen(&socket(dir.path()), false).await.unwrap_err();
    assert!(matches!(refused, ListenError::NotASocket { .. }), "{refused}");
    assert_eq!(std::fs::read_to_string(dir.path().join("a.sock")).unwrap(), "precious");
}

#[tokio::test]
async fn a_peer_on_a_unix_socket_is_known_by_its_user() {
    let dir = tempfile::tempdir().unwrap();
    let mut incoming = listen(&socket(dir.path()), false).await.unwrap().incoming();
    let path = dir.path().join("a.sock");
    let _client = tokio::net::UnixStream::connect(path).await.unwrap();
    let connection = incoming.next().await.unwrap().unwrap();
    let uid = nix::unistd::getuid().as_raw();
    assert_eq!(connection.connect_info(), Peer::Unix { uid, pid: Some(std::process::id()) });
}

#[tokio::test]
async fn nobody_at_an_address_is_said_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let listener = listen(&tcp("127.0.0.1", 0), false).await.unwrap();
    let address = listener.address().clone();
    drop(listener);
    let error = connect(&address).await.unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "could not connect to \"{address}\": connection refused; check that it runs and listens there"
        )
    );
    let error = connect(&socket(dir.path())).await.unwrap_err().to_string();
    assert!(error.contains("entity not found"), "{error}");
}
