//! Farms of other libraries that turn the same frames gray in place: rayon's parallel iterator, and crossbeam channels
//! with an emitter, workers and a collector. Frames are passed by pointer.

use std::time::Instant;

use crossbeam_channel::bounded;
use onchip_benches::cpus;
use rayon::prelude::*;
use video_farm::filter::{gray_in_place, gray_reference};
use video_farm::frame::Size;
use video_farm::input::Input;

use crate::plan::Farm;
use crate::rivals::failed;
use crate::row::{Side, Trouble};

type Frame = Box<[u8]>;

/// Returns the moving clip that the video farm generates.
pub fn clip() -> Result<Input, Trouble> {
    let side = Farm::SIDE;
    Size::new(side as u64, side as u64).map(Input::Clip).map_err(failed)
}

fn frames(count: usize) -> Result<Vec<Frame>, Trouble> {
    let mut source = clip()?.open().map_err(failed)?;
    (0..count)
        .map(|_| {
            let mut frame = vec![0; 3 * Farm::SIDE * Farm::SIDE].into_boxed_slice();
            match source.read(&mut frame).map_err(failed)? {
                true => Ok(frame),
                false => Err(failed("the clip has no more frames")),
            }
        })
        .collect()
}

/// Runs one pass over `frames`, which must come back in order, and compares them with the definition.
fn check(
    mut frames: Vec<Frame>,
    pass: impl FnOnce(Vec<Frame>) -> Result<Vec<Frame>, Trouble>,
) -> Result<Vec<Frame>, Trouble> {
    let expected: Vec<Vec<u8>> = frames
        .iter()
        .map(|frame| {
            let mut gray = vec![0; frame.len() / 3];
            gray_reference(frame, &mut gray);
            gray
        })
        .collect();
    frames = pass(frames)?;
    match frames.iter().zip(&expected).all(|(frame, gray)| frame.starts_with(gray)) {
        true if frames.len() == expected.len() => Ok(frames),
        _ => Err(failed("a frame is not what the filter should give")),
    }
}

/// Measures nanoseconds for each frame with rayon: a parallel loop over the frames.
pub fn rayon(plan: Farm) -> Side {
    Side::new("rayon", "adaptive", move |setup| {
        cpus::confined(&setup.cpus, || {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(plan.workers)
                .build()
                .map_err(failed)?;
            let pass = |mut frames: Vec<Frame>| {
                pool.install(|| {
                    frames.par_iter_mut().for_each(|frame| {
                        gray_in_place(frame);
                    });
                });
                Ok(frames)
            };
            let mut frames = check(frames(plan.held)?, pass)?;
            frames = pass(frames)?;
            let start = Instant::now();
            for _ in 0..plan.passes {
                frames = pass(frames)?;
            }
            Ok((start.elapsed().as_nanos() as f64 / plan.measured() as f64).into())
        })
    })
}

/// Measures nanoseconds for each frame with crossbeam channels: numbered pointers go to any free worker, and back.
pub fn crossbeam(plan: Farm) -> Side {
    Side::new("crossbeam", "adaptive", move |setup| {
        cpus::confined(&setup.cpus, || {
            let frames = check(frames(plan.held)?, |frames| farm(plan, frames, 1).map(|(f, _)| f))?;
            let (_, ns) = farm(plan, frames, plan.passes + 1)?;
            Ok((ns / plan.measured() as f64).into())
        })
    })
}

/// Sends all `frames` through the farm `passes` times. Returns them, and the nanoseconds since the end of the first
/// pass.
fn farm(plan: Farm, frames: Vec<Frame>, passes: usize) -> Result<(Vec<Frame>, f64), Trouble> {
    let held = frames.len();
    let (task_in, task_out) = bounded::<(usize, Frame)>(plan.workers * plan.degree);
    let (done_in, done_out) = bounded::<(usize, Frame)>(plan.workers * plan.degree);
    // The collector returns frames to the emitter, which sends them again.
    let (free_in, free_out) = bounded::<(usize, Frame)>(held);
    let gone = || failed("a thread of the farm is gone");
    for frame in frames.into_iter().enumerate() {
        free_in.send(frame).map_err(|_| gone())?;
    }
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..passes * held {
                let Ok(task) = free_out.recv() else { return };
                if task_in.send(task).is_err() {
                    return;
                }
            }
        });
        for _ in 0..plan.workers {
            let (task_out, done_in) = (task_out.clone(), done_in.clone());
            scope.spawn(move || {
                for (number, mut frame) in task_out {
                    gray_in_place(&mut frame);
                    if done_in.send((number, frame)).is_err() {
                        return;
                    }
                }
            });
        }
        drop((task_out, done_in));
        let mut start = Instant::now();
        let mut last = Vec::with_capacity(held);
        for count in 1..=passes * held {
            let done = done_out.recv().map_err(|_| gone())?;
            if count > (passes - 1) * held {
                last.push(done);
            } else {
                free_in.send(done).map_err(|_| gone())?;
            }
            if count == held {
                start = Instant::now();
            }
        }
        let ns = start.elapsed().as_nanos() as f64;
        last.sort_by_key(|(number, _)| *number);
        Ok((last.into_iter().map(|(_, frame)| frame).collect(), ns))
    })
}
