//! The figures of critical sections with many cores, SIMULATED, beside what the thesis reports.
//!
//! ```text
//! cargo run --release --example critical_figures -- OUT_DIR
//! ```
//!
//! prints the machines, the thesis' claims as numbers, from which number of clients on a server or a combiner beats a
//! lock, and tables in the shape of figures 6.4 to 6.8 and 7.5 to 7.11. It also writes these into `OUT_DIR`, each as
//! CSV and SVG. Without `OUT_DIR`, only the tables are printed.
//!
//! "Thesis", or T, is Petrović's; the costs of lines are those of Ramos and Hoefler, C.

mod chapter_6;
mod chapter_7;
mod claims;
mod draw;
mod figure;
mod machines;
#[path = "../support/picture.rs"]
mod picture;
mod turning_points;

use std::{env, fs, path::Path};

use figure::{Figure, Result};

fn main() -> Result<()> {
    println!("SIMULATED: the library's algorithms on simulated memory, in virtual time.\n");
    println!("{}", machines::table()?);
    println!("{}", claims::table()?);
    println!("{}", turning_points::table()?);
    let folder = env::args_os().nth(1);
    if let Some(folder) = &folder {
        fs::create_dir_all(folder)?;
    }
    let mut show = |figure: Figure| {
        println!("{}", figure.table());
        let Some(folder) = &folder else { return Ok(()) };
        let file = Path::new(folder).join(figure.name);
        fs::write(file.with_extension("csv"), figure.csv())?;
        fs::write(file.with_extension("svg"), figure.svg()?)?;
        Ok(())
    };
    chapter_6::figures(&mut show)?;
    chapter_7::figures(&mut show)
}
