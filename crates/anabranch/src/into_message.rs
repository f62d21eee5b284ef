//! The types that `send` accepts.

use bytes::{Bytes, BytesMut};

/// The data of a message. Types that own their data are not copied; borrowed data is copied once.
pub trait IntoMessage {
    /// The data as one buffer.
    fn into_message(self) -> Bytes;
}

macro_rules! owned {
    ($($type:ty),*) => {
        $(impl IntoMessage for $type {
            fn into_message(self) -> Bytes {
                self.into()
            }
        })*
    };
}

macro_rules! borrowed {
    ($($type:ty),*) => {
        $(impl IntoMessage for $type {
            fn into_message(self) -> Bytes {
                let bytes: &[u8] = self.as_ref();
                Bytes::copy_from_slice(bytes)
            }
        })*
    };
}

owned!(Bytes, BytesMut, Vec<u8>, Box<[u8]>, String);
borrowed!(&[u8], &str, &Vec<u8>, &String);

impl IntoMessage for &Bytes {
    fn into_message(self) -> Bytes {
        self.clone()
    }
}

impl<const N: usize> IntoMessage for [u8; N] {
    fn into_message(self) -> Bytes {
        Bytes::copy_from_slice(&self)
    }
}

impl<const N: usize> IntoMessage for &[u8; N] {
    fn into_message(self) -> Bytes {
        Bytes::copy_from_slice(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owned_data_is_not_copied() {
        let vector = vec![1; 100];
        let place = vector.as_ptr();
        let bytes = vector.into_message();
        assert_eq!(bytes.as_ptr(), place);
        assert_eq!((&bytes).into_message().as_ptr(), place);
        let borrowed: &[u8] = &bytes;
        assert_eq!(borrowed.into_message(), bytes);
        assert_eq!([1, 2].into_message(), (&[1_u8, 2]).into_message());
        assert_eq!("text".into_message(), "text".to_owned().into_message());
    }
}
