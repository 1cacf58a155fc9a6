//! Drives the fsync ladder: write a given amount, sync it, time the sync; one plain system call
//! after another.

use std::os::fd::{AsFd, OwnedFd};

use iosonde_sys::{Clock, Direction, Slab, errno_name, syscall};

use super::waits::Wait;
use super::{Control, EngineError, Progress};
use crate::backend::OpenError;
use iosonde_model::content::Filler;
use iosonde_model::plan::Job;
use iosonde_model::plan::ladder::{Call, LadderPlan, Step};
use iosonde_model::record::ladder::{FailedCall, SyncSample};
use iosonde_model::record::run::Outcome;

/// Largest single write.
const CHUNK_BYTES: u64 = 1 << 20;

/// Observer of the ladder. Every call comes from the thread that drives it.
pub trait Bystander {
    /// Flushes that each layer has counted so far.
    fn flushes(&mut self) -> Vec<Option<u64>>;
    /// Called after every sync.
    fn tick(&mut self, _progress: &Progress) {}
}

/// What the engine observed.
#[derive(Debug)]
pub struct LadderRunResult {
    /// How the ladder ended.
    pub outcome: Outcome,
    /// Every sync, in the order of time.
    pub samples: Vec<SyncSample>,
    /// The failed call that ended the ladder.
    pub failed: Option<FailedCall>,
}

/// Carries out the plan on an open target. It writes the whole span first, so that all later writes
/// are overwrites. A failed call ends it: a failed fsync is never repeated, since the kernel may
/// have marked the pages that it could not write as clean.
///
/// # Errors
/// If there is no memory for a buffer. I/O errors are outcomes.
pub fn run_ladder(
    plan: &LadderPlan,
    file: &OwnedFd,
    clock: Clock,
    control: &Control,
    bystander: &mut dyn Bystander,
) -> Result<LadderRunResult, EngineError> {
    let slab = Slab::new(1, CHUNK_BYTES as usize)
        .map_err(|error| OpenError::Buffers { bytes: CHUNK_BYTES, error })?;
    let job = Job { read_percent: 0, seed: plan.seed, ..Job::default() };
    let mut filler = Filler::new(plan.seed, &job);
    let wait = Wait::begin("writes and syncs of the fsync tests", plan.path.as_str());
    let mut climber =
        Climber { wait, file, clock, control, slab, samples: Vec::new(), start_ns: 0 };
    filler.fill(climber.slab.slot_mut(0));
    let ended = climber.whole(plan, &mut filler, bystander);
    let (outcome, failed) = match ended {
        Ok(()) => (Outcome::Complete, None),
        Err(End::Request) => (control.outcome(0), None),
        Err(End::Failed(failed)) => {
            let error = format!("{} {}", failed.call, failed.error);
            (Outcome::Failed { error }, Some(failed))
        }
    };
    Ok(LadderRunResult { outcome, samples: climber.samples, failed })
}

/// Why it ended early.
enum End {
    /// The end was requested.
    Request,
    Failed(FailedCall),
}

struct Climber<'a> {
    wait: Wait,
    file: &'a OwnedFd,
    clock: Clock,
    control: &'a Control,
    slab: Slab,
    samples: Vec<SyncSample>,
    start_ns: u64,
}

impl Climber<'_> {
    fn whole(
        &mut self,
        plan: &LadderPlan,
        filler: &mut Filler,
        bystander: &mut dyn Bystander,
    ) -> Result<(), End> {
        let begun_ns = self.clock.now_ns();
        let mut written_bytes = plan.span_bytes;
        self.write(0, plan.span_bytes, filler)?;
        self.sync(Call::Fsync, plan.span_bytes)?;
        self.start_ns = self.clock.now_ns();
        for round in 0..plan.rounds {
            for step in plan.round(round) {
                self.step(round, step, filler, bystander)?;
                written_bytes += step.dirty_bytes;
                self.wait.heard();
                let elapsed_ns = self.clock.now_ns() - begun_ns;
                let share = written_bytes as f64 / plan.write_bytes() as f64;
                let planned_ns = (elapsed_ns as f64 / share) as u64;
                let ops = self.samples.len() as u64;
                let counted_ns = elapsed_ns;
                let roles = Vec::new();
                bystander.tick(&Progress { elapsed_ns, planned_ns, ops, counted_ns, roles });
            }
        }
        Ok(())
    }

    fn step(
        &mut self,
        round: u32,
        step: Step,
        filler: &mut Filler,
        bystander: &mut dyn Bystander,
    ) -> Result<(), End> {
        let before_ns = self.clock.now_ns();
        self.write(step.offset, step.dirty_bytes, filler)?;
        let write_ns = self.clock.now_ns() - before_ns;
        let before = bystander.flushes();
        let began_ns = self.clock.now_ns();
        self.sync(step.call, step.dirty_bytes)?;
        let sync_ns = self.clock.now_ns() - began_ns;
        let after = bystander.flushes();
        self.samples.push(SyncSample {
            round,
            call: step.call,
            dirty_bytes: step.dirty_bytes,
            write_ns,
            at_ns: began_ns - self.start_ns,
            sync_ns,
            flushes: before.into_iter().zip(after).map(|(early, late)| early.zip(late)).collect(),
        });
        Ok(())
    }

    /// Overwrites a range with new data.
    fn write(&mut self, offset: u64, bytes: u64, filler: &mut Filler) -> Result<(), End> {
        let (mut at, end) = (offset, offset + bytes);
        while at < end {
            if self.control.is_stopping() {
                return Err(End::Request);
            }
            let length = (end - at).min(CHUNK_BYTES) as usize;
            let buffer = &mut self.slab.slot_mut(0)[..length];
            filler.refresh(buffer, at);
            let moved = syscall::transfer(self.file.as_fd(), Direction::Write, buffer, at);
            match moved {
                moved if moved > 0 => {
                    at += moved as u64;
                    self.wait.heard();
                }
                0 => return Err(failed("write", "wrote nothing".into(), at - offset)),
                // A signal that does not end the run.
                error if -error == EINTR => {}
                error => return Err(failed("write", errno_name(-error), at - offset)),
            }
        }
        if self.control.is_stopping() { Err(End::Request) } else { Ok(()) }
    }

    fn sync(&mut self, call: Call, dirty_bytes: u64) -> Result<(), End> {
        match syscall::sync(self.file.as_fd(), call == Call::Fdatasync) {
            0 => Ok(()),
            // Some file systems stop waiting on a signal, which says nothing about the data.
            error if -error == EINTR && self.control.is_stopping() => Err(End::Request),
            error => Err(failed(word(call), errno_name(-error), dirty_bytes)),
        }
    }
}

const EINTR: i32 = rustix::io::Errno::INTR.raw_os_error();

fn failed(call: &str, error: String, dirty_bytes: u64) -> End {
    End::Failed(FailedCall { call: call.into(), error, dirty_bytes })
}

fn word(call: Call) -> &'static str {
    match call {
        Call::Fsync => "fsync",
        Call::Fdatasync => "fdatasync",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts looks; requests the end after this many syncs.
    struct Watch {
        looks: u64,
        end_after: u64,
        signal: Arc<AtomicUsize>,
    }

    impl Bystander for Watch {
        fn flushes(&mut self) -> Vec<Option<u64>> {
            self.looks += 1;
            vec![Some(self.looks), None]
        }

        fn tick(&mut self, progress: &Progress) {
            if progress.ops == self.end_after {
                self.signal.store(2, Ordering::Relaxed);
            }
        }
    }

    fn measured(file: std::fs::File, plan: &LadderPlan, end_after: u64) -> LadderRunResult {
        let control = Control::default();
        let signal = Arc::clone(&control.signal);
        let mut watch = Watch { looks: 0, end_after, signal };
        run_ladder(plan, &file.into(), Clock::monotonic(), &control, &mut watch).unwrap()
    }

    #[test]
    fn every_step_is_written_synced_and_counted() {
        let plan = LadderPlan::new("x", 1, 2, 2 << 20);
        let file = tempfile::tempfile().unwrap();
        let copy = file.try_clone().unwrap();
        let seen = measured(file, &plan, u64::MAX);
        assert_eq!(seen.outcome, Outcome::Complete);
        let steps: Vec<(u32, u64)> = (0..2)
            .flat_map(|round| plan.round(round).into_iter().map(move |step| (round, step)))
            .map(|(round, step)| (round, step.dirty_bytes))
            .collect();
        let done: Vec<(u32, u64)> =
            seen.samples.iter().map(|sample| (sample.round, sample.dirty_bytes)).collect();
        assert_eq!(done, steps);
        // Read right before and right after each call.
        assert_eq!(seen.samples[0].flushes, [Some((1, 2)), None]);
        assert_eq!(seen.samples[7].flushes, [Some((15, 16)), None]);
        assert_eq!(copy.metadata().unwrap().len(), 2 << 20);
        let mut block = vec![0; 4096];
        std::os::unix::fs::FileExt::read_exact_at(&copy, &mut block, 1 << 20).unwrap();
        assert!(iosonde_model::content::is_ours_or_zero(&block), "what is left behind is ours");
    }

    #[test]
    fn an_order_to_end_keeps_what_was_seen() {
        let plan = LadderPlan::new("x", 1, 20, 1 << 20);
        let seen = measured(tempfile::tempfile().unwrap(), &plan, 5);
        assert_eq!(seen.outcome, Outcome::Interrupted { signal: 2 });
        assert_eq!(seen.samples.len(), 5);
    }

    #[test]
    fn a_call_that_fails_ends_it_and_is_not_repeated() {
        let plan = LadderPlan::new("x", 1, 20, 1 << 20);
        let seen = measured(std::fs::File::open("/proc/self/exe").unwrap(), &plan, 5);
        assert_eq!(seen.outcome, Outcome::Failed { error: "write EBADF".into() });
        assert_eq!(seen.failed.unwrap().call, "write");
        // /dev/full takes no write; /dev/null takes no fsync.
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let seen = measured(full, &plan, 5);
        assert_eq!(seen.failed.unwrap().error, "ENOSPC");
        let null = std::fs::File::options().write(true).open("/dev/null").unwrap();
        let failed = measured(null, &plan, 5).failed.unwrap();
        assert_eq!(
            (&*failed.call, &*failed.error, failed.dirty_bytes),
            ("fsync", "EINVAL", 1 << 20)
        );
    }
}
