//! Options of calls as chains: `SendOptions::default().unordered(true)`. Each method has the name of its field.

/// A method for each field, which sets it.
macro_rules! setters {
    ($type:ident { $($field:ident: $value:ty),* $(,)? }) => {
        #[allow(clippy::useless_conversion, reason = "most values have the type of their field")]
        impl $type {
            $(
                #[doc = concat!("Sets [`", stringify!($type), "::", stringify!($field), "`](field@", stringify!($type), "::", stringify!($field), ").")]
                #[must_use]
                pub fn $field(mut self, value: $value) -> Self {
                    self.$field = value.into();
                    self
                }
            )*
        }
    };
}

pub(crate) use setters;
