//! Open enumerations: a newtype over the wire value, constants for the values known, names for people.

/// Declares a wire enumeration whose unknown values stay representable.
///
/// Each entry is a constant, its value and the specification's words for it.
macro_rules! open_enum {
    (
        $(#[$meta:meta])*
        pub struct $name:ident($int:ty) {
            $($(#[$entry_meta:meta])* $entry:ident = $value:literal $words:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[repr(transparent)]
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default,
            zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout,
        )]
        pub struct $name(pub $int);

        impl $name {
            $(
                #[doc = $words]
                $(#[$entry_meta])*
                pub const $entry: Self = Self($value);
            )*

            /// Every value known here, in the order of the specification.
            pub const ALL: &'static [Self] = &[$(Self::$entry),*];

            /// The value on the wire.
            pub const fn into_bits(self) -> $int {
                self.0
            }

            /// Takes any wire value.
            pub const fn from_bits(bits: $int) -> Self {
                Self(bits)
            }

            /// The specification's words for this value, if it is known here.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some($words),)*
                    _ => None,
                }
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.0 {
                    $($value => f.write_str(stringify!($entry)),)*
                    other => write!(f, "{}({other:#x})", stringify!($name)),
                }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.name() {
                    Some(words) => f.write_str(words),
                    None => write!(f, "{:x}h", self.0),
                }
            }
        }
    };
}

/// Fails the build when a structure does not have the size the specification gives it.
macro_rules! assert_size {
    ($($name:ty = $bytes:expr;)*) => {
        $(const _: () = assert!(core::mem::size_of::<$name>() == $bytes);)*
    };
}

/// Fails the build if a field's offset differs from the specification's.
macro_rules! assert_offset {
    ($name:ty { $($field:ident = $offset:expr,)* }) => {
        $(const _: () = assert!(core::mem::offset_of!($name, $field) == $offset);)*
    };
}
