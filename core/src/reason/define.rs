//! How a reason is written down: one entry gives the variant, its code, its values, its message and its hint.

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident $({ $($field:ident: $type:ty),* $(,)? })? =
        $code:literal, $message:literal $(, hint $hint:literal)?;)*) => {
        /// A reason. See the module.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Reason {
            $($(#[$doc])* #[allow(missing_docs, reason = "fields are named by the message")]
              $name $({ $($field: $type),* })?,)*
        }

        impl Reason {
            /// Every code, in the order of declaration.
            pub const CODES: &[&str] = &[$($code),*];

            /// Names of the values of each code, in the same order.
            pub const FIELDS: &[&[&str]] = &[$(&[$($(stringify!($field)),*)?]),*];

            /// Stable code: never renamed, only added to.
            #[must_use]
            pub fn code(&self) -> &'static str {
                match self { $(Self::$name $({ $($field: _),* })? => $code,)* }
            }

            /// The values by name, as text.
            #[must_use]
            pub fn values(&self) -> BTreeMap<&'static str, String> {
                match self { $(Self::$name $({ $($field),* })? => {
                    BTreeMap::from([$($((stringify!($field), $field.to_string())),*)?])
                })* }
            }

            /// What somebody can do about it; empty if nothing need be done.
            #[must_use]
            pub fn hint(&self) -> &'static str {
                match self { $(Self::$name $({ $($field: _),* })? => concat!("" $(, $hint)?),)* }
            }

            /// The reason with `code` and `values`, if there is one and all its values parse.
            #[must_use]
            pub fn from_parts(code: &str, values: &BTreeMap<String, String>) -> Option<Self> {
                match code {
                    $($code => Some(Self::$name $({
                        $($field: values.get(stringify!($field))?.parse().ok()?),*
                    })?),)*
                    _ => None,
                }
            }
        }

        impl fmt::Display for Reason {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $(Self::$name $({ $($field),* })? => {
                    $($(let _ = $field;)*)?
                    write!(f, $message)
                })* }
            }
        }
    };
}
