//! The worked example: numbers of the tutorial's log, and of a gang of 64.

use super::*;

/// 4 devices, 3.517 s a step, a checkpoint every 10 steps, 451.6 s to start; torchelastic's 30 s.
fn seed(save_ms: u64) -> Training {
    Training {
        devices: 4,
        step_ms: 3_517,
        save_ms,
        save_interval_ms: 35_170,
        restart_ms: 451_600,
        grace_ms: 30_000,
        deadline_ms: 60_000,
    }
}

fn gang_of_64(save_interval_ms: u64) -> Training {
    Training {
        devices: 64,
        step_ms: 10_000,
        save_ms: 60_000,
        save_interval_ms,
        restart_ms: 451_600,
        grace_ms: 30_000,
        deadline_ms: 120_000,
    }
}

/// Loss and wait of a policy, in whole device-seconds and seconds, means and worst, rounded to the nearest.
fn row(training: &Training, policy: Policy) -> [u64; 4] {
    let rows = compare(training);
    let row = rows.into_iter().find(|row| row.policy == policy).unwrap();
    let whole = |ms: u64| (ms + 500) / 1_000;
    [
        whole(row.mean_loss_device_ms),
        whole(row.worst_loss_device_ms),
        whole(row.mean_wait_ms),
        whole(row.worst_wait_ms),
    ]
}

#[test]
fn the_tutorials_numbers_are_those_of_the_worked_example() {
    let seed = seed(5_000);
    // 17.6 s × 4 = 70 device-seconds, 35.2 s × 4 = 141; a tenth of a second passes until the end.
    assert_eq!(row(&seed, Policy::Kill), [71, 141, 0, 0]);
    assert_eq!(row(&seed, Policy::GraceExit), row(&seed, Policy::Kill));
    // One step is 14 device-seconds; the wait is 17.6 s in the mean and 35.2 s at most.
    assert_eq!(row(&seed, Policy::Boundary), [14, 14, 18, 35]);
    // A step and a save: 8.5 s, of which one step is lost work and the rest idle.
    assert_eq!(row(&seed, Policy::Signal), [34, 34, 9, 9]);
    assert_eq!(row(&seed, Policy::Client), row(&seed, Policy::Signal));
    assert_eq!(row(&seed, Policy::GraceSave), [34, 34, 9, 9]);
    // Every preemption pays the restart: 1,806 device-seconds, 96 % of what a kill costs.
    let restart = restart_device_ms(&seed);
    assert_eq!(restart / 1_000, 1_806);
    let kill = compare(&seed)[0].mean_loss_device_ms;
    assert_eq!(restart * 100 / (restart + kill), 96);
}

/// S = 60 s does not fit torchelastic's 30 s: killed in its save, after 30 s of waiting for nothing.
#[test]
fn a_save_that_does_not_fit_the_grace_is_lost_with_the_grace() {
    let seed = seed(60_000);
    assert_eq!(row(&seed, Policy::GraceSave), [190, 261, 30, 30]);
    assert_eq!(row(&seed, Policy::Signal)[2], 64, "3.5 s and 60 s");
}

#[test]
fn a_gang_of_64_loses_hours_to_a_kill_and_a_good_hour_to_a_drain() {
    let half_hour = gang_of_64(1_800_000);
    let hundredths_of_hours = |device_s: u64| (device_s * 100 + 1_800) / 3_600;
    let kill = row(&half_hour, Policy::Kill);
    assert_eq!([kill[0], kill[1]].map(hundredths_of_hours), [1_600, 3_200]);
    assert_eq!(hundredths_of_hours(row(&half_hour, Policy::Client)[0]), 124);
    let ten_minutes = gang_of_64(600_000);
    assert_eq!(hundredths_of_hours(row(&ten_minutes, Policy::Kill)[0]) / 10, 53);
    assert_eq!(hundredths_of_hours(row(&ten_minutes, Policy::Client)[0]), 124);
}

#[test]
fn what_is_picked_loses_no_more_than_any_mode_that_fits_the_deadline() {
    for training in [seed(5_000), seed(20_000), gang_of_64(600_000), gang_of_64(1_800_000)] {
        let rows = compare(&training);
        let picked = rows.iter().find(|r| r.policy == Policy::Planned).unwrap();
        for row in &rows {
            let fits = row.worst_wait_ms <= training.deadline_ms;
            let ours = matches!(row.policy, Policy::Boundary | Policy::Signal | Policy::Client);
            if fits && ours {
                assert!(picked.mean_loss_device_ms <= row.mean_loss_device_ms, "{row:?}");
            }
        }
        assert!(picked.worst_wait_ms <= training.deadline_ms, "{picked:?}");
    }
}

#[test]
fn absurd_numbers_do_no_harm() {
    for big in [0, 1, u64::MAX] {
        let training = Training {
            devices: big,
            step_ms: big,
            save_ms: big,
            save_interval_ms: big,
            restart_ms: big,
            grace_ms: big,
            deadline_ms: big,
        };
        assert_eq!(compare(&training).len(), Policy::ALL.len());
        let _ = restart_device_ms(&training);
    }
}
