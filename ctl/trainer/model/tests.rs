use super::*;

fn examples() -> Vec<Example> {
    let corpus = crate::trainer::data::Corpus::built_in();
    [0, 77, 4_001].map(|index| corpus.example(index)).to_vec()
}

/// The summed loss in `f64`, from the model's own chances.
fn loss(weights: &[f32], examples: &[Example]) -> f64 {
    let chance =
        |example: &Example| predict(weights, &example.context)[usize::from(example.target)];
    examples.iter().map(|example| -f64::from(chance(example)).ln()).sum()
}

#[test]
fn gradient_agrees_with_finite_differences() {
    const STEP: f32 = 1e-2;
    let mut rng = Rng::with_seed(3);
    // Wider than the initial weights, so that no layer is almost linear or almost flat.
    let weights: Vec<f32> = (0..PARAMETERS).map(|_| rng.f32() - 0.5).collect();
    let examples = examples();
    let gradient = gradient_and_loss(&weights, &examples);

    let mut checked = 0;
    for index in (0..PARAMETERS).step_by(61) {
        let mut moved = weights.clone();
        moved[index] = weights[index] + STEP;
        let above = loss(&moved, &examples);
        moved[index] = weights[index] - STEP;
        let below = loss(&moved, &examples);
        let expected = (above - below) / (2.0 * f64::from(STEP));
        let got = f64::from(gradient[index]);
        let tolerance = 1e-3 + 0.01 * expected.abs();
        assert!((got - expected).abs() < tolerance, "{index}: {got}, expected {expected}");
        checked += usize::from(expected.abs() > 0.01);
    }
    assert!(checked > 50, "only {checked} gradients were large enough to tell");
    assert!((f64::from(gradient[PARAMETERS]) - loss(&weights, &examples)).abs() < 1e-4);
}

#[test]
fn untrained_model_guesses_blindly() {
    let weights = initial(&mut Rng::with_seed(1));
    let mean = loss(&weights, &examples()) / 3.0;
    assert!((mean - 96_f64.ln()).abs() < 0.1, "{mean}");
}

#[test]
fn weights_survive_the_file() {
    let weights = initial(&mut Rng::with_seed(1));
    let twice: Vec<f32> = weights.iter().map(|weight| weight * 2.0).collect();
    let bytes = to_safetensors(&[("a.", &weights), ("b.", &twice)]).unwrap();
    assert_eq!(from_safetensors(&bytes, "a.").unwrap(), weights);
    assert_eq!(from_safetensors(&bytes, "b.").unwrap(), twice);
}

#[test]
fn cut_off_or_foreign_file_is_refused() {
    let weights = initial(&mut Rng::with_seed(1));
    let bytes = to_safetensors(&[("", &weights)]).unwrap();
    for len in [0, 7, 100, bytes.len() - 1] {
        let error = from_safetensors(&bytes[..len], "").unwrap_err();
        assert_eq!(error.to_string(), "not a whole safetensors file", "{len} bytes");
    }
    let error = from_safetensors(&bytes, "other.").unwrap_err();
    assert_eq!(error.to_string(), "tensor \"other.embedding.weight\"");
}
