//! A pipeline: the first rank reads lines, the ranks between each change them, the last one collects them.
//!
//! ```text
//! cargo run --example pipeline                four threads
//! cargo run --example pipeline processes      four processes
//! ```

use onchip::prelude::*;

fn main() -> onchip::Result<()> {
    let world = match std::env::args().nth(1).as_deref() {
        Some("processes") => World::processes(4),
        _ => World::threads(4),
    };
    let results = world.run(|rank| {
        let (me, last) = (rank.id(), rank.size() - 1);
        // Up to 8 lines wait between two stages. A stage that is faster waits for the other one.
        let channel = Channel::degree(8).max_len(200);
        let mut out = match me < last {
            true => Some(rank.sender::<[u8]>("lines", me + 1, channel)?),
            false => None,
        };
        let mut collected = Vec::new();
        let mut pass_on = |line: &[u8]| -> onchip::Result<()> {
            match &mut out {
                Some(out) => out.send(line)?,
                None => collected.push(String::from_utf8_lossy(line).into_owned()),
            }
            Ok(())
        };

        if me == 0 {
            for number in 1..=1000 {
                pass_on(format!("line {number}").as_bytes())?;
            }
        } else {
            // Ends when the stage before has dropped its sender.
            for line in &rank.receiver::<[u8]>("lines", me - 1, channel)? {
                let mut line = line?.to_vec();
                match me {
                    1 => line.reverse(),
                    2 => line.make_ascii_uppercase(),
                    _ => {}
                }
                pass_on(&line)?;
            }
        }
        Ok(collected)
    })?;

    let lines = &results[results.len() - 1];
    assert_eq!((lines.len(), lines[41].as_str()), (1000, "24 ENIL"));
    println!("{} lines, the 42nd is {:?}", lines.len(), lines[41]);
    Ok(())
}
