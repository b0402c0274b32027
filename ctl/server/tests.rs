use tokio::io::AsyncReadExt;

use super::*;

fn writer() -> Writer {
    Writer { weights: model::initial(&mut Rng::with_seed(1)), answer_len: 40, seed: 7 }
}

#[test]
fn same_prompt_gets_the_same_answer_and_another_prompt_another() {
    let writer = writer();
    let answer = writer.continue_text(b"The lock");
    assert_eq!(answer.len(), 40);
    assert!(answer.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{answer}");
    assert_eq!(writer.continue_text(b"A long way before The lock"), answer);
    assert_ne!(writer.continue_text(b"The boat"), answer);
    assert_eq!(writer.continue_text(b"\xff\x00").len(), 40);
}

#[test]
fn draw_follows_the_chances() {
    let chances = [0.25, 0.0, 0.5, 0.25];
    let drawn = [0.0, 0.25, 0.74, 0.75, 1.0].map(|threshold| draw(&chances, threshold));
    assert_eq!(drawn, [0, 2, 2, 3, 3]);
}

#[test]
fn each_line_is_answered_by_one_line_until_a_line_is_too_long() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let talk = async {
            client.write_all(b"first\n\n").await.unwrap();
            client.write_all(&[b'x'; 4_096]).await.unwrap();
            let mut got = String::new();
            client.read_to_string(&mut got).await.unwrap();
            got
        };
        let writer = writer();
        let (served, got) = tokio::join!(answer(stream, &writer), talk);
        served.unwrap();
        let expected = [b"first".as_slice(), b""].map(|line| writer.continue_text(line) + "\n");
        assert_eq!(got, expected.concat());
    });
}

#[test]
fn missing_model_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let error = format!("{:#}", load(directory.path()).unwrap_err());
    let path = directory.path().join("model.safetensors");
    let expected = format!(
        "could not load the model \"{}\": No such file or directory (os error 2)",
        path.display()
    );
    assert_eq!(error, expected);
}
