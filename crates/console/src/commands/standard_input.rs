//! Standard input in pieces, until it ends or nobody wants more of it.

use std::io::{self, PipeReader, PipeWriter, Read, Write};

use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::mpsc;

/// Bytes of one piece at most.
const PIECE_BYTES: usize = 256 * 1024;
/// Pieces that may wait; then reading waits too.
const PIECES_AHEAD: usize = 2;

/// What a look at the input brought.
#[derive(Debug)]
pub enum Piece {
    Bytes(Vec<u8>),
    End,
}

/// Pieces as a thread of its own reads them. `None` behind the last: reading was stopped.
pub type Pieces = mpsc::Receiver<io::Result<Piece>>;

/// Dropped, it ends the reading: what is read by then still arrives, and nothing more is taken from the input.
#[derive(Debug)]
pub struct Reading {
    _open: PipeWriter,
}

/// Reads standard input ahead. With `prompt`, `>` is shown in front of each piece, which from a terminal is a line.
pub fn read(prompt: bool) -> io::Result<(Pieces, Reading)> {
    let (stopped, open) = io::pipe()?;
    let (sender, pieces) = mpsc::channel(PIECES_AHEAD);
    std::thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        while let Some(read) = next(&mut stdin, &stopped, prompt) {
            let last = !matches!(read, Ok(Piece::Bytes(_)));
            if sender.blocking_send(read).is_err() || last {
                return;
            }
        }
    });
    Ok((pieces, Reading { _open: open }))
}

/// `None`: told to stop. A thread inside a read cannot be called back, so it goes in only when there is something.
fn next(stdin: &mut io::StdinLock<'_>, stopped: &PipeReader, prompt: bool) -> Option<io::Result<Piece>> {
    if prompt {
        // A prompt that cannot be shown is no reason to stop.
        let _ = io::stdout().write_all(b">").and_then(|()| io::stdout().flush());
    }
    loop {
        let watched = io::stdin();
        let mut either = [PollFd::new(stopped, PollFlags::IN), PollFd::new(&watched, PollFlags::IN)];
        match poll(&mut either, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Some(Err(error.into())),
            Ok(_) if !either[0].revents().is_empty() => return None,
            Ok(_) => {}
        }
        let mut piece = vec![0; PIECE_BYTES];
        return Some(match stdin.read(&mut piece) {
            Ok(0) => Ok(Piece::End),
            Ok(count) => {
                piece.truncate(count);
                Ok(Piece::Bytes(piece))
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        });
    }
}
