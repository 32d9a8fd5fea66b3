//! What the nodes of this process say, bounded: on standard error, or kept for a view.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::kubelet;
use crate::logging::{KlogLayer, LogFormat, Origin, Verbosity};

/// Lines in a second; a thousand nodes that lose their server say it once.
const LINES: usize = 20;

/// The same for who has asked for them all.
const ALL_LINES: usize = 1000;

/// Lines that a view can show.
const KEPT: usize = 5;

/// The newest lines.
#[derive(Clone, Default)]
pub(crate) struct Log {
    /// Held for one access.
    kept: Arc<Mutex<VecDeque<String>>>,
}

impl Log {
    /// Starts the process's log: to the view, or to standard error.
    pub(crate) fn start(verbosity: Option<u32>, view: bool) -> Self {
        Self::start_bounded(verbosity, view, LINES).0
    }

    /// The same for who reads along: as good as nothing is left out. Also gives what a
    /// node's own port tells of the log, and does to it.
    pub(crate) fn start_told(verbosity: Option<u32>, view: bool) -> (Self, kubelet::Log) {
        let most = verbosity.map_or(LINES, |_| ALL_LINES);
        Self::start_bounded(verbosity, view, most)
    }

    fn start_bounded(verbosity: Option<u32>, view: bool, most: usize) -> (Self, kubelet::Log) {
        let log = Self::default();
        let output: Box<dyn Write + Send> = if view {
            Box::new(log.clone())
        } else {
            Box::new(io::stderr())
        };
        let least = match verbosity {
            None => LevelFilter::WARN,
            Some(_) => LevelFilter::TRACE,
        };
        let verbosity = Verbosity::new(verbosity.unwrap_or(0), Vec::new());
        let layer = KlogLayer::new(
            LogFormat::Text,
            verbosity.clone(),
            Origin::local(),
            Bounded::new(output, most),
        );
        let waiting = layer.waiting();
        // Set once in a run of the program; a second time cannot happen.
        let _ = tracing_subscriber::registry()
            .with(layer.with_filter(least))
            .try_init();
        (log, kubelet::Log { verbosity, waiting })
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().cloned().collect()
    }
}

/// Each write is a whole line: that is how the layer above writes.
impl Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        for line in String::from_utf8_lossy(text).lines() {
            kept.push_back(line.to_owned());
        }
        while kept.len() > KEPT {
            kept.pop_front();
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// So many writes in a second, and then the number of those left out.
struct Bounded<W> {
    output: W,
    most: usize,
    second: Instant,
    written: usize,
    left_out: usize,
}

impl<W: Write> Bounded<W> {
    fn new(output: W, most: usize) -> Self {
        Self {
            output,
            most,
            second: Instant::now(),
            written: 0,
            left_out: 0,
        }
    }

    fn write_at(&mut self, text: &[u8], now: Instant) -> io::Result<()> {
        if now.duration_since(self.second) >= Duration::from_secs(1) {
            if self.left_out > 0 {
                let line = format!("… {} lines left out\n", self.left_out);
                self.output.write_all(line.as_bytes())?;
            }
            (self.second, self.written, self.left_out) = (now, 0, 0);
        }
        if self.written >= self.most {
            self.left_out += 1;
            return Ok(());
        }
        self.written += 1;
        self.output.write_all(text)
    }
}

impl<W: Write> Write for Bounded<W> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.write_at(text, Instant::now())?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_lines_are_written_in_a_second_and_the_rest_is_counted() {
        let mut bounded = Bounded::new(Vec::new(), 2);
        let start = bounded.second;
        for line in ["a\n", "b\n", "c\n", "d\n"] {
            bounded.write_at(line.as_bytes(), start).unwrap();
        }
        let later = start + Duration::from_secs(1);
        bounded.write_at(b"e\n", later).unwrap();
        let text = String::from_utf8(bounded.output).unwrap();
        assert_eq!(text, "a\nb\n… 2 lines left out\ne\n");
    }

    #[test]
    fn the_view_has_the_newest_lines() {
        let mut log = Log::default();
        for number in 0..9 {
            log.write_all(format!("line {number}\n").as_bytes())
                .unwrap();
        }
        let lines = log.lines();
        assert_eq!((lines.len(), lines[KEPT - 1].as_str()), (KEPT, "line 8"));
    }
}
