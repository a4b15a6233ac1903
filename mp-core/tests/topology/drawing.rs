use crate::machines::*;
use mp_core::topology::{Bind, Plan, Topology};

fn draw(machine: &Machine, ranks: usize) -> String {
    let topology = machine.read();
    let plan = Plan::for_ranks(&topology, ranks, &Bind::Auto).unwrap();
    let drawing = topology.draw(Some(&plan)).to_string();
    drawing.replace(machine.root().to_str().unwrap(), "")
}
#[test]
fn show() {
    println!("{}", draw(&laptop(), 3));
    println!("{}", draw(&laptop(), 6));
    println!("{}", laptop().read().draw(None));
    println!("{}", draw(&two_socket_server(), 10));
    println!("{}", draw(&epyc(), 11));
    println!("{}", draw(&epyc(), 128));
    println!("{}", draw(&hybrid(), 9));
    println!("{}", draw(&one_offline(), 2));
    println!("{}", draw(&cpuset_of_two(), 2));
    println!("{}", draw(&quota_of_one_and_a_half(), 2));
    println!("{}", draw(&one_core(), 1));
    println!("{}", server(8, 1, 1, "1024K").read().draw(None));
    println!("{}", draw(&server(2, 1, 64, "32768K"), 40));
    println!("{}", Topology::read().unwrap().draw(None));
}
