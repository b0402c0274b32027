//! The model of the demo trainer: a character-level language model with one hidden layer.
//!
//! The last [`CONTEXT`] characters are looked up in an embedding table, joined, passed through a
//! `tanh` layer and a softmax over the [`VOCABULARY`]. Everything is `f32` and every sum has a
//! fixed order, so that the same weights and examples always give the same bits.
//! Owns the weights' layout and their safetensors form; training lives in `optimizer.rs`.

use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use super::data::Example;

/// Characters the model sees before it guesses the next one.
pub(crate) const CONTEXT: usize = 8;
/// Printable ASCII and the newline.
pub(crate) const VOCABULARY: usize = 96;
const EMBEDDING: usize = 12;
/// Large enough to learn something visible in 120 steps, small enough that an unoptimised build
/// computes a step in less than the default pace of 150 ms.
const HIDDEN: usize = 64;
const INPUT: usize = CONTEXT * EMBEDDING;

/// The tensors in the order in which they lie in the flat parameter vector.
const TENSORS: [(&str, [usize; 2]); 5] = [
    ("embedding.weight", [VOCABULARY, EMBEDDING]),
    ("hidden.weight", [HIDDEN, INPUT]),
    ("hidden.bias", [HIDDEN, 1]),
    ("output.weight", [VOCABULARY, HIDDEN]),
    ("output.bias", [VOCABULARY, 1]),
];

/// Number of parameters, all tensors together.
pub(crate) const PARAMETERS: usize =
    VOCABULARY * EMBEDDING + HIDDEN * INPUT + HIDDEN + VOCABULARY * HIDDEN + VOCABULARY;

/// The parameters, or anything shaped like them, cut into the tensors of [`TENSORS`].
struct Parts<'a> {
    embedding: &'a [f32],
    hidden_weight: &'a [f32],
    hidden_bias: &'a [f32],
    output_weight: &'a [f32],
    output_bias: &'a [f32],
}

fn parts(flat: &[f32]) -> Parts<'_> {
    let (embedding, rest) = flat.split_at(VOCABULARY * EMBEDDING);
    let (hidden_weight, rest) = rest.split_at(HIDDEN * INPUT);
    let (hidden_bias, rest) = rest.split_at(HIDDEN);
    let (output_weight, rest) = rest.split_at(VOCABULARY * HIDDEN);
    let (output_bias, _) = rest.split_at(VOCABULARY);
    Parts { embedding, hidden_weight, hidden_bias, output_weight, output_bias }
}

/// Fresh weights: small and uniform, biases zero, the output layer almost flat, so that the first
/// loss is close to that of guessing blindly, ln 96 = 4.56.
pub(crate) fn initial(rng: &mut Rng) -> Vec<f32> {
    const SCALES: [f32; TENSORS.len()] = [0.7, 0.17, 0.0, 0.02, 0.0];
    let mut weights = Vec::with_capacity(PARAMETERS);
    for ((_, shape), scale) in TENSORS.iter().zip(SCALES) {
        weights.extend((0..shape[0] * shape[1]).map(|_| (rng.f32() * 2.0 - 1.0) * scale));
    }
    assert_eq!(weights.len(), PARAMETERS);
    weights
}

/// What one forward pass computed, kept for the backward pass.
struct Pass {
    input: Vec<f32>,
    hidden: Vec<f32>,
    probabilities: Vec<f32>,
}

fn forward(weights: &[f32], context: &[u8; CONTEXT]) -> Pass {
    let parts = parts(weights);
    let mut input = Vec::with_capacity(INPUT);
    for &token in context {
        let start = usize::from(token) * EMBEDDING;
        input.extend_from_slice(&parts.embedding[start..start + EMBEDDING]);
    }
    let hidden: Vec<f32> =
        affine(parts.hidden_weight, parts.hidden_bias, &input).map(f32::tanh).collect();
    let logits: Vec<f32> = affine(parts.output_weight, parts.output_bias, &hidden).collect();
    Pass { input, hidden, probabilities: softmax(&logits) }
}

/// `weight · input + bias`, one output at a time, each summed from left to right.
fn affine(weight: &[f32], bias: &[f32], input: &[f32]) -> impl Iterator<Item = f32> {
    weight.chunks_exact(input.len()).zip(bias).map(move |(row, &bias)| {
        let mut sum = bias;
        for (weight, value) in row.iter().zip(input) {
            sum += weight * value;
        }
        sum
    })
}

fn softmax(logits: &[f32]) -> Vec<f32> {
    let logit_max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut values: Vec<f32> = logits.iter().map(|logit| (logit - logit_max).exp()).collect();
    let total: f32 = values.iter().sum();
    values.iter_mut().for_each(|value| *value /= total);
    values
}

/// The chance of each next token after `context`; sums to one.
pub(crate) fn predict(weights: &[f32], context: &[u8; CONTEXT]) -> Vec<f32> {
    forward(weights, context).probabilities
}

/// Sums gradients and losses over `examples`, in their order.
///
/// Returns [`PARAMETERS`] gradient sums followed by one more value: the summed loss, in nats.
pub(crate) fn gradient_and_loss(weights: &[f32], examples: &[Example]) -> Vec<f32> {
    let mut sums = vec![0.0; PARAMETERS + 1];
    for example in examples {
        let pass = forward(weights, &example.context);
        sums[PARAMETERS] -= pass.probabilities[usize::from(example.target)].ln();
        backward(weights, example, pass, &mut sums[..PARAMETERS]);
    }
    sums
}

fn backward(weights: &[f32], example: &Example, pass: Pass, sums: &mut [f32]) {
    let parts = parts(weights);
    let (embedding, rest) = sums.split_at_mut(VOCABULARY * EMBEDDING);
    let (hidden_weight, rest) = rest.split_at_mut(HIDDEN * INPUT);
    let (hidden_bias, rest) = rest.split_at_mut(HIDDEN);
    let (output_weight, output_bias) = rest.split_at_mut(VOCABULARY * HIDDEN);

    let mut slope = pass.probabilities;
    slope[usize::from(example.target)] -= 1.0;
    let slope =
        affine_backward(parts.output_weight, &pass.hidden, &slope, output_weight, output_bias);
    let slope: Vec<f32> = slope
        .iter()
        .zip(&pass.hidden)
        .map(|(slope, hidden)| slope * (1.0 - hidden * hidden))
        .collect();
    let slope =
        affine_backward(parts.hidden_weight, &pass.input, &slope, hidden_weight, hidden_bias);
    for (&token, slope) in example.context.iter().zip(slope.chunks_exact(EMBEDDING)) {
        let start = usize::from(token) * EMBEDDING;
        add(&mut embedding[start..start + EMBEDDING], slope);
    }
}

/// Adds the gradients of one [`affine`] layer to the sums and returns the slope of its input.
fn affine_backward(
    weight: &[f32],
    input: &[f32],
    slope: &[f32],
    weight_sum: &mut [f32],
    bias_sum: &mut [f32],
) -> Vec<f32> {
    let width = input.len();
    let mut input_slope = vec![0.0; width];
    let rows = weight.chunks_exact(width).zip(weight_sum.chunks_exact_mut(width));
    for ((row, row_sum), &slope) in rows.zip(slope) {
        for ((weight, sum), (input, input_slope)) in
            row.iter().zip(row_sum).zip(input.iter().zip(&mut input_slope))
        {
            *sum += slope * input;
            *input_slope += slope * weight;
        }
    }
    add(bias_sum, slope);
    input_slope
}

/// Adds `values` to `sums`, element by element.
pub(crate) fn add(sums: &mut [f32], values: &[f32]) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum += value;
    }
}

/// Writes vectors shaped like the parameters as one safetensors file; every tensor's name is
/// `<prefix><name>`, for instance `exp_avg.hidden.weight`.
///
/// # Errors
/// Only if the format refuses the header, which would be our own mistake.
pub(crate) fn to_safetensors(vectors: &[(&str, &[f32])]) -> Result<Vec<u8>> {
    let mut buffers: Vec<(String, Vec<usize>, Vec<u8>)> = Vec::new();
    for (prefix, flat) in vectors {
        let mut rest = *flat;
        for (name, shape) in TENSORS {
            let (tensor, tail) = rest.split_at(shape[0] * shape[1]);
            rest = tail;
            let bytes = tensor.iter().flat_map(|value| value.to_le_bytes()).collect();
            buffers.push((format!("{prefix}{name}"), shape_on_disk(shape), bytes));
        }
    }
    let mut views = Vec::with_capacity(buffers.len());
    for (name, shape, bytes) in &buffers {
        views.push((name, TensorView::new(Dtype::F32, shape.clone(), bytes)?));
    }
    // One metadata entry only: the format keeps them in a hash map, and two would be written in
    // a different order each time.
    let metadata = [("format".to_owned(), "pt".to_owned())].into();
    Ok(safetensors::serialize(views, Some(metadata))?)
}

/// Reads one vector back that [`to_safetensors`] wrote under `prefix`.
///
/// # Errors
/// If the file is cut off, or a tensor is missing or has another type or shape.
pub(crate) fn from_safetensors(bytes: &[u8], prefix: &str) -> Result<Vec<f32>> {
    let file = SafeTensors::deserialize(bytes).context("not a whole safetensors file")?;
    let mut flat = Vec::with_capacity(PARAMETERS);
    for (name, shape) in TENSORS {
        let name = format!("{prefix}{name}");
        let tensor = file.tensor(&name).with_context(|| format!("tensor \"{name}\""))?;
        let shape = shape_on_disk(shape);
        ensure!(
            tensor.dtype() == Dtype::F32 && tensor.shape() == shape,
            "tensor \"{name}\" is {:?} {:?}, expected F32 {shape:?}",
            tensor.dtype(),
            tensor.shape()
        );
        flat.extend(
            tensor.data().as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)),
        );
    }
    assert_eq!(flat.len(), PARAMETERS);
    Ok(flat)
}

/// Biases are vectors in the file, as every framework writes them.
fn shape_on_disk([rows, columns]: [usize; 2]) -> Vec<usize> {
    if columns == 1 { vec![rows] } else { vec![rows, columns] }
}

/// The model's description, as `config.json` beside the weights.
pub(crate) fn config() -> serde_json::Value {
    serde_json::json!({
        "architectures": ["CharacterMlp"],
        "model_type": "character-mlp",
        "context": CONTEXT,
        "embedding_size": EMBEDDING,
        "hidden_size": HIDDEN,
        "vocab_size": VOCABULARY,
        "dtype": "float32",
    })
}

#[cfg(test)]
mod tests;
