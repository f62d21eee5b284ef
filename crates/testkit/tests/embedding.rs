//! The example of the book's page *Embed it elsewhere*.

#[path = "../examples/on_mio.rs"]
mod on_mio;

#[test]
fn a_program_on_mio_says_hello_and_shuts_down() {
    let mut said = Vec::new();
    on_mio::run(&mut |line| said.push(line)).expect("the event loop");
    assert_eq!(said, ["hello from an event loop", "the end: graceful shutdown"]);
}

#[test]
fn the_page_shows_the_code_of_the_example() {
    let example = include_str!("../examples/on_mio.rs");
    let page = include_str!("../../../docs/how-to/embed-it-elsewhere.md");
    let shown: Vec<&str> = page.split("```rust,ignore\n").skip(1).collect();
    assert!(shown.len() >= 2);
    for block in shown {
        let code = block.split("```").next().expect("its end");
        for line in code.lines().filter(|line| !line.trim().is_empty()) {
            assert!(example.contains(line), "{line}");
        }
    }
}
