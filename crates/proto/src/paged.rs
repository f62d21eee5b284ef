//! A table with a value for each stream, of which only what is near a used one takes memory.

use anabranch_wire::StreamId;

const PAGE: usize = 32;

/// Values by stream identifier. A lookup is O(1); an untouched value is the default.
#[derive(Debug)]
pub(crate) struct Paged<T>(Vec<Option<Box<[T; PAGE]>>>);

impl<T> Default for Paged<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Default> Paged<T> {
    /// The value, unless none near it was touched.
    pub(crate) fn at(&self, stream: StreamId) -> Option<&T> {
        let index = usize::from(stream.0);
        let page = self.0.get(index / PAGE)?.as_ref()?;
        Some(&page[index % PAGE])
    }

    /// The value, to change it unless none near it was touched.
    pub(crate) fn at_mut(&mut self, stream: StreamId) -> Option<&mut T> {
        let index = usize::from(stream.0);
        let page = self.0.get_mut(index / PAGE)?.as_mut()?;
        Some(&mut page[index % PAGE])
    }

    /// The value, which takes memory from now on.
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

    /// What takes memory.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten().flat_map(|page| page.iter())
    }

    /// What takes memory, in order.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (StreamId, &mut T)> {
        let pages = self.0.iter_mut().enumerate();
        pages
            .filter_map(|(number, page)| Some((number * PAGE, page.as_mut()?)))
            .flat_map(|(first, page)| {
                let values = page.iter_mut().enumerate();
                values.map(move |(offset, value)| (StreamId((first + offset) as u16), value))
            })
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
