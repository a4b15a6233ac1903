//! Worlds from start to end, as threads and as processes.

use mp_core::{Channel, Error, World};

#[test]
fn smoke_processes() {
    let r = World::processes(3)
        .run(|rank| {
            println!("hello from {}", rank.id());
            if rank.id() == 0 {
                let mut s = rank.sender::<u64>("x", 1, Channel::degree(2))?;
                for i in 0..1000 {
                    s.send(&i)?;
                }
                Ok(0)
            } else if rank.id() == 1 {
                let r = rank.receiver::<u64>("x", 0, Channel::degree(2))?;
                Ok(r.iter().map(|m| *m).sum::<u64>())
            } else {
                Ok(7)
            }
        })
        .unwrap();
    assert_eq!(r, [0, 499500, 7]);
}

#[test]
fn smoke_panic() {
    let r = World::processes(3).run(|rank| {
        if rank.id() == 0 {
            panic!("so be it");
        }
        if rank.id() == 2 {
            return Ok(());
        }
        let r = rank.receiver::<u64>("x", 0, Channel::degree(2))?;
        match r.receive() {
            Err(Error::PeerLost { rank: 0, .. }) => Ok(()),
            other => panic!("{other:?}"),
        }
    });
    let e = r.unwrap_err();
    assert_eq!(e.to_string(), "rank 0 panicked: so be it");
}
