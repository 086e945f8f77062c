//! Manifest files: found in folders and read, within the size limit.

use std::collections::HashSet;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use seaworthy_ignition::spelling;
use seaworthy_manifest::{ManifestText, parallel};

use crate::failure::Failure;
use crate::terminal;

/// What to read.
pub struct Inputs<'i> {
    /// Files, folders, `-`.
    pub files: &'i [PathBuf],
    /// Whether folders below folders count.
    pub recursive: bool,
    /// The largest text, in MiB.
    pub max_mib: u64,
}

/// Folders may not be nested deeper than this, so that a link to a parent does not lead round and round.
const MAX_DEPTH: usize = 32;

/// So many entries of a folder are compared with a name that is not there.
const MAX_NAMES_COMPARED: usize = 1000;

/// Reads all texts. Every one that cannot be read is reported, not the first.
pub fn load(inputs: &Inputs<'_>) -> Result<Vec<ManifestText>, Failure> {
    let limit = inputs.max_mib.saturating_mul(1024 * 1024);
    let mut texts = Vec::new();
    let mut errors = Vec::new();
    let mut used_stdin = false;
    for path in inputs.files {
        if path.as_os_str() == "-" {
            if std::mem::replace(&mut used_stdin, true) {
                errors.push("-f - is given twice; standard input can be read only once".to_owned());
                continue;
            }
            match read(std::io::stdin().lock(), "standard input", limit, 0) {
                Ok(text) => texts.push(text),
                Err(error) => errors.push(error),
            }
            continue;
        }
        let shown = path.display().to_string();
        match std::fs::metadata(path) {
            Err(_) if shown.starts_with("http://") || shown.starts_with("https://") => {
                let url = seaworthy_fetch::redact(&shown);
                errors.push(format!(
                    "{url} is a URL, and manifests are read from files only; pipe it: curl … | seaworthy … -f -"
                ));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                errors.push(format!("file or folder not found: {shown}{}", similar_name(path)));
            }
            Err(error) => errors.push(format!("cannot read {shown}: {error}")),
            Ok(metadata) if metadata.is_dir() => {
                let mut listing = Listing { recursive: inputs.recursive, ..Listing::default() };
                match listing.add(path, 0) {
                    Err(error) => errors.push(error),
                    Ok(()) if listing.files.is_empty() => errors.push(format!(
                        "no manifest (*.yaml, *.yml, *.json) in {shown}{}",
                        recursion_hint(path, inputs)
                    )),
                    Ok(()) => {}
                }
                for list in &listing.kustomizations {
                    let folder = list.parent().unwrap_or(path);
                    terminal::note(&format!(
                        "{} is ignored; to apply it, pipe `kustomize build {}` into -f -",
                        list.display(),
                        folder.display()
                    ));
                }
                for file in listing.files {
                    match read_file(&file, limit) {
                        Ok(text) => texts.push(text),
                        Err(error) => errors.push(error),
                    }
                }
            }
            Ok(_) => match read_file(path, limit) {
                Ok(text) => texts.push(text),
                Err(error) => errors.push(error),
            },
        }
    }
    // A folder of many texts needs as much memory as one of their sum.
    let total: u64 = texts.iter().map(|text: &ManifestText| text.content().len() as u64).sum();
    if total > limit && errors.is_empty() {
        errors.push(format!(
            "the manifests are larger than {} MiB in total; pass fewer, or raise the limit with --max-input",
            inputs.max_mib
        ));
    }
    if errors.is_empty() { Ok(texts) } else { Err(Failure::all_invalid(errors)) }
}

fn recursion_hint(folder: &Path, inputs: &Inputs<'_>) -> &'static str {
    let mut below = Listing { recursive: true, ..Listing::default() };
    let found = !inputs.recursive && below.add(folder, 0).is_ok() && !below.files.is_empty();
    if found { "; subfolders have some: add -R" } else { "" }
}

/// The entry of a folder that a name which is not there was probably meant for.
fn similar_name(path: &Path) -> String {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return String::new() };
    if !folder.is_dir() {
        return format!(": folder {} does not exist either", folder.display());
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().take(MAX_NAMES_COMPARED).flatten();
    let names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let near = spelling::nearest(name, names.iter().map(String::as_str));
    near.map(|near| format!("; did you mean {}?", path.with_file_name(near).display())).unwrap_or_default()
}

fn read_file(path: &Path, limit: u64) -> Result<ManifestText, String> {
    let shown = path.display().to_string();
    let file = std::fs::File::open(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    if (MIN_PARALLEL_BYTES..=limit).contains(&size)
        && let Some(bytes) = read_pieces(&file, size)
    {
        return ManifestText::new(&shown, bytes);
    }
    read(file, &shown, limit, size)
}

/// From this size on a file is read by all cores.
const MIN_PARALLEL_BYTES: u64 = 4 * 1024 * 1024;

/// The bytes of a file of that size; `None` when it turns out to have another one, or cannot be read that way.
///
/// The system clears the memory before it copies into it, and that is much of the time of reading.
fn read_pieces(file: &std::fs::File, size: u64) -> Option<Vec<u8>> {
    const CHUNK_BYTES: usize = 1024 * 1024;
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    let pieces = bytes.chunks_mut(CHUNK_BYTES).enumerate();
    let results = parallel::map(pieces, 1, |(nth, piece)| file.read_exact_at(piece, (nth * CHUNK_BYTES) as u64));
    let is_end = file.read_at(&mut [0], size).is_ok_and(|more| more == 0);
    (is_end && results.iter().all(Result::is_ok)).then_some(bytes)
}

/// Reads a text; `size` is how large it will be, as far as is known.
fn read(source: impl std::io::Read, name: &str, limit: u64, size: u64) -> Result<ManifestText, String> {
    // One byte more than expected, so that the end is found without growing.
    let mut bytes = Vec::with_capacity(usize::try_from(size.min(limit)).unwrap_or(0) + 1);
    source
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| format!("cannot read {name}: {error}"))?;
    if bytes.len() as u64 > limit {
        return Err(format!(
            "{name} is larger than {} MiB; split it, or raise the limit with --max-input",
            limit / (1024 * 1024)
        ));
    }
    ManifestText::new(name, bytes)
}

/// The manifests of a folder, by name.
#[derive(Default)]
struct Listing {
    recursive: bool,
    files: Vec<PathBuf>,
    /// What kustomize would make of them.
    kustomizations: Vec<PathBuf>,
    /// The folders that were looked into: links may lead to the same one again and again.
    seen: HashSet<PathBuf>,
}

impl Listing {
    fn add(&mut self, folder: &Path, depth: usize) -> Result<(), String> {
        let shown = folder.display();
        let cannot = |error: std::io::Error| format!("cannot read the folder {shown}: {error}");
        if depth > MAX_DEPTH {
            return Err(format!("folders under {shown} are nested deeper than {MAX_DEPTH} levels"));
        }
        if !self.seen.insert(folder.canonicalize().map_err(cannot)?) {
            return Ok(());
        }
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(cannot)? {
            paths.push(entry.map_err(cannot)?.path());
        }
        paths.sort();
        for path in paths {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if name.starts_with('.') {
                continue;
            }
            // A folder for kustomize has its list of files beside the manifests; it is none itself.
            if matches!(name.as_str(), "kustomization.yaml" | "kustomization.yml" | "Kustomization") {
                self.kustomizations.push(path);
                continue;
            }
            let is_manifest =
                matches!(path.extension().and_then(|extension| extension.to_str()), Some("yaml" | "yml" | "json"));
            match std::fs::metadata(&path) {
                Ok(metadata) if metadata.is_dir() => {
                    if self.recursive {
                        self.add(&path, depth + 1)?;
                    }
                }
                _ if !is_manifest => {}
                // A pipe in a folder would block until another process writes into it.
                Ok(metadata) if !metadata.is_file() => {
                    return Err(format!("{} is not a file; remove it from the folder", path.display()));
                }
                // What cannot be inspected is reported when it is read.
                _ => self.files.push(path),
            }
        }
        Ok(())
    }
}
