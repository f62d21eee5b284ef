//! The way to set something: public fields. Fields for experiments are public with the feature `experiments` only.

/// Defines a group of settings. All code of this crate sees all fields; the fields after `experiments` are public with that feature
/// alone, so that no use of them needs a `cfg`.
macro_rules! settings {
    (
        $(#[$of_group:meta])*
        pub struct $group:ident {
            $($(#[$of_field:meta])* pub $field:ident: $type:ty,)*
        } experiments {
            $($(#[$of_hidden:meta])* pub $hidden:ident: $hidden_type:ty,)*
        }
    ) => {
        #[cfg(any(test, feature = "experiments"))]
        $(#[$of_group])*
        #[non_exhaustive]
        pub struct $group {
            $($(#[$of_field])* pub $field: $type,)*
            $(
                $(#[$of_hidden])*
                ///
                /// For experiments: public with the feature `experiments`.
                pub $hidden: $hidden_type,
            )*
        }

        #[cfg(not(any(test, feature = "experiments")))]
        $(#[$of_group])*
        #[non_exhaustive]
        pub struct $group {
            $($(#[$of_field])* pub $field: $type,)*
            $($(#[$of_hidden])* pub(crate) $hidden: $hidden_type,)*
        }
    };
}

pub(crate) use settings;
