//! The accessors that generated protobuf code would have, for plain structs: the engine calls `get_x`, `set_x`, `mut_x` and
//! `take_x` beside naming the fields. Knows nothing of what the messages mean.

use crate::eraftpb::{
    ConfChangeTransition, ConfChangeType, ConfState, EntryType, MessageType, Snapshot, SnapshotMetadata,
};
use bytes::Bytes;

/// How a getter hands a field out: scalars by value, all else by reference.
pub trait Access {
    type Out<'a>
    where
        Self: 'a;

    fn access(&self) -> Self::Out<'_>;
}

impl<T> Access for Vec<T> {
    type Out<'a>
        = &'a [T]
    where
        T: 'a;

    #[inline]
    fn access(&self) -> &[T] {
        self
    }
}

impl Access for Bytes {
    type Out<'a> = &'a [u8];

    #[inline]
    fn access(&self) -> &[u8] {
        self
    }
}

macro_rules! by_value {
    ($($type:ty),* $(,)?) => { $(
        impl Access for $type {
            type Out<'a> = $type;

            #[inline]
            fn access(&self) -> $type {
                *self
            }
        }
    )* };
}

macro_rules! by_reference {
    ($($type:ty),* $(,)?) => { $(
        impl Access for $type {
            type Out<'a> = &'a $type;

            #[inline]
            fn access(&self) -> &$type {
                self
            }
        }
    )* };
}

by_value!(u64, i64, bool, EntryType, MessageType, ConfChangeType, ConfChangeTransition);
by_reference!(ConfState, SnapshotMetadata, Snapshot);

/// Enums numbered as in the protobuf file; the one numbered 0 is the default.
macro_rules! enums {
    ($($(#[$doc:meta])* $name:ident { $first:ident = 0, $($variant:ident = $number:literal,)* })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            #[default]
            $first = 0,
            $($variant = $number,)*
        }

        impl $name {
            pub fn from_i32(number: i32) -> Option<Self> {
                match number {
                    0 => Some($name::$first),
                    $($number => Some($name::$variant),)*
                    _ => None,
                }
            }
        }
    )* };
}

/// Structs with public fields, four accessors for each, and the stand-in for protobuf's `Message`.
macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident {
        $($field:ident: $type:ty => $get:ident $set:ident $borrow:ident $take:ident;)*
    })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct $name {
            $(pub $field: $type,)*
        }

        impl $name {
            pub fn new_() -> Self {
                Self::default()
            }

            pub fn default_instance() -> &'static Self {
                static DEFAULT: std::sync::OnceLock<$name> = std::sync::OnceLock::new();
                DEFAULT.get_or_init(Default::default)
            }

            $(
                #[inline]
                pub fn $get(&self) -> <$type as Access>::Out<'_> {
                    self.$field.access()
                }

                #[inline]
                pub fn $set(&mut self, value: $type) {
                    self.$field = value;
                }

                #[inline]
                pub fn $borrow(&mut self) -> &mut $type {
                    &mut self.$field
                }

                #[inline]
                pub fn $take(&mut self) -> $type {
                    std::mem::take(&mut self.$field)
                }
            )*
        }

        impl protobuf::Message for $name {
            /// In bytes. The engine bounds its batches with it.
            fn compute_size(&self) -> u32 {
                let size = postcard::ser_flavors::Size::default();
                let bytes = postcard::serialize_with_flavor(self, size)
                    .expect("a struct of plain fields always has a size");
                u32::try_from(bytes).unwrap_or(u32::MAX)
            }

            fn write_to_bytes(&self) -> protobuf::ProtobufResult<Vec<u8>> {
                postcard::to_allocvec(self).map_err(|_| protobuf::ProtobufError("encode"))
            }

            /// Replaces rather than merges: the engine only ever merges into a default. No bytes are a default, too.
            fn merge_from_bytes(&mut self, bytes: &[u8]) -> protobuf::ProtobufResult<()> {
                if !bytes.is_empty() {
                    *self = postcard::from_bytes(bytes).map_err(|_| protobuf::ProtobufError("decode"))?;
                }
                Ok(())
            }
        }
    )* };
}

pub(crate) use {enums, messages};
