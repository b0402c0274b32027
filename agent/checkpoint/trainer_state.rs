//! Reads `global_step` out of a `trainer_state.json` of the Hugging Face Trainer.
//!
//! An ordinary JSON parser does not do: Python writes `NaN` and `Infinity` into the log history
//! as soon as a loss diverges, which is not JSON. And the file grows with every logged step, so it
//! is read as a stream that keeps nothing but one number. What is checked is that the one
//! top-level object is closed and nothing follows, which a torn file never satisfies.

#[cfg(test)]
mod tests;

use std::io::{self, BufRead};

/// Longest key or number kept. `global_step` has 11 bytes, a 64-bit number at most 20.
const TEXT_BYTES_MAX: usize = 32;

/// The training step in `reader`, which has to hold one whole top-level object.
///
/// # Errors
/// A fragment that says what is wrong: not an object, ends early, no step.
pub(crate) fn global_step(mut reader: impl BufRead) -> Result<u64, String> {
    let mut scanner = Scanner::default();
    loop {
        let bytes = match reader.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.to_string()),
        };
        if bytes.is_empty() {
            return scanner.end();
        }
        bytes.iter().try_for_each(|byte| scanner.feed(*byte))?;
        let read = bytes.len();
        scanner.read_bytes += read;
        reader.consume(read);
    }
}

/// Where in the text the reader is. Brackets are counted, not matched by kind: a torn file is
/// one that ends early, not one with the wrong bracket.
#[derive(Debug, Default)]
struct Scanner {
    read_bytes: usize,
    place: Place,
    /// Brackets open.
    depth: u64,
    /// The next string is a key of the top-level object.
    at_key: bool,
    /// The value being read belongs to `global_step`.
    at_step: bool,
    /// The string or number being read, cut at [`TEXT_BYTES_MAX`].
    text: Vec<u8>,
    step: Option<u64>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    #[default]
    BeforeObject,
    InObject,
    InString,
    /// In a string, after a backslash.
    InEscape,
    AfterObject,
}

impl Scanner {
    fn feed(&mut self, byte: u8) -> Result<(), String> {
        if matches!(self.place, Place::InString | Place::InEscape) {
            self.feed_string(byte);
            return Ok(());
        }
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => return Ok(()),
            _ if self.place == Place::AfterObject => {
                return Err("text follows the end of the object".to_owned());
            }
            b'{' => self.open(),
            _ if self.place == Place::BeforeObject => {
                return Err("it does not start with \"{\"".to_owned());
            }
            b'[' => self.open(),
            b'}' | b']' => self.close(),
            b'"' => {
                self.place = Place::InString;
                self.text.clear();
            }
            b':' => self.text.clear(),
            b',' if self.depth == 1 => {
                self.end_value();
                self.at_key = true;
            }
            other => self.keep(other),
        }
        Ok(())
    }

    fn feed_string(&mut self, byte: u8) {
        match byte {
            _ if self.place == Place::InEscape => self.place = Place::InString,
            b'\\' => self.place = Place::InEscape,
            b'"' => {
                self.place = Place::InObject;
                if self.depth == 1 && self.at_key {
                    self.at_key = false;
                    self.at_step = self.text == b"global_step";
                }
                return;
            }
            _ => {}
        }
        self.keep(byte);
    }

    fn keep(&mut self, byte: u8) {
        if self.text.len() < TEXT_BYTES_MAX {
            self.text.push(byte);
        }
    }

    fn open(&mut self) {
        self.place = Place::InObject;
        self.depth += 1;
        self.at_key = self.depth == 1;
        self.text.clear();
    }

    fn close(&mut self) {
        if self.depth == 1 {
            self.end_value();
            self.place = Place::AfterObject;
        }
        self.depth -= 1;
        self.text.clear();
    }

    fn end_value(&mut self) {
        if self.at_step {
            self.at_step = false;
            self.step = std::str::from_utf8(&self.text).ok().and_then(|text| text.parse().ok());
        }
    }

    fn end(self) -> Result<u64, String> {
        if self.place != Place::AfterObject {
            return Err(format!("it ends early, after {} bytes", self.read_bytes));
        }
        self.step.ok_or_else(|| "it has no whole number \"global_step\"".to_owned())
    }
}
