//! A table with a value for each stream, in pages: only pages with a used value take memory.

use anabranch_wire::StreamId;

const PAGE: usize = 32;

/// Values by stream identifier. A lookup is O(1); a value that was never used is the default.
#[derive(Debug)]
pub(crate) struct Paged<T>(Vec<Option<Box<[T; PAGE]>>>);

impl<T> Default for Paged<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Default> Paged<T> {
    /// Whether no page was ever in memory.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value, if its page is in memory.
    pub(crate) fn at(&self, stream: StreamId) -> Option<&T> {
        let index = usize::from(stream.0);
        let page = self.0.get(index / PAGE)?.as_ref()?;
        Some(&page[index % PAGE])
    }

    /// The value for changing, if its page is in memory.
    pub(crate) fn at_mut(&mut self, stream: StreamId) -> Option<&mut T> {
        let index = usize::from(stream.0);
        let page = self.0.get_mut(index / PAGE)?.as_mut()?;
        Some(&mut page[index % PAGE])
    }

    /// The value for changing; its page takes memory from now on.
    pub(crate) fn touch(&mut self, stream: StreamId) -> &mut T {
        let index = usize::from(stream.0);
        if self.0.len() <= index / PAGE {
            self.grow(index / PAGE + 1);
        }
        &mut self.0[index / PAGE].get_or_insert_with(Self::page)[index % PAGE]
    }

    #[cold]
    fn grow(&mut self, pages: usize) {
        self.0.resize_with(pages, || None);
    }

    #[cold]
    fn page() -> Box<[T; PAGE]> {
        Box::new(core::array::from_fn(|_| T::default()))
    }

    /// All values in memory.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten().flat_map(|page| page.iter())
    }

    /// All values in memory with their streams, in order.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (StreamId, &mut T)> {
        let pages = self.0.iter_mut().enumerate();
        pages
            .filter_map(|(number, page)| Some((number * PAGE, page.as_mut()?)))
            .flat_map(|(first, page)| {
                let values = page.iter_mut().enumerate();
                values.map(move |(offset, value)| (StreamId((first + offset) as u16), value))
            })
    }

    /// Sets all values back to the default and frees the memory.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
