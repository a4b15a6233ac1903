use crate::cla::*;
use crate::cla::barrier::*;

#[test]
fn look() {
    for n in [2, 3, 4, 5, 8, 10, 12, 16] {
        let m = Machine::sandy_bridge(n).unwrap();
        println!("{n} {:?} {} {:?}", best_ways(&m, n), best_barrier(&m).barrier, best_barrier(&m).predicted);
        for pattern in [Pattern::Broadcast{lines:1}, Pattern::Broadcast{lines:128}, Pattern::Reduction] {
            let c = best_tree(&m, 0, pattern).unwrap();
            println!("{pattern:?} {:?}\n{}", c.predicted, c.tree);
        }
    }
    for n in [2, 3, 4, 5, 8, 10, 16, 30, 60] {
        let m = Machine::xeon_phi(n).unwrap();
        println!("PHI {n} {:?} {:?} {} {:?}", best_ways(&m, n), best_mixed_ways(&m,n), best_barrier(&m).barrier, best_barrier(&m).predicted);
        for pattern in [Pattern::Broadcast{lines:1}, Pattern::Broadcast{lines:128}, Pattern::Reduction, Pattern::OneToMany, Pattern::ManyToOne] {
            let c = best_tree(&m, 0, pattern).unwrap();
            println!("{pattern:?} {:?} depth {} \n{}", c.predicted, c.tree.depth(), if n==16 || n==60 {c.tree.to_string()} else {"".into()});
        }
    }
}
