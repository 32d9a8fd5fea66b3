//! A loop that does nothing but the requests of probes: what they cost at least. It runs
//! in a lab node, and says how much of a core it took and how many requests it made.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;

use super::super::process::Process;

/// Requests between two looks at the clock.
const BATCH: u32 = 10;

#[derive(Args)]
pub(crate) struct Loop {
    /// Who answers
    address: String,
    /// Requests in a second
    each_second: u32,
    /// For how long
    seconds: u64,
}

pub(crate) fn run(plan: &Loop) -> Result<()> {
    let process = Process::own();
    let (began, cpu) = (Instant::now(), process.cpu()?);
    let period = Duration::from_secs(plan.seconds);
    let mut made = 0_u32;
    while began.elapsed() < period {
        let due = f64::from(made) / f64::from(plan.each_second);
        let due = Duration::from_secs_f64(due);
        sleep(due.saturating_sub(began.elapsed()));
        for _ in 0..BATCH {
            ask(&plan.address).with_context(|| format!("asking {}", plan.address))?;
        }
        made += BATCH;
    }
    let took = began.elapsed().as_secs_f64();
    let cpu = process.cpu()?.saturating_sub(cpu).as_secs_f64();
    println!("{} {}", cpu / took, f64::from(made) / took);
    Ok(())
}

fn ask(address: &str) -> Result<()> {
    let mut stream = TcpStream::connect(address)?;
    let request = format!(
        "GET /v2/ HTTP/1.1\r\nHost: {address}\r\nUser-Agent: bare\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    anyhow::ensure!(answer.starts_with(b"HTTP/1.1 200 "), "it is not well");
    Ok(())
}
