//! How the hand-written messages are declared, so that they are used like the codec crate's.

/// Declares a struct with public fields, their defaults, and a `with_` setter for each.
macro_rules! message_struct {
    (
        $(#[doc = $doc:literal])*
        pub struct $name:ident {
            $($(#[doc = $field_doc:literal])* $field:ident / $setter:ident: $type:ty = $default:expr,)*
        }
    ) => {
        $(#[doc = $doc])*
        #[non_exhaustive]
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[doc = $field_doc])* pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl $name {
            $(
                #[doc = concat!("Sets `", stringify!($field), "`.")]
                pub fn $setter(mut self, value: $type) -> Self {
                    self.$field = value;
                    self
                }
            )*
        }
    };
}

pub(super) use message_struct;
