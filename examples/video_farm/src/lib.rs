//! The video farm: the stream-parallel experiment of Buono et al. (section V.A) on real video.
//!
//! An emitter reads frames, workers turn them gray, and a collector writes them in their original order. The modes of
//! the [`farm`] differ only in how a frame gets from one rank to the next: by pointer, by value, by value with
//! communication threads that copy, or by moving the ownership of a buffer.
//!
//! | part | what it is |
//! |---|---|
//! | [`frame`], [`filter`], [`yuv`] | what a frame is, and the arithmetic on its pixels |
//! | [`clip`], [`input`], [`output`] | where frames come from and where they go |
//! | [`farm`] | emitter, workers and collector, one file a mode |
//! | [`measure`], [`report`], [`plot`] | Tables I and II of the paper for this machine |
//! | [`cli`] | the command line |
//!
//! A new mode is a new file in `farm/` and one line in [`farm::run`]; a new format is a new file
//! in `input/` or `output/` and one line in [`input::Input::open`] or [`output::Output::open`].
#![forbid(unsafe_code)]

pub mod cli;
pub mod clip;
pub mod farm;
pub mod filter;
pub mod frame;
pub mod input;
pub mod measure;
pub mod output;
pub mod plot;
pub mod report;
pub mod yuv;
