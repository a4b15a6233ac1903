//! Two-sided messages and the broadcasts on them, on simulated machines of all sizes.

use mp_core::mpb::MpbAccess;
use mp_model::Time;
use onchip_research::sim::{Core, Layout, Machine, Misfit, run};
use onchip_research::two_sided::{NoRoom, TwoSided, binomial, scatter_allgather};

const CHUNK_LINES: usize = 3;
const CHUNK: usize = 3 * 16;

fn machine(cores: usize) -> Machine {
    Machine {
        layout: Layout::shared(cores),
        lines: 7 + 2 * cores + CHUNK_LINES,
        line_bytes: 16,
        ..Machine::scc()
    }
}

fn messages(core: &Core) -> TwoSided {
    TwoSided::new(core, 7, CHUNK_LINES).unwrap()
}

fn bytes(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 7 + index / 256 + seed * 31 + 1) as u8).collect()
}

#[test]
fn everyone_has_the_message() {
    for cores in (1..=12).chain([16, 33, 48]) {
        let run = run(machine(cores), async |core| {
            let mut two_sided = messages(core);
            let rank = core.rank();
            for root in 0..cores {
                for length in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, cores * 16, 10 * CHUNK + 3] {
                    core.spend(Time::from_nanos((rank * 977 + length * 31 + root) as u64 % 9_000));
                    let message = bytes(length, root);
                    let start = |rank| if rank == root { message.clone() } else { vec![0; length] };
                    let mut got = start(rank);
                    binomial(&mut two_sided, core, &mut got, root).await.unwrap();
                    let binomial_right = got == message;
                    got = start(rank);
                    scatter_allgather(&mut two_sided, core, &mut got, root).await.unwrap();
                    if !binomial_right || got != message {
                        return Err((rank, root, length, binomial_right));
                    }
                }
            }
            Ok(())
        });
        let wrong: Vec<_> = run.unwrap().outputs.into_iter().filter_map(Result::err).collect();
        assert!(wrong.is_empty(), "{cores} ranks: {wrong:?}");
    }
}

#[test]
fn a_send_returns_when_all_has_been_received() {
    let run = run(machine(2), async |core| {
        let mut two_sided = messages(core);
        if core.rank() == 0 {
            two_sided.send(core, &bytes(5 * CHUNK + 1, 3), 1).await?;
            return Ok((core.now(), vec![]));
        }
        core.spend(Time::from_nanos(100_000));
        let mut got = vec![0; 5 * CHUNK + 1];
        two_sided.receive(core, &mut got, 0).await?;
        Ok::<_, Misfit>((core.now(), got))
    });
    let [sender, receiver] = <[_; 2]>::try_from(run.unwrap().outputs).unwrap().map(Result::unwrap);
    assert_eq!(receiver.1, bytes(5 * CHUNK + 1, 3));
    assert!(sender.0 > Time::from_nanos(100_000));
}

#[test]
fn misfits_are_errors() {
    let run = run(machine(3), async |core| {
        let lines = core.lines();
        for (first_line, chunk_lines) in [(7, 4), (8, 3), (7, 0), (usize::MAX, 1), (0, usize::MAX)]
        {
            let none = NoRoom { flags: 6, chunk_lines, first_line, lines };
            assert_eq!(TwoSided::new(core, first_line, chunk_lines).map(|_| ()), Err(none));
        }
        let mut two_sided = messages(core);
        let missing = Err(Misfit::Rank { rank: 3, ranks: 3 });
        assert_eq!(two_sided.send(core, &[1], 3).await, missing);
        assert_eq!(two_sided.receive(core, &mut [1], 3).await, missing);
        assert_eq!(binomial(&mut two_sided, core, &mut [1], 3).await, missing);
        assert_eq!(scatter_allgather(&mut two_sided, core, &mut [1], 3).await, missing);
    });
    run.unwrap();
}
