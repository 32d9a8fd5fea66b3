//! Lets the host reach the lab: accepts connections on a socket that was
//! opened on the host's loopback and passes them to an address of the lab's
//! own network, where this program runs.
//!
//! In: the listening socket as standard input, the target as the argument.
//! Out: bytes, both ways. It must not know what they mean.

#![allow(
    clippy::disallowed_methods,
    reason = "a lab tool owns its process, and its tasks end with it"
)]

use std::net::TcpListener;
use std::os::fd::AsFd;

use anyhow::{Context, Result};
use tokio::net::TcpStream;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let target = std::env::args()
        .nth(1)
        .context("usage: lab-forward HOST:PORT, with a listening socket as standard input")?;
    let socket = TcpListener::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    socket.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(socket)?;
    loop {
        let (mut client, _) = listener.accept().await?;
        let target = target.clone();
        tokio::spawn(async move {
            // A refused or broken connection is the client's to see: closing
            // its end says the same.
            if let Ok(mut server) = TcpStream::connect(target).await {
                let _ = client.set_nodelay(true);
                let _ = server.set_nodelay(true);
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            }
        });
    }
}
