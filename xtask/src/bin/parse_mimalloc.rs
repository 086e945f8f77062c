//! Times the parse of a JSON file into a generic value with the allocator that the product uses.
//!
//! `cargo xtask bench render` compares with it: `parse-mimalloc FILE` prints nanoseconds.

#[path = "../bench/parse.rs"]
mod parse;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    let file = std::env::args_os().nth(1).ok_or_else(|| anyhow::anyhow!("usage: parse-mimalloc FILE"))?;
    println!("{}", parse::nanoseconds(file.as_ref())?);
    Ok(())
}
