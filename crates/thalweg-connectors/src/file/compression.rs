//! Compressed files, in and out.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, ErrorKind, Read, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use flate2::{bufread::MultiGzDecoder, write::GzEncoder};
use thalweg_core::{Error, Result, connector::Options};

/// How a file is compressed, as far as it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    /// To be found out.
    Auto,
    /// Not at all.
    None,
    /// Gzip, of one member or many.
    Gzip,
    /// Zstandard, of one frame or many.
    Zstd,
}

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

const AUTO: &str = "'compression' = 'auto' finds out by itself what a file is";

impl Compression {
    /// `'compression'`.
    pub(super) fn new(options: &Options) -> Result<Self> {
        Ok(match options.get("compression") {
            None | Some("auto") => Self::Auto,
            Some("none") => Self::None,
            Some("gzip") => Self::Gzip,
            Some("zstd") => Self::Zstd,
            Some(other) => {
                let known = "'auto', 'none', 'gzip' or 'zstd'";
                return Err(Error::query(format!("option 'compression' is '{other}', expected {known}")));
            }
        })
    }

    /// What a file of this name is to be written with.
    pub(super) fn of_name(self, path: &str) -> Self {
        match self {
            Self::Auto if path.ends_with(".gz") => Self::Gzip,
            Self::Auto if path.ends_with(".zst") => Self::Zstd,
            Self::Auto => Self::None,
            told => told,
        }
    }

    /// What people call it.
    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::None | Self::Auto => "plain",
        }
    }

    /// What a file that begins with these bytes was written with.
    fn of_bytes(self, beginning: &[u8]) -> Self {
        match self {
            Self::Auto if beginning.starts_with(GZIP) => Self::Gzip,
            Self::Auto if beginning.starts_with(ZSTD) => Self::Zstd,
            Self::Auto => Self::None,
            told => told,
        }
    }
}

/// Reads a file's bytes as they were before compression.
pub(super) struct Input {
    bytes: Box<dyn Read + Send>,
    path: String,
    compression: Compression,
    position: Arc<AtomicU64>,
    has_begun: bool,
    /// Why compressed data could not be read on.
    pub(super) damage: Option<Error>,
}

impl Input {
    /// A file from its beginning.
    pub(super) fn new(file: impl Read + Send + 'static, path: &str, compression: Compression) -> Result<Self> {
        let cannot_read = |error: io::Error| Error::environment(format!("cannot read {path}: {error}"));
        let position = Arc::new(AtomicU64::new(0));
        let mut file = Counted { inner: BufReader::with_capacity(64 << 10, file), position: position.clone() };
        let beginning = file.fill_buf().map_err(cannot_read)?;
        let found = compression.of_bytes(beginning);
        let named = compression.of_name(path);
        if found != named && found == Compression::None && !is_text(beginning) {
            let message = format!("{path} is corrupt: it does not begin as {} data does", named.name());
            return Err(Error::environment(message).with_hint("if only its name is wrong: 'compression' = 'none'"));
        }
        if found == Compression::Gzip && !beginning.starts_with(GZIP) && !beginning.is_empty() {
            return Err(Error::environment(format!("{path} is not gzip data")).with_hint(AUTO));
        }
        if found == Compression::None {
            check_text(beginning, path)?;
        }
        let bytes: Box<dyn Read + Send> = match found {
            Compression::Gzip => Box::new(MultiGzDecoder::new(file)),
            Compression::Zstd => Box::new(zstd::Decoder::with_buffer(file).map_err(cannot_read)?),
            Compression::None | Compression::Auto => Box::new(file),
        };
        Ok(Self { bytes, path: path.into(), compression: found, position, has_begun: false, damage: None })
    }

    /// Whether damage may show long after it was read.
    pub(super) fn is_compressed(&self) -> bool {
        matches!(self.compression, Compression::Gzip | Compression::Zstd)
    }

    /// An error that reading gave, with the place in the file.
    pub(super) fn error(&self, error: &io::Error) -> Error {
        let (path, position) = (&self.path, self.position.load(Ordering::Relaxed));
        if !self.is_compressed() {
            return Error::environment(format!("cannot read {path} at byte {position}: {error}"));
        }
        let name = self.compression.name();
        match error.kind() {
            // The world's errors, such as a disk that fails, come with its number.
            _ if error.raw_os_error().is_some() => {
                Error::environment(format!("cannot read {path} at byte {position}: {error}"))
            }
            ErrorKind::UnexpectedEof => {
                Error::environment(format!("{path} is truncated: its {name} data breaks off at byte {position}"))
                    .with_hint("was the file copied or downloaded completely?")
            }
            _ if !self.has_begun => Error::environment(format!("{path} is not {name} data: {error}")).with_hint(AUTO),
            _ => Error::environment(format!("{path} is corrupt: {error}, in its {name} data up to byte {position}"))
                .with_hint("rows that were read before that may be wrong, too: get the file once more"),
        }
    }
}

/// Refuses text of a kind that would be read as nonsense, though not always as malformed.
fn check_text(beginning: &[u8], path: &str) -> Result<()> {
    if beginning.starts_with(b"\xff\xfe") || beginning.starts_with(b"\xfe\xff") {
        return Err(Error::data(format!("{path} is text in UTF-16, expected UTF-8"))
            .with_hint(format!("convert it: iconv -f UTF-16 -t UTF-8 {path}")));
    }
    let line = &beginning[..beginning.iter().position(|byte| *byte == b'\r').unwrap_or(0)];
    let is_odd = !line.is_empty() && line.len() + 1 < beginning.len();
    if is_odd && !beginning.contains(&b'\n') && !beginning.contains(&b'"') {
        return Err(Error::data(format!("the lines of {path} end with CR, expected LF or CRLF"))
            .with_hint(format!("convert them: tr '\\r' '\\n' < {path}")));
    }
    Ok(())
}

/// Whether bytes, perhaps cut off, look like text.
fn is_text(bytes: &[u8]) -> bool {
    let is_utf8 = std::str::from_utf8(bytes).map_or_else(|error| error.error_len().is_none(), |_| true);
    is_utf8 && !bytes.contains(&0)
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.bytes.read(buffer)?;
        self.has_begun |= count > 0;
        Ok(count)
    }
}

/// Counts the bytes of the file that were used.
struct Counted<R> {
    inner: BufReader<R>,
    position: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.position.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl<R: Read> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.position.fetch_add(count as u64, Ordering::Relaxed);
        self.inner.consume(count);
    }
}

/// Writes a file's bytes, compressed.
pub(super) enum Output {
    Plain(BufWriter<File>),
    Gzip(GzEncoder<BufWriter<File>>),
    Zstd(zstd::Encoder<'static, BufWriter<File>>),
}

impl Output {
    /// A file from its beginning.
    pub(super) fn new(file: File, compression: Compression) -> io::Result<Self> {
        let file = BufWriter::with_capacity(64 << 10, file);
        Ok(match compression {
            Compression::Gzip => Self::Gzip(GzEncoder::new(file, flate2::Compression::default())),
            Compression::Zstd => {
                let mut encoder = zstd::Encoder::new(file, zstd::DEFAULT_COMPRESSION_LEVEL)?;
                encoder.include_checksum(true)?;
                Self::Zstd(encoder)
            }
            Compression::None | Compression::Auto => Self::Plain(file),
        })
    }

    /// Writes what is still in buffers, and lasts until it is on the disk.
    pub(super) fn finish(self) -> io::Result<()> {
        let file = match self {
            Self::Plain(file) => file,
            Self::Gzip(encoder) => encoder.finish()?,
            Self::Zstd(encoder) => encoder.finish()?,
        };
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.write(bytes),
            Self::Gzip(encoder) => encoder.write(bytes),
            Self::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.flush(),
            Self::Gzip(encoder) => encoder.flush(),
            Self::Zstd(encoder) => encoder.flush(),
        }
    }
}
