use super::*;
use crate::scc::Parameters;
use mp_core::mpb::{Interrupts, Line, MpbAccess};

const COSTS: Parameters = Parameters::TABLE_4_1;

fn at(rank: usize, line: usize) -> Line {
    Line { rank, line }
}

/// Returns the time of an operation that only core `rank` executes.
fn alone(rank: usize, operation: impl AsyncFn(&mut Core)) -> Time {
    let run = run(Machine::scc(), async |core| {
        if core.rank() == rank {
            operation(core).await;
        }
    })
    .unwrap();
    run.finished[rank]
}

#[test]
fn one_alone_pays_what_the_formulas_say() {
    let scc = Machine::scc();
    let mut distances = std::collections::BTreeSet::new();
    for (core, other) in (0..48).map(|other| (0, other)).chain([(17, 30), (36, 11), (47, 0)]) {
        let (hops, memory) = (scc.hops(core, other), scc.memory_hops(core));
        distances.insert(hops);
        for lines in [0, 1, 2, 96, 128] {
            let count = lines as u64;
            let bytes = lines * 32;
            for (operation, took, formula) in [
                (
                    "put",
                    alone(core, async |c| c.put(&vec![1; bytes], at(other, 3)).await.unwrap()),
                    COSTS.put_from_mem(count, memory, hops),
                ),
                (
                    "put_own",
                    alone(core, async |c| c.put_own(5, lines, at(other, 3)).await.unwrap()),
                    COSTS.put_from_mpb(count, hops),
                ),
                (
                    "get",
                    alone(core, async |c| c.get(at(other, 3), &mut vec![0; bytes]).await.unwrap()),
                    COSTS.get_to_mem(count, hops, memory),
                ),
                (
                    "get_own",
                    alone(core, async |c| c.get_own(at(other, 3), lines, 5).await.unwrap()),
                    COSTS.get_to_mpb(count, hops),
                ),
            ] {
                assert_eq!(took, formula, "{operation} of {lines} lines, {core} and {other}");
            }
        }
        let took = alone(core, async |c| c.set_flag(at(other, 3), 1).await.unwrap());
        assert_eq!(took, COSTS.put_from_mpb(1, hops));
    }
    assert_eq!(distances, (1..=9).collect());
    let took = alone(7, async |core| assert_eq!(core.flag(255).await, Ok(0)));
    assert_eq!(took, COSTS.read_flag());
}

#[test]
fn a_payload_comes_with_its_flag_at_the_price_of_the_flag() {
    let flagged = |payload: &'static [u8]| {
        let run = run(Machine::scc(), async |core| {
            let mut got = [0; 24];
            match core.rank() {
                0 => core.set_flag_with(at(47, 9), 3, payload).await?,
                47 => {
                    core.wait_flag_from(0, 9, |value| value == 3).await?;
                    core.flag_payload(9, &mut got).await?;
                }
                _ => {}
            }
            Ok::<_, Misfit>(got)
        })
        .unwrap();
        (run.outputs[47], run.finished[0], run.finished[47])
    };
    let (none, set, seen) = flagged(&[]);
    assert_eq!((none, set), (Ok([0; 24]), COSTS.put_from_mpb(1, 9)));
    assert_eq!(flagged(&[7; 24]), (Ok([7; 24]), set, seen));
    let waited = run(Machine::scc(), async |core| match core.rank() {
        0 => core.set_flag(at(47, 9), 3).await.unwrap(),
        47 => drop(core.wait_flag(9, |value| value == 3).await.unwrap()),
        _ => {}
    })
    .unwrap();
    let memory_hops = Machine::scc().memory_hops(47);
    assert_eq!(seen - waited.finished[47], COSTS.mem_write(memory_hops));
    // The payload is too long for a line of 32 bytes.
    alone(0, async |core| {
        let misfit = Misfit::Payload { bytes: 25, most: 24 };
        assert_eq!(core.set_flag_with(at(1, 0), 1, &[0; 25]).await, Err(misfit));
        assert_eq!(core.flag_payload(0, &mut [0; 25]).await, Err(misfit));
        let beyond = Misfit::Lines { first: 256, count: 1, lines: 256 };
        assert_eq!(core.set_flag_with(at(1, 256), 1, &[0; 25]).await, Err(beyond));
        assert_eq!(core.flag_payload(256, &mut [0; 25]).await, Err(beyond));
    });
}

#[test]
fn a_length_in_bytes_pays_for_its_lines() {
    for (bytes, lines) in [(1, 1), (31, 1), (32, 1), (33, 2)] {
        let took = alone(0, async |core| core.put(&vec![1; bytes], at(0, 0)).await.unwrap());
        assert_eq!(took, COSTS.put_from_mem(lines, 1, 1));
    }
}

#[test]
fn a_flag_is_seen_by_the_first_look_after_it_has_arrived() {
    // Core 47, alone, reads at 131 ns and every 136 ns after that. The answer takes 5 ns more.
    for delay in [0, 1, 50, 135, 136, 1_000] {
        let run = run(Machine::scc(), async |core| match core.rank() {
            0 => {
                core.spend(Time::from_nanos(delay));
                core.set_flag(at(47, 9), 3).await.unwrap();
            }
            47 => assert_eq!(core.wait_flag(9, |value| value >= 2).await, Ok(3)),
            _ => {}
        })
        .unwrap();
        let arrived = Time::from_nanos(delay) + COSTS.put_from_mpb_latency(1, 9);
        let seen = run.finished[47] - Time::from_nanos(5);
        assert!(seen >= arrived && seen - arrived < COSTS.mpb_read(1), "{seen}, {arrived}");
        assert_eq!((seen - Time::from_nanos(131)).as_picos() % 136_000, 0);
    }
}

#[test]
fn a_flag_shows_what_was_put_before_it() {
    let run = run(Machine::scc(), async |core| {
        let mut got = [0; 100];
        match core.rank() {
            3 => {
                core.put(&[7; 100], at(3, 10)).await?;
                core.set_flag(at(20, 0), 1).await?;
            }
            20 => {
                core.wait_flag(0, |value| value == 1).await?;
                core.get_own(at(3, 10), 4, 50).await?;
                core.put_own(50, 4, at(30, 60)).await?;
                core.set_flag(at(30, 1), 1).await?;
            }
            30 => {
                core.wait_flag(1, |value| value == 1).await?;
                core.get(at(30, 60), &mut got).await?;
            }
            _ => {}
        }
        Ok::<_, Misfit>(got)
    })
    .unwrap();
    assert_eq!(run.outputs[30], Ok([7; 100]));
    assert_eq!(run.outputs[0], Ok([0; 100]));
}

#[test]
fn what_is_read_before_its_flag_can_be_torn() {
    // The reader starts while the put is under way, and lines move one by one.
    let run = run(Machine::scc(), async |core| {
        let mut got = [0; 64 * 32];
        match core.rank() {
            0 => core.put(&[1; 64 * 32], at(0, 0)).await.unwrap(),
            1 => core.get(at(0, 0), &mut got).await.unwrap(),
            _ => {}
        }
        got.iter().map(|&byte| usize::from(byte)).sum::<usize>()
    })
    .unwrap();
    assert!((1..64 * 32).contains(&run.outputs[1]), "{}", run.outputs[1]);
}

#[test]
fn places_that_do_not_exist() {
    let run = run(Machine::scc(), async |core| {
        if core.rank() > 0 {
            return;
        }
        let far = Misfit::Rank { rank: 48, ranks: 48 };
        let beyond = |first, count| Misfit::Lines { first, count, lines: 256 };
        assert_eq!(core.put(&[0; 32], at(48, 0)).await, Err(far));
        assert_eq!(core.get(at(48, 0), &mut [0; 32]).await, Err(far));
        assert_eq!(core.put_own(0, 1, at(48, 0)).await, Err(far));
        assert_eq!(core.get_own(at(48, 0), 1, 0).await, Err(far));
        assert_eq!(core.set_flag(at(48, 0), 1).await, Err(far));
        assert_eq!(core.put(&[0; 33], at(1, 255)).await, Err(beyond(255, 2)));
        assert_eq!(core.get(at(1, 255), &mut [0; 33]).await, Err(beyond(255, 2)));
        assert_eq!(core.put_own(255, 2, at(1, 0)).await, Err(beyond(255, 2)));
        assert_eq!(core.put_own(0, 2, at(1, 255)).await, Err(beyond(255, 2)));
        assert_eq!(core.get_own(at(1, 255), 2, 0).await, Err(beyond(255, 2)));
        assert_eq!(core.get_own(at(1, 0), 2, usize::MAX).await, Err(beyond(usize::MAX, 2)));
        assert_eq!(core.set_flag(at(1, 256), 1).await, Err(beyond(256, 1)));
        assert_eq!(core.flag(256).await, Err(beyond(256, 1)));
        assert_eq!(core.wait_flag(256, |_| true).await, Err(beyond(256, 1)));
        assert_eq!(core.now(), Time::ZERO);
        core.put(&[0; 32], at(1, 255)).await.unwrap();
    });
    run.unwrap();
}

#[test]
fn a_deadlock_names_who_waits() {
    let stuck = run(Machine::scc(), async |core| match core.rank() {
        rank @ (5 | 9) => core.wait_flag(rank + 1, |value| value == 2).await.map(|_| ()),
        // This is not the value that core 5 waits for.
        6 => core.set_flag(at(5, 6), 1).await,
        _ => Ok(()),
    });
    let error = stuck.unwrap_err();
    assert_eq!(error, SimError::Deadlock { waiting: vec![(5, 6), (9, 10)], asleep: vec![] });
    let said = "deadlock: core 5 waits for its line 6, core 9 waits for its line 10";
    assert_eq!(error.to_string(), said);
}

#[test]
fn foreign_futures_and_machines_are_errors() {
    let foreign = run(Machine::scc(), async |core| {
        if core.rank() == 2 {
            std::future::pending::<()>().await;
        }
    });
    assert_eq!(foreign.unwrap_err(), SimError::Foreign { core: 2 });
    let machine = Machine { line_bytes: 4, ..Machine::scc() };
    let short = run(machine, async |_| {});
    assert_eq!(short.unwrap_err(), MachineError::LineTooShort { line_bytes: 4 }.into());
}

#[test]
fn without_ports_there_is_no_contention() {
    let machine = Machine { port: Port::UNLIMITED, ..Machine::scc() };
    let run = run(machine.clone(), async |core| {
        core.get(at(0, 0), &mut [0; 128 * 32]).await.unwrap();
    })
    .unwrap();
    for (core, &finished) in run.finished.iter().enumerate() {
        let formula = COSTS.get_to_mem(128, machine.hops(core, 0), machine.memory_hops(core));
        assert_eq!(finished, formula);
    }
}

#[test]
fn the_mesh_is_no_bottleneck() {
    // Section 4.1.3: core (2,2) gets from (3,2) equally fast while all other cores send packets along the same way.
    let machine = Machine::scc();
    let run = run(machine, async |core| {
        let (x, y) = (core.rank() / 2 % 6, core.rank() / 12);
        match (x, y) {
            (2, 2) if core.rank() == 28 => core.get_own(at(30, 0), 128, 0).await.unwrap(),
            // The packets of these cores take the same way, to and from other MPBs.
            (0 | 1 | 4 | 5, _) => {
                let target = (2 * 6 + 5 - x) * 2;
                core.get_own(at(target, 0), 128, 128).await.unwrap();
            }
            _ => {}
        }
    })
    .unwrap();
    assert_eq!(run.finished[28], COSTS.get_to_mpb(128, 2));
}

#[test]
fn a_run_is_the_same_every_time() {
    let once = || {
        run(Machine::scc(), async |core| {
            for round in 1..=20 {
                let next = (core.rank() * 7 + 5) % core.ranks();
                core.put_own(100, round, at(next, 10)).await.unwrap();
                core.set_flag(at((core.rank() + 1) % core.ranks(), 0), round as u64).await.unwrap();
                core.wait_flag(0, |value| value >= round as u64).await.unwrap();
            }
        })
        .unwrap()
    };
    assert_eq!(once(), once());
}

#[test]
fn a_thousand_cores() {
    let sharing = |cores, hops| Sharing { cores, hops };
    let machine = Machine {
        layout: Layout::Caches {
            levels: vec![sharing(8, 1), sharing(64, 5), sharing(1024, 30)],
            memory_hops: 10,
        },
        line_bytes: 64,
        // The buffer of each round may be in the same memory as the one before, so there is no cache.
        cache_bytes: 0,
        ..Machine::scc()
    };
    let run = run(machine, async |core| {
        let next = (core.rank() + 1) % core.ranks();
        for round in 1..=4_u64 {
            core.put(&[round as u8; 64 * 64], at(core.rank(), 1)).await?;
            core.set_flag(at(next, 0), round).await?;
            core.wait_flag(0, |value| value == round).await?;
        }
        Ok::<_, Misfit>(())
    })
    .unwrap();
    assert_eq!(run.outputs, vec![Ok(()); 1024]);
    let least = 4 * (COSTS.put_from_mem(64, 10, 1) + COSTS.put_from_mpb_latency(1, 1));
    assert!(run.end() > least && run.end() < 2 * least, "{}", run.end());
}

/// Returns when each of cores 0 to n − 1 has taken the interrupt that core 0 sends to them.
fn interrupted(cores: usize, costs: InterruptCosts) -> Vec<Time> {
    let machine = Machine { interrupts: costs, ..Machine::scc() };
    let run = run(machine, async |core| {
        if core.rank() == 0 {
            core.interrupt(0..cores).await.unwrap();
        }
        if core.rank() < cores {
            let mut sources = Vec::new();
            core.wait_interrupt().await.unwrap();
            core.take_interrupts(&mut sources).await.unwrap();
            assert_eq!(sources, [0]);
        }
    });
    run.unwrap().finished
}

#[test]
fn figure_3_3_interrupts() {
    // At 533 MHz, rounded down.
    let cycles = |time: &Time| time.as_picos() * 533 / 1_000_000;
    // Without the registers, all cores have it after about 2,000 cycles.
    let free = InterruptCosts { access: Time::ZERO, ..InterruptCosts::SCC };
    assert!(interrupted(48, free).iter().map(cycles).all(|took| (1_990..2_010).contains(&took)));
    // With them it takes up to 6,000 cycles with 48 cores, and hardly more than without with 20.
    let all = interrupted(48, InterruptCosts::SCC);
    let (first, last) = (all.iter().min().unwrap(), all.iter().max().unwrap());
    assert!((2_000..2_300).contains(&cycles(first)), "{first}");
    assert!((5_600..6_300).contains(&cycles(last)), "{last}");
    let few = interrupted(20, InterruptCosts::SCC);
    assert!(few[..20].iter().map(cycles).all(|took| (2_000..2_400).contains(&took)), "{few:?}");
}

#[test]
fn interrupts_of_one_source_that_nobody_takes_are_one() {
    let run = run(Machine::scc(), async |core| {
        let mut sources = Vec::new();
        match core.rank() {
            0 | 3 => {
                core.interrupt([1].into_iter()).await.unwrap();
                core.interrupt([1].into_iter()).await.unwrap();
            }
            1 => {
                core.take_interrupts(&mut sources).await.unwrap();
                assert_eq!((core.now(), sources.len()), (Time::ZERO, 0));
                core.spend(Time::from_nanos(100_000));
                // An interrupt arrives before the flag is read a second time.
                let seen = core.wait_flag_or_interrupt(7, |value| value > 0).await;
                assert_eq!(seen, Ok(None));
                core.take_interrupts(&mut sources).await.unwrap();
                let seen = core.wait_flag_or_interrupt(7, |value| value > 0).await;
                assert_eq!(seen, Ok(Some(4)));
            }
            2 => {
                core.spend(Time::from_nanos(200_000));
                core.set_flag(at(1, 7), 4).await.unwrap();
            }
            _ => {}
        }
        sources
    });
    assert_eq!(run.unwrap().outputs[1], [0, 3]);
}

#[test]
fn an_interrupt_ends_the_wait_for_a_flag() {
    let sent = Time::from_nanos(50_000);
    let run = run(Machine::scc(), async |core| match core.rank() {
        0 => {
            core.spend(sent);
            core.interrupt([1].into_iter()).await.unwrap();
            core.spend(Time::from_nanos(50_000));
            core.set_flag(at(1, 7), 4).await.unwrap();
        }
        1 => {
            assert_eq!(core.wait_flag_or_interrupt(7, |value| value > 0).await, Ok(None));
            assert_eq!(core.now(), sent + InterruptCosts::SCC.delivery);
            core.take_interrupts(&mut Vec::new()).await.unwrap();
            assert_eq!(core.wait_flag_or_interrupt(7, |value| value > 0).await, Ok(Some(4)));
        }
        2 => {
            let far = Err(Misfit::Rank { rank: 48, ranks: 48 });
            assert_eq!(core.interrupt([1, 48].into_iter()).await, far);
        }
        _ => {}
    });
    run.unwrap();
}

#[test]
fn a_deadlock_names_who_waits_for_interrupts() {
    let stuck = run(Machine::scc(), async |core| match core.rank() {
        3 => core.wait_interrupt().await,
        4 => core.wait_flag_or_interrupt(1, |value| value > 0).await.map(|_| ()),
        _ => Ok(()),
    });
    let error = stuck.unwrap_err();
    assert_eq!(error, SimError::Deadlock { waiting: vec![(4, 1)], asleep: vec![3] });
    let said = "deadlock: core 4 waits for its line 1, core 3 waits for an interrupt";
    assert_eq!(error.to_string(), said);
}
