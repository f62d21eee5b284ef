//! What is kept for each inbound stream.

use anabranch_wire::StreamId;

/// Streams in a page.
const PAGE: usize = 64;

/// A value for each stream, in pages, so that the use of a high number costs one page and not all below it.
#[derive(Debug)]
pub(super) struct Pages<T>(Vec<Option<Box<[T; PAGE]>>>);

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Default> Pages<T> {
    pub(super) fn of(&mut self, id: StreamId) -> &mut T {
        let (page, slot) = (usize::from(id.0) / PAGE, usize::from(id.0) % PAGE);
        if self.0.len() <= page {
            self.grow(page + 1);
        }
        &mut self.0[page].get_or_insert_with(Self::page)[slot]
    }

    #[cold]
    fn grow(&mut self, pages: usize) {
        self.0.resize_with(pages, || None);
    }

    #[cold]
    fn page() -> Box<[T; PAGE]> {
        Box::new(core::array::from_fn(|_| T::default()))
    }

    /// Those of the pages in use.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> + '_ {
        self.0.iter().flatten().flat_map(|page| page.iter())
    }

    /// Those of the pages in use.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> + '_ {
        self.0.iter_mut().flatten().flat_map(|page| page.iter_mut())
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
