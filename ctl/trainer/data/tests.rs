use super::*;

#[test]
fn every_character_of_the_corpus_survives_the_vocabulary() {
    let text: String = CORPUS.bytes().map(|byte| character(token(byte))).collect();
    assert_eq!(text, CORPUS);
    assert!((20_000..60_000).contains(&text.len()), "{} bytes", text.len());
}

#[test]
fn an_epoch_deals_every_example_once() {
    let mut sampler = Sampler::new(Rng::with_seed(5), 12);
    let mut dealt: Vec<usize> = (0..3).flat_map(|_| sampler.next_batch(4).to_vec()).collect();
    assert_ne!(dealt, (0..12).collect::<Vec<_>>(), "not shuffled");
    dealt.sort_unstable();
    assert_eq!(dealt, (0..12).collect::<Vec<_>>());
}

#[test]
fn saved_position_continues_with_the_same_examples_across_epochs() {
    let mut sampler = Sampler::new(Rng::with_seed(5), 11);
    for _ in 0..4 {
        let mut resumed = Sampler::at(sampler.position(), 11).unwrap();
        for _ in 0..5 {
            assert_eq!(resumed.next_batch(3), sampler.next_batch(3));
        }
    }
}

#[test]
fn position_beyond_the_corpus_is_refused() {
    let error = Sampler::at(Position { epoch_seed: 1, used: 12 }, 11).unwrap_err();
    assert_eq!(error.to_string(), "12 examples used of an epoch of 11; was the corpus changed?");
}
