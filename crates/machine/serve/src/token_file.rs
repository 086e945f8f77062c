//! [`TokenFile`]: the token file of a running endpoint. Tokens that are added to it are accepted, and removed ones revoked.

use std::path::PathBuf;

use tracing::{info, warn};

use crate::access::{Tokens, TokensError, read_tokens};

/// How often in a row the file is read without any token before all are revoked: a file that is being written is complete
/// by then.
const MAX_EMPTY_READS: u32 = 3;

/// A token file that is read periodically.
pub struct TokenFile {
    path: PathBuf,
    tokens: Tokens,
    /// How often in a row it was read without any token.
    empty_reads: u32,
    /// The last error that was logged.
    last_error: Option<String>,
}

impl TokenFile {
    /// The file that these tokens were read from.
    pub fn new(path: PathBuf, tokens: Tokens) -> TokenFile {
        TokenFile { path, tokens, empty_reads: 0, last_error: None }
    }

    /// Reads the file again. While it cannot be read, the previous tokens stay valid; once it is empty or gone, and stays so,
    /// all are revoked.
    pub fn reload(&mut self) {
        let error = match self.read() {
            Ok(read) => {
                (self.empty_reads, self.last_error) = (0, None);
                if self.tokens.replace(read) {
                    info!("tokens reloaded");
                }
                return;
            }
            Err(error) => error,
        };
        self.empty_reads = if error.has_no_tokens() { self.empty_reads + 1 } else { 0 };
        if self.empty_reads >= MAX_EMPTY_READS && self.tokens.replace(Vec::new()) {
            warn!(%error, "the token file has no tokens: the previous ones are revoked");
        }
        let text = error.to_string();
        if self.empty_reads < MAX_EMPTY_READS && self.last_error.as_ref() != Some(&text) {
            match self.tokens.is_empty() {
                true => warn!(error = text, "cannot read the token file; no token is accepted"),
                false => warn!(error = text, "cannot read the token file; the previous tokens stay valid"),
            }
            self.last_error = Some(text);
        }
    }

    fn read(&self) -> Result<Vec<crate::Token>, TokensError> {
        // A pipe was read to its end at the start: reading it again would block.
        if std::fs::metadata(&self.path).is_ok_and(|metadata| !metadata.is_file()) {
            let (file, cause) = (self.path.display().to_string(), std::io::Error::other("no longer a regular file"));
            return Err(TokensError::File { file, cause });
        }
        read_tokens(&self.path)
    }
}
