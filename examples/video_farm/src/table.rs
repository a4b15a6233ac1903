//! Tables I and II of the paper as text.

use comfy_table::{CellAlignment, Table, presets};

use crate::farm::Mode;
use crate::report::Report;

/// The rows of a report in the tables of the paper, and what is to be known about them.
pub fn tables(report: &Report) -> String {
    let mut text = format!(
        "Table I: communication threads (KTs) beside the workers\n\n{}\n\n\
         Table II: KTs for the emitter as well\n\n{}",
        table(report, &Mode::TABLE_I),
        table(report, &Mode::TABLE_II)
    );
    for remark in &report.remarks {
        text += &format!("\n\n{remark}");
    }
    text
}

/// The rows of some modes, grouped by the number of workers.
fn table(report: &Report, modes: &[Mode]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "N",
        "mode",
        "T_S µs",
        "lowest – highest",
        "S",
        "beside sh-mem",
        "KTs",
        "gain of KTs",
    ]);
    let mut previous = None;
    for row in report.rows.iter().filter(|row| modes.contains(&row.mode)) {
        let time = row.service_time_us;
        let or_dash = |value: Option<f64>| value.map_or("–".to_owned(), |v| format!("{v:.2}"));
        let first = previous != Some(row.workers);
        previous = Some(row.workers);
        table.add_row([
            if first { row.workers.to_string() } else { String::new() },
            row.name(),
            format!("{:.1}", time.median),
            format!("{:.1} – {:.1}", time.lowest, time.highest),
            or_dash(row.scalability),
            or_dash(row.beside_sh_mem),
            match row.kts {
                0 if row.mode.has_kts() => "inline".to_owned(),
                0 => "–".to_owned(),
                kts => kts.to_string(),
            },
            row.gain_of_kts.map_or("–".to_owned(), |gain| format!("{:+.1}%", 100.0 * gain)),
        ]);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::farm::{Mode, Ranks, Schedule};
    use crate::frame::Size;
    use crate::report::{Row, Spread};

    #[test]
    fn rows_are_grouped_by_workers() {
        let row = |workers, mode, time: f64, kts, gain_of_kts| Row {
            mode,
            ranks: Ranks::Threads,
            workers,
            service_time_us: Spread { median: time, lowest: time - 1.0, highest: time + 1.0 },
            scalability: (workers == 1).then_some(1.0),
            beside_sh_mem: (mode != Mode::KtW).then_some(1.01),
            kts,
            gain_of_kts,
        };
        let report = Report {
            input: "clip".to_owned(),
            size: Size::new(4, 4).unwrap(),
            frames: 10,
            schedule: Schedule::RoundRobin,
            degree: 2,
            cores: 2,
            vectors: "avx2".to_owned(),
            preloaded: true,
            rounds: 3,
            rows: vec![
                row(1, Mode::ShMem, 113.0, 0, None),
                row(1, Mode::KtW, 114.25, 1, Some(0.0518)),
                row(1, Mode::KtSpecialized, 120.0, 3, Some(-0.031)),
                row(1, Mode::KtGeneralized, 121.0, 0, None),
                row(2, Mode::ShMem, 57.0, 0, None),
            ],
            remarks: vec!["something to know".to_owned()],
            overlap: None,
        };
        let text = tables(&report);
        assert!(text.ends_with("\n\nsomething to know"));
        let cells = |line: &str| -> Vec<String> {
            line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
        };
        let tables: Vec<Vec<Vec<String>>> = text
            .split("Table ")
            .skip(1)
            .map(|table| table.lines().filter(|l| l.starts_with('|')).map(cells).collect())
            .collect();
        assert_eq!((tables.len(), tables[0].len(), tables[1].len()), (2, 5, 6));
        let sh_mem = ["1", "sh-mem, threads", "113.0", "112.0 – 114.0", "1.00", "1.01", "–", "–"];
        assert_eq!(tables[0][2], sh_mem);
        assert_eq!(tables[1][2], sh_mem);
        assert_eq!(
            tables[0][3],
            ["", "kt-w, threads", "114.2", "113.2 – 115.2", "1.00", "–", "1", "+5.2%"]
        );
        assert_eq!(tables[1][3][6..], ["3", "-3.1%"]);
        assert_eq!(tables[1][4][6..], ["inline", "–"]);
        assert_eq!(
            tables[0][4],
            ["2", "sh-mem, threads", "57.0", "56.0 – 58.0", "–", "1.01", "–", "–"]
        );
    }
}
