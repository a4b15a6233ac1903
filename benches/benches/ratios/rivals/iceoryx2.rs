//! iceoryx2, publish and subscribe without a copy: two pinned processes lend each other memory and poll for it. The
//! process that answers is this program, started again.

#![allow(unsafe_code, reason = "the derive that iceoryx2 asks for writes an unsafe impl")]

use std::mem::MaybeUninit;
use std::process::{Command, Stdio};

use ::iceoryx2::port::publisher::Publisher;
use ::iceoryx2::port::subscriber::Subscriber;
use ::iceoryx2::prelude::{LogLevel, Node, NodeBuilder, ZeroCopySend, ipc, set_log_level};
use onchip_benches::cpus;

use crate::plan::PingPong;
use crate::rivals::{Checked, failed};
use crate::row::{Side, Trouble};
use crate::stats::median;

/// The word after `--child` that makes this program the answering process.
pub const ECHO: &str = "iceoryx2-echo";

/// A message whose first word is its number. The other words are not touched.
#[repr(C)]
#[derive(Debug, ZeroCopySend)]
struct Message<const REST: usize> {
    sequence: u64,
    rest: MaybeUninit<[u64; REST]>,
}

/// The sizes that rows use.
#[derive(Clone, Copy, PartialEq)]
pub enum Size {
    Bytes8,
    KiB4,
    MiB1,
}

impl Size {
    const ALL: [Size; 3] = [Size::Bytes8, Size::KiB4, Size::MiB1];

    fn name(self) -> &'static str {
        match self {
            Size::Bytes8 => "8B",
            Size::KiB4 => "4KiB",
            Size::MiB1 => "1MiB",
        }
    }
}

pub fn pingpong(plan: PingPong, size: Size) -> Side {
    Side::new("iceoryx2", "spin", move |setup| {
        let [first, second] = setup.cpus;
        let take = match size {
            Size::Bytes8 => measure::<0>,
            Size::KiB4 => measure::<511>,
            Size::MiB1 => measure::<131_071>,
        };
        cpus::confined(&[first], || take(plan, size, second)).map(Into::into)
    })
}

/// A publisher of one direction, and a subscriber of the other.
struct Port<const REST: usize> {
    out: Publisher<ipc::Service, Message<REST>, ()>,
    back: Subscriber<ipc::Service, Message<REST>, ()>,
    // Ports must not outlive their node.
    _node: Node<ipc::Service>,
}

impl<const REST: usize> Port<REST> {
    fn open(out: &str, back: &str) -> Result<Port<REST>, Trouble> {
        set_log_level(LogLevel::Error);
        let node = NodeBuilder::new().create::<ipc::Service>().map_err(failed)?;
        let service = |name: &str| {
            node.service_builder(&name.try_into().map_err(failed)?)
                .publish_subscribe::<Message<REST>>()
                .open_or_create()
                .map_err(failed)
        };
        let back = service(back)?.subscriber_builder().create().map_err(failed)?;
        let out = service(out)?.publisher_builder().create().map_err(failed)?;
        Ok(Port { out, back, _node: node })
    }

    fn send(&self, sequence: u64) -> Result<(), Trouble> {
        let loan = self.out.loan_uninit().map_err(failed)?;
        let sample = loan.write_payload(Message { sequence, rest: MaybeUninit::uninit() });
        sample.send().map(|_| ()).map_err(failed)
    }

    fn receive(&self) -> Result<u64, Trouble> {
        loop {
            if let Some(sample) = self.back.receive().map_err(failed)? {
                return Ok(sample.sequence);
            }
        }
    }
}

/// The first message of the answering process, which says that it is ready.
const HELLO: u64 = u64::MAX / 2;

fn names(of: &str) -> (String, String) {
    (format!("onchip-ratios/{of}/there"), format!("onchip-ratios/{of}/back"))
}

/// Asks from the CPU of the caller. The answering process runs on `echo_cpu`.
fn measure<const REST: usize>(plan: PingPong, size: Size, echo_cpu: usize) -> Result<f64, Trouble> {
    let id = std::process::id().to_string();
    let (there, back) = names(&id);
    let port = Port::<REST>::open(&there, &back)?;
    let mut echo = Command::new(std::env::current_exe().map_err(failed)?)
        .args(["--child", ECHO, &id, size.name()])
        .args([plan.all_trips().to_string(), echo_cpu.to_string()])
        .stdin(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let measured = ask(&port, plan);
    if measured.is_err() {
        // The process may wait for messages that will not come.
        let _ = echo.kill();
    }
    let status = echo.wait().map_err(failed)?;
    let measured = measured?;
    if !status.success() {
        return Err(failed(format!("the answering process ended with {status}")));
    }
    Ok(measured)
}

fn ask<const REST: usize>(port: &Port<REST>, plan: PingPong) -> Result<f64, Trouble> {
    if port.receive()? != HELLO {
        return Err(failed("the answering process did not say hello"));
    }
    let mut checked = Checked::default();
    let mut sequence = 0;
    let took = plan.timed(|| {
        sequence += 1;
        port.send(sequence)?;
        checked.equal(port.receive()?, !sequence);
        Ok(())
    })?;
    checked.finish().map(|()| median(&took))
}

/// Runs the answering process. `arguments` are those after [`ECHO`].
pub fn echo(arguments: &[String]) -> Result<(), Trouble> {
    let [id, size, trips, cpu] = arguments else {
        return Err(failed("expected an id, a size, a number of trips and a CPU"));
    };
    let trips = trips.parse().map_err(failed)?;
    cpus::confine(&[cpu.parse().map_err(failed)?]).map_err(failed)?;
    match Size::ALL.into_iter().find(|known| known.name() == size) {
        Some(Size::Bytes8) => answer::<0>(id, trips),
        Some(Size::KiB4) => answer::<511>(id, trips),
        Some(Size::MiB1) => answer::<131_071>(id, trips),
        None => Err(failed(format!("unknown size {size}"))),
    }
}

fn answer<const REST: usize>(id: &str, trips: u64) -> Result<(), Trouble> {
    let (there, back) = names(id);
    let port = Port::<REST>::open(&back, &there)?;
    port.send(HELLO)?;
    for _ in 0..trips {
        let sequence = port.receive()?;
        port.send(!sequence)?;
    }
    // The last answer must be taken before this process closes its end of the service.
    std::thread::sleep(std::time::Duration::from_millis(20));
    Ok(())
}
