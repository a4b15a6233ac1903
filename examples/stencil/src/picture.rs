//! A matrix as something to look at.

use std::io::{self, Write};

use image::codecs::png::PngEncoder;
use image::{ExtendedColorType, ImageEncoder};
use onchip::communicator::share;

/// Returns the colour of a level, from the lowest value to the highest: black, red, yellow, white.
fn heat(level: f64) -> [u8; 3] {
    [0.0, 1.0, 2.0].map(|start| (255.0 * (3.0 * level - start).clamp(0.0, 1.0)).round() as u8)
}

/// Returns where a value lies between the lowest and the highest, from 0 to 1; 0 if all are alike.
fn levels(cells: &[f64]) -> impl Fn(f64) -> f64 {
    let lowest = cells.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = cells.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // This is computed by halves, because the whole range can be more than a double holds.
    let range = highest / 2.0 - lowest / 2.0;
    move |cell| if range > 0.0 { (cell / 2.0 - lowest / 2.0) / range } else { 0.0 }
}

/// Writes a heat map as a PNG file, with one pixel for each element.
///
/// # Errors
/// The errors of the encoder.
///
/// # Panics
/// If there are not `size` by `size` cells.
pub fn png(cells: &[f64], size: usize, to: impl Write) -> io::Result<()> {
    assert_eq!(cells.len(), size * size, "a square");
    let level = levels(cells);
    let pixels: Vec<[u8; 3]> = cells.iter().map(|&cell| heat(level(cell))).collect();
    let (side, colour) = (size as u32, ExtendedColorType::Rgb8);
    let written = PngEncoder::new(to).write_image(pixels.as_flattened(), side, side, colour);
    written.map_err(io::Error::other)
}

/// Draws a heat map in letters, of up to 64 columns. Every letter stands for the mean of what lies there.
///
/// # Panics
/// When there are not `size` by `size` cells, of which there is at least one.
pub fn letters(cells: &[f64], size: usize) -> String {
    const LEVELS: &[u8] = b" .:-=+*#%@";
    assert_eq!(cells.len(), size * size, "a square");
    let columns = size.min(64);
    // Letters are about twice as high as wide.
    let lines = columns.div_ceil(2);
    let mut means = Vec::with_capacity(lines * columns);
    for line in 0..lines {
        let rows = share(size, lines, line);
        for column in 0..columns {
            let columns = share(size, columns, column);
            let count = (rows.len() * columns.len()) as f64;
            let parts = rows.clone().map(|i| &cells[i * size..][columns.clone()]);
            means.push(parts.flatten().map(|cell| cell / count).sum::<f64>());
        }
    }
    let level = levels(&means);
    let letter = |&mean: &f64| {
        let step = (level(mean) * LEVELS.len() as f64) as usize;
        char::from(LEVELS[step.min(LEVELS.len() - 1)])
    };
    let lines = means.chunks_exact(columns).map(|line| line.iter().map(letter).collect::<String>());
    lines.map(|line| line.trim_end().to_owned() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_rise_from_black_to_white() {
        assert_eq!(heat(0.0), [0, 0, 0]);
        assert_eq!(heat(1.0 / 3.0), [255, 0, 0]);
        assert_eq!(heat(0.5), [255, 128, 0]);
        assert_eq!(heat(1.0), [255; 3]);
    }

    #[test]
    fn a_heat_map_has_a_pixel_for_each_element() {
        let mut file = Vec::new();
        png(&[-1.0, 1.0, 0.0, -1.0], 2, &mut file).unwrap();
        let picture = image::load_from_memory(&file).unwrap();
        let pixels = [[0, 0, 0], [255, 255, 255], [255, 128, 0], [0, 0, 0]];
        assert_eq!(picture.into_rgb8().into_raw(), pixels.as_flattened());
        assert!(png(&[7.0], 1, io::sink()).is_ok());
        assert!(png(&[f64::MAX, -f64::MAX, 0.0, 0.0], 2, io::sink()).is_ok());
    }

    #[test]
    fn letters_of_matrices_of_all_sizes() {
        assert_eq!(letters(&[3.0], 1), "\n");
        assert_eq!(letters(&[0.0, 9.0, 0.0, 9.0], 2), " @\n");
        for size in [3, 63, 64, 65, 200] {
            let cells: Vec<f64> = (0..size * size).map(|i| (i % size) as f64).collect();
            let text = letters(&cells, size);
            assert_eq!(text.lines().count(), size.min(64).div_ceil(2));
            assert!(text.lines().all(|line| line.len() == size.min(64) && line.ends_with('@')));
        }
    }
}
