//! The file of tokens while the endpoint runs: what is added to it counts, and what is taken out of it does not any more.

use std::path::PathBuf;

use tracing::{info, warn};

use crate::access::{Tokens, TokensError, read_tokens};

/// How often in a row the file is seen without any token before that counts: one that is being written is whole by then.
const LOOKS: u32 = 3;

/// A file of tokens that is looked at again and again.
pub struct TokenFile {
    path: PathBuf,
    tokens: Tokens,
    /// How often in a row it was seen without any token.
    without: u32,
    /// What was said of it last.
    told: Option<String>,
}

impl TokenFile {
    /// The file that these tokens were read from.
    pub fn new(path: PathBuf, tokens: Tokens) -> TokenFile {
        TokenFile { path, tokens, without: 0, told: None }
    }

    /// Reads it again. As long as it cannot be read, the tokens that counted before still do; once it is empty or gone, and stays
    /// so, none does.
    pub fn look(&mut self) {
        let error = match self.read() {
            Ok(read) => {
                (self.without, self.told) = (0, None);
                if self.tokens.replace(read) {
                    info!("the tokens were read again");
                }
                return;
            }
            Err(error) => error,
        };
        self.without = if error.is_without() { self.without + 1 } else { 0 };
        if self.without >= LOOKS && self.tokens.replace(Vec::new()) {
            warn!(%error, "the tokens that counted before do not any more");
        }
        let text = error.to_string();
        if self.without < LOOKS && self.told.as_ref() != Some(&text) {
            match self.tokens.is_empty() {
                true => warn!(error = text, "no token of the file counts"),
                false => warn!(error = text, "the tokens that counted before still do"),
            }
            self.told = Some(text);
        }
    }

    fn read(&self) -> Result<Vec<crate::Token>, TokensError> {
        // A pipe has told what it had, and who reads it again waits for ever.
        if std::fs::metadata(&self.path).is_ok_and(|metadata| !metadata.is_file()) {
            let (file, cause) = (self.path.display().to_string(), std::io::Error::other("it is no file any more"));
            return Err(TokensError::File { file, cause });
        }
        read_tokens(&self.path)
    }
}
