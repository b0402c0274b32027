//! A writer that dies, loses answers or is replaced, at each of its requests.

use super::fake::{Fault, Server};
use super::*;

/// The state as it should be: all records.
type Model = BTreeMap<String, Vec<u8>>;

/// Batches that make everything happen: small ones that fill the head, removals, and one too large for an object.
fn batches() -> Vec<Vec<Change>> {
    let set = |key: String, bytes: usize, byte: u8| Change { key, value: Some(vec![byte; bytes]) };
    let mut batches: Vec<Vec<Change>> = (0..6_u8)
        .map(|n| {
            let first = set(format!("w/{}", n % 4), 300, n);
            let removed = Change { key: format!("d/{}", n.wrapping_sub(2)), value: None };
            vec![first, set(format!("d/{n}"), 100, n), removed]
        })
        .collect();
    batches.insert(4, (0..8_u8).map(|n| set(format!("w/large-{n}"), 1_500, n)).collect());
    batches
}

fn model(batches: &[Vec<Change>]) -> Model {
    let mut model = Model::new();
    for change in batches.iter().flatten().cloned() {
        match change.value {
            Some(value) => drop(model.insert(change.key, value)),
            None => drop(model.remove(&change.key)),
        }
    }
    model
}

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(3_600);
/// After which a writer that is cut off gives up. One that a slow machine makes give up sooner is cut off as well.
const SHORT: Duration = Duration::from_millis(100);

async fn take_over(server: &Server, good_for: Duration) -> Result<State, StateError> {
    let (_, good_until) = watch::channel(Instant::now() + good_for);
    State::take_over(server.client(), "sluice-system", "s", good_until).await
}

fn records(state: &State) -> Model {
    state.records().map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Commits until one fails; how many did not.
async fn commit_all(state: &mut State) -> usize {
    for (number, batch) in batches().into_iter().enumerate() {
        if state.commit(batch, 1, 1).await.is_err() {
            return number;
        }
    }
    batches().len()
}

#[tokio::test]
async fn a_commit_is_there_as_a_whole_or_not_at_all_wherever_its_writer_dies() {
    let mut tried = 0;
    for first in 0.. {
        let server = Server::new();
        server.set_fault(Fault::GoneFrom(first));
        let done = match take_over(&server, SHORT).await {
            Ok(mut state) => commit_all(&mut state).await,
            Err(_) => 0,
        };
        let was_whole = server.requests() <= first;
        server.set_fault(Fault::None);
        let state = take_over(&server, LONG).await.unwrap();
        let found = records(&state);
        let all = batches();
        let possible = [done, (done + 1).min(all.len())].map(|count| model(&all[..count]));
        assert!(possible.contains(&found), "gone from request {first}, {done} commits answered");
        let parts: Vec<String> = server.names().into_iter().filter(|n| n.contains("-p")).collect();
        assert_eq!(parts, Vec::<String>::new(), "gone from request {first}");
        tried = first;
        if was_whole {
            break;
        }
    }
    assert!(tried > 25, "{tried} requests are too few to make everything happen");
}

#[tokio::test]
async fn an_answer_that_is_lost_is_looked_up_and_nothing_is_made_twice() {
    for lost in 0.. {
        let server = Server::new();
        server.set_fault(Fault::AnswerLost(lost));
        let mut state = take_over(&server, LONG).await.unwrap();
        assert_eq!(commit_all(&mut state).await, batches().len(), "answer {lost} lost");
        let was_lost = server.requests() > lost;
        let commits = state.head().commit;
        drop(state);
        let state = take_over(&server, LONG).await.unwrap();
        assert_eq!(records(&state), model(&batches()), "answer {lost} lost");
        assert_eq!(state.head().commit, commits);
        if !was_lost {
            return;
        }
    }
}

#[tokio::test]
async fn an_earlier_leader_is_refused_and_spoils_nothing_however_far_it_has_come() {
    let all = batches();
    for count in 0..all.len() {
        let server = Server::new();
        let mut old = take_over(&server, LONG).await.unwrap();
        for batch in &all[..count] {
            old.commit(batch.clone(), 1, 1).await.unwrap();
        }
        let mut new = take_over(&server, LONG).await.unwrap();
        let refused = old.commit(all[count].clone(), 2, 2).await;
        assert_eq!(refused, Err(StateError::Deposed { epoch: 2 }), "after {count} commits");
        let mut expected = model(&all[..count]);
        let change = Change { key: "w/new".to_owned(), value: Some(vec![7; 2_000]) };
        expected.insert(change.key.clone(), vec![7; 2_000]);
        new.commit(vec![change], 3, 3).await.unwrap();
        // Again, now that what the new one has written lies in records, too.
        let again = Change { key: "w/0".to_owned(), value: Some(vec![9; 2_000]) };
        expected.insert(again.key.clone(), vec![9; 2_000]);
        new.commit(vec![again], 4, 4).await.unwrap();
        let refused = old.commit(all[count].clone(), 5, 5).await;
        assert_eq!(refused, Err(StateError::Deposed { epoch: 2 }), "after {count} commits");
        let state = take_over(&server, LONG).await.unwrap();
        assert_eq!(records(&state), expected, "after {count} commits");
        assert_eq!((state.head().epoch, state.head().last_now_ms), (3, 4));
    }
}

#[tokio::test]
async fn what_fits_nowhere_is_refused_with_its_size() {
    let server = Server::new();
    let mut state = take_over(&server, LONG).await.unwrap();
    let change = Change { key: "w/huge".to_owned(), value: Some(vec![0; OBJECT_BYTES_MAX * 2]) };
    let refused = state.commit(vec![change], 1, 1).await.unwrap_err().to_string();
    assert!(refused.contains("at most 4096 are possible"), "{refused}");
    let state = take_over(&server, LONG).await.unwrap();
    assert_eq!(records(&state), Model::new());
}
