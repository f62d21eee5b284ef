//! Tests the counting of marks and the window reductions that they cause.

use super::*;

const PATH: PathId = PathId(0);

/// Ten ECN-capable packets with one TSN each, from 100 on.
fn sent() -> Ecn {
    let mut ecn = Ecn::default();
    ecn.set_enabled(true);
    for no in 0..10 {
        ecn.on_sent(PATH, 100 + no, Some((no, no)));
    }
    ecn
}

#[test]
fn each_mark_counts_once() {
    let mut ecn = sent();
    let mut news = |tsn, count| ecn.on_marks(tsn, count).expect("it was sent").news;
    assert_eq!([news(101, 1), news(101, 1), news(101, 2)], [1, 0, 1]);
    assert_eq!(news(103, 3), 1);
    assert_eq!(news(102, 2), 0, "an old one");
    assert_eq!(news(105, 1), 1, "after a CWR");
    assert_eq!(
        news(106, 1),
        1,
        "and after another one, or from a peer that does not count"
    );
    assert_eq!(ecn.stats(PATH).packets_marked, 5);
}

#[test]
fn a_count_of_nothing_is_a_mark() {
    assert_eq!(sent().on_marks(101, 0).map(|marks| marks.news), Some(1));
}

#[test]
fn more_marks_than_packets_end_it() {
    let mut ecn = sent();
    assert!(ecn.on_marks(105, 10).is_some_and(|marks| marks.reduces));
    assert!(ecn.may_mark(PATH) || ecn.is_testing(PATH));
    let beyond = ecn.on_marks(106, 11).expect("it was sent");
    assert!(!beyond.reduces && beyond.news == 0);
    assert_eq!(ecn.stats(PATH).state, EcnState::Failed);
    assert!(!ecn.may_mark(PATH));
}

#[test]
fn one_reduction_for_what_was_outstanding() {
    let mut ecn = sent();
    let reduces = |ecn: &mut Ecn, tsn| ecn.on_marks(tsn, 1).expect("it was sent").reduces;
    assert!(reduces(&mut ecn, 101));
    ecn.on_reduced(PATH, 110, true);
    assert!(!reduces(&mut ecn, 109));
    ecn.on_sent(PATH, 110, Some((10, 10)));
    assert!(reduces(&mut ecn, 110));
    ecn.on_timeout(PATH, &Flight::default(), 111);
    assert!(!reduces(&mut ecn, 110), "T3-rtx is a reduction too");
}

#[test]
fn one_answer_in_a_round_trip_unless_the_window_is_reduced() {
    let mut ecn = sent();
    let mut answers = |path, reduced, at| {
        ecn.answers(
            PathId(path),
            reduced,
            Timestamp::from_millis(at),
            Duration::from_millis(50),
        )
    };
    assert!(answers(0, false, 0));
    assert!(!answers(0, false, 49));
    assert!(answers(1, false, 49));
    assert!(answers(0, false, 50));
    assert!(answers(0, true, 60));
    assert!(!answers(0, false, 109));
}

#[test]
fn a_path_is_another_one() {
    let mut ecn = sent();
    ecn.on_sent(PathId(1), 110, Some((0, 0)));
    ecn.on_reduced(PATH, 111, true);
    let marks = ecn.on_marks(110, 1).expect("it was sent");
    assert_eq!((marks.path, marks.reduces), (PathId(1), true));
    assert_eq!(ecn.on_marks(99, 1), None);
}

/// The path has other addresses: their verdict is open, and marks of packets that went elsewhere say nothing about them.
#[test]
fn a_verdict_ends_with_its_path() {
    let mut ecn = sent();
    ecn.on_marks(106, 11);
    assert_eq!(ecn.stats(PATH).state, EcnState::Failed);
    ecn.leave_path(PATH, 110);
    assert!(ecn.may_mark(PATH) && ecn.is_testing(PATH));
    ecn.on_sent(PATH, 110, Some((10, 10)));
    assert_eq!(ecn.on_marks(109, 14), None, "it went elsewhere");
    assert_eq!(ecn.stats(PATH).packets_marked, 0);
    assert_eq!(ecn.on_marks(110, 16).map(|marks| marks.news), Some(1));
    assert_eq!(
        ecn.stats(PATH).state,
        EcnState::Testing,
        "the count includes marks of before"
    );
    ecn.on_marks(110, 17);
    assert_eq!(ecn.stats(PATH).state, EcnState::Failed);
}
