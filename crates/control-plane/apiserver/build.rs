//! Compresses the OpenAPI data: a megabyte and a half of JSON, of which a process needs a part once.

use std::error::Error;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::ZlibEncoder;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=data");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    for entry in fs::read_dir("data")? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("api") && name.ends_with(".json") {
            let mut encoder = ZlibEncoder::new(File::create(out.join(name))?, Compression::best());
            encoder.write_all(&fs::read(&path)?)?;
            encoder.finish()?;
        }
    }
    Ok(())
}
