//! Files that measurements write.

use std::path::Path;

/// Writes a file.
///
/// # Errors
/// The error says which file, and why not.
pub fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
