use super::*;

fn identity(rank: usize, step: u16) -> Identity {
    Identity { rank, world: 2, step }
}

fn join(place: &Path, me: Identity) -> Result<Option<Gang>> {
    Gang::join(place, me, || false)
}

/// Sums as long as the protocol wants them, all of the same value.
fn sums(value: f32) -> Vec<f32> {
    vec![value; PARAMETERS + 1]
}

#[test]
fn every_rank_gets_the_same_sums_and_all_votes() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().join("socket");
    thread::scope(|scope| {
        let peer = scope.spawn(|| {
            let mut gang = join(&place, identity(1, 0)).unwrap().unwrap();
            gang.reduce(sums(0.25), VOTE_STOP).unwrap()
        });
        let mut gang = join(&place, identity(0, 0)).unwrap().unwrap();
        assert_eq!(gang.reduce(sums(1.5), VOTE_SAVE).unwrap(), (sums(1.75), VOTE_SAVE | VOTE_STOP));
        assert_eq!(peer.join().unwrap(), (sums(1.75), VOTE_SAVE | VOTE_STOP));
    });
    assert!(!place.exists());
}

#[test]
fn socket_of_an_earlier_attempt_is_replaced() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().join("socket");
    drop(UnixListener::bind(&place).unwrap());
    thread::scope(|scope| {
        let peer = scope.spawn(|| join(&place, identity(1, 0)).unwrap().is_some());
        assert!(join(&place, identity(0, 0)).unwrap().is_some());
        assert!(peer.join().unwrap());
    });
}

#[test]
fn ranks_that_resume_from_different_steps_do_not_train() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().join("socket");
    thread::scope(|scope| {
        let peer = scope.spawn(|| join(&place, identity(1, 20)).unwrap_err());
        let error = join(&place, identity(0, 10)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "rank 1 resumes from step 20 but rank 0 from step 10; do both see the same --output-dir?"
        );
        assert!(peer.join().unwrap().is::<PeerLost>());
    });
}

#[test]
fn stranger_at_the_rendezvous_is_ignored() {
    let (mut stranger, stream) = UnixStream::pair().unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    assert!(greet(stream, identity(0, 0)).unwrap().is_none());
}

#[test]
fn stop_ends_the_wait_for_the_others() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().join("socket");
    for rank in [1, 0] {
        assert!(Gang::join(&place, identity(rank, 0), || true).unwrap().is_none());
    }
}

#[test]
fn vanished_peer_is_named() {
    let (gone, stream) = UnixStream::pair().unwrap();
    let mut gang = Gang::Root(vec![stream]);
    drop(gone);
    let error = gang.reduce(sums(1.0), 0).unwrap_err();
    assert_eq!(
        error.downcast::<PeerLost>().unwrap().to_string(),
        "lost rank 1: it closed the connection; the gang cannot go on and resumes from its last \
         checkpoint"
    );
}

#[test]
fn frame_out_of_turn_is_refused() {
    let (mut sender, stream) = UnixStream::pair().unwrap();
    send(&mut sender, 1, BARRIER, 0, &[]).unwrap();
    let error = Gang::Peer(stream).reduce(sums(1.0), 0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "rank 0 sent frame 3 of 0 bytes where 2 was due; do all ranks run the same version?"
    );
}

#[test]
fn tree_sum_has_the_same_bits_for_any_split() {
    let mut rng = fastrand::Rng::with_seed(9);
    let mut leaf = || (0..50).map(|_| rng.f32() - 0.5).collect::<Vec<f32>>();
    let leaves = [leaf(), leaf(), leaf(), leaf()];
    let whole = tree_sum(leaves.to_vec());
    let halves = vec![tree_sum(leaves[..2].to_vec()), tree_sum(leaves[2..].to_vec())];
    assert_eq!(tree_sum(halves), whole);

    let mut in_a_row = leaves[0].clone();
    leaves[1..].iter().for_each(|leaf| add(&mut in_a_row, leaf));
    assert_ne!(in_a_row, whole, "the test's numbers do not depend on the order");
}
