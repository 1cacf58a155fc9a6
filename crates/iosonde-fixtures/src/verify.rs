//! Synthetic verifier runs for tests: correct until modified by a test.
#![allow(clippy::unwrap_used, reason = "tests")]

use iosonde_model::content::block::Label;
use iosonde_model::content::classify::{Class, Misfit, Sector};
use iosonde_model::content::damage::Damage;
use iosonde_model::plan::{
    Engine, EngineKind, RunId, Target, VerifyMode, VerifyPlan, VerifySetting,
};
use iosonde_model::record::facts::{DeviceFacts, FilesystemClass, TargetFacts};
use iosonde_model::record::run::{BackendFacts, Outcome, ProcessUse};
use iosonde_model::record::verify::{
    Failure, LedgerUse, Reread, VERIFY_SCHEMA, VerifyJobRun, VerifyRun,
};

/// Start of every synthetic run, ns since 1970.
pub const STARTED: u64 = 1_700_000_000_000_000_000;

/// A soak of two jobs on 1 MiB of a local file, which read back all of its 256 blocks.
pub fn soak() -> VerifyRun {
    let requested = VerifySetting {
        engine: Engine::of(EngineKind::IoUring),
        target: Target {
            path: "/data/file".into(),
            bytes: 1 << 20,
            direct: true,
            align_bytes: 512,
        },
        read_percent: 20,
        flush_every: 249,
        length_ns: 60_000_000_000,
        ..setting(VerifyMode::Soak, 1 << 20)
    };
    let job = VerifyJobRun {
        ops: 500,
        acked_ops: 500,
        read_bytes: 2 << 20,
        written_bytes: 4 << 20,
        flushes: 2,
        checked: 400,
        changed_blocks: 128,
        swept_blocks: 128,
        sweep_blocks: 128,
        churn_ns: 2_000_000_000,
        sweep_ns: 500_000_000,
        syscalls: 700,
        marks: vec![(0, STARTED), (250, STARTED + 1_000_000_000)],
        ..VerifyJobRun::default()
    };
    VerifyRun {
        schema: VERIFY_SCHEMA.into(),
        program: "test".into(),
        plan: VerifyPlan::resolve(&requested).unwrap(),
        started_unix_ns: STARTED,
        outcome: Outcome::Complete,
        elapsed_ns: 2_500_000_000,
        backend: BackendFacts { engine: "io_uring".into(), ..BackendFacts::default() },
        target: TargetFacts {
            path: "/data/file".into(),
            kind: "file".into(),
            filesystem: Some("ext4".into()),
            class: FilesystemClass::Local,
            direct: true,
            ..TargetFacts::default()
        },
        jobs: vec![job.clone(), job],
        process: ProcessUse {
            cpu_user_ns: 10_000_000,
            cpu_system_ns: 20_000_000,
            ..ProcessUse::default()
        },
        device: None,
        unnamed: false,
        cache_dropped: false,
        ledger: None,
        injected: Vec::new(),
    }
}

/// A check of the data that the soak left, with these failures.
pub fn check_of(failures: &[Failure]) -> VerifyRun {
    let mut run = soak();
    run.plan.mode = VerifyMode::Check;
    for job in &mut run.jobs {
        *job = VerifyJobRun {
            checked: 128,
            swept_blocks: 128,
            sweep_blocks: 128,
            read_bytes: 512 << 10,
            sweep_ns: 500_000_000,
            ..VerifyJobRun::default()
        };
    }
    run.ledger = Some(LedgerUse {
        path: "run.ledger".into(),
        created_unix_ns: STARTED - 3_600_000_000_000,
        ended: true,
        durable_only: false,
        notes: Vec::new(),
    });
    failures.iter().for_each(|failure| fail_with(&mut run, failure.clone()));
    run
}

/// A whole disk with this `queue/write_cache` value.
pub fn device(write_cache: &str) -> DeviceFacts {
    DeviceFacts {
        name: "nvme0n1".into(),
        write_cache: Some(write_cache.into()),
        ..DeviceFacts::default()
    }
}

/// A failure of block 2 of the first job, in generation 2, found in the final read-back.
pub fn failure(class: Class) -> Failure {
    Failure {
        offset: 8192,
        owner: 0,
        block: 2,
        misfit: Misfit {
            class,
            label: None,
            run: None,
            sectors: Vec::new(),
            stray: None,
            damage: None,
        },
        low: 2,
        high: 2,
        durable: 2,
        op: None,
        after_ops: 500,
        seen_unix_ns: STARTED + 2_200_000_000,
        reread: Reread::Same,
    }
}

/// A failure in which generation 1 was read instead of 2.
pub fn stale() -> Failure {
    let mut failure = failure(Class::Stale);
    failure.misfit.label = Some(Label {
        offset: 8192,
        generation: 1,
        writer: 0,
        sequence: 31,
        time_ns: STARTED + 100_000_000,
    });
    failure
}

/// Adds a failure to the run's first job.
pub fn fail_with(run: &mut VerifyRun, failure: Failure) {
    let job = &mut run.jobs[0];
    *job.failed_blocks.entry(failure.misfit.class).or_default() += 1;
    job.failures.push(failure);
}

/// Two failures: a torn block and a flipped bit.
pub fn damaged() -> Vec<Failure> {
    let mut torn = failure(Class::Torn);
    (torn.offset, torn.block) = (12_288, 3);
    torn.misfit.sectors = vec![(0, 3, Sector::Ours(2)), (3, 5, Sector::Ours(1))];
    let mut flipped = failure(Class::BitFlip);
    (flipped.offset, flipped.block, flipped.reread) = (20_480, 5, Reread::Right);
    flipped.misfit.label = Some(Label {
        offset: 20_480,
        generation: 2,
        writer: 0,
        sequence: 44,
        time_ns: STARTED + 90_000_000,
    });
    let expected: Vec<u8> = (0x40..0x60).collect();
    let mut found = expected.clone();
    found[0x13] ^= 1;
    flipped.misfit.damage = Some(Damage {
        generation: 2,
        bits: 1,
        positions: vec![8 * (1024 + 0x13)],
        first_byte: 1024 + 0x13,
        span_bytes: 1,
        expected,
        found,
        shown_at: 1024,
    });
    vec![torn, flipped]
}

/// Setting of a verifier run on the simulated device.
pub fn setting(mode: VerifyMode, bytes: u64) -> VerifySetting {
    VerifySetting {
        mode,
        run: RunId(0xfeed),
        engine: Engine::of(EngineKind::Sim),
        target: Target { path: "sim".into(), bytes, direct: false, align_bytes: 512 },
        offset_bytes: 0,
        jobs: 2,
        overlap: false,
        iodepth: 4,
        block_bytes: 4096,
        sector_bytes: 512,
        blocks: (1, 4),
        read_percent: 0,
        trim_percent: 0,
        flush_every: 0,
        passes: u32::from(mode == VerifyMode::Flush),
        ops: u64::MAX,
        only_job: None,
        length_ns: u64::MAX,
        written_bytes: u64::MAX,
        delay_ns: 0,
        trims_make_zeros: true,
        begins_as_zeros: false,
        seed: 1,
        cpus: 2,
        memory_limit_bytes: 1 << 30,
    }
}
