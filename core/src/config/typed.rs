//! From the texts of settings to typed structs.

use super::setting::{Scope, Setting};
use super::validate::{self, ConfigError};

/// A type that a setting's value is read into.
pub(super) trait FromSetting: Sized {
    /// Reads a value that has passed [`validate::check`]; `None` as text = the setting has no value.
    fn from_setting(text: Option<&str>) -> Option<Self>;
}

macro_rules! from_number {
    ($($type:ty)*) => { $(
        impl FromSetting for $type {
            fn from_setting(text: Option<&str>) -> Option<Self> {
                text?.trim().parse().ok()
            }
        }
    )* };
}

from_number! { i16 i32 i64 f64 }

impl FromSetting for bool {
    fn from_setting(text: Option<&str>) -> Option<Self> {
        validate::parse_boolean(text?.trim())
    }
}

impl FromSetting for String {
    fn from_setting(text: Option<&str>) -> Option<Self> {
        Some(text?.trim().to_owned())
    }
}

impl FromSetting for Vec<String> {
    fn from_setting(text: Option<&str>) -> Option<Self> {
        Some(validate::list_items(text?).map(str::to_owned).collect())
    }
}

impl<T: FromSetting> FromSetting for Option<T> {
    fn from_setting(text: Option<&str>) -> Option<Self> {
        match text {
            None => Some(None),
            some => T::from_setting(some).map(Some),
        }
    }
}

/// Checks and reads one setting.
pub(super) fn read<T: FromSetting>(
    scope: Scope,
    name: &str,
    value: &dyn Fn(&'static Setting) -> Option<String>,
) -> Result<T, ConfigError> {
    let setting = validate::known(scope, name)?;
    let text = value(setting);
    if let Some(text) = &text {
        validate::check(setting, text)?;
    }
    T::from_setting(text.as_deref()).ok_or_else(|| ConfigError::InvalidValue {
        name: setting.name,
        value: text.unwrap_or_default(),
        reason: "a value is needed".to_owned(),
    })
}

/// Declares a struct whose fields are settings, and how it is read from them.
macro_rules! typed_config {
    ($(#[$doc:meta])* $scope:ident $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty = $key:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name { $($(#[$field_doc])* #[doc = concat!("\n\nSetting: `", $key, "`.")] pub $field: $type,)* }

        impl $name {
            /// The settings that are read into this struct.
            pub const KEYS: &[&str] = &[$($key,)*];

            fn read(
                value: &dyn Fn(&'static $crate::config::Setting) -> Option<String>,
            ) -> Result<Self, $crate::config::ConfigError> {
                let scope = $crate::config::Scope::$scope;
                Ok(Self { $($field: $crate::config::typed::read(scope, $key, value)?,)* })
            }
        }
    };
}

pub(super) use typed_config;
