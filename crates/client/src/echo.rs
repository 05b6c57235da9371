//! A server that only says back what it hears: what the runtime and the loader cost without a database.

use runtime::Group;
use runtime::net::{TcpListener, TcpStream};
use std::net::SocketAddr;

/// Serves on this address until the node shuts down; `ready` is called with the address once it listens.
pub async fn serve(address: SocketAddr, ready: impl FnOnce(SocketAddr)) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    ready(listener.local_addr()?);
    runtime::spawn(Group::QUERY, async move {
        while let Ok((stream, _)) = listener.accept().await {
            runtime::spawn(Group::QUERY, say_back(stream));
        }
    });
    runtime::shutdown_requested().await;
    Ok(())
}

/// Ends with the connection: the other side closing is no error here.
async fn say_back(stream: TcpStream) {
    let mut buffer = Vec::new();
    while let Ok(bytes) = stream.recv().await {
        if bytes.is_empty() {
            return;
        }
        buffer.clear();
        buffer.extend_from_slice(&bytes);
        drop(bytes);
        match stream.send_all(buffer).await {
            Ok(sent) => buffer = sent,
            Err(_) => return,
        }
    }
}
