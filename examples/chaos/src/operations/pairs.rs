//! Channels between two ranks, of every degree and form.

use std::time::Duration;

use onchip::{Channel, Error, ErrorKind, Receiver, Result, Select, Sender};

use super::Work;

/// How messages are sent and received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Copied in, and read in place.
    Copied,
    /// Written in place; the guard of one is kept until the next is there.
    InPlace,
    /// Buffers that move.
    Moved,
    /// Calls with short time limits, repeated until they succeed.
    Timed,
    /// Copied in; received by a select.
    Selected,
    /// Copied in or moved in turn; received as buffers.
    Mixed,
}

const FORMS: [Form; 6] =
    [Form::Copied, Form::InPlace, Form::Moved, Form::Timed, Form::Selected, Form::Mixed];

/// Words of a single value.
const VALUE: usize = 6;

/// What all ranks know of the messages.
struct Traffic {
    channel: Channel,
    form: Form,
    held: bool,
    lengths: Vec<usize>,
}

pub(super) fn run(mut work: Work<'_>) -> Result<()> {
    let degree = work.random.pick(&[0, 1, 2, 3, 8, 64]);
    let form = work.random.pick(&FORMS);
    let longest = work.random.pick(&[1, 6, 7, 100, 3000]);
    let count = 1 + work.random.below(60);
    let lengths = (0..count).map(|_| work.random.index(longest + 1)).collect();
    let channel = Channel::degree(degree).max_len(longest);
    let traffic = Traffic { channel, form, held: degree > 1, lengths };
    match work.random.below(3) {
        0 => values(&work, degree, count),
        1 => around(&work, &traffic),
        _ => stream(&work, &traffic),
    }
}

/// Single values go from each rank to the next.
fn values(work: &Work<'_>, degree: u32, count: u64) -> Result<()> {
    let (me, ranks) = (work.me(), work.ranks());
    let (next, before) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
    let (name, channel) = (work.name("values"), Channel::degree(degree));
    work.call()?;
    let mut sender = work.rank.sender::<[u64; VALUE]>(&name, next, channel)?;
    work.call()?;
    let receiver = work.rank.receiver::<[u64; VALUE]>(&name, before, channel)?;
    for number in 0..count {
        let mut value = [0; VALUE];
        work.label(me, number).write(&mut value);
        // One rank must begin to receive, because with degree 0 all would wait for each other.
        if me != 0 {
            work.call()?;
            sender.send(&value)?;
        }
        work.call()?;
        let got = receiver.receive()?;
        work.label(before, number).check(&*got, VALUE)?;
        drop(got);
        if me == 0 {
            work.call()?;
            sender.send(&value)?;
        }
    }
    Ok(())
}

/// Slices go from each rank to the next.
fn around(work: &Work<'_>, traffic: &Traffic) -> Result<()> {
    let (me, ranks) = (work.me(), work.ranks());
    let (next, before) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
    let name = work.name("around");
    work.call()?;
    let mut sender = work.rank.sender::<[u64]>(&name, next, traffic.channel)?;
    work.call()?;
    let receiver = work.rank.receiver::<[u64]>(&name, before, traffic.channel)?;
    for (number, &len) in (0..).zip(&traffic.lengths) {
        if me != 0 {
            send(work, traffic.form, &mut sender, number, len)?;
        }
        receive(work, traffic.form, &receiver, before, number, len)?;
        if me == 0 {
            send(work, traffic.form, &mut sender, number, len)?;
        }
    }
    Ok(())
}

/// Slices go from every rank of even number to the one after it, as fast as they can.
fn stream(work: &Work<'_>, traffic: &Traffic) -> Result<()> {
    let (me, name) = (work.me(), work.name("stream"));
    let lengths = (0..).zip(traffic.lengths.iter().copied());
    if me % 2 == 0 {
        if me + 1 == work.ranks() {
            return Ok(());
        }
        work.call()?;
        let mut sender = work.rank.sender::<[u64]>(&name, me + 1, traffic.channel)?;
        for (number, len) in lengths {
            send(work, traffic.form, &mut sender, number, len)?;
        }
        return Ok(());
    }
    work.call()?;
    let receiver = work.rank.receiver::<[u64]>(&name, me - 1, traffic.channel)?;
    let mut held = None;
    for (number, len) in lengths {
        if traffic.form == Form::InPlace && traffic.held {
            work.call()?;
            let guard = receiver.receive()?;
            work.label(me - 1, number).check(&guard, len)?;
            held = Some(guard);
        } else {
            receive(work, traffic.form, &receiver, me - 1, number, len)?;
        }
    }
    drop(held);
    // No further message may come.
    match receiver.receive().map_err(Error::into_kind) {
        Err(ErrorKind::Disconnected { .. }) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => crate::content::wrong("a message came after the last one"),
    }
}

fn send(
    work: &Work<'_>,
    form: Form,
    sender: &mut Sender<[u64]>,
    number: u64,
    len: usize,
) -> Result<()> {
    let label = work.label(work.me(), number);
    work.call()?;
    match form {
        Form::Mixed if number.is_multiple_of(2) => move_to(work, sender, number, len),
        Form::Moved => move_to(work, sender, number, len),
        Form::Copied | Form::Selected | Form::Mixed => sender.send(&label.words(len)),
        Form::InPlace => {
            let mut slot = sender.reserve(len)?;
            label.write(&mut slot);
            work.call()?;
            slot.publish()
        }
        Form::Timed => loop {
            match sender.send_timeout(&label.words(len), Duration::from_micros(200)) {
                Err(error) if matches!(error.kind(), ErrorKind::Timeout { .. }) => work.call()?,
                sent => return sent,
            }
        },
    }
}

fn move_to(work: &Work<'_>, sender: &mut Sender<[u64]>, number: u64, len: usize) -> Result<()> {
    let mut buffer = work.rank.buffer(len)?;
    work.label(work.me(), number).write(&mut buffer);
    work.call()?;
    Ok(sender.send_buffer(buffer)?)
}

fn receive(
    work: &Work<'_>,
    form: Form,
    receiver: &Receiver<[u64]>,
    from: usize,
    number: u64,
    len: usize,
) -> Result<()> {
    let label = work.label(from, number);
    work.call()?;
    match form {
        Form::Copied | Form::InPlace => label.check(&receiver.receive()?, len),
        Form::Moved | Form::Mixed => label.check(&receiver.receive_buffer()?, len),
        Form::Timed => loop {
            match receiver.receive_timeout(Duration::from_micros(200)).map_err(Error::into_kind) {
                Err(ErrorKind::Timeout { .. }) => work.call()?,
                got => return label.check(&got?, len),
            }
        },
        Form::Selected => {
            let mut select = Select::new();
            select.add(receiver);
            loop {
                select.ready()?;
                work.call()?;
                if let Some(got) = receiver.try_receive()? {
                    return label.check(&got, len);
                }
            }
        }
    }
}
