//! A part of the address space, as the kernel lists it.

use std::fs;
use std::io;

/// One line of `/proc/self/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its first address.
    pub start: usize,
    /// Its length in bytes.
    pub length: usize,
    /// What may be done with it, as in `r-xp`.
    pub permissions: String,
    /// Where in its file it begins.
    pub offset: u64,
    /// The number of its file; 0 where there is none.
    pub inode: u64,
}

impl Mapping {
    /// All of this process.
    ///
    /// # Errors
    ///
    /// If the kernel does not tell.
    pub fn of_this_process() -> io::Result<Vec<Mapping>> {
        Ok(fs::read_to_string("/proc/self/maps")?.lines().filter_map(Mapping::parse).collect())
    }

    /// Reads a line of `/proc/self/maps`; nothing, if it is none.
    pub fn parse(line: &str) -> Option<Mapping> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
        let permissions = words.next()?.to_owned();
        let offset = u64::from_str_radix(words.next()?, 16).ok()?;
        // Past the device.
        let inode = words.nth(1)?.parse().ok()?;
        Some(Mapping { start, length: end.checked_sub(start)?, permissions, offset, inode })
    }

    /// Whether it is code out of a file, or the constants with which the file begins: nobody in the process can have changed those.
    /// What is merely readable further on is another matter: constants that hold addresses are adapted at the start and
    /// protected then, and the file has them otherwise.
    pub fn is_as_the_file_has_it(&self) -> bool {
        let is_untouched = match self.permissions.as_str() {
            "r-xp" => true,
            "r--p" => self.offset == 0,
            _ => false,
        };
        is_untouched && self.inode != 0
    }
}

#[cfg(test)]
mod tests {
    use super::Mapping;

    const CODE: &str = "55f0c0e2f000-55f0c3827000 r-xp 00dac000 fd:00 5646377     /usr/bin/seaworthy";

    #[test]
    fn line_of_the_kernel_is_read() {
        let mapping = Mapping::parse(CODE).unwrap();
        assert_eq!(mapping.start, 0x55f0_c0e2_f000);
        assert_eq!(mapping.length, 0x29f_8000);
        assert_eq!((mapping.permissions.as_str(), mapping.inode), ("r-xp", 5_646_377));
        assert_eq!(mapping.offset, 0xdac_000);
        assert!(mapping.is_as_the_file_has_it());
    }

    #[test]
    fn only_what_nobody_can_have_changed_counts() {
        for other in [
            CODE.replace("r-xp", "r--p"),
            CODE.replace("r-xp", "rwxp"),
            CODE.replace("r-xp", "r-xs"),
            "7ffd4e5f9000-7ffd4e5fb000 r-xp 00000000 00:00 0     [vdso]".to_owned(),
        ] {
            assert!(!Mapping::parse(&other).unwrap().is_as_the_file_has_it(), "{other}");
        }
        let first = CODE.replace("r-xp", "r--p").replace("00dac000", "00000000");
        assert!(Mapping::parse(&first).unwrap().is_as_the_file_has_it());
    }

    #[test]
    fn what_is_no_line_is_passed_over() {
        for line in ["", "x", "1-2", "2-1 r-xp 0 0:0 1", "1-2 r-xp 0 0:0 many"] {
            assert_eq!(Mapping::parse(line), None, "{line}");
        }
    }
}
