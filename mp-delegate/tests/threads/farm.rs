//! A task farm whose messages have checksums, with its communication threads where a placement puts them. The tests and
//! the soak use it.

use std::time::Duration;

use mp_core::{
    Channel, Endpoints, Error, ErrorKind, Rank, Result, World,
    topology::{Bind, KtPlacement, KtPlan, Role, Topology},
};
use mp_delegate::threads::{Choice, CommThreads, Delegated};

use crate::support::{Random, Watchdog};

/// The longest payload of a message, in words.
const LEN: u64 = 40;

/// The parameters of a farm.
#[derive(Clone, Debug)]
pub struct Farm {
    pub placement: KtPlacement,
    pub workers: usize,
    pub degree: u32,
    /// Whether there is one channel for all tasks and one for all results, instead of one for each worker.
    pub shared: bool,
    pub tasks: u64,
}

impl Farm {
    pub fn processes(&self, arguments: Option<Vec<String>>) -> Result<u64> {
        let plan = self.plan()?;
        let world = World::processes(self.workers + 2).bind(plan.bind());
        let world = match arguments {
            Some(arguments) => world.args(arguments),
            None => world,
        };
        // The threads of a process serve its own sends.
        let counts = world.run(|rank| self.run(rank, &plan, None))?;
        Ok(counts.into_iter().sum())
    }

    pub fn threads(&self) -> Result<u64> {
        let plan = self.plan()?;
        let cpus = plan.kts().iter().filter_map(|kt| kt.cpu);
        let threads = CommThreads::builder(plan.kts().len()).cpus(cpus).start()?;
        let world = World::threads(self.workers + 2).bind(plan.bind());
        let counts = world.run(|rank| self.run(rank, &plan, Some(&threads)))?;
        Ok(counts.into_iter().sum())
    }

    /// Returns a plan for any machine, if necessary with threads that share a core.
    fn plan(&self) -> Result<KtPlan> {
        let roles = Role::farm(self.workers);
        Ok(KtPlan::forced(&Topology::read()?, &roles, &Bind::Auto, self.placement)?)
    }

    /// Runs the part of a rank. Returns how many results arrived.
    fn run(&self, rank: &Rank, plan: &KtPlan, threads: Option<&CommThreads>) -> Result<u64> {
        let _watchdog = Watchdog::with_limit(Duration::from_secs(120));
        let collector = self.workers + 1;
        match rank.id() {
            0 => self.emit(rank, plan, threads).map(|()| 0),
            id if id == collector => self.collect(rank),
            _ => self.work(rank, plan, threads).map(|()| 0),
        }
    }

    fn channel(&self) -> Channel {
        Channel::degree(self.degree).max_len(LEN as usize + 3)
    }

    fn tasks_for(&self) -> Endpoints {
        Endpoints::new([0], 1..=self.workers)
    }

    fn results_of(&self) -> Endpoints {
        Endpoints::new(1..=self.workers, [self.workers + 1])
    }

    fn delegate(
        &self,
        rank: &Rank,
        plan: &KtPlan,
        threads: Option<&CommThreads>,
        to: usize,
    ) -> Result<Delegated<[u64]>> {
        let sender = match (self.shared, rank.id()) {
            (true, 0) => rank.shared_sender("tasks", &self.tasks_for(), self.channel())?,
            (true, _) => rank.shared_sender("results", &self.results_of(), self.channel())?,
            (false, _) => rank.sender("own", to, self.channel())?,
        };
        let serving = plan.serving(rank.id(), to);
        if let Some(threads) = threads {
            return Ok(threads.delegate_to(sender, serving, Choice::RoundRobin));
        }
        let cpus = serving.iter().filter_map(|&kt| plan.kts()[kt].cpu);
        Ok(CommThreads::builder(serving.len()).cpus(cpus).start()?.delegate(sender))
    }

    fn emit(&self, rank: &Rank, plan: &KtPlan, threads: Option<&CommThreads>) -> Result<()> {
        let channels = if self.shared { 1 } else { self.workers };
        let mut to = (1..=channels)
            .map(|worker| self.delegate(rank, plan, threads, worker))
            .collect::<Result<Vec<_>>>()?;
        for n in 0..self.tasks {
            let to = &mut to[n as usize % channels];
            match n % 4 {
                0 => drop(to.send_buffer(rank.buffer_from(&message(0, n))?)),
                1 => drop(to.send(message(0, n).into_boxed_slice())),
                2 => drop(to.send(message(0, n))),
                _ => {
                    let request = to.send(message(0, n));
                    ensure!(request.wait()? == message(0, n), "task {n} came back changed");
                }
            }
        }
        Ok(())
    }

    fn work(&self, rank: &Rank, plan: &KtPlan, threads: Option<&CommThreads>) -> Result<()> {
        let me = rank.id() as u64;
        let from = match self.shared {
            true => rank.shared_receiver("tasks", &self.tasks_for(), self.channel())?,
            false => rank.receiver::<[u64]>("own", 0, self.channel())?,
        };
        let mut to = self.delegate(rank, plan, threads, self.workers + 1)?;
        let mut last = None;
        for task in &from {
            let task = task?;
            let n = task[1];
            ensure!(*task == message(0, n), "task {n}: {task:?}");
            ensure!(last < Some(n), "task {n} after {last:?}");
            last = Some(n);
            drop(task);
            drop(to.send(message(me, n)));
        }
        Ok(())
    }

    fn collect(&self, rank: &Rank) -> Result<u64> {
        let from = match self.shared {
            true => vec![rank.shared_receiver("results", &self.results_of(), self.channel())?],
            false => (1..=self.workers)
                .map(|worker| rank.receiver::<[u64]>("own", worker, self.channel()))
                .collect::<Result<Vec<_>>>()?,
        };
        let mut next: Vec<u64> = vec![0; self.workers + 1];
        let mut come = vec![false; self.tasks as usize];
        for turn in 0..self.tasks as usize {
            let result = from[turn % from.len()].receive()?;
            let (worker, n) = (result[0], result[1]);
            ensure!(*result == message(worker, n), "result {n} of {worker}: {result:?}");
            ensure!(!std::mem::replace(&mut come[n as usize], true), "result {n} twice");
            ensure!(next[worker as usize] <= n, "result {n} of {worker} is out of order");
            next[worker as usize] = n + 1;
        }
        for from in &from {
            let end = from.receive().err();
            ensure!(
                matches!(end.as_ref().map(Error::kind), Some(ErrorKind::Disconnected { .. })),
                "{end:?}"
            );
        }
        Ok(self.tasks)
    }
}

/// Returns message `n` of a rank. It has its own length, and a checksum.
fn message(from: u64, n: u64) -> Vec<u64> {
    let mut random = Random::new(n ^ from << 40);
    let mut message = vec![from, n];
    message.extend((0..random.below(LEN + 1)).map(|word| word.wrapping_mul(n) ^ from));
    message.push(message.iter().fold(7, |sum: u64, word| sum.rotate_left(5) ^ word));
    message
}
