//! Delegated sends.

use mp_core::{Channel, Result, World};
use mp_delegate::comm::{self, Choice, CommThreads};

#[test]
fn values() {
    for kts in 0..4 {
        for degree in [0u32, 1, 4, 1000] {
            let r = World::threads(2).run(|rank| {
                let c = Channel::degree(degree);
                if rank.id() == 0 {
                    let kt = CommThreads::start(kts)?;
                    let mut s = kt.delegate(rank.sender::<u64>("v", 1, c)?);
                    let mut reqs = Vec::new();
                    for i in 0..3000u64 {
                        reqs.push(s.send(i));
                        if i % 7 == 0 {
                            s.send_here(i)?;
                        }
                    }
                    for (i, r) in reqs.into_iter().enumerate() {
                        assert_eq!(r.wait()?, i as u64);
                    }
                } else {
                    let r = rank.receiver::<u64>("v", 0, c)?;
                    for i in 0..3000u64 {
                        assert_eq!(*r.receive()?, i);
                        if i % 7 == 0 {
                            assert_eq!(*r.receive()?, i);
                        }
                    }
                    assert!(r.receive().is_err());
                }
                Ok(())
            });
            r.unwrap();
        }
    }
}
#[test]
fn slices_and_buffers() -> Result<()> {
    World::threads(2).run(|rank| {
        let c = Channel::degree(3).max_len(100);
        if rank.id() == 0 {
            let kt = CommThreads::start(2)?;
            let mut s =
                kt.delegate_to(rank.sender::<[u64]>("v", 1, c)?, &[0, 1], Choice::LeastLoaded);
            let mut a = Vec::new();
            let mut b = Vec::new();
            for i in 0..300u64 {
                a.push(s.send(vec![i; i as usize % 101]));
                b.push(s.send_buffer(rank.buffer_from(&[i; 200])?));
            }
            let data = [5; 100];
            comm::scope(|sc| {
                let r = sc.send(&mut s, &data[..50]);
                sc.send(&mut s, &data[50..]);
                r.wait().map(|_| ())
            })?;
            for r in comm::wait_all(a) {
                r?;
            }
            for r in b {
                r.wait()?;
            }
        } else {
            let r = rank.receiver::<[u64]>("v", 0, c)?;
            for i in 0..300u64 {
                assert_eq!(*r.receive()?, vec![i; i as usize % 101]);
                assert_eq!(*r.receive()?, [i; 200]);
            }
            assert_eq!(*r.receive()?, [5; 50]);
            assert_eq!(*r.receive()?, [5; 50]);
            assert!(r.receive().is_err());
        }
        Ok(())
    })?;
    Ok(())
}
